"""Robust fit of a few physical constants to measurements, with priors that hold them physical.

Minimises Σ wᵢ ρ(rᵢ) + Σ (Δⱼ / σⱼ)², r = ln(predicted / measured), Δ = ln(constant / prior), by
Gauss-Newton with a Student-like ρ, so that single odd rows pull little. Sources weigh with the
root of their number of rows, so that a long table does not outvote all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import Calibration
from chipwise.quantity import Array

Vector = NDArray[np.float64]
Predict = Callable[[Mapping[str, Array]], Vector]
INFORMATION = {"memory": 1.5, "speed": 5.0}
"""How much one row of each kind says against the priors."""
_STEP = 2e-3
_ROUNDS = 6
_LONGEST_MOVE = 0.35


@dataclass(frozen=True)
class Fit:
    """The moved calibration, and how well each constant is known afterwards."""

    calibration: Calibration
    spread: dict[str, float]
    """Standard deviation of the logarithm after the fit, by constant label."""


def source_weights(sources: NDArray[np.str_]) -> Vector:
    """Weight of each row: 1/√n of its source, one on average, so that a source counts with √n."""
    _names, place, counts = np.unique(sources, return_inverse=True, return_counts=True)
    weight = 1.0 / np.sqrt(counts[place].astype(np.float64))
    return np.asarray(weight / weight.mean(), dtype=np.float64)


def fit_constants(
    predict: Predict,
    keys: Mapping[str, NDArray[np.str_]],
    measured: Vector,
    weights: Vector,
    start: Calibration,
    kind: str,
    *,
    scale: float = 0.12,
    weight: float,
    rounds: int = _ROUNDS,
) -> Fit:
    """Move the constants of one kind to where the measurements and their priors meet.

    Args:
        predict: constants by name (bound to the rows) → predicted values. Shape (rows,).
        keys: calibration keys of the rows.
        measured: measured values, positive. Shape (rows,).
        weights: weight of each row. Shape (rows,).
        start: calibration to start from; priors are its ``prior`` values.
        kind: ``memory`` or ``speed``.
        scale: residual at which a row begins to count as odd.
        weight: information of one row relative to the priors (``INFORMATION``).
        rounds: Gauss-Newton iterations.
    """
    active = [i for i, constant in enumerate(start.constants) if constant.fit == kind]
    binding = start.binding(keys)
    prior = np.array([start.constants[i].prior for i in active])
    spread = np.array([start.constants[i].prior_spread for i in active])
    values = start.values
    goal = np.log(measured)

    def residual(candidate: Vector) -> Vector:
        return np.log(predict({name: candidate[place] for name, place in binding.items()})) - goal

    information = np.diag(1 / spread**2)
    for _ in range(rounds):
        now = residual(values)
        slopes = _slopes(residual, values, active, now)
        shift = np.log(values[active] / prior)
        robust = weights * weight / (1 + (now / scale) ** 2) / scale**2
        information = slopes.T @ (slopes * robust[:, None]) + np.diag(1 / spread**2)
        gradient = slopes.T @ (robust * now) + shift / spread**2
        move = -np.linalg.solve(information, gradient)
        values = values.copy()
        values[active] *= np.exp(np.clip(move, -_LONGEST_MOVE, _LONGEST_MOVE))
    known = np.sqrt(np.diag(np.linalg.inv(information)))
    labels = [start.constants[i].label for i in active]
    return Fit(start.with_values(values), dict(zip(labels, known.tolist(), strict=True)))


def _slopes(
    residual: Callable[[Vector], Vector], values: Vector, active: list[int], now: Vector
) -> Vector:
    """Change of each residual per unit of each constant's logarithm. Shape (rows, active)."""
    slopes = np.empty((len(now), len(active)))
    for column, place in enumerate(active):
        moved = values.copy()
        moved[place] *= 1 + _STEP
        slopes[:, column] = (residual(moved) - now) / np.log1p(_STEP)
    return slopes
