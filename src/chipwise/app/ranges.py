"""How sure an estimate is: 80 % intervals around the likely value."""

from __future__ import annotations

from math import exp

from chipwise.app.documents import Range

TIME_HALF_WIDTH = 0.30
"""Of the logarithm of time and throughput. Assumed until fitted to measurements."""
MEMORY_HALF_WIDTH = 0.25
"""Of the logarithm of memory. Assumed until fitted to measurements."""


def time_range(likely: float) -> Range:
    """The interval of a time, throughput or utilization."""
    return _around(likely, TIME_HALF_WIDTH)


def memory_range(likely: float) -> Range:
    """The interval of a memory size."""
    return _around(likely, MEMORY_HALF_WIDTH)


def _around(likely: float, half_width: float) -> Range:
    factor = exp(half_width)
    return Range(low=likely / factor, likely=likely, high=likely * factor, basis="datasheet")
