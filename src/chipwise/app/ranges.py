"""How sure an estimate is: 80 % intervals around the likely value, and what they rest on."""

from __future__ import annotations

from math import exp

from chipwise.app.documents import Basis, Range
from chipwise.app.evaluation import Evaluated
from chipwise.calibration import shipped_widths
from chipwise.intervals import MEASURED_FAMILIES, memory_risk, time_risk


def time_range(point: Evaluated, likely: float) -> Range:
    """The interval of a time, throughput or utilization of an evaluated job."""
    risk = time_risk(point.job, point.strategy, point.share)
    return _around(point, likely, shipped_widths().time * risk)


def memory_range(point: Evaluated, likely: float) -> Range:
    """The interval of a memory size of an evaluated job."""
    risk = memory_risk(point.job, point.strategy)
    return _around(point, likely, shipped_widths().memory * risk)


def _around(point: Evaluated, likely: float, half_width: float) -> Range:
    factor = exp(half_width)
    return Range(low=likely / factor, likely=likely, high=likely * factor, basis=_basis(point))


def _basis(point: Evaluated) -> Basis:
    """Calibrated where some published run used a device of this family."""
    family = point.job.cluster.accelerator.family
    return "calibrated" if family in MEASURED_FAMILIES else "datasheet"
