from __future__ import annotations

from math import exp, log

import pytest

from chipwise.intervals import BETWEEN_SITES, WITHIN_SITE
from chipwise.validation.accuracy import figures, level, memory_verdicts, one_observed
from chipwise.validation.observed import ODD_RUN
from chipwise.validation.score import Scored


def row(
    predicted: float,
    measured: float = 100.0,
    *,
    metric: str = "tokens_per_s_per_device",
    source: str = "a",
    trusted: bool = True,
    verdict: str = "fits",
    width: float = 0.1,
) -> Scored:
    low, high = predicted * exp(-width), predicted * exp(width)
    return Scored(
        id="id",
        metric=metric,
        source=source,
        accelerator="chip",
        trusted=trusted,
        predicted=predicted,
        low=low,
        high=high,
        measured=measured,
        verdict=verdict,
    )


RATE = ("tokens_per_s_per_device", "step_time_s")


def test_too_fast_is_positive_for_rates_and_for_times() -> None:
    assert level(row(200.0)) == pytest.approx(log(2))
    assert level(row(50.0, metric="step_time_s")) == pytest.approx(log(2))


def test_half_and_double_are_both_wrong_by_one() -> None:
    found = figures([row(50.0), row(200.0), row(100.0)], RATE)
    assert [found.median, found.p90] == pytest.approx([1.0, 1.0])
    assert found.signed == pytest.approx(0.0)


def test_doubted_and_unmeasured_rows_do_not_count() -> None:
    kept = figures([row(110.0), row(900.0, trusted=False), row(900.0, measured=0.0)], RATE)
    assert kept.n == 1
    assert kept.median == pytest.approx(0.1)


def test_a_long_source_does_not_outvote_others_in_the_median_of_medians() -> None:
    long = [row(110.0, source="long")] * 80
    short = [row(150.0, source=name) for name in ("b", "c") for _ in range(8)]
    few = [row(900.0, source="few")] * 7
    found = figures([*long, *short, *few], RATE)
    assert found.median == pytest.approx(0.1)
    assert found.source_median == pytest.approx(0.5)


def test_coverage_is_pooled_and_averaged_over_sources() -> None:
    hit, miss = row(101.0, source="a"), row(200.0, source="b")
    found = figures([hit] * 24 + [miss] * 8, RATE)
    assert found.coverage == pytest.approx(0.75)
    assert found.source_coverage == pytest.approx(0.5)


def test_runs_that_failed_and_runs_that_ran() -> None:
    failed = [row(90.0, metric="oom", verdict=v) for v in ("fits", "tight", "does not fit")]
    ran = [row(90.0, metric="peak_memory_gb", verdict=v) for v in ("tight", "does not fit")]
    timed = [row(90.0, verdict="fits")]
    found = memory_verdicts([*failed, *ran, *timed])
    assert [found.caught, found.refused] == pytest.approx([2 / 3, 1 / 3])
    assert (found.wrongly_refused, found.wrongly_refused_timed) == (0.5, 0.0)


def test_one_observed_run_takes_away_a_trusted_share_of_a_common_level() -> None:
    common = log(1.2)
    before, after = one_observed([row(120.0)] * 9)
    trust = BETWEEN_SITES**2 / (BETWEEN_SITES**2 + WITHIN_SITE**2)
    left = common - trust * common / (1 + (common / ODD_RUN) ** 2)
    assert before.median == pytest.approx(0.2)
    assert after.median == pytest.approx(exp(left) - 1)


def test_a_source_of_few_rows_is_not_observed() -> None:
    before, _after = one_observed([*([row(120.0)] * 8), *([row(900.0, source="few")] * 7)])
    assert before.p90 == pytest.approx(0.2)
