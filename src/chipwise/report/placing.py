"""Where things go in a picture: ends and marks of logarithmic axes, labels that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10, pow
from typing import Literal

Align = Literal["left", "center", "right"]
_STEPS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0))
_FEWEST, _MOST = 5, 8
_MARGIN = 0.06
_CHARACTER, _LINE, _GAP = 6.4, 14.0, 9.0
"""Pixels: a mean character and a line of the label's font, and from a mark to its label."""


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from ``low`` to ``high``, ``pixels`` long."""

    low: float
    high: float
    pixels: float

    def place(self, value: float) -> float:
        """Pixels from the low end."""
        return log10(value / self.low) / log10(self.high / self.low) * self.pixels

    def value(self, pixels: float) -> float:
        """What stands so many pixels from the low end."""
        return self.low * pow(self.high / self.low, pixels / self.pixels)

    def ticks(self) -> list[float]:
        """Round values within the axis: few enough to be read, enough to read others off."""
        found: list[float] = []
        for steps in _STEPS:
            finer = self._within(steps)
            if len(finer) > _MOST and found:
                break
            found = finer
            if len(found) >= _FEWEST:
                break
        return found if len(found) > 1 else [self.low, self.high]

    def _within(self, steps: Sequence[float]) -> list[float]:
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        values = (step * 10.0**power for power in powers for step in steps)
        return [value for value in values if self.low <= value <= self.high]


def log_axis(values: Iterable[float], pixels: float) -> LogAxis:
    """An axis that holds all values with a margin; they must be positive.

    A lone value stands in the middle, between half and double.
    """
    known = list(values)
    low, high = log10(min(known)), log10(max(known))
    if high - low < 2 * log10(2):
        middle = (low + high) / 2
        low, high = min(low, middle - log10(2)), max(high, middle + log10(2))
    margin = _MARGIN * (high - low)
    return LogAxis(10 ** (low - margin), 10 ** (high + margin), pixels)


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels; ``y`` grows upwards."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Whether they share any area."""
        apart = (
            self.right <= other.left or other.right <= self.left,
            self.top <= other.bottom or other.top <= self.bottom,
        )
        return not any(apart)


@dataclass(frozen=True)
class Spot:
    """Where a label stands: the middle of its line's near end, and which end that is."""

    x: float
    y: float
    align: Align
    """``left``: the text begins at ``x``; ``right``: it ends there; ``center``."""


def place_labels(
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    size: tuple[float, float],
    taken: Iterable[Box] = (),
) -> list[Spot | None]:
    """A place for each label beside its point, first come first served; None where none is free.

    Args:
        points: in pixels from the lower left corner.
        labels: their texts, one line each, the most important first.
        size: width and height of the picture in pixels; labels stay inside.
        taken: what no label may cover besides the points themselves.
    """
    full = [*taken, *(Box(x - 5, y - 5, x + 5, y + 5) for x, y in points)]
    spots: list[Spot | None] = []
    for (x, y), label in zip(points, labels, strict=True):
        chosen = None
        for spot in _around(x, y):
            box = _box(spot, width_of(label))
            inside = box.left >= 0 and box.bottom >= 0 and box.right <= size[0]
            if inside and box.top <= size[1] and not any(map(box.overlaps, full)):
                chosen = spot
                full.append(box)
                break
        spots.append(chosen)
    return spots


def width_of(text: str) -> float:
    """Roughly the pixels a text takes; Chinese characters are as wide as two others."""
    return sum(_CHARACTER if ord(character) < 0x2E80 else 2 * _CHARACTER for character in text)


def _around(x: float, y: float) -> Iterable[Spot]:
    """Beside, above, below, then further off."""
    for far in (1.0, 1.6):
        up = far * (_GAP + _LINE / 2)
        yield Spot(x + _GAP, y + up - _LINE / 2, "left")
        yield Spot(x - _GAP, y - up + _LINE / 2, "right")
        yield Spot(x + _GAP, y - up + _LINE / 2, "left")
        yield Spot(x - _GAP, y + up - _LINE / 2, "right")
        yield Spot(x, y + up, "center")
        yield Spot(x, y - up, "center")


def _box(spot: Spot, width: float) -> Box:
    left = spot.x - {"left": 0.0, "center": width / 2, "right": width}[spot.align]
    return Box(left, spot.y - _LINE / 2, left + width, spot.y + _LINE / 2)
