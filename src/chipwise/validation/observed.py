"""What one observed run of a site says about its other runs.

Most of the error on an unseen site is one level that all its runs share. Observed runs estimate
that level; it is shrunk by how much runs of one site scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chipwise.intervals import BETWEEN_SITES, WITHIN_SITE
from chipwise.validation.table import SPEED

ODD_RUN = 0.4
"""Distance from the prediction at which an observed run is more likely odd itself than a sign
of its site's level, in ln."""


@dataclass(frozen=True)
class Shift:
    """How predictions of one site move. ``time`` is the change of ln(step time)."""

    time: float
    memory: float
    time_narrowing: float
    """Factor on the width of time intervals, at most 1."""
    memory_narrowing: float

    @property
    def time_factor(self) -> float:
        """By how much step times are longer than predicted."""
        return float(np.exp(self.time))

    @property
    def tells_nothing(self) -> bool:
        """No observation was usable."""
        return self.time_narrowing == 1.0 and self.memory_narrowing == 1.0


def learn_shift(observed: Sequence[tuple[str, float]]) -> Shift:
    """The shift of a site from observed runs.

    Args:
        observed: (metric, ln(measured / predicted)) of each observed number.
    """
    times = [r if metric == "step_time_s" else -r for metric, r in observed if metric in SPEED]
    memory = [r for metric, r in observed if metric == "peak_memory_gb"]
    (time, time_narrowing), (memory_shift, memory_narrowing) = _shrunk(times), _shrunk(memory)
    return Shift(time, memory_shift, time_narrowing, memory_narrowing)


def _shrunk(levels: Sequence[float]) -> tuple[float, float]:
    if not levels:
        return 0.0, 1.0
    between, within = BETWEEN_SITES**2, WITHIN_SITE**2 / len(levels)
    trust = between / (between + within)
    before = between + WITHIN_SITE**2
    after = between * (1 - trust) + WITHIN_SITE**2
    level = float(np.median(levels))
    odd = ODD_RUN * len(levels) ** 0.5  # several runs that agree are less likely all odd
    return trust * level / (1 + (level / odd) ** 2), float(np.sqrt(after / before))


def apply_shift(
    shift: Shift | None, metric: str, value: float, width: float
) -> tuple[float, float]:
    """A prediction and its half-width after the shift of its site."""
    if shift is None:
        return value, width
    if metric in SPEED:
        sign = 1.0 if metric == "step_time_s" else -1.0
        return value * float(np.exp(sign * shift.time)), width * shift.time_narrowing
    return value * float(np.exp(shift.memory)), width * shift.memory_narrowing
