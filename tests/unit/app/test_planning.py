"""``plan train``: ranking, deadline, what does not fit, and agreement with ``estimate``."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.app import estimate_train, explain, plan_train
from chipwise.app.documents import EstimateDocument
from chipwise.app.documents_facts import ExplainDocument
from chipwise.app.documents_plan import Plan, PlanDocument
from chipwise.app.requests import EstimateTrainRequest, ExplainRequest, PlanTrainRequest
from chipwise.errors import LayoutError, UsageError
from chipwise.units import show

SYSTEMS = "rtx-4090:8,a100-sxm-80:8,h100-sxm:8,tpu-v5p:16"


def asked(**fields: Any) -> PlanDocument:
    values = {"model": "llama-2-7b", "on": SYSTEMS, "tokens": "2B", **fields}
    return plan_train(PlanTrainRequest.model_validate(values))


def estimate_of(plan: Plan, model: str = "llama-2-7b", **fields: Any) -> EstimateDocument:
    layout = plan.layout
    names = (
        *("tp", "pp", "dp", "cp", "ep", "vpp", "shard", "micro_batch", "recompute"),
        *("framework", "global_batch", "precision", "method", "sequence_parallel"),
        *("shard_group", "recompute_every", "attention", "optimizer", "offload"),
    )
    values = {name: getattr(layout, name) for name in names}
    if layout.recompute != "full":
        del values["recompute_every"]
    values |= {"chunked_loss": layout.other["chunked_loss"], "compile": layout.other["compiled"]}
    values |= {"model": model, "on": plan.system, "seq": layout.seq_len, **fields}
    return estimate_train(EstimateTrainRequest.model_validate(values))


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("llama-2-7b", {}),
        ("llama-2-7b", {"method": "qlora", "on": "rtx-4090,h100-sxm:8"}),
        ("mixtral-8x7b", {"on": "mi300x:8,h100-sxm:8x2,gaudi2:8"}),
    ],
)
def test_a_plan_and_the_estimate_of_its_layout_agree_exactly(
    model: str, fields: dict[str, Any]
) -> None:
    document = asked(model=model, **fields)
    assert document.plans
    for plan in document.plans:
        again = estimate_of(plan, model)
        assert again.layout == plan.layout
        assert again.step_time_s == plan.step_time_s
        assert again.time_parts == plan.time_parts
        assert again.memory.total_bytes == plan.memory.total_bytes
        assert again.verdict == plan.verdict


def test_every_system_that_holds_the_job_is_in_the_list() -> None:
    assert {plan.system for plan in asked().plans} == set(SYSTEMS.split(","))
    few = asked(top=4).plans
    assert {plan.system for plan in few} == set(SYSTEMS.split(","))
    assert len(few) == 4


def test_ranks_count_from_the_fastest() -> None:
    plans = asked().plans
    times = [plan.duration_s.likely for plan in plans]
    assert times == sorted(times)
    assert [plan.rank for plan in plans] == list(range(1, len(plans) + 1))


def test_device_hours_are_another_objective() -> None:
    plans = asked(objective="device-hours").plans
    spent = [plan.device_hours.likely for plan in plans]
    assert spent == sorted(spent)
    for plan in plans:
        hours = plan.duration_s.likely * plan.devices / 3600
        assert plan.device_hours.likely == pytest.approx(hours)


def test_duration_is_tokens_over_throughput_and_compilation_once() -> None:
    by_system = {plan.system: plan for plan in asked().plans}
    for system, compiling in (("h100-sxm:8", 0.0), ("tpu-v5p:16", 300.0)):
        plan = by_system[system]
        steps = 2e9 / plan.tokens_per_s.likely
        assert plan.duration_s.likely == pytest.approx(steps + compiling)


def test_plans_that_meet_the_deadline_come_first() -> None:
    free = asked().plans
    limit = (free[0].duration_s.likely + free[-1].duration_s.likely) / 2
    document = asked(deadline=limit, objective="device-hours")
    marks = [plan.meets_deadline for plan in document.plans]
    assert True in marks and False in marks
    assert marks == sorted(marks, key=lambda met: not met)
    assert all(plan.meets_deadline is None for plan in free)


def test_the_same_batch_is_trained_on_all_systems() -> None:
    document = asked()
    assert {plan.layout.global_batch for plan in document.plans} == {256}  # 2^20 / 4096
    assert document.inputs["global_batch"] == 256
    assert any("global batch 256" in one.text for one in document.assumptions)
    odd = asked(on="rtx-4090:6,h100-sxm:8")
    assert {plan.layout.global_batch for plan in odd.plans} == {264}  # next multiple of 24


def test_large_clusters_get_a_batch_they_can_share() -> None:
    plan = asked(model="llama-3.1-405b", on="h100-sxm:8x2048", tokens="15T").plans[0]
    assert plan.layout.global_batch * plan.layout.seq_len == 2**24  # 1024 tokens per device


def test_a_tenth_of_the_memory_is_left_free_where_possible() -> None:
    assert {plan.verdict for plan in asked().plans} == {"fits"}


def test_the_network_assumed_is_the_network_computed_with() -> None:
    document = asked(on="rtx-4090:8x2", tokens="1B")
    plan = document.plans[0]
    explained = explain(
        ExplainRequest.model_validate(
            {"quantity": "network_bandwidth", "model": "llama-2-7b", "on": plan.system}
        )
    )
    assert isinstance(explained, ExplainDocument)
    speed = show(explained.value, "B/s")
    assert any(text.text.startswith(f"network {speed}") for text in document.assumptions)


def test_what_fits_nowhere_names_the_smallest_count_and_exits_3() -> None:
    document = asked(model="llama-2-70b", on="rtx-4090:8")
    assert document.plans == () and document.exit_code == 3
    (reason,) = document.no_fit
    assert reason.system == "rtx-4090:8"
    assert reason.short_by_bytes is not None and reason.short_by_bytes > 0
    assert reason.smallest is not None
    assert asked(model="llama-2-70b", on=reason.smallest).plans


def test_devices_that_nothing_trains_on_are_listed_with_the_reason() -> None:
    document = asked(on="groq-lpu-v1:576,h100-sxm:8")
    assert [one.system for one in document.no_fit] == ["groq-lpu-v1:72x8"]
    assert "no training stack" in document.no_fit[0].reason
    assert document.plans[0].system == "h100-sxm:8"


def test_too_many_devices_are_left_out_and_said() -> None:
    document = asked(max_devices=8)
    assert {plan.devices for plan in document.plans} == {8}
    assert [one.system for one in document.no_fit] == ["tpu-v5p:16"]


def test_a_pin_that_no_system_can_have_is_an_error() -> None:
    with pytest.raises(LayoutError, match="tp 7"):
        asked(tp=7)


def test_a_plan_that_misses_every_deadline_exits_3() -> None:
    late = asked(deadline="1min")
    assert late.plans
    assert late.exit_code == 3
    assert asked(deadline="30d").exit_code == 0


def test_a_number_format_that_no_system_has_is_an_error() -> None:
    with pytest.raises(UsageError, match="h100-sxm has no nvfp4; it has bf16"):
        asked(on="h100-sxm:8", precision="nvfp4")


def test_the_assumed_batch_is_made_of_stated_micro_batches() -> None:
    assert {plan.layout.micro_batch for plan in asked(on="h100-sxm:8", micro_batch=3).plans} == {3}


def test_a_batch_that_no_layout_can_share_names_the_nearest_ones() -> None:
    # 12 is no multiple of 8; 64 is one micro-batch on each of 8 devices
    with pytest.raises(LayoutError) as error:
        asked(on="h100-sxm:8", global_batch=12, micro_batch=8)
    assert error.value.details["nearest"] == [64]


def test_where_no_count_holds_a_job_a_larger_device_is_named() -> None:
    # one sequence of a prime length cannot be cut: more devices do not help
    (none,) = asked(model="llama-3.1-8b", on="h100-sxm:8", seq=2000003).no_fit
    assert none.smallest is not None
    assert not none.smallest.startswith("h100-sxm")
    assert asked(model="llama-3.1-8b", on=none.smallest, seq=2000003).plans


def test_a_pin_that_one_system_cannot_have_leaves_the_others() -> None:
    document = asked(on="h100-sxm:8,tpu-v5p:16", tp=16)
    assert [one.system for one in document.no_fit] == ["h100-sxm:8"]
    assert {plan.layout.tp for plan in document.plans} == {16}


def test_pins_hold_in_every_plan() -> None:
    document = asked(tp=2, recompute="full", micro_batch=1)
    for plan in document.plans:
        layout = plan.layout
        assert (layout.tp, layout.recompute, layout.micro_batch) == (2, "full", 1)


def test_no_plan_on_the_front_is_beaten_in_time_cost_and_energy() -> None:
    document = asked(on="rtx-4090:8,a100-sxm-80:8,h100-sxm:8")
    assert len(document.pareto) > 1
    for point in document.pareto:
        assert point.cost_usd is not None and point.energy_kwh is not None
        assert not any(
            plan.duration_s.likely < point.duration_s
            and plan.cost_usd is not None
            and plan.cost_usd.likely < point.cost_usd
            and plan.energy_kwh is not None
            and plan.energy_kwh.likely < point.energy_kwh
            for plan in document.plans
        )
    assert document.pareto[0].rank == 1


def test_the_counts_of_the_search_add_up() -> None:
    search = asked().search
    assert search.candidates == search.evaluated + search.pruned
    assert 0 < search.fit <= search.evaluated


def test_a_measured_value_counts_in_the_search_as_in_an_estimate() -> None:
    slow_link = {"set": "intra_bandwidth=1 GB/s", "on": "h100-sxm:8"}
    document = asked(**slow_link)
    plan = document.plans[0]
    assert estimate_of(plan, set=slow_link["set"]).step_time_s == plan.step_time_s
    fast = asked(on="h100-sxm:8").plans[0]
    assert plan.step_time_s.likely > fast.step_time_s.likely
    worse = estimate_of(fast, set=slow_link["set"])
    assert plan.step_time_s.likely <= worse.step_time_s.likely


def test_ranges_hold_their_likely_value() -> None:
    for plan in asked().plans:
        for span in (plan.duration_s, plan.device_hours, plan.mfu, plan.step_time_s):
            assert span.low < span.likely < span.high
            assert span.basis in ("calibrated", "datasheet")
