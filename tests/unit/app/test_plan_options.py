"""Options side by side: the front over time, cost and energy, and the order of the list."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.app.plan_options import Options, best_per_family, chosen_of, front
from chipwise.app.requests import PlanTrainRequest, parse_request
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.search.rank import Candidate
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload

NAN = float("nan")
MODEL = load_model("llama-3.2-1b")
SYSTEMS = ("h100-sxm", "h100-sxm:8", "rtx-4090", "a100-sxm-80:8", "tpu-v5p:16", "b200-sxm:8")


def options(*rows: tuple[float, float, float], hours: tuple[float, ...] = ()) -> Options:
    """Options of (duration, cost, energy) on different systems."""
    made = []
    for _row, name in zip(rows, SYSTEMS, strict=False):
        job = TrainingJob(model=MODEL, cluster=parse_system(name)[0],
                          workload=TrainingWorkload(), strategy=Strategy())  # fmt: skip
        made.append(Candidate(job, Strategy(), 0.5, 1.0))
    duration, cost, energy = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    spent = np.array(hours or [1.0] * len(rows))
    return Options(tuple(made), tuple(SYSTEMS[: len(rows)]), duration, spent, cost, energy)


def asked(**fields: Any) -> PlanTrainRequest:
    return parse_request(PlanTrainRequest, {"model": "m", "on": "any", "tokens": "1B", **fields})


def test_a_cheaper_slower_option_stays_on_the_front() -> None:
    assert front(options((1, 100, 10), (2, 50, 10))) == [0, 1]
    assert front(options((1, 100, 10), (2, 200, 20))) == [0]


def test_an_option_of_unknown_cost_beats_none_whose_cost_is_known() -> None:
    assert front(options((1, NAN, 10), (2, 50, 10))) == [0, 1]
    # it is itself beaten where all that is known of it is worse
    assert front(options((1, 50, 10), (2, NAN, 10))) == [0]
    assert front(options((1, 50, 10), (2, NAN, 5))) == [0, 1]


def test_device_hours_stand_in_for_a_cost_unknown_of_both() -> None:
    assert front(options((1, NAN, NAN), (2, NAN, NAN), hours=(8, 2))) == [0, 1]
    assert front(options((1, NAN, NAN), (2, NAN, NAN), hours=(2, 8))) == [0]


numbers = st.one_of(st.floats(1, 100), st.just(NAN))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(1, 100), numbers, numbers), min_size=1, max_size=6))
def test_no_point_of_the_front_is_beaten_and_every_other_one_is(
    rows: list[tuple[float, float, float]],
) -> None:
    some = options(*rows)

    def beats(one: int, other: int) -> bool:
        pairs = list(zip(rows[one], rows[other], strict=True))
        if any(np.isnan(mine) and not np.isnan(theirs) for mine, theirs in pairs):
            return False
        no_worse = all(np.isnan(theirs) or mine <= theirs for mine, theirs in pairs)
        return no_worse and any(mine < theirs for mine, theirs in pairs)

    kept = set(front(some))
    for one, other in product(range(len(rows)), repeat=2):
        if other in kept:
            assert not beats(one, other)
    for other in set(range(len(rows))) - kept:
        assert any(beats(one, other) for one in range(len(rows)))


def test_those_within_the_limits_come_first_then_those_of_unknown_cost() -> None:
    some = options((1, 900, 1), (2, NAN, 1), (3, 100, 1))
    assert list(some.rank(asked(budget="500USD"))) == [2, 1, 0]
    assert list(some.rank(asked(objective="cost"))) == [2, 0, 1]
    assert list(some.rank(asked(deadline="2s"))) == [0, 1, 2]


def test_the_list_holds_the_best_of_each_line_before_second_ones() -> None:
    some = options((1, 1, 1), (2, 1, 1), (3, 1, 1), (9, 1, 1))
    lines = ("a", "a", "a", "b")
    several = Options(some.candidates, lines, some.duration, some.device_hours, some.cost,
                      some.energy)  # fmt: skip
    assert chosen_of(several, asked(top=2)).lines == ("a", "b")
    assert chosen_of(several, asked(top=3)).lines == ("a", "a", "b")


def test_each_family_stands_once_with_its_best() -> None:
    some = options((3, 1, 1), (2, 1, 1), (9, 1, 1))
    assert best_per_family(some, asked()) == [1, 2]
