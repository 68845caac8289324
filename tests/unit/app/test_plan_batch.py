"""The global batch that a plan takes where none is stated, and what it says of a large one."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.app import plan_train
from chipwise.app.documents_plan import PlanDocument
from chipwise.app.requests import PlanTrainRequest, parse_request


def asked(**stated: Any) -> PlanDocument:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8", "tokens": "2B", "seq": 4096, **stated}
    return plan_train(parse_request(PlanTrainRequest, values))


@pytest.mark.parametrize(
    ("model", "tokens", "on", "published"),
    [
        ("llama-2-7b", "2T", "h100-sxm:8x64", 4.0e6),
        ("llama-3.1-405b", "15T", "h100-sxm:8x2048", 16.8e6),
        ("gpt3-175b", "300B", "a100-sxm-80:8x128", 3.2e6),
    ],
)
def test_advised_batches_are_within_a_factor_of_three_of_published_ones(
    model: str, tokens: str, on: str, published: float
) -> None:
    document = asked(model=model, tokens=tokens, on=on, seq=2048)
    step = document.batch[0].step_tokens
    assert published / 3 <= step <= published * 3


def test_a_batch_beyond_the_critical_one_is_warned_of() -> None:
    document = asked(global_batch=4096)  # 16.8 M tokens, critical 1.3 M
    assert document.batch[0].extra_tokens_share > 10
    assert any("beyond the critical batch" in text for text in document.warnings)
    assert not any("critical" in text for text in asked(global_batch=256).warnings)


def test_every_batch_of_a_range_is_judged() -> None:
    document = asked(vary={"global_batch": ("64", "512")})
    found = [one.global_batch for one in document.batch]
    assert found == sorted(set(found)) and set(found) <= {64, 512}


def test_no_law_is_applied_to_a_fine_tune() -> None:
    document = asked(method="lora")
    assert document.batch == ()
    assert {plan.layout.global_batch for plan in document.plans} == {256}  # 2^20 / 4096
