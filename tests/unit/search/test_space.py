"""The search space: every layout that obeys the rules, and none that does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipwise import rules
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.errors import LayoutError, UsageError
from chipwise.search.layouts import AXES
from chipwise.search.space import Space, frameworks_for, spaces
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload


def job(model: str = "llama-2-7b", on: str = "h100-sxm:8", **fields: Any) -> TrainingJob:
    batch, method = fields.pop("global_batch", 64), fields.pop("method", "full")
    return TrainingJob(
        model=load_model(model),
        cluster=parse_system(on)[0],
        workload=TrainingWorkload(
            seq_len=4096, global_batch=batch, precision="bf16", method=method
        ),
        strategy=Strategy.model_validate(fields),
    )


CASES = [
    job(),
    job("mixtral-8x7b", "h100-sxm:8x2"),
    job("qwen2.5-7b", "h100-sxm:8"),  # 28 heads: tp 8 is impossible
    job(on="tpu-v5p:16"),
    job(on="gaudi2:8"),
    job(on="rtx-4090:6", global_batch=48),
    job(method="qlora"),
]


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one.model.id}-{one.cluster.name}")
def test_every_candidate_obeys_every_rule(one: TrainingJob) -> None:
    found = spaces([one])
    assert found
    for space in found:
        for layout in range(space.num_layouts):
            rules.check_layout(space.jobs[0], space.strategy(0, layout))


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one.model.id}-{one.cluster.name}")
def test_no_candidate_stands_twice(one: TrainingJob) -> None:
    for space in spaces([one]):
        table = np.stack([space.degrees[name] for name in AXES])
        assert len(np.unique(table, axis=1).T) == space.num_layouts
        assert len(set(space.templates.strategies)) == len(space.templates)


def test_micro_batches_of_a_layout_lie_together_and_rise() -> None:
    for space in spaces([job()]):
        split = np.stack([space.degrees[name] for name in AXES if name != "micro_batch"])
        same = np.all(split[:, 1:] == split[:, :-1], axis=0)
        sizes = space.degrees["micro_batch"]
        assert np.all(sizes[1:][same] > sizes[:-1][same])
        assert int(np.sum(~same)) + 1 == len(np.unique(split, axis=1).T)
        assert set(np.flatnonzero(np.append(True, ~same))) == set(space.smallest)


def test_a_stated_degree_pins_its_axis() -> None:
    for space in spaces([job(tp=2, micro_batch=4, recompute="full")]):
        assert set(space.degrees["tp"]) == {2.0}
        assert set(space.degrees["micro_batch"]) == {4.0}
        assert {template.recompute for template in space.templates.strategies} == {"full"}


def test_tensor_parallelism_stays_on_the_fast_link_unless_stated() -> None:
    found = spaces([job(on="h100-sxm:8x2")])
    assert max(space.degrees["tp"].max() for space in found) == 8
    pinned = spaces([job(on="h100-sxm:8x2", tp=16)])
    assert {float(degree) for space in pinned for degree in space.degrees["tp"]} == {16.0}


def test_a_pin_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(LayoutError):
        spaces([job(tp=7)])


def test_interleaving_has_whole_rounds_of_stages() -> None:
    for space in spaces([job(framework="megatron-core")]):
        degrees = space.degrees
        steps = 64 / (degrees["dp"] * degrees["micro_batch"])
        interleaved = degrees["vpp"] > 1
        assert np.all((steps % degrees["pp"] == 0) | ~interleaved)


def test_stacks_follow_the_software_of_the_device() -> None:
    assert frameworks_for(job()) == ("megatron-core", "fsdp", "deepspeed")
    assert frameworks_for(job(on="mi300x:8")) == ("megatron", "fsdp", "deepspeed")
    assert frameworks_for(job(on="tpu-v5p:16")) == ("xla",)
    assert frameworks_for(job(on="gaudi2:8")) == ("gaudi",)
    assert frameworks_for(job(method="lora")) == ("finetune",)
    assert frameworks_for(job(shard="zero2")) == ("fsdp", "deepspeed")


@pytest.mark.parametrize("name", ["groq-lpu-v1:8", "m2-ultra", "inferentia2"])
def test_devices_that_nothing_trains_on_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UsageError, match="no training stack") as error:
        spaces([job(on=name)])
    assert error.value.code == "no-training-stack"


def able(space: Space) -> set[tuple[str | None, bool | None, int | None, float]]:
    """Sharding, offloaded activations, repeated layers and pipeline degree that go together."""
    return {
        (
            one.shard,
            one.offload_activations,
            one.recompute_every,
            float(np.unique(space.degrees["pp"])[place]),
        )
        for template, one in enumerate(space.templates.strategies)
        for place in np.flatnonzero(space.allowed[template])
    }


def test_what_a_stack_excludes_is_masked() -> None:
    # 32 layers: a stage of 4 has no eighth one
    found = set().union(*(able(space) for space in spaces([job()])))
    assert not any(away and pp > 1 for _shard, away, _every, pp in found)
    assert {(every, pp) for _shard, _away, every, pp in found if pp == 8} == {
        (every, 8.0) for every in (1, 2, 3, 4)
    }
    deepspeed = set().union(*(able(space) for space in spaces([job(framework="deepspeed")])))
    assert {shard for shard, _away, _every, pp in deepspeed if pp > 1} == {"none", "zero1"}


def test_several_counts_are_one_space() -> None:
    several = spaces([job(on="h100-sxm:8"), job(on="h100-sxm:8x2")])
    alone = [spaces([job(on="h100-sxm:8")]), spaces([job(on="h100-sxm:8x2")])]
    for count, separate in zip((8, 16), alone, strict=True):
        devices = [
            space.degrees["tp"] * space.degrees["pp"] * space.degrees["dp"] * space.degrees["cp"]
            for space in several
        ]
        together = sum(int(np.sum(found == count)) for found in devices)
        assert together == sum(space.num_layouts for space in separate)
