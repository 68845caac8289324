"""What observed runs say about the other runs of their site."""

from __future__ import annotations

from math import exp, log

import pytest

from chipwise.validation.observed import apply_shift, learn_shift


def test_a_step_twice_as_long_and_half_the_rate_say_the_same() -> None:
    slower = learn_shift([("step_time_s", log(1.2))])
    assert learn_shift([("mfu", -log(1.2))]) == slower
    assert 0 < slower.time < log(1.2)


def test_runs_that_agree_are_believed_more() -> None:
    moved = [learn_shift([("step_time_s", log(1.5))] * runs).time for runs in (1, 2, 5, 50)]
    assert moved == sorted(moved)
    assert moved[-1] == pytest.approx(log(1.5), rel=0.05)


def test_one_odd_run_among_many_changes_nothing() -> None:
    runs = [("mfu", 0.1)] * 5
    assert learn_shift([*runs, ("mfu", -3.0)]).time == pytest.approx(
        learn_shift([*runs, runs[0]]).time
    )


def test_a_run_far_from_the_prediction_moves_less_than_a_near_one() -> None:
    assert learn_shift([("mfu", -2.0)]).time < learn_shift([("mfu", -0.4)]).time


def test_speed_moves_no_memory_and_memory_no_speed() -> None:
    shift = learn_shift([("peak_memory_gb", 0.1)])
    assert apply_shift(shift, "step_time_s", 2.0, 0.3) == (2.0, 0.3)
    value, width = apply_shift(shift, "peak_memory_gb", 10.0, 0.3)
    assert 10.0 < value < 10.0 * exp(0.1)
    assert width < 0.3
