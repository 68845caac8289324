"""Step times of several candidates under what is not known for certain: samples as one more axis.

Three things may be off: the calibrated constants, which all candidates share; the level of a site
(one machine with one stack), which its candidates share; and each configuration for itself. The
last two make up what the interval of a candidate has beyond the constants, in the proportion in
which published sites differ and scatter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import Calibration
from chipwise.columns import stack_columns, training_columns
from chipwise.estimate import evaluate_time
from chipwise.intervals import BETWEEN_SITES, WITHIN_SITE
from chipwise.quantity import Array
from chipwise.search.rank import Candidate

Vector = NDArray[np.float64]
Z80 = 1.2816
"""Standard deviations from the middle of a normal distribution to either end of 80 %."""
_SEED = 20


def sampled_times(
    candidates: Sequence[Candidate],
    half_widths: Vector,
    calibration: Calibration,
    overrides: Mapping[str, float],
    samples: int,
) -> Vector:
    """Step times over their likely values, drawn together. Shape (candidates, samples).

    Args:
        candidates: complete layouts.
        half_widths: of their 80 % intervals, in ln. Shape (candidates,).
        calibration: constants with their spread.
        overrides: values that replace inputs, constants or quantities; they are certain.
        samples: draws, always the same ones.
    """
    random = np.random.default_rng(_SEED)
    inputs, keys = stack_columns([training_columns(one.job, one.strategy) for one in candidates])
    spread = np.array([one.spread if one.fit else 0.0 for one in calibration.constants])
    draws = np.exp(spread[:, None] * random.standard_normal((len(spread), samples)))
    draws[:, 0] = 1.0
    values = calibration.values[:, None] * draws
    down: dict[str, Array] = {name: np.asarray(value)[:, None] for name, value in inputs.items()}
    for name, place in calibration.binding(keys).items():
        down[name] = values[np.atleast_1d(place)]
    time = evaluate_time(down | dict(overrides), ("step_time",))["step_time"]
    moved = np.log(np.broadcast_to(np.asarray(time), (len(candidates), samples)))
    moved = moved - moved[:, :1]
    rest = np.sqrt(np.maximum(0.0, (half_widths / Z80) ** 2 - moved.var(axis=1)))
    between = BETWEEN_SITES / np.hypot(BETWEEN_SITES, WITHIN_SITE)
    within = WITHIN_SITE / np.hypot(BETWEEN_SITES, WITHIN_SITE)
    sites = [(one.job.cluster.accelerator.id, one.strategy.framework) for one in candidates]
    names = list(dict.fromkeys(sites))
    level = random.standard_normal((len(names), samples))[[names.index(site) for site in sites]]
    own = random.standard_normal((len(candidates), samples))
    return np.asarray(np.exp(moved + rest[:, None] * (between * level + within * own)))


def scaled_times(
    candidates: Sequence[Candidate],
    calibration: Calibration,
    overrides: Mapping[str, float],
    changes: Sequence[Mapping[str, float]],
) -> Vector:
    """Step times with some columns multiplied, over those without. (candidates, changes)

    Args:
        candidates: complete layouts.
        calibration: constants.
        overrides: values that replace inputs, constants or quantities.
        changes: factors by column name.
    """
    inputs, keys = stack_columns([training_columns(one.job, one.strategy) for one in candidates])
    every = {**inputs, **calibration.columns(keys), **overrides}
    down: dict[str, Array] = {
        name: np.broadcast_to(np.asarray(value), (len(candidates),))[:, None]
        for name, value in every.items()
    }
    for name in {name for change in changes for name in change}:
        factors = np.array([1.0, *(change.get(name, 1.0) for change in changes)])
        down[name] = down[name] * factors[None, :]
    time = np.broadcast_to(
        np.asarray(evaluate_time(down, ("step_time",))["step_time"]),
        (len(candidates), len(changes) + 1),
    )
    return np.asarray(time[:, 1:] / time[:, :1])
