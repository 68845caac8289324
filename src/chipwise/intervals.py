"""80 % intervals: one half-width for unseen sites, wider where more is unknown.

The half-width is the 80th percentile of |ln(predicted / measured)| over sources that were left
out of the fit (conformal, so it holds whatever the shape of the error). It is multiplied by what
makes a job riskier than the average measured one; the factors are applied before the percentile
is taken, so that they redistribute width and do not add to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.catalogue.frameworks import stacks
from chipwise.spec.job import Strategy, TrainingJob

Vector = NDArray[np.float64]
BETWEEN_SITES = 0.15
"""Standard deviation of the level between sites, in ln (left-out errors of published sources)."""
WITHIN_SITE = 0.12
"""Standard deviation of runs around the level of their site, in ln."""
MEASURED_FAMILIES = frozenset(
    {
        *("nvidia-ampere", "nvidia-hopper", "nvidia-blackwell", "nvidia-volta", "nvidia-ada"),
        *("nvidia-geforce", "tpu", "gaudi", "ascend"),
    }
)
"""Accelerator families that some training measurement covers."""
ALMOST_FULL = 0.93
_FEW_MEASURED = frozenset({"gaudi", "nvidia-geforce", "ascend"})


_GENERATING = 6.0
"""Generation is a bound: four published PPO runs of 2023 took 2.9 to 4.1 times what is computed
[deepspeed-chat], about e to the power of 6 half-widths of a usual job."""


@dataclass(frozen=True)
class Widths:
    """Half-widths in ln for a risk of 1."""

    time: float
    memory: float


def time_risk(job: TrainingJob, stated: Strategy, memory_share: float = 0.0) -> float:
    """How much wider than usual the time interval of a job is.

    Args:
        job: the resolved job.
        stated: the strategy as the user stated it, gaps included.
        memory_share: needed over usable memory; allocators stall when a device is nearly full.
    """
    device = job.cluster.accelerator
    risk = 1.0
    if device.family not in MEASURED_FAMILIES:
        risk *= 1.8
    elif device.family in _FEW_MEASURED:
        risk *= 1.5
    if job.workload.method != "full":
        risk *= 1.5
    if any(g.feed_forward and g.feed_forward.num_experts for g in job.model.layers):
        risk *= 1.2
    if stated.tp is None and stated.pp is None and job.cluster.num_devices > 1:
        risk *= 1.2
    if job.workload.objective.generates:
        risk *= _GENERATING
    stack = stacks()[stated.framework] if stated.framework else None
    if stack and stack.host_driven_pipeline and (stated.pp or 1) > 1:
        risk *= 2.0
    return risk * (1.3 if memory_share > ALMOST_FULL else 1.0)


def memory_risk(job: TrainingJob, stated: Strategy) -> float:
    """How much wider than usual the memory interval of a job is."""
    risk = 1.0
    if job.cluster.accelerator.family not in MEASURED_FAMILIES:
        risk *= 1.3
    if job.workload.method != "full":
        risk *= 1.2
    if stated.recompute is None:
        risk *= 1.2
    if stated.tp is None and stated.pp is None and job.cluster.num_devices > 1:
        risk *= 1.3
    return risk


def conformal_width(errors: Vector, risks: Vector, sources: Sequence[str]) -> float:
    """Half-width that covers 80 % of left-out rows, each source counting with √n.

    Args:
        errors: ln(predicted / measured) of rows predicted without their source. Shape (rows,).
        risks: risk of each row. Shape (rows,).
        sources: source of each row.
    """
    if not len(errors):
        return float("nan")
    _names, place, counts = np.unique(np.asarray(sources), return_inverse=True, return_counts=True)
    weight = 1.0 / np.sqrt(counts[place].astype(np.float64))
    scaled = np.abs(errors) / risks
    order = np.argsort(scaled)
    covered = np.cumsum(weight[order]) / weight.sum()
    return float(scaled[order][min(len(order) - 1, int(np.searchsorted(covered, 0.8)))])
