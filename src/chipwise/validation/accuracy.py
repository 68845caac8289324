"""Figures of a whole validation: errors pooled and over sources, memory verdicts, one observed run.

Doubted rows and rows without a positive measurement are left out everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.validation.observed import apply_shift, learn_shift
from chipwise.validation.score import Scored
from chipwise.validation.table import SPEED

Vector = NDArray[np.float64]
MEMORY = ("peak_memory_gb",)
FEWEST = 8
"""Rows a source needs to count in figures over sources, and to be observed."""
_OBSERVABLE = ("step_time_s", "tokens_per_s_per_device")


@dataclass(frozen=True)
class Figures:
    """Errors of one group of rows; fractions."""

    n: int
    median: float
    p90: float
    source_median: float
    """Median of the medians of sources with at least eight rows; NaN without such a source."""
    signed: float
    """Median signed error: positive is too fast, or too much memory."""
    coverage: float
    """Share of measurements inside their 80 % interval."""
    source_coverage: float
    """The same, averaged over sources with at least eight rows."""


@dataclass(frozen=True)
class MemoryVerdicts:
    """What was said of runs that ended out of memory, and of runs that ran."""

    failed: int
    caught: float
    """Share of failed runs called ``does not fit`` or ``tight``."""
    refused: float
    """Share of failed runs called ``does not fit``."""
    ran: int
    wrongly_refused: float
    """Share of runs with a measured peak called ``does not fit``."""
    timed: int
    wrongly_refused_timed: float
    """Share of runs with a measured speed called ``does not fit``: they ran too."""


def usable(rows: Sequence[Scored], metrics: Sequence[str]) -> list[Scored]:
    """Trusted rows of these metrics that have a prediction and a measurement."""
    return [r for r in rows if r.trusted and r.metric in metrics and r.error is not None]


def level(row: Scored) -> float:
    """Logarithm of predicted over measured, turned positive: too fast, too much memory."""
    ratio = float(np.log(row.predicted / row.measured))
    return -ratio if row.metric == "step_time_s" else ratio


def figures(rows: Sequence[Scored], metrics: Sequence[str]) -> Figures:
    """Figures of the rows with these metrics."""
    kept = usable(rows, metrics)
    inside = np.array([row.low <= row.measured <= row.high for row in kept], dtype=np.float64)
    return _figures(
        np.array([level(row) for row in kept]),
        inside,
        np.array([row.source for row in kept]),
        np.ones(len(kept)),
    )


def memory_verdicts(rows: Sequence[Scored]) -> MemoryVerdicts:
    """How often the verdict was right where the outcome is known."""
    failed = [row.verdict for row in rows if row.trusted and row.metric == "oom"]
    ran = [row.verdict for row in usable(rows, MEMORY)]
    timed = [row.verdict for row in usable(rows, SPEED)]
    return MemoryVerdicts(
        failed=len(failed),
        caught=_share([verdict != "fits" for verdict in failed]),
        refused=_share([verdict == "does not fit" for verdict in failed]),
        ran=len(ran),
        wrongly_refused=_share([verdict == "does not fit" for verdict in ran]),
        timed=len(timed),
        wrongly_refused_timed=_share([verdict == "does not fit" for verdict in timed]),
    )


def one_observed(rows: Sequence[Scored]) -> tuple[Figures, Figures]:
    """Speed figures without and with one observed row of the same source.

    Every row of a source is the observed one in turn and predicts all others; each source counts
    as often as it has rows. Rows of sources with fewer than eight are left out of both.
    """
    levels: list[Vector] = []
    before: list[Vector] = []
    inside: list[Vector] = []
    inside_before: list[Vector] = []
    sizes: list[int] = []
    names: list[str] = []
    kept = usable(rows, _OBSERVABLE)
    for source in sorted({row.source for row in kept}):
        mine = [row for row in kept if row.source == source]
        if len(mine) < FEWEST:
            continue
        moved = [_observe(mine, place) for place in range(len(mine))]
        levels += [one[0] for one in moved]
        inside += [one[1] for one in moved]
        own = np.array([level(row) for row in mine])
        hits = np.array([row.low <= row.measured <= row.high for row in mine], dtype=np.float64)
        before += [np.delete(own, place) for place in range(len(mine))]
        inside_before += [np.delete(hits, place) for place in range(len(mine))]
        sizes += [len(mine) - 1] * len(mine)
        names += [source] * len(mine)
    if not sizes:
        empty = np.zeros(0)
        nothing = _figures(empty, empty, np.array([], dtype=np.str_), empty)
        return nothing, nothing
    weight = np.repeat(1 / (np.array(sizes, dtype=np.float64) + 1), sizes)
    sources = np.repeat(np.array(names), sizes)
    return (
        _figures(np.concatenate(before), np.concatenate(inside_before), sources, weight),
        _figures(np.concatenate(levels), np.concatenate(inside), sources, weight),
    )


def _observe(rows: Sequence[Scored], place: int) -> tuple[Vector, Vector]:
    """Levels and interval hits of all rows but one, after that one was observed."""
    seen = rows[place]
    shift = learn_shift([(seen.metric, float(np.log(seen.measured / seen.predicted)))])
    levels, inside = [], []
    for row in (*rows[:place], *rows[place + 1 :]):
        value, low = apply_shift(shift, row.metric, row.predicted, np.log(row.predicted / row.low))
        _value, high = apply_shift(
            shift, row.metric, row.predicted, np.log(row.high / row.predicted)
        )
        ratio = float(np.log(value / row.measured))
        levels.append(-ratio if row.metric == "step_time_s" else ratio)
        inside.append(float(-low <= -ratio <= high))
    return np.array(levels), np.array(inside)


def _figures(levels: Vector, inside: Vector, sources: NDArray[np.str_], weight: Vector) -> Figures:
    error = np.expm1(np.abs(levels))
    large = [
        mine
        for mine in (sources == name for name in np.unique(sources))
        if round(float(weight[mine].sum())) >= FEWEST - 1
    ]
    medians = [_quantile(error[mine], weight[mine], 0.5) for mine in large]
    coverages = [_mean(inside[mine], weight[mine]) for mine in large]
    return Figures(
        n=round(float(weight.sum())),
        median=_quantile(error, weight, 0.5),
        p90=_quantile(error, weight, 0.9),
        source_median=float(np.median(medians)) if medians else float("nan"),
        signed=float(np.expm1(_quantile(levels, weight, 0.5))),
        coverage=_mean(inside, weight),
        source_coverage=float(np.mean(coverages)) if coverages else float("nan"),
    )


def _quantile(values: Vector, weight: Vector, share: float) -> float:
    """The smallest value that at least this share of the weight does not exceed."""
    if not len(values):
        return float("nan")
    order = np.argsort(values)
    reached = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][min(len(values) - 1, int(np.searchsorted(reached, share - 1e-12)))])


def _mean(values: Vector, weight: Vector) -> float:
    return float(np.average(values, weights=weight)) if len(values) else float("nan")


def _share(facts: Sequence[bool]) -> float:
    return sum(facts) / len(facts) if facts else float("nan")
