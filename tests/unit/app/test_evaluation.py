"""One complete job in full: the bill, the time, the overrides, the verdict."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from chipwise.app import estimate_train
from chipwise.app.bill import memory_of
from chipwise.app.describe import bound_by, layout_of, time_parts
from chipwise.app.documents import TimePart
from chipwise.app.evaluation import Evaluated, compare, evaluate, verdict
from chipwise.app.jobs import complete, stated_job
from chipwise.app.overrides import read_overrides
from chipwise.app.requests import EstimateTrainRequest
from chipwise.errors import UnitError, UnknownNameError, UsageError

LLAMA_2_7B = 6_738_415_616
"""Parameters, from the checkpoint's index."""


def evaluated(**fields: Any) -> Evaluated:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8", **fields}
    one = complete(stated_job(EstimateTrainRequest.model_validate(values)))
    return evaluate(one.job, one.strategy)


def part(point: Evaluated, name: str) -> float:
    return sum(line.bytes for line in memory_of(point).parts if line.name == name)


VARIED = [
    {"shard": shard, "recompute": recompute, "micro_batch": size}
    for shard, recompute, size in product(("zero1", "zero2", "zero3"), ("none", "full"), (1, 8))
] + [
    {"on": "rtx-4090", "method": "qlora"},
    {"on": "rtx-4090:4", "method": "lora", "shard": "zero3"},
    {"on": "rtx-4090", "offload": "optimizer"},
    {"on": "rtx-4090", "offload": "optimizer,params"},
    {"tp": 2, "pp": 2, "global_batch": 64, "framework": "megatron-core"},
    {"tp": 2, "pp": 4, "framework": "megatron-core"},
    {"model": "mixtral-8x7b", "on": "h100-sxm:8x2", "ep": 8, "tp": 2, "pp": 1},
    {"on": "tpu-v5p:16"},
]


@pytest.mark.parametrize("fields", VARIED)
def test_the_lines_of_the_bill_add_up_to_what_is_allocated(fields: dict[str, Any]) -> None:
    memory = memory_of(evaluated(**fields))
    assert sum(line.bytes for line in memory.parts) == pytest.approx(memory.total_bytes, rel=1e-5)
    assert all(line.bytes > 0 for line in memory.parts)
    assert memory.total_bytes <= memory.reserved_bytes


@pytest.mark.parametrize("fields", VARIED)
def test_the_parts_of_the_step_add_up_to_its_time(fields: dict[str, Any]) -> None:
    point = evaluated(**fields)
    parts = time_parts(point.time)
    assert sum(part.seconds for part in parts) == pytest.approx(point.time["step_time"], rel=1e-5)
    assert all(part.seconds > 0 for part in parts)
    assert list(parts) == sorted(parts, key=lambda part: -part.seconds)


def test_deepspeed_stage_2_keeps_2_bytes_and_18_over_the_ranks() -> None:
    # bf16 weights whole; fp32 master, momentum and variance (12) and 6 bytes of gradients sharded
    point = evaluated(on="rtx-4090:4", shard="zero2", recompute="full")
    states = sum(part(point, name) for name in ("weights", "gradients", "optimizer states"))
    assert states == pytest.approx((2 + 18 / 4) * LLAMA_2_7B, rel=1e-3)


def test_adapters_of_rank_16_on_queries_and_values_are_8_million() -> None:
    # 32 layers · rank 16 · 2 matrices · (4096 + 4096) = 8,388,608 parameters, 16 bytes each
    point = evaluated(on="rtx-4090", method="lora")
    assert part(point, "adapters") == pytest.approx(8_388_608 * 16)
    assert part(point, "weights") == pytest.approx(2 * LLAMA_2_7B, rel=1e-3)


def test_one_rank_does_not_communicate() -> None:
    names = {part.name for part in time_parts(evaluated(on="h100-sxm").time)}
    assert not [name for name in names if "communication" in name or "synchronisation" in name]
    assert not names & {"gathering sharded weights", "pipeline bubble", "stragglers"}


def test_a_pipeline_has_a_bubble() -> None:
    point = evaluated(tp=1, pp=4, framework="megatron-core")
    assert "pipeline bubble" in {part.name for part in time_parts(point.time)}


def test_the_resource_that_takes_most_bounds_the_step() -> None:
    parts = (
        TimePart(name="matrix products", seconds=3.0, share=0.3),
        TimePart(name="host launches", seconds=2.5, share=0.25),
        TimePart(name="expert communication", seconds=2.0, share=0.2),
        TimePart(name="gradient synchronisation", seconds=2.5, share=0.25),
    )
    assert bound_by(parts) == "communication"


def test_the_layout_says_what_is_run() -> None:
    layout = layout_of(evaluated(micro_batch=2, global_batch=64, shard="fsdp"))
    assert (layout.zero_stage, layout.dp, layout.micro_batch) == (3, 8, 2)
    assert layout.num_microbatches == 4  # 64 / (8 · 2)


def test_many_jobs_at_once_equal_each_alone() -> None:
    points = [evaluated(**fields) for fields in VARIED]
    rough = compare([(point.job, point.strategy) for point in points])
    assert list(rough.needed) == pytest.approx([p.memory["needed_bytes"] for p in points])
    assert list(rough.tokens_per_s) == pytest.approx([p.time["tokens_per_s"] for p in points])
    assert list(rough.share) == pytest.approx([p.share for p in points])


@pytest.mark.parametrize(
    ("share", "headroom", "expected"),
    [
        (0.5, None, "fits"),
        (0.95, None, "tight"),
        (1.01, None, "does not fit"),
        (0.85, 0.1, "tight"),
        (0.95, 0.1, "does not fit"),
        (float("inf"), None, "does not fit"),
        (float("nan"), None, "does not fit"),
    ],
)
def test_verdicts(share: float, headroom: float | None, expected: str) -> None:
    assert verdict(share, headroom) == expected


def test_a_measured_value_replaces_a_computed_one() -> None:
    point = evaluated()
    again = evaluate(point.job, point.strategy, read_overrides({"logits_bytes": "1 GiB"}))
    assert again.memory["logits_bytes"] == 2**30
    assert again.memory["needed_bytes"] < point.memory["needed_bytes"]


def test_a_value_is_read_in_the_unit_of_its_quantity() -> None:
    read = read_overrides({"step_time": "90 ms", "tokens_per_s": "12k", "half_size": "64"})
    assert read == {"step_time": 0.09, "tokens_per_s": 12000.0, "half_size": 64.0}
    with pytest.raises(UnitError):
        read_overrides({"step_time": "3 GB"})
    with pytest.raises(UnknownNameError, match="step_time"):
        read_overrides({"step_tim": "1 s"})


def test_a_set_value_is_refused_by_the_name_of_its_quantity() -> None:
    with pytest.raises(UnitError, match=r"--set step_time: '1\.2' has no unit"):
        read_overrides({"step_time": "1.2"})
    with pytest.raises(UsageError, match="step_time = -1s: a quantity is never negative"):
        read_overrides({"step_time": "-1s"})


@pytest.mark.parametrize("text", ["step_time=0s", "dp=0", "allocated_bytes=0B", "tokens_per_s=0"])
def test_set_values_that_leave_no_sensible_answer_are_refused(text: str) -> None:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8", "set": [text]}
    with pytest.raises(UsageError, match="has no sensible value"):
        estimate_train(EstimateTrainRequest.model_validate(values))


def test_a_layer_that_takes_no_time_has_no_parts() -> None:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8", "set": ["layer_time=0s"]}
    parts = estimate_train(EstimateTrainRequest.model_validate(values)).time_parts
    assert "matrix products" not in {part.name for part in parts}
