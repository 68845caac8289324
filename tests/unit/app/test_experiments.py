from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from chipwise.app.experiments import fewest_instances, hardest, per_run, schedule
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.requests import parse_request
from chipwise.errors import UsageError

DURATIONS = some.lists(some.floats(1, 100), min_size=1, max_size=7)


def asked(**fields: Any) -> PlanFinetuneRequest:
    base = {"model": "llama-2-7b", "examples": 100, "length": 300}
    return parse_request(PlanFinetuneRequest, base | fields)


def test_the_longest_run_goes_first_by_hand() -> None:
    # 7 and 6 start on both copies; 5 follows the 6 (11), 4 the 7 (11); 3 then ends at 14
    found = schedule([3, 4, 5, 6, 7], 2)
    assert found.makespan == 14
    assert found.instance == (0, 0, 1, 1, 0)
    assert found.start == (11, 7, 6, 0, 0)


def test_copies_without_work_stay_idle() -> None:
    assert schedule([5, 5], 4).makespan == 5


def test_fewest_copies_for_a_deadline_by_hand() -> None:
    # 25 hours of work: in 14 hours two copies do it as above, in 13 three are needed; in 7 hours
    # four do it, the 3 behind the 4
    durations = [3.0, 4.0, 5.0, 6.0, 7.0]
    assert fewest_instances(durations, 25) == 1
    assert fewest_instances(durations, 14) == 2
    assert fewest_instances(durations, 13) == 3
    assert fewest_instances(durations, 7) == 4
    assert fewest_instances(durations, 6.9) is None


@given(DURATIONS, some.integers(1, 4))
def test_longest_first_is_within_a_third_of_the_best(durations: list[float], copies: int) -> None:
    found = schedule(durations, copies).makespan
    every = product(range(copies), repeat=len(durations))
    best = min(
        max(sum(t for t, at in zip(durations, places, strict=True) if at == copy)
            for copy in range(copies))
        for places in every
    )  # fmt: skip
    assert best <= found * (1 + 1e-9)
    assert found <= (4 / 3 - 1 / (3 * copies)) * best * (1 + 1e-9)


@given(DURATIONS, some.floats(1, 300))
def test_one_copy_less_would_be_late(durations: list[float], deadline: float) -> None:
    found = fewest_instances(durations, deadline)
    if found is None:
        assert max(durations) > deadline
        return
    assert schedule(durations, found).makespan <= deadline
    assert found == 1 or schedule(durations, found - 1).makespan > deadline


def test_the_plan_is_for_the_hardest_run() -> None:
    found = hardest(asked(grid=["rank=8,64,16", "lr=1e-4,2e-4", "seq=512,2k"]))
    assert (found.rank, found.seq) == (64, 2000)
    assert found.methods == ("lora", "qlora")


def test_a_budget_is_shared_by_the_runs() -> None:
    request = asked(grid=["lr=1,2,3,4"], budget="100 USD")
    assert per_run(request).budget == pytest.approx(25)
    assert per_run(asked(budget="100 USD")).budget == 100


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"grid": ["method=lora,qlora"]}, "compare with --vary method"),
        ({"grid": [f"a={','.join(map(str, range(40)))}", f"b={','.join(map(str, range(40)))}"]},
         "1600 runs; 1000 at most"),
        ({"grid": ["rank=8,x"]}, "--rank"),
    ],
)  # fmt: skip
def test_grids_that_make_no_sense_say_why(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        hardest(asked(**fields))
