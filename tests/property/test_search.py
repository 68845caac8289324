"""The search against brute force, and laws that any plan obeys."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise import rules
from chipwise.app.evaluation import compare, evaluate
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.defaults import resolve
from chipwise.errors import LayoutError
from chipwise.search.evaluate import score
from chipwise.search.rank import holds, search
from chipwise.search.space import spaces
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload

LIMIT = 0.9
BATCH = 16


def job(model: str, on: str, batch: int = BATCH, **fields: Any) -> TrainingJob:
    return TrainingJob(
        model=load_model(model),
        cluster=parse_system(on)[0],
        workload=TrainingWorkload(seq_len=2048, global_batch=batch, precision="bf16"),
        strategy=Strategy.model_validate(fields),
    )


def every_layout(one: TrainingJob) -> Iterator[tuple[TrainingJob, Strategy]]:
    """All combinations by plain loops, each completed on its own and kept if it obeys the rules."""
    devices = one.cluster.num_devices
    small = [n for n in range(1, devices + 1) if devices % n == 0]
    sharded = {"megatron-core": ("zero1",), "fsdp": ("zero2", "zero3")}
    chunks = range(1, one.model.num_layers + 1)
    for framework, recompute in product(sharded, ("none", "selective", "full")):
        for tp, pp, cp, vpp in product(small, small, (1, 2), chunks):
            if devices % (tp * pp * cp) or (pp == 1 and vpp > 1):
                continue
            if one.model.num_layers % (pp * vpp) and vpp > 1:
                continue
            dp = devices // (tp * pp * cp)
            for shard, size in product(
                sharded[framework] if dp * cp > 1 else ("none",), range(1, BATCH + 1)
            ):
                if BATCH % (dp * size) or (vpp > 1 and BATCH // (dp * size) % pp):
                    continue
                degrees = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "vpp": vpp}
                kind = {"framework": framework, "shard": shard, "recompute": recompute}
                strategy = Strategy.model_validate({**degrees, **kind, "micro_batch": size})
                resolved = resolve(one.model_copy(update={"strategy": strategy}))
                complete = resolved.alternatives[0]
                try:
                    rules.check_layout(resolved.job, complete)
                except LayoutError:
                    continue
                yield resolved.job, complete


@pytest.mark.parametrize(
    ("model", "on"), [("llama-3.2-1b", "rtx-4090:4"), ("llama-2-7b", "h100-sxm:4")]
)
def test_the_search_finds_what_brute_force_finds(model: str, on: str) -> None:
    one = job(model, on)
    every = list(every_layout(one))
    rough = compare(every)
    step_time = BATCH * 2048 / rough.tokens_per_s
    fits = rough.share <= LIMIT
    found = search(one, LIMIT)
    assert found.counts.candidates == len(every)
    assert found.counts.fit == int(np.sum(fits))
    assert found.best[0].step_time == pytest.approx(step_time[fits].min(), rel=1e-12)
    assert found.least_share == pytest.approx(rough.share.min(), rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_candidate_in_an_array_equals_the_same_job_alone(data: st.DataObject) -> None:
    model, on = data.draw(
        st.sampled_from(
            [
                ("llama-2-7b", "h100-sxm:8"),
                ("mixtral-8x7b", "h200-sxm:8"),
                ("llama-2-7b", "tpu-v5p:16"),
                ("llama-3.2-1b", "mi300x:8"),
                ("llama-3.2-1b", "gaudi2:8"),
            ]
        )
    )
    space = data.draw(st.sampled_from(spaces(job(model, on))))
    scored = score(space, 1.0)
    if not len(scored.share):
        return
    at = data.draw(st.integers(0, len(scored.share) - 1))
    strategy = space.strategy(int(scored.template[at]), int(scored.layout[at]))
    alone = evaluate(space.job, strategy)
    assert scored.step_time[at] == pytest.approx(alone.time["step_time"], rel=1e-12)
    assert scored.share[at] == pytest.approx(alone.share, rel=1e-12)


def test_more_devices_of_one_domain_never_make_the_best_time_worse() -> None:
    best = [
        search(job("llama-3.2-1b", f"h100-sxm:{count}", batch=64), LIMIT).best[0].step_time
        for count in (1, 2, 4, 8)
    ]
    assert all(more <= fewer * (1 + 1e-9) for fewer, more in pairwise(best))


def test_more_memory_to_use_never_makes_the_best_time_worse() -> None:
    one = job("llama-2-7b", "a100-sxm-80:8")
    times = [search(one, limit).best[0].step_time for limit in (0.5, 0.7, 0.9, 1.0)]
    assert times == sorted(times, reverse=True)


def test_a_pin_never_beats_the_free_search() -> None:
    free = search(job("llama-2-7b", "h100-sxm:8"), LIMIT).best[0].step_time
    for tp in (1, 2, 4, 8):
        pinned = search(job("llama-2-7b", "h100-sxm:8", tp=tp), LIMIT)
        assert all(one.step_time >= free for one in pinned.best)


def test_what_holds_a_job_is_where_the_search_finds_a_layout() -> None:
    for on in ("rtx-4090", "rtx-4090:8", "h100-sxm:8"):
        one = job("llama-2-7b", on)
        assert holds(one, LIMIT) == bool(search(one, LIMIT).best)


def test_the_search_is_deterministic() -> None:
    one = job("llama-2-7b", "h100-sxm:8")
    assert search(one, LIMIT) == search(one, LIMIT)
