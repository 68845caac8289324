"""Systems, counts and variants of a plan, and what its document says beside the list."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.app import plan_train
from chipwise.app.documents_plan import PlanDocument
from chipwise.app.plan_systems import lines_of
from chipwise.app.requests import PlanTrainRequest, parse_request
from chipwise.errors import UsageError


def request(**fields: Any) -> PlanTrainRequest:
    values = {"model": "llama-3.2-1b", "on": "h100-sxm:8", "tokens": "1B", **fields}
    return parse_request(PlanTrainRequest, values)


def planned(**fields: Any) -> PlanDocument:
    return plan_train(request(**fields))


def names(**fields: Any) -> list[list[str]]:
    return [[job.cluster.name for job in line.jobs] for line in lines_of(request(**fields))]


def test_a_plain_name_is_one_device_and_all_counts_with_a_limit() -> None:
    assert names(on="h100-sxm") == [["h100-sxm"]]
    assert names(on="h100-sxm", max_devices=24) == [
        ["h100-sxm", "h100-sxm:2", "h100-sxm:4", "h100-sxm:8", "h100-sxm:8x2", "h100-sxm:8x3"]
    ]
    # what is written with a count stays
    assert names(on="h100-sxm:8,tpu-v5p", max_devices=16) == [
        ["h100-sxm:8"], ["tpu-v5p:4", "tpu-v5p:8", "tpu-v5p:16"]]  # fmt: skip


def test_a_selector_stands_for_all_counts_of_each() -> None:
    lines = names(on="tpu", max_devices=8)
    assert len(lines) > 5
    assert all(len(line) >= 1 and not line[0].startswith("h100") for line in lines)


def test_loosening_a_limit_never_makes_the_best_worse() -> None:
    best = [
        planned(on="h100-sxm,rtx-4090", max_devices=most).plans[0].duration_s.likely
        for most in (1, 4, 8, 32)
    ]
    assert best == sorted(best, reverse=True)


def test_each_objective_is_best_at_what_it_minimises() -> None:
    asked = {"on": "h100-sxm,rtx-4090,a100-sxm-80", "max_devices": 16}
    found = {name: planned(objective=name, **asked).plans[0]
             for name in ("time", "cost", "energy", "device-hours")}  # fmt: skip
    least = min(plan.duration_s.likely for plan in found.values())
    assert found["time"].duration_s.likely == least
    costs = {name: plan.cost_usd.likely for name, plan in found.items() if plan.cost_usd}
    assert costs["cost"] == min(costs.values())
    energies = {name: plan.energy_kwh.likely for name, plan in found.items() if plan.energy_kwh}
    assert energies["energy"] == pytest.approx(min(energies.values()), rel=0.01)
    assert found["device-hours"].device_hours.likely == min(
        plan.device_hours.likely for plan in found.values()
    )


def test_variants_are_searched_together_and_the_best_wins() -> None:
    alone = [planned(precision=name).plans[0].duration_s.likely for name in ("bf16", "fp8")]
    both = planned(vary={"precision": ["bf16", "fp8"]})
    assert both.plans[0].duration_s.likely == min(alone)
    assert both.search.systems == 2
    assert "precision" not in both.inputs and both.inputs["vary"] == {"precision": ("bf16", "fp8")}


def test_batches_and_optimizers_can_be_varied() -> None:
    document = planned(vary=["global-batch=128,256", "optimizer=adamw,adamw-8bit"])
    assert document.search.systems == 4
    assert {plan.layout.global_batch for plan in document.plans} <= {128, 256}
    assert not any("global batch" in one.text for one in document.assumptions)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vary": "tp=1,2"}, "precision, optimizer, global_batch"),
        ({"vary": "precision="}, "varies nothing"),
        ({"vary": "precision=bf17"}, "did you mean 'bf16'"),
        ({"vary": "precision=fp8", "precision": "bf16"}, "either --precision or --vary"),
    ],
)
def test_what_cannot_be_varied_is_said(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned(**fields)


def test_the_choice_counts_every_draw_once() -> None:
    choice = planned(on="h100-sxm:8,a100-sxm-80:8").choice
    assert choice is not None
    assert sum(choice.probability_best.values()) == pytest.approx(1)
    assert 0 <= choice.regret_mean <= choice.regret_p90 < 1
    assert max(choice.probability_best, key=choice.probability_best.__getitem__) in (
        1, *choice.ties)  # fmt: skip


def test_a_far_better_machine_is_chosen_for_certain() -> None:
    choice = planned(on="h100-sxm:8,rtx-3090", top=2).choice
    assert choice is not None
    assert choice.probability_best[1] == 1 and choice.regret_p90 == 0 and not choice.ties


def test_a_limit_on_devices_says_what_more_would_buy() -> None:
    document = planned(on="h100-sxm", max_devices=8)
    binds = {one.constraint: one for one in document.binds}
    more = binds["max-devices"]
    assert more.slack == 0 and more.step == "16 devices (h100-sxm:8x2)"
    twice = planned(on="h100-sxm:8x2", global_batch=document.inputs["global_batch"])
    gain = document.plans[0].step_time_s.likely / twice.plans[0].step_time_s.likely
    assert more.speedup == pytest.approx(gain)


def test_memory_that_binds_buys_time() -> None:
    document = planned(model="llama-2-7b", on="rtx-4090:8")
    memory = next(one for one in document.binds if one.constraint == "memory")
    assert memory.speedup is not None and memory.speedup > 1.02


def test_scaling_keeps_the_batch_or_the_share_of_it() -> None:
    document = planned(on="h100-sxm:8", scaling=32, global_batch=256)
    strong = [one for one in document.scaling if one.mode == "strong"]
    weak = [one for one in document.scaling if one.mode == "weak"]
    assert {one.global_batch for one in strong} == {256}
    assert {one.global_batch / one.devices for one in weak} == {32}
    assert strong[0].efficiency == weak[0].efficiency == 1
    # 24 devices share a batch of 256 unevenly: only what divides it must get faster
    times = [one.step_time_s for one in strong if 256 % one.devices == 0]
    assert len(times) == 6 and times == sorted(times, reverse=True)
    here = next(one for one in strong if one.devices == 8)
    assert here.step_time_s == pytest.approx(document.plans[0].step_time_s.likely)


def test_a_power_cap_slows_a_step_and_saves_energy() -> None:
    free, capped = planned(), planned(power_cap="350W")
    # rates go with the square root of the power: half of 700 W gives 1/sqrt(2) of them
    slower = capped.plans[0].step_time_s.likely / free.plans[0].step_time_s.likely
    assert 1.05 < slower < 2**0.5 + 1e-9
    energies = [one.plans[0].energy_kwh for one in (free, capped)]
    assert energies[0] and energies[1] and energies[1].likely < energies[0].likely
    assert planned(power_cap="2kW").plans[0].step_time_s == free.plans[0].step_time_s
