"""Errors of predictions, summarised by metric, source and accelerator.

The error of a prediction is exp|ln(predicted / measured)| - 1, so that half and double are
equally wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """One predicted row and its measured value."""

    id: str
    metric: str
    source: str
    accelerator: str
    trusted: bool
    predicted: float
    low: float
    high: float
    measured: float
    verdict: str

    @property
    def error(self) -> float | None:
        """Symmetric relative error; None without a positive measurement."""
        if not (self.measured > 0 and self.predicted > 0):
            return None
        return float(np.exp(abs(np.log(self.predicted / self.measured))) - 1)


@dataclass(frozen=True)
class Summary:
    """Errors of one group of rows."""

    group: str
    metric: str
    n: int
    median_error: float | None = None
    p90_error: float | None = None
    median_signed: float | None = None
    within_20pct: float | None = None
    interval80_coverage: float | None = None
    caught: float | None = None
    """Share of ``oom`` rows whose verdict is tight or does not fit; None for other metrics."""
    by: str = "all"
    """What the group is: ``all``, a ``source`` or an ``accelerator``."""


def summarise(rows: Sequence[Scored]) -> list[Summary]:
    """Summaries per metric, then per source, then per accelerator; doubted rows left out."""
    kept = [row for row in rows if row.trusted and row.error is not None]
    found = [_summary("all", metric, group) for metric, group in _by(kept, "metric")]
    for field in ("source", "accelerator"):
        for name, group in _by(kept, field):
            parts = (_summary(name, metric, part) for metric, part in _by(group, "metric"))
            found += [replace(part, by=field) for part in parts]
    return found


def _by(rows: Sequence[Scored], field: str) -> Iterator[tuple[str, list[Scored]]]:
    for name in sorted({str(getattr(row, field)) for row in rows}):
        yield name, [row for row in rows if getattr(row, field) == name]


def _summary(group: str, metric: str, rows: Sequence[Scored]) -> Summary:
    if metric == "oom":
        caught = float(np.mean([row.verdict != "fits" for row in rows]))
        return Summary(group, metric, len(rows), caught=caught)
    predicted = np.array([row.predicted for row in rows])
    measured = np.array([row.measured for row in rows])
    ratio = np.log(predicted / measured)
    error = np.expm1(np.abs(ratio))
    inside = [row.low <= row.measured <= row.high for row in rows]
    return Summary(
        group=group,
        metric=metric,
        n=len(rows),
        median_error=float(np.median(error)),
        p90_error=float(np.quantile(error, 0.9)),
        median_signed=float(np.expm1(np.median(ratio))),
        within_20pct=float(np.mean(error < 0.2)),
        interval80_coverage=float(np.mean(inside)),
    )
