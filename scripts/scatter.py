"""Scatter plots of predicted against measured values as SVG, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

SIDE, LEFT, TOP, LEGEND, BOTTOM = 420, 74, 16, 150, 60
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
    "#B8A900",
    "#7A4A1F",
)
"""Told apart with any kind of colour blindness: Okabe and Ito, yellow darkened, and a brown."""
SHAPES = ("circle", "square", "triangle", "diamond")
Place = Callable[[float], float]


@dataclass(frozen=True)
class Point:
    """One row: both values in the same unit, and the group that gives its colour and shape."""

    measured: float
    predicted: float
    group: str


def scatter(title: str, unit: str, points: Sequence[Point], groups: Sequence[str]) -> str:
    """An SVG with the identity line, a ±20 % band, axes with units, and a legend.

    Args:
        title: what is plotted; also the text alternative's title.
        unit: unit of both axes.
        points: positive values.
        groups: all groups in the order that fixes their colours, whether they occur or not.
    """
    values = [value for one in points for value in (one.measured, one.predicted)]
    low, high = log10(min(values)) - 0.05, log10(max(values)) + 0.05

    def place(value: float) -> float:
        return (log10(value) - low) / (high - low) * SIDE

    width, height = LEFT + SIDE + LEGEND, TOP + SIDE + BOTTOM
    inside = sum(1 / 1.2 <= one.predicted / one.measured <= 1.2 for one in points)
    about = (
        f"{len(points)} rows; {inside / len(points):.0%} lie in the band of ±20 % around equality. "
        f"Measured values from {min(values):.3g} to {max(values):.3g} {unit}."
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-labelledby="t d" font-family="sans-serif" font-size="12" fill="#222">',
        f'<title id="t">{escape(title)}</title><desc id="d">{escape(about)}</desc>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<g transform="translate({LEFT},{TOP})">',
        f'<clipPath id="c"><rect width="{SIDE}" height="{SIDE}"/></clipPath>',
        *_band(place, 10**low, 10**high),
        *_ticks(place, low, high),
        f'<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="#222"/>',
    ]
    for index, group in enumerate(groups):
        mine = [one for one in points if one.group == group]
        if mine:
            marks = "".join(
                _mark(place(one.measured), SIDE - place(one.predicted), index) for one in mine
            )
            colour = COLOURS[index % len(COLOURS)]
            parts.append(f'<g fill="{colour}" fill-opacity=".6">{marks}</g>')
    parts += [
        f'<text x="{SIDE / 2}" y="{SIDE + 44}" text-anchor="middle">measured [{unit}]</text>',
        f'<text transform="translate(-54,{SIDE / 2}) rotate(-90)" text-anchor="middle">'
        f"predicted [{unit}]</text>",
        *_legend(groups, {one.group for one in points}),
        "</g></svg>\n",
    ]
    return "\n".join(parts)


def _band(place: Place, low: float, high: float) -> list[str]:
    def line(factor: float, ends: tuple[float, float]) -> str:
        return " ".join(f"{place(x):.1f},{SIDE - place(x * factor):.1f}" for x in ends)

    band = f"{line(1.2, (low, high))} {line(1 / 1.2, (high, low))}"
    return [
        f'<polygon points="{band}" fill="#ddd" clip-path="url(#c)"/>',
        f'<polyline points="{line(1, (low, high))}" stroke="#222" fill="none"/>',
    ]


def _ticks(place: Place, low: float, high: float) -> list[str]:
    found = []
    steps = (1, 2, 5) if high - low < 3 else (1,)
    for power in range(floor(low), ceil(high) + 1):
        for step in steps:
            value = step * 10.0**power
            if not low <= log10(value) <= high:
                continue
            at = place(value)
            text = f"{value:,.10g}"
            found.append(
                f'<path d="M{at:.1f} {SIDE}v5M0 {SIDE - at:.1f}h-5" stroke="#222"/>'
                f'<text x="{at:.1f}" y="{SIDE + 20}" text-anchor="middle">{text}</text>'
                f'<text x="-8" y="{SIDE - at + 4:.1f}" text-anchor="end">{text}</text>'
            )
    return found


def _legend(groups: Sequence[str], present: set[str]) -> list[str]:
    found = []
    for index, group in enumerate(groups):
        if group in present:
            y = 14 + 20 * len(found)
            mark = _mark(SIDE + 18, y, index)
            colour = COLOURS[index % len(COLOURS)]
            found.append(
                f'<g fill="{colour}">{mark}</g>'
                f'<text x="{SIDE + 28}" y="{y + 4}">{escape(group)}</text>'
            )
    return found


def _mark(x: float, y: float, index: int) -> str:
    shape = SHAPES[(index + index // len(COLOURS)) % len(SHAPES)]
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>'
    outline = {
        "square": "m-3-3h6v6h-6z",
        "triangle": "m0-4l4 7h-8z",
        "diamond": "m0-4l4 4-4 4-4-4z",
    }[shape]
    return f'<path d="M{x:.1f} {y:.1f}{outline}"/>'
