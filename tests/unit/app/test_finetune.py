from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipwise.app import plan_finetune
from chipwise.app.dataset import Dataset
from chipwise.app.documents import Range
from chipwise.app.documents_finetune import FinetuneDocument
from chipwise.app.evaluation import evaluate
from chipwise.app.finetune import widened
from chipwise.app.finetune_jobs import USUAL_BATCH, Task, choices, lines_of_task, task_of
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.requests import parse_request
from chipwise.columns import length_columns
from chipwise.errors import UsageError
from chipwise.search.rank import search

THREE = np.array([100.0, 200.0, 600.0])
"""A third of the examples each: mean 300 tokens."""


def asked(**fields: Any) -> PlanFinetuneRequest:
    base = {"model": "llama-2-7b", "examples": "9k", "lengths": "p50=400,p90=1200,max=2048"}
    return parse_request(PlanFinetuneRequest, base | {"on": "rtx-4090:2"} | fields)


def planned(**fields: Any) -> FinetuneDocument:
    return plan_finetune(asked(**fields))


def task(**fields: Any) -> Task:
    request = asked(**fields)
    clusters = [cluster for found in choices(request) for cluster in found]
    return task_of(request, Dataset(THREE, 900, True, 1.0, "measured"), clusters)


# -- the data in the job


def test_memory_is_judged_at_the_longest_and_time_at_the_mean() -> None:
    some = task(method="lora")
    job = lines_of_task(some, choices(some.request))[0].jobs[0]
    assert job.workload.seq_len == 600
    found = search(job, 0.9, 1).best[0]
    strategy = found.strategy.model_copy(update={"micro_batch": 2, "dp": 2, "tp": 1, "pp": 1})
    point = evaluate(job, strategy)
    equal = job.model_copy(update={"workload": job.workload.model_copy(update={"lengths": None})})
    longest = evaluate(equal, strategy)
    assert point.memory["needed_bytes"] == pytest.approx(longest.memory["needed_bytes"])
    assert point.time["step_time"] < longest.time["step_time"]
    # pairs are padded to 3700/9 on average: 900 examples are so many tokens
    assert point.time["tokens"] == pytest.approx(900 * 3700 / 9)
    assert point.time["num_steps"] == pytest.approx(900 / 16)


def test_columns_of_a_micro_batch_by_hand() -> None:
    some = task()
    workload = lines_of_task(some, choices(some.request))[0].jobs[0].workload
    found = length_columns(workload, np.array([1, 2, 1]), np.array([1, 1, 2]))
    # mean 300 of 600; the longer of two 3700/9 of 600, by padding or by the slower of two ranks
    assert found["padded_share"] == pytest.approx([0.5, 3700 / 5400, 0.5])
    assert found["slowest_share"] == pytest.approx([0.5, 3700 / 5400, 3700 / 5400])


def test_packed_examples_fill_sequences() -> None:
    some = task(packing=True, seq=1024)
    # 900 examples of 300 tokens: 270,000 / 1024 = 263.7
    assert some.sequences == 264
    assert some.longest == 1024


def test_a_mean_alone_holds_memory_for_the_whole_sequence() -> None:
    some = task_of(asked(lengths=None, length=300), Dataset(np.array([300.0]), 10, True, 1.0,
                   "assumed"), choices(asked())[0])  # fmt: skip
    assert some.longest == some.seq == 4096


def test_the_batch_is_the_usual_one_or_what_all_can_share() -> None:
    assert task().global_batch == USUAL_BATCH
    assert task(on="h100-sxm:8x4").global_batch == 32
    assert task(on="h100-sxm:8x4", global_batch=64).global_batch == 64


# -- plans


def test_all_methods_are_tried_and_named() -> None:
    found = planned()
    assert {one.method for one in found.methods} >= {"lora", "qlora"}
    assert all(plan.method == plan.layout.method for plan in found.plans)
    assert found.inputs["methods"] == ("full", "lora", "qlora")


def test_plans_are_ranked_by_cost_unless_said_otherwise() -> None:
    costs = [plan.cost_usd.likely for plan in planned().plans if plan.cost_usd]
    assert costs == sorted(costs)
    times = [plan.duration_s.likely for plan in planned(objective="time").plans]
    assert times == sorted(times)


def test_a_rank_leaves_adapters_only() -> None:
    assert {plan.method for plan in planned(rank=16).plans} <= {"lora", "qlora"}


def test_a_stated_method_is_the_only_one() -> None:
    assert {plan.method for plan in planned(method="qlora").plans} == {"qlora"}
    assert {one.method for one in planned(vary=["method=lora"]).methods} == {"lora"}


def test_small_counts_of_a_plain_name_are_tried() -> None:
    found = planned(on="rtx-4090", method="qlora")
    assert {plan.devices for plan in found.plans} <= {1, 2, 4, 8}
    assert found.search.systems == 4


def test_the_data_are_reported() -> None:
    data = planned(seq=1024, method="lora", epochs=2).dataset
    assert data.examples == 9000
    assert data.seq == data.longest == 1024
    # the share of a log-normal above 1024: 1 - Φ(ln(1024/400)/0.8573) = 1 - Φ(1.096) = 13.6 %
    assert data.truncated_share == pytest.approx(0.136, abs=0.003)
    assert data.steps_per_epoch == 563  # 9000 / 16 = 562.5
    assert data.tokens.likely == pytest.approx(9000 * data.mean_length)
    assert data.computed_per_useful >= 1
    by_name = {one.name: one.computed_per_useful for one in data.fillings}
    assert by_name["free"] == pytest.approx(1)
    assert by_name["free"] <= by_name["grouped"] <= by_name["longest"] <= by_name["max"]
    assert by_name["packing"] <= by_name["max"]


def test_two_epochs_take_twice_the_time() -> None:
    one, two = (planned(method="qlora", epochs=n).plans[0].duration_s.likely for n in (1, 2))
    assert two == pytest.approx(2 * one, rel=1e-6)


def test_padding_to_the_sequence_costs_what_it_computes() -> None:
    some = {"method": "qlora", "seq": 2048, "micro_batch": 1, "on": "rtx-4090:1"}
    longest, full = planned(**some), planned(**some, padding="max")
    ratio = full.dataset.computed_per_useful / longest.dataset.computed_per_useful
    assert ratio > 3
    slower = full.plans[0].duration_s.likely / longest.plans[0].duration_s.likely
    assert 1 < slower < ratio * 1.05


def test_a_system_that_holds_some_method_is_not_listed_as_holding_none() -> None:
    found = planned(on="rtx-3060:1,rtx-4090:1")
    answered = {plan.system.partition(":")[0] for plan in found.plans}
    assert not answered & {one.system.partition(":")[0] for one in found.no_fit}


def test_nothing_fits_is_an_answer() -> None:
    found = planned(model="llama-3.1-405b", on="rtx-3060:1")
    assert found.plans == ()
    assert found.exit_code == 3
    assert found.dataset.steps_per_epoch == 563


def test_a_late_plan_is_no_success() -> None:
    assert planned(deadline="1 s").exit_code == 3


def test_a_range_is_joined_with_that_of_the_tokens() -> None:
    span = Range(low=50, likely=100, high=200, basis="calibrated")
    # ln 2 and ln 2 as independent: √2·ln 2, a factor of 2.665
    assert widened(span, 2.0).low == pytest.approx(100 / 2.665, rel=1e-3)
    assert widened(span, 2.0).high == pytest.approx(266.5, rel=1e-3)
    assert widened(span, 1.0) == span


# -- grids


def test_every_run_of_a_grid_is_listed_and_scheduled() -> None:
    found = planned(grid=["rank=8,64", "lr=1e-4,2e-4"], instances=2, on="rtx-4090:1").experiments
    assert found is not None
    assert [run.values for run in found.runs] == [
        {"rank": "8", "lr": "1e-4"}, {"rank": "8", "lr": "2e-4"},
        {"rank": "64", "lr": "1e-4"}, {"rank": "64", "lr": "2e-4"},
    ]  # fmt: skip
    small, _same, large, _other = (run.duration_s or 0 for run in found.runs)
    # the two long runs first, one on each copy, then a short one behind each
    assert found.makespan_s == pytest.approx(small + large)
    assert found.idle_share == pytest.approx(0, abs=1e-9)
    assert found.cost_usd == pytest.approx(sum(run.cost_usd or 0 for run in found.runs))


def test_idle_copies_are_paid_for() -> None:
    found = planned(grid=["lr=1,2,3"], instances=2, on="rtx-4090:1").experiments
    assert found is not None
    assert found.cost_usd is not None
    assert found.cost_without_idle_usd is not None
    # three equal runs on two copies: four places, one of them idle
    assert found.idle_share == pytest.approx(0.25)
    assert found.cost_usd == pytest.approx(found.cost_without_idle_usd * 4 / 3)


def test_a_deadline_says_how_many_copies_it_takes() -> None:
    some = {"grid": ["lr=1,2,3,4"], "on": "rtx-4090:1", "method": "qlora"}
    one = planned(**some).experiments
    assert one is not None
    each = one.makespan_s / 4
    found = planned(**some, deadline=f"{2.1 * each} s").experiments
    assert found is not None
    assert (found.instances_for_deadline, found.instances, found.meets_deadline) == (2, 2, True)
    late = planned(**some, deadline=f"{2.1 * each} s", instances=1)
    assert late.experiments is not None
    assert late.experiments.meets_deadline is False
    assert late.exit_code == 3


# -- what makes no sense


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"lengths": None}, "--data FILE is missing"),
        ({"examples": None}, "--data FILE is missing"),
        ({"data": "a.jsonl"}, "say one of --data, --length and --lengths"),
        ({"tokens": "2M"}, "--tokens is counted from the data"),
        ({"tokenizer": "t.json"}, "need --data"),
        ({"packing": True, "padding": "max"}, "packed sequences need no --padding"),
        ({"group_by_length": True, "padding": "free"}, "--padding longest only"),
        ({"instances": 2}, "--instances needs --grid"),
        ({"method": "full", "rank": 8}, "--rank needs --method lora"),
        ({"method": "lora", "vary": ["method=qlora"]}, "either --method or --vary method"),
    ],
)
def test_contradictions_say_why(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        asked(**fields)


def test_an_unknown_method_among_the_varied_ones_is_refused() -> None:
    with pytest.raises(UsageError, match="--method"):
        planned(vary=["method=lora,magic"])
