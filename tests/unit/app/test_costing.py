"""Cost and energy of plans and estimates: agreement, ranges, limits, what is unknown."""

from __future__ import annotations

from math import exp, hypot, log
from typing import Any

import pytest

from chipwise.app import estimate_train, explain, plan_train
from chipwise.app.documents import EstimateDocument, Range
from chipwise.app.documents_facts import ExplainDocument
from chipwise.app.documents_plan import PlanDocument
from chipwise.app.requests import (
    EstimateTrainRequest,
    ExplainRequest,
    PlanTrainRequest,
    parse_request,
)
from chipwise.errors import UsageError

DAY = "2026-09-15"
"""The lists of August 2026 are fresh then."""
SYSTEMS = "rtx-4090:8,a100-sxm-80:8,h100-sxm:8,tpu-v5p:16,ascend-910b3:8"


def planned(**fields: Any) -> PlanDocument:
    values = {"model": "llama-2-7b", "on": SYSTEMS, "tokens": "2B", "as_of": DAY, **fields}
    return plan_train(parse_request(PlanTrainRequest, values))


def estimated(**fields: Any) -> EstimateDocument:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8", "tokens": "2B", "as_of": DAY, **fields}
    return estimate_train(parse_request(EstimateTrainRequest, values))


def sure(span: Range | None) -> Range:
    assert span is not None
    return span


def test_cost_is_the_duration_at_the_price_shown() -> None:
    document = estimated()
    assert document.price is not None and document.duration_s is not None
    assert document.price.usd_per_hour == 23.6  # Nebius, 8 H100
    hours = document.duration_s.likely / 3600
    assert sure(document.cost_usd).likely == pytest.approx(23.6 * hours)


def test_cost_has_the_range_of_time_and_of_prices() -> None:
    document = estimated()
    cost, time = sure(document.cost_usd), sure(document.duration_s)
    # nobody is cheaper; AWS is dearer, 55.04 over 23.60: logarithms of both add in squares
    assert cost.low / cost.likely == pytest.approx(time.low / time.likely)
    joined = hypot(log(time.high / time.likely), log(55.04 / 23.6))
    assert cost.high / cost.likely == pytest.approx(exp(joined))


def test_energy_is_eighty_five_percent_of_the_rating_and_what_comes_on_top() -> None:
    document = estimated(pue=1.2)
    # 8 x 700 W x 0.85 x (1 + 0.5) x 1.2 = 8.568 kW
    hours = sure(document.duration_s).likely / 3600
    assert sure(document.energy_kwh).likely == pytest.approx(8.568 * hours)


def test_compiling_draws_idle_power() -> None:
    document = estimated(on="tpu-v4:8", pue=1.0)
    steps, compiling = (part.seconds for part in document.run.parts) if document.run else (0, 0)
    # 8 x 192 W x 1.5, 85 % of it in the steps and 15 % while compiling
    joules = 8 * 192 * 1.5 * (0.85 * steps + 0.15 * compiling)
    assert sure(document.energy_kwh).likely == pytest.approx(joules / 3.6e6)


def test_what_nobody_publishes_is_unknown_and_said() -> None:
    chips = estimated(on="tpu-v5p:16")
    assert chips.energy_kwh is None and chips.cost_usd is not None
    assert any("energy unknown" in one.text for one in chips.assumptions)
    cards = estimated(on="ascend-910b3:8")
    assert (cards.cost_usd, cards.price) == (None, None) and cards.energy_kwh is not None
    assert any("cost unknown" in one.text for one in cards.assumptions)


def test_without_a_length_there_is_a_price_and_no_cost() -> None:
    document = estimated(tokens=None)
    assert document.price is not None
    assert (document.cost_usd, document.energy_kwh) == (None, None)


def test_ones_own_price_and_power_count() -> None:
    document = estimated(on="tpu-v5p:16", set="device_rent=2USD/h,board_power=400W")
    hours = sure(document.duration_s).likely / 3600
    assert sure(document.cost_usd).likely == pytest.approx(16 * 2 * hours)
    assert document.energy_kwh is not None and document.price is None
    time, cost = sure(document.duration_s), sure(document.cost_usd)
    assert cost.high / cost.likely == pytest.approx(time.high / time.likely)


def test_a_stated_site_narrows_the_energy() -> None:
    def width(span: Range | None) -> float:
        return sure(span).high / sure(span).low

    assert width(estimated(pue=1.16).energy_kwh) < width(estimated().energy_kwh)


def test_markets_are_priced_apart() -> None:
    # Nebius: 23.60 on demand, 10.00 spot
    spot = estimated(market="spot")
    assert spot.price is not None
    assert (spot.price.usd_per_hour, spot.price.market) == (10.0, "spot")


def test_plan_and_estimate_agree() -> None:
    best = planned(on="h100-sxm:8").plans[0]
    layout = best.layout
    names = ("tp", "pp", "dp", "cp", "vpp", "shard", "micro_batch", "recompute", "framework")
    again = estimated(
        **{name: getattr(layout, name) for name in names},
        **{"seq": layout.seq_len, "global_batch": layout.global_batch},
    )
    assert (again.cost_usd, again.energy_kwh) == (best.cost_usd, best.energy_kwh)
    assert again.price == best.price


@pytest.mark.parametrize(("objective", "field"), [("cost", "cost_usd"), ("energy", "energy_kwh")])
def test_an_objective_orders_the_plans_and_unknown_comes_last(objective: str, field: str) -> None:
    spans = [getattr(plan, field) for plan in planned(objective=objective).plans]
    known = [span.likely for span in spans if span is not None]
    assert known == sorted(known) and len(known) > 2
    assert spans[len(known) :] == [None] * (len(spans) - len(known)) and None in spans


def test_over_budget_is_like_late() -> None:
    free = planned()
    costs = sorted(plan.cost_usd.likely for plan in free.plans if plan.cost_usd)
    budget = (costs[0] + costs[-1]) / 2
    document = planned(budget=f"{budget}USD")
    kinds = [
        1 if plan.cost_usd is None else 0 if plan.cost_usd.likely <= budget else 2
        for plan in document.plans
    ]
    assert kinds == sorted(kinds) and set(kinds) == {0, 1, 2}
    assert [plan.meets_budget for plan in document.plans] == [kind == 0 for kind in kinds]
    assert document.exit_code == 0
    assert planned(budget=f"{costs[0] / 2}USD").exit_code == 3
    assert planned(on="ascend-910b3:8", budget="1000USD").exit_code == 3
    assert all(plan.meets_budget is None for plan in free.plans)


def test_old_prices_are_warned_of() -> None:
    assert not any("90 days" in text for text in estimated().warnings)
    old = estimated(as_of="2027-03-01")
    assert old.price is not None and old.price.stale
    assert any("Nebius (2026-08)" in text for text in old.warnings)


def test_the_explanation_of_a_cost_names_the_price_list() -> None:
    asked = {"quantity": "cost", "model": "llama-2-7b", "on": "h100-sxm:8", "tokens": "2B"}
    found = explain(parse_request(ExplainRequest, {**asked, "as_of": DAY}))
    assert isinstance(found, ExplainDocument)
    rent = next(need for need in found.needs if need.quantity == "device_rent")
    assert rent.source == "skypilot-catalog"
    assert rent.value == pytest.approx(2.95 / 3600)


@pytest.mark.parametrize(("name", "system"), [("cost", "gb200:8"), ("energy", "tpu-v5p:16")])
def test_an_unknown_number_is_not_explained(name: str, system: str) -> None:
    asked = {"quantity": name, "model": "llama-2-7b", "on": system, "tokens": "2B", "as_of": DAY}
    with pytest.raises(UsageError, match="unknown here"):
        explain(parse_request(ExplainRequest, asked))


def test_a_date_and_a_pue_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="no date"):
        estimated(as_of="August")
    with pytest.raises(UsageError, match="out of range"):
        estimated(pue="0.8")
    with pytest.raises(UsageError, match="not a number"):
        estimated(pue="good")
    with pytest.raises(UsageError, match="has no unit"):
        planned(budget="5000")
