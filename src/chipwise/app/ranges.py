"""How sure an estimate is: 80 % intervals around the likely value, and what they rest on."""

from __future__ import annotations

from math import exp

from chipwise.app.documents import Basis, Range
from chipwise.app.evaluation import Evaluated
from chipwise.calibration import shipped_widths
from chipwise.intervals import MEASURED_FAMILIES, memory_risk, time_risk
from chipwise.validation.observed import apply_shift


def time_range(point: Evaluated, likely: float) -> Range:
    """The interval of a time, throughput or utilization of an evaluated job.

    No published generation calibrates its bound.
    """
    risk = time_risk(point.job, point.strategy, point.share)
    width = apply_shift(point.shift, "step_time_s", likely, shipped_widths().time * risk)[1]
    basis = _basis(point, observed=point.shift.time_narrowing < 1)
    if basis == "calibrated" and point.job.workload.objective.generates:
        basis = "datasheet"
    return _around(likely, width, basis)


def memory_range(point: Evaluated, likely: float) -> Range:
    """The interval of a memory size of an evaluated job."""
    risk = memory_risk(point.job, point.strategy)
    width = apply_shift(point.shift, "peak_memory_gb", likely, shipped_widths().memory * risk)[1]
    return _around(likely, width, _basis(point, observed=point.shift.memory_narrowing < 1))


def _around(likely: float, half_width: float, basis: Basis) -> Range:
    factor = exp(half_width)
    return Range(low=likely / factor, likely=likely, high=likely * factor, basis=basis)


def _basis(point: Evaluated, *, observed: bool) -> Basis:
    """Calibrated where a published or an own run used a device of this family."""
    family = point.job.cluster.accelerator.family
    return "calibrated" if observed or family in MEASURED_FAMILIES else "datasheet"
