"""The search against brute force, and laws that any plan obeys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise import rules
from chipwise.app.evaluation import Rough, compare, evaluate
from chipwise.calibration import shipped
from chipwise.catalogue.frameworks import stacks
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.defaults import resolve
from chipwise.errors import LayoutError
from chipwise.search.bounds import FATTER, SLOWER, bounds_of
from chipwise.search.field import Field
from chipwise.search.rank import Found, holds, search, search_all
from chipwise.search.space import spaces
from chipwise.search.table import Table
from chipwise.spec.job import Framework, Strategy, TrainingJob, TrainingWorkload

LIMIT = 0.9
BATCH = 16
NODE = 4
"""Devices that the systems of brute force have in their node at most."""
SAMPLES = [
    ("llama-2-7b", "h100-sxm:8"),
    ("mixtral-8x7b", "h200-sxm:8"),
    ("llama-2-7b", "tpu-v5p:16"),
    ("llama-3.2-1b", "mi300x:8"),
    ("llama-3.2-1b", "gaudi2:8"),
    ("llama-2-70b", "a100-sxm-80:8x2"),
    ("gpt2-xl", "rtx-3090:4"),
]
Pair = tuple[TrainingJob, Strategy]


def job(model: str, on: str, batch: int = BATCH, **fields: Any) -> TrainingJob:
    return TrainingJob(
        model=load_model(model),
        cluster=parse_system(on)[0],
        workload=TrainingWorkload(seq_len=2048, global_batch=batch, precision="bf16"),
        strategy=Strategy.model_validate(fields),
    )


def every_candidate(one: TrainingJob, framework: Framework) -> Iterator[Pair]:
    """All combinations in a stack by plain loops, each kept if it obeys the rules."""
    devices, layers = one.cluster.num_devices, one.model.num_layers
    small = [n for n in range(1, devices + 1) if devices % n == 0]
    batch = one.workload.global_batch or 1
    for tp, pp, cp, vpp in product(small, small, (1, 2), range(1, layers + 1)):
        if devices % (tp * pp * cp) or (pp == 1 and vpp > 1) or (layers % (pp * vpp) and vpp > 1):
            continue
        dp = devices // (tp * pp * cp)
        for size in range(1, batch + 1):
            if batch % (dp * size) or (vpp > 1 and batch // (dp * size) % pp):
                continue
            split = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "vpp": vpp, "micro_batch": size}
            for measures in every_measure(framework, tp, pp, dp * cp, layers):
                yield from complete(one, {**split, **measures, "framework": framework})


def every_measure(
    framework: Framework, tp: int, pp: int, ranks: int, layers: int
) -> Iterator[dict[str, Any]]:
    stack = stacks()[framework]
    if stack.interleaves is False:
        raise AssertionError("choose a stack that interleaves")
    shards = stack.shards if ranks > 1 else ("none",)
    groups = [n for n in range(1, ranks + 1) if ranks % n == 0 and n >= min(ranks, NODE // tp)]
    parallel = {"free": (False, True), "tied": (True,), "never": (False,)}[stack.sequence_parallel]
    repeats = [("none", 1), ("selective", 1)]
    repeats += [("full", n) for n in stack.recompute_every if n <= -(-layers // pp)]
    for shard, group, along, kernel, loss, compiled, (mode, every), words in product(
        shards,
        groups if stack.hybrid_shard else groups[-1:],
        parallel if tp > 1 else (False,),
        stack.kernels,
        stack.losses,
        stack.compiled,
        repeats,
        stack.offloads,
    ):
        away = {f"offload_{what}": what in words.split()
                for what in ("optimizer", "params", "activations")}  # fmt: skip
        if pp > 1 and (
            away["offload_activations"] or shard not in ("none", *stack.pipeline_shards)
        ):
            continue
        if away["offload_params"] and ranks > 1 and shard != "zero3":
            continue
        yield {"shard": shard, "shard_group": group, "sequence_parallel": along,
               "attention": kernel, "chunked_loss": loss, "compiled": compiled,
               "recompute": mode, "recompute_every": every, **away}  # fmt: skip


def complete(one: TrainingJob, stated: Mapping[str, Any]) -> Iterator[Pair]:
    strategy = Strategy.model_validate(stated)
    resolved = resolve(one.model_copy(update={"strategy": strategy}))
    found = resolved.alternatives[0]
    try:
        rules.check_layout(resolved.job, found)
    except LayoutError:
        return
    yield resolved.job, found


def fits(one: TrainingJob, rough: Rough) -> Any:
    room = one.cluster.node.host_memory_bytes or float("inf")
    return (rough.share <= LIMIT) & (rough.host_needed <= room)


@pytest.mark.parametrize(
    ("model", "on", "framework"),
    [
        ("llama-3.2-1b", "rtx-4090:2", "megatron-core"),
        ("llama-3.2-1b", "rtx-4090:2", "fsdp"),
        ("llama-2-7b", "rtx-4090:4", "megatron-core"),
    ],
)
def test_the_search_finds_what_brute_force_finds(model: str, on: str, framework: Framework) -> None:
    one = job(model, on, batch=4, framework=framework)
    every = list(every_candidate(one, framework))
    rough = compare(every)
    step_time = 4 * 2048 / rough.tokens_per_s
    able = fits(one, rough)
    looked_at_all = search_all([one], LIMIT, exhaustive=True)[0]
    assert looked_at_all.counts.candidates == looked_at_all.counts.evaluated == len(every)
    assert looked_at_all.counts.fit == int(np.sum(able))
    found = search(one, LIMIT)
    counts = found.counts
    assert counts.candidates == len(every) == counts.evaluated + counts.pruned
    assert min(counts.pruned_by_dominance, counts.evaluated) > 0
    if not able.any():
        assert not found.best and found.lean is not None
        assert found.lean.share == pytest.approx(rough.share.min(), rel=1e-12)
        return
    assert found.best[0].step_time == pytest.approx(step_time[able].min(), rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_bounds_lose_nothing(data: st.DataObject) -> None:
    model, on = data.draw(st.sampled_from(SAMPLES))
    batch = data.draw(st.sampled_from([8, 16, 48, 64]))
    one, limit = job(model, on, batch), data.draw(st.sampled_from([0.3, 0.6, 0.9]))
    short, long = search(one, limit), search_all([one], limit, exhaustive=True)[0]
    assert short.best == long.best
    assert short.counts.candidates == long.counts.evaluated
    assert short.counts.candidates == short.counts.evaluated + short.counts.pruned


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_no_candidate_is_leaner_or_faster_than_its_bounds(data: st.DataObject) -> None:
    model, on = data.draw(st.sampled_from(SAMPLES))
    space = data.draw(st.sampled_from(spaces([job(model, on)])))
    table = Table.of(space, shipped(), {})
    field = Field.of(table, 0, float("inf"))
    layouts = np.array(sorted({data.draw(st.integers(0, space.num_layouts - 1)) for _ in range(8)}))
    rows = table.rows(np.arange(len(space.templates)))
    needed, usable, _host = table.memory(rows, layouts)
    group = field.bounds.group
    able = space.allowed[:, space.stage_choice[layouts]]
    lean, fast = field.lean[group][:, layouts], field.fast[group][:, layouts]
    assert np.all((needed / usable >= lean * (1 - 1e-12)) | ~able)
    assert np.all((table.time(rows, layouts) >= fast * (1 - 1e-12)) | ~able)


def test_every_column_with_a_direction_has_two() -> None:
    assert set(SLOWER) == {*FATTER, "recompute_share"}


def test_columns_without_a_direction_keep_templates_apart() -> None:
    for space in spaces([job("llama-2-7b", "h100-sxm:8")]):
        table = Table.of(space, shipped(), {})
        bounds = bounds_of(table)
        for name in set(table.by_template) - set(SLOWER):
            for one in range(bounds.num_groups):
                assert len(set(table.by_template[name][bounds.group == one])) == 1


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_candidate_in_an_array_equals_the_same_job_alone(data: st.DataObject) -> None:
    model, on = data.draw(st.sampled_from(SAMPLES))
    space = data.draw(st.sampled_from(spaces([job(model, on)])))
    table = Table.of(space, shipped(), {})
    template = data.draw(st.integers(0, len(space.templates) - 1))
    layout = data.draw(st.integers(0, space.num_layouts - 1))
    rows, at = table.rows(np.array([template])), np.array([layout])
    alone = evaluate(space.jobs[0], space.strategy(template, layout))
    needed, usable, host = table.memory(rows, at)
    assert table.time(rows, at)[0, 0] == pytest.approx(alone.time["step_time"], rel=1e-12)
    assert needed[0, 0] / usable[0, 0] == pytest.approx(alone.share, rel=1e-12)
    assert host[0, 0] == pytest.approx(alone.memory["host_needed_bytes"], rel=1e-12, abs=1e-6)


def test_counts_searched_together_are_as_good_as_each_alone() -> None:
    names = ("h100-sxm:2", "h100-sxm:8", "h100-sxm:8x3", "h100-sxm:8x8")
    jobs = [job("llama-2-7b", name, batch=192) for name in names]
    together = search_all(jobs, LIMIT)
    assert [one.best for one in together] == [search(one, LIMIT).best for one in jobs]


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


@pytest.mark.parametrize("link", ["intra_bandwidth", "network_bandwidth", "peak_bandwidth"])
def test_more_bandwidth_is_never_slower(link: str) -> None:
    one = job("llama-2-7b", "a100-sxm-80:8x2", batch=64)
    rates = [10e9, 50e9, 200e9, 1000e9]
    times = [search(one, LIMIT, 1, {link: rate}).best[0].step_time for rate in rates]
    assert all(after <= before for before, after in pairwise(times))


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
    first: Found = search(one, LIMIT)
    assert first == search(one, LIMIT)
