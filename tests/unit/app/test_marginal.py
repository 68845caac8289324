"""What one step more of each resource gives, and its agreement with what bounds the step."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.app import estimate_train
from chipwise.app.documents import EstimateDocument, Marginal
from chipwise.app.requests import EstimateTrainRequest


def asked(**fields: Any) -> EstimateDocument:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8", **fields}
    return estimate_train(EstimateTrainRequest.model_validate(values))


def of(document: EstimateDocument, resource: str) -> list[Marginal]:
    return [one for one in document.marginal if one.resource == resource]


CASES: list[dict[str, Any]] = [
    {"shard": "zero3", "recompute": "full", "micro_batch": 8},
    {"on": "rtx-4090:4"},
    {"on": "rtx-4090", "offload": "optimizer", "seq": 128},
    {"model": "gpt2", "on": "a100-sxm-80:8", "micro_batch": 1},
    {"model": "mixtral-8x7b", "on": "h100-sxm:8x2", "ep": 8, "tp": 2, "pp": 1},
    {"on": "tpu-v5p:16"},
    {"model": "llama-3.1-70b", "on": "h100-sxm:8x16"},
]
RESOURCES = {
    "compute": ("matrix-product rate",),
    "memory bandwidth": ("memory bandwidth",),
    "host": ("host time",),
    "communication": ("fast link", "network", "host link"),
}
CHANGE = {"+10 %": 1 / 1.1, "−10 %": 0.9, "2 ×": 0.5}


@pytest.mark.parametrize("fields", CASES)
def test_the_resource_that_bounds_the_step_takes_the_largest_part_of_it(
    fields: dict[str, Any],
) -> None:
    document = asked(**fields)
    # a part p of the step under a change to c takes 1 - p(1 - c) of its time: p follows
    parts = {
        name: sum(
            (1 - 1 / one.speedup) / (1 - CHANGE[one.change])
            for resource in resources
            for one in of(document, resource)
        )
        for name, resources in RESOURCES.items()
    }
    assert max(parts, key=parts.__getitem__) == document.bound_by


@pytest.mark.parametrize("fields", CASES)
def test_steps_are_listed_best_first_and_none_slows_down(fields: dict[str, Any]) -> None:
    document = asked(**fields)
    gains = [one.speedup for one in document.marginal]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) >= 1 - 1e-9
    for one in document.marginal:
        assert one.step_time_s == pytest.approx(document.step_time_s.likely / one.speedup)


def test_a_faster_column_is_the_estimate_with_that_column() -> None:
    document = asked()
    (link,) = of(document, "fast link")
    again = asked(set="intra_bandwidth=900 GB/s")  # 450 GB/s one way by datasheet
    assert link.step_time_s == pytest.approx(again.step_time_s.likely)


def test_twice_the_devices_is_the_estimate_on_twice_the_devices() -> None:
    document = asked(on="h100-sxm:8x2", global_batch=128, micro_batch=2, shard="zero3", tp=1, pp=1)
    twice, more = of(document, "devices")
    assert "h100-sxm:8x4" in twice.change and "h100-sxm:8x3" in more.change
    again = asked(on="h100-sxm:8x4", global_batch=128, micro_batch=2, shard="zero3", tp=1, pp=1,
                  recompute=document.layout.recompute)  # fmt: skip
    assert twice.speedup == pytest.approx(again.tokens_per_s.likely / document.tokens_per_s.likely)
    assert 1 < more.speedup < twice.speedup <= 2.05


def test_only_what_the_job_uses_is_listed() -> None:
    alone = {one.resource for one in asked(on="rtx-4090", method="qlora").marginal}
    assert "fast link" not in alone and "network" not in alone and "host link" not in alone
    assert {"matrix-product rate", "memory bandwidth", "host time"} <= alone
    assert of(asked(on="h100-sxm:8x2"), "network")
    assert of(asked(on="rtx-4090", offload="optimizer"), "host link")


def test_a_measured_step_time_gains_nothing() -> None:
    document = asked(set="step_time=3 s")
    gains = [one.speedup for one in document.marginal if one.resource != "devices"]
    assert gains == pytest.approx([1.0] * len(gains))
