"""``estimate serve``: sums that must hold, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.app import estimate_serve, fit
from chipwise.app.documents_serve import EstimateServeDocument
from chipwise.app.requests import FitRequest, parse_request
from chipwise.app.serve_request import EstimateServeRequest
from chipwise.errors import ChipwiseError, InfeasibleError

USUAL = {"model": "llama-3.1-8b", "on": "h100-sxm", "input_len": 1000, "output_len": 200}


def asked(**fields: Any) -> EstimateServeDocument:
    return estimate_serve(parse_request(EstimateServeRequest, {**USUAL, **fields}))


def test_rates_and_times_are_one_picture() -> None:
    document = asked(concurrency=16)
    rate, token = document.output_tokens_per_s.likely, document.tpot_s.likely
    assert document.requests_per_s.likely == pytest.approx(rate / 200)
    assert document.total_tokens_per_s.likely == pytest.approx(rate * 1200 / 200)
    assert document.tokens_per_s_per_user.likely == pytest.approx(1 / token)
    whole = document.ttft_s.likely + 199 * token
    assert document.e2e_latency_s.likely == pytest.approx(whole)
    # sixteen users, each waiting for its answer: Little's law, within what is approximate
    assert 16 / whole == pytest.approx(document.requests_per_s.likely, rel=0.1)


def test_parts_add_up_to_the_step() -> None:
    document = asked(concurrency=8)
    assert sum(part.share for part in document.step_parts) == pytest.approx(1)
    assert sum(part.share for part in document.prompt_parts) == pytest.approx(1)


def test_one_user_is_bound_by_the_weights() -> None:
    # 16 GB at less than 3.35 TB/s: 4.8 ms a token at the least, and not twice that
    document = asked(concurrency=1)
    assert document.bound_by == "memory bandwidth"
    assert 0.0048 < document.tpot_s.likely < 0.0096


def test_more_users_deliver_more_and_wait_longer() -> None:
    few, many = asked(concurrency=4), asked(concurrency=128)
    assert many.output_tokens_per_s.likely > few.output_tokens_per_s.likely
    assert many.tpot_s.likely > few.tpot_s.likely
    assert many.ttft_s.likely > few.ttft_s.likely


def test_without_users_as_many_as_fit() -> None:
    document = asked()
    memory = fit(parse_request(FitRequest, {"model": "llama-3.1-8b", "on": "h100-sxm",
                                            "task": "serve", "context": 1200}))  # fmt: skip
    assert document.traffic.concurrency <= document.layout.max_num_seqs
    assert document.verdict != "does not fit"
    assert document.max_concurrency >= 1
    assert memory.verdict == "fits"


def test_users_beyond_the_room_are_said_to_wait() -> None:
    document = asked(model="llama-3.1-70b", on="h100-sxm:4", concurrency=5000)
    assert any("wait for a place" in text for text in document.warnings)


def test_copies_side_by_side_deliver_together() -> None:
    one = asked(concurrency=32)
    four = asked(on="h100-sxm:4", dp=4, concurrency=128)
    assert four.output_tokens_per_s.likely == pytest.approx(4 * one.output_tokens_per_s.likely)
    assert four.tpot_s.likely == pytest.approx(one.tpot_s.likely)


def test_tokens_cost_what_the_hour_costs() -> None:
    document = asked(concurrency=64)
    price = document.usd_per_million_output_tokens
    assert price is not None and document.usd_per_hour is not None
    an_hour = document.output_tokens_per_s.likely * 3600 / 1e6
    assert price.likely * an_hour == pytest.approx(document.usd_per_hour)
    assert price.low < price.likely < price.high


def test_ranges_are_wider_for_young_stacks() -> None:
    usual, young = asked(concurrency=1), asked(on="arc-pro-b60", concurrency=1)
    widths = [one.tpot_s.high / one.tpot_s.likely for one in (usual, young)]
    assert widths[1] > widths[0] > 1


def test_weights_without_room_are_refused_with_the_bytes() -> None:
    with pytest.raises(InfeasibleError, match="keys and values"):
        asked(model="llama-2-70b", on="rtx-4090")


@pytest.mark.parametrize(
    "fields",
    [{"on": "h100-sxm,a100-sxm-80"}, {"model": "no-such"}, {"input_len": 0}, {"on": "groq-lpu-v1"}],
)
def test_what_cannot_be_asked_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ChipwiseError):
        asked(**fields)
