"""Tidy rows of memory and time as stacked bars: where each segment, line and heading stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.palette import DARK, MEMORY, PART_UNKNOWN, TIME, in_order, ink
from chipwise.report.placing import Align, width_of
from chipwise.report.tidy import Row
from chipwise.units import show

WIDTH = 720
GIB = 2.0**30
_STEP, _HEADING, _BELOW, _TOP, _BOTTOM, _WHISKER = 74.0, 10.0, 25.0, 36.0, 55.0, 61.0
"""Pixels: from bar to bar; and within one, from its top."""
_TEXT_MARGIN = 8.0


@dataclass(frozen=True)
class Heading:
    """A text above a bar: its field, and those of its place."""

    field: str
    x: str
    y: str
    align: Align
    weight: Literal["bold", "normal"]
    colour: str
    limit: int
    """Most pixels."""


HEADINGS = (
    Heading("name", "start", "first", "left", "bold", DARK, 440),
    Heading("number", "end", "first", "right", "normal", DARK, 260),
    Heading("layout", "start", "second", "left", "normal", "#5A5A5A", WIDTH),
)


@dataclass(frozen=True)
class _Kind:
    """What the segments of a bar are."""

    amount: str
    """Column that gives their length."""
    scale: float
    """Of that column, in one unit of the axis."""
    shown: str
    """Column that is written into them, in ``unit``."""
    unit: str
    colours: Mapping[str, str]
    said: Callable[[str], str]
    """The name of a part in the reader's language."""


_MEMORY = _Kind("bytes", GIB, "bytes", "B", MEMORY, words.part)
_TIME = _Kind("share", 1.0, "seconds", "s", TIME, words.time_part)


@dataclass(frozen=True)
class Stacks:
    """Bars to draw; places along x in the axis's unit, along y in pixels from the top."""

    segments: Sequence[Row]
    headings: Sequence[Row]
    colours: Mapping[str, str]
    """Of the parts, in the reader's language, in the order of the legend."""
    longest: float
    """End of the axis."""
    height: float
    notes: Sequence[str]
    """What the subtitle explains."""
    tooltip: Sequence[tuple[str, str]]
    solid: Sequence[Row] = ()
    """Marks across a bar."""
    dashed: Sequence[Row] = ()
    whiskers: Sequence[Row] = ()

    def texts(self) -> dict[str, list[Row]]:
        """The segments that have room for their value, by the colour of its text."""
        found: dict[str, list[Row]] = {}
        for segment in self.segments:
            if segment["text"]:
                found.setdefault(str(segment["ink"]), []).append(segment)
        return found


def memory(rows: Sequence[Row]) -> Stacks:
    """Memory bills in GiB, with capacity, what a program can have, and the range."""
    plans = _grouped(rows)
    names = ("total_bytes", "reserved_bytes", "reserved_high_bytes", "capacity_bytes")
    most = max(_number(row, name) for row in rows for name in names)
    longest = 1.02 * most / GIB

    def number(row: Row) -> str:
        return _("holds {used} of {capacity} · {verdict}").format(
            used=show(_number(row, "reserved_bytes"), "B"),
            capacity=show(_number(row, "capacity_bytes"), "B"),
            verdict=words.verdict(str(row["verdict"])).text,
        )

    return Stacks(
        segments=_segments(plans, _MEMORY, longest),
        headings=_headings(plans, longest, number),
        colours=_colours(rows, _MEMORY),
        longest=longest,
        height=_STEP * len(plans),
        notes=(
            _("bar: allocated at the peak · line: capacity of the device, dashed: usable"),
            _("dot below: what the allocator holds, with its 80 % range"),
        ),
        tooltip=_tooltip(_("memory")),
        solid=_marks(plans, "capacity_bytes"),
        dashed=_marks(plans, "usable_bytes"),
        whiskers=[
            {
                "at": _number(plan[0], "reserved_bytes") / GIB,
                "low": _either(plan[0], "reserved_low_bytes", "reserved_bytes") / GIB,
                "high": _either(plan[0], "reserved_high_bytes", "reserved_bytes") / GIB,
                "y": place * _STEP + _WHISKER,
            }
            for place, plan in enumerate(plans)
        ],
    )


def _marks(plans: Sequence[Sequence[Row]], name: str) -> list[Row]:
    """A line across each bar, a little longer than the bar is high."""
    return [
        {
            "at": _number(plan[0], name) / GIB,
            "top": place * _STEP + _TOP - 3,
            "bottom": place * _STEP + _BOTTOM + 3,
        }
        for place, plan in enumerate(plans)
    ]


def time(rows: Sequence[Row]) -> Stacks:
    """Steps as shares of their time, so that slow and fast machines can be compared."""
    plans = _grouped(rows)

    def number(row: Row) -> str:
        likely, low, high = (
            show(_number(row, f"step_time{end}_s"), "s") for end in ("", "_low", "_high")
        )
        return _("step {likely} ({low} – {high})").format(likely=likely, low=low, high=high)

    return Stacks(
        segments=_segments(plans, _TIME, 1.0),
        headings=_headings(plans, 1.0, number),
        colours=_colours(rows, _TIME),
        longest=1.0,
        height=_STEP * len(plans) - (_STEP - _WHISKER),
        notes=(_("every bar is one step; the 80 % range of its time stands above it"),),
        tooltip=_tooltip(_("time")),
    )


def _grouped(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each plan."""
    key: Callable[[Row], Any] = lambda row: (row["rank"], row["system"], row["layout"])  # noqa: E731
    return [list(group) for _key, group in groupby(rows, key)]


def _number(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, (int, float)) else 0.0


def _either(row: Row, name: str, otherwise: str) -> float:
    return _number(row, otherwise if row[name] is None else name)


def _segments(plans: Sequence[Sequence[Row]], kind: _Kind, longest: float) -> list[Row]:
    """The parts of every bar, one behind the other in the order of the colours."""
    found: list[Row] = []
    for place, plan in enumerate(plans):
        start = 0.0
        by_part = {str(row["part"]): row for row in plan}
        for name in in_order(by_part, kind.colours):
            end = start + _number(by_part[name], kind.amount) / kind.scale
            across = {"start": start, "middle": (start + end) / 2, "end": end}
            room = (end - start) / longest * WIDTH
            found.append(across | _down(place) | _written(by_part[name], kind, room))
            start = end
    return found


def _down(place: int) -> Row:
    """Where a bar stands, from the top."""
    top, bottom = place * _STEP + _TOP, place * _STEP + _BOTTOM
    return {"top": top, "centre": (top + bottom) / 2, "bottom": bottom}


def _written(row: Row, kind: _Kind, room: float) -> Row:
    """What a segment says of itself; its value stands in it where there is room (pixels)."""
    name, text = str(row["part"]), show(_number(row, kind.shown), kind.unit)
    return {
        "bar": bar_name(row),
        "part": kind.said(name),
        "value": text,
        "share": words.share(_number(row, "share")),
        "text": text if width_of(text) + _TEXT_MARGIN < room else "",
        "ink": ink(kind.colours.get(name, PART_UNKNOWN)),
    }


def bar_name(row: Row) -> str:
    """What a plan is called in a picture."""
    rank, system = row["rank"], str(row["system"])
    return system if rank is None else f"{rank} · {system}"


def _headings(
    plans: Sequence[Sequence[Row]], longest: float, number: Callable[[Row], str]
) -> list[Row]:
    return [
        {
            "name": bar_name(plan[0]),
            "number": number(plan[0]),
            "layout": plan[0]["layout"],
            "start": 0,
            "end": longest,
            "first": place * _STEP + _HEADING,
            "second": place * _STEP + _BELOW,
        }
        for place, plan in enumerate(plans)
    ]


def _colours(rows: Sequence[Row], kind: _Kind) -> dict[str, str]:
    names = in_order((str(row["part"]) for row in rows), kind.colours)
    return {kind.said(name): kind.colours.get(name, PART_UNKNOWN) for name in names}


def _tooltip(amount: str) -> tuple[tuple[str, str], ...]:
    return (
        ("bar", _("plan")),
        ("part", _("part")),
        ("value", amount),
        ("share", _("share")),
    )
