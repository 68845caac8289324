"""Tidy rows of time, cost and scaling as points: units, axes, front, labels; and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.bars import WIDTH, bar_name
from chipwise.report.palette import VENDORS, in_order, vendor_name
from chipwise.report.placing import Align, Box, LogAxis, log_axis, place_labels
from chipwise.report.tidy import Row
from chipwise.units import show

HEIGHT = 400
ALIGNS: tuple[Align, ...] = ("left", "center", "right")
_HOUR, _DAY = 3600.0, 86400.0


@dataclass(frozen=True)
class Cloud:
    """Plans as points over time and expense, both on logarithmic axes."""

    points: Sequence[Row]
    front: Sequence[Row]
    labels: Sequence[Row]
    vendors: Sequence[str]
    time: LogAxis
    time_unit: str
    expense: LogAxis
    expense_title: str
    title: str
    notes: Sequence[str]
    tooltip: Sequence[tuple[str, str]]

    def styles(self) -> list[tuple[Align, bool]]:
        """Alignments and weights (bold on the front) that labels have."""
        used = {(one["align"], one["on_front"]) for one in self.labels}
        every: list[tuple[Align, bool]] = [(to, bold) for to in ALIGNS for bold in (False, True)]
        return [style for style in every if style in used]


def cloud(rows: Sequence[Row]) -> Cloud:
    """Where each plan stands; plans whose expense is unknown are named in a note instead."""
    in_money = rows[0]["expense"] == "cost_usd"
    known = [row for row in rows if _value(row, str(row["expense"])) > 0]
    unit, size = _time_unit([_value(row, "duration_s") for row in known])
    points = [_point(row, size, money=in_money) for row in known]
    time = log_axis((_value(p, end) for p in points for end in ("x_low", "x_high")), WIDTH)
    expense = log_axis((_value(p, end) for p in points for end in ("y_low", "y_high")), HEIGHT)
    front = sorted((p for p in points if p["on_front"]), key=lambda p: _value(p, "x"))
    labels = _labels(points, time, expense)
    unpriced = dict.fromkeys(str(row["system"]) for row in rows if row not in known)
    return Cloud(
        points=points,
        front=front,
        labels=labels,
        vendors=in_order((str(row["vendor"]) for row in known), VENDORS),
        time=time,
        time_unit=unit,
        expense=expense,
        expense_title=_("cost of the run [USD]") if in_money else _("device hours [h]"),
        title=_("Time and cost") if in_money else _("Time and device hours"),
        notes=(
            _("line: what no other plan beats in both · bars: 80 % ranges"),
            _("without a price: {systems}").format(systems=", ".join(unpriced)) if unpriced else "",
        ),
        tooltip=(
            *(("name", _("plan")), ("layout", _("layout")), ("vendor", _("maker"))),
            *(("time_text", _("time")), ("expense_text", _("cost") if in_money
              else _("device hours"))),
        ),
    )  # fmt: skip


def _point(row: Row, size: float, *, money: bool) -> Row:
    x, y = _value(row, "duration_s"), _value(row, str(row["expense"]))
    low, high = ("cost_low_usd", "cost_high_usd") if money else (
        "device_hours_low", "device_hours_high")  # fmt: skip
    return {
        "name": bar_name(row),
        "layout": row["layout"],
        "system": row["system"],
        "vendor": vendor_name(str(row["vendor"])) or _("maker unknown"),
        "on_front": row["on_front"],
        "x": x / size,
        "x_low": _value(row, "duration_low_s", x) / size,
        "x_high": _value(row, "duration_high_s", x) / size,
        "y": y,
        "y_low": _value(row, low, y),
        "y_high": _value(row, high, y),
        "time_text": show(x, "s"),
        "expense_text": show(y, "USD") if money else words.shown(y, "1"),
    }


def _value(row: Row, name: str, otherwise: float = 0.0) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, (int, float)) else otherwise


def _time_unit(seconds: Iterable[float]) -> tuple[str, float]:
    """The unit in which a typical run has at least two, and its seconds."""
    logs = [log(value) for value in seconds]
    typical = exp(sum(logs) / len(logs))
    units = (("d", _DAY), ("h", _HOUR), ("min", 60.0))
    return next(((name, size) for name, size in units if typical >= 2 * size), ("s", 1.0))


def _labels(points: Sequence[Row], time: LogAxis, expense: LogAxis) -> list[Row]:
    """Names of all points on the front, then of the first of each other system, as room allows."""
    front = [point for point in points if point["on_front"]]
    seen = {point["system"] for point in front}
    others = {point["system"]: point for point in reversed(points) if point["system"] not in seen}
    named = [*front, *reversed(others.values())]
    rest = [point for point in points if point not in named]

    def place(point: Row) -> tuple[float, float]:
        return time.place(_value(point, "x")), expense.place(_value(point, "y"))

    whiskers = [_whisker(point, time, expense) for point in points]
    covered = [box for pair in whiskers for box in pair]
    covered += [Box(x - 5, y - 5, x + 5, y + 5) for x, y in map(place, rest)]
    names = [str(point["name"]) for point in named]
    spots = place_labels([place(point) for point in named], names, (WIDTH, HEIGHT), covered)
    return [
        {
            "label": name,
            "x": time.value(spot.x),
            "y": expense.value(spot.y),
            "align": spot.align,
            "on_front": point["on_front"],
        }
        for point, name, spot in zip(named, names, spots, strict=True)
        if spot
    ]


def _whisker(point: Row, time: LogAxis, expense: LogAxis) -> tuple[Box, Box]:
    """The two range bars of a point."""
    x, low_x, high_x = (time.place(_value(point, name)) for name in ("x", "x_low", "x_high"))
    y, low_y, high_y = (expense.place(_value(point, name)) for name in ("y", "y_low", "y_high"))
    return Box(low_x, y - 1, high_x, y + 1), Box(x - 1, low_y, x + 1, high_y)


# -- scaling ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """Throughput and efficiency over device counts."""

    points: Sequence[Row]
    modes: Mapping[str, str]
    """Their names in the reader's language."""
    counts: Sequence[int]
    fewest: float
    most: float
    rate: LogAxis
    best_efficiency: float
    tooltip: Sequence[tuple[str, str]]


def growth(rows: Sequence[Row]) -> Growth:
    """Throughput of each device count, with what it would be at efficiency 1."""
    modes = _modes(str(row["mode"]) for row in rows)
    devices = sorted({int(_value(row, "devices")) for row in rows})
    rates = [_value(row, "tokens_per_s") for row in rows]
    ideals = [_value(row, "ideal_tokens_per_s") for row in rows]
    return Growth(
        points=[
            {
                "mode": modes[str(row["mode"])],
                "devices": row["devices"],
                "tokens_per_s": row["tokens_per_s"],
                "ideal": row["ideal_tokens_per_s"],
                "efficiency": row["efficiency"],
                "one": 1,
                "rate_text": words.shown(_value(row, "tokens_per_s"), "1"),
                "step_text": _shown_step(row["step_time_s"]),
                "efficiency_text": _shown_share(row["efficiency"]),
            }
            for row in rows
        ],
        modes=modes,
        counts=devices if len(devices) <= 10 else devices[:: len(devices) // 10 + 1],
        fewest=devices[0] / 1.15,
        most=devices[-1] * 1.15,
        rate=log_axis([value for value in (*rates, *ideals) if value > 0], HEIGHT),
        best_efficiency=1.1 * max(1.0, *(_value(row, "efficiency") for row in rows)),
        tooltip=(
            *(("mode", _("scaling")), ("devices", _("devices")), ("rate_text", _("tokens/s"))),
            *(("step_text", _("step time")), ("efficiency_text", _("efficiency"))),
        ),
    )


def _modes(found: Iterable[str]) -> dict[str, str]:
    names = {
        "strong": _("strong: the same batch on more devices"),
        "weak": _("weak: the batch grows with the devices"),
    }
    return {mode: names.get(mode, mode) for mode in in_order(found, names)}


def _shown_step(value: object) -> str:
    return show(value, "s") if isinstance(value, (int, float)) else _("unknown")


def _shown_share(value: object) -> str:
    return words.share(value) if isinstance(value, (int, float)) else _("unknown")


# -- sentences -------------------------------------------------------------------------------


def described(name: str, rows: Sequence[Row]) -> str:
    """A picture in a sentence or two, for those who do not see it."""
    return _SENTENCES[name](rows)


def _pareto_sentence(rows: Sequence[Row]) -> str:
    seen = cloud(rows)
    text = _("{title} of {count} plans. On the front: {plans}.")
    plans = "; ".join(
        f"{point['name']}, {point['time_text']}, {point['expense_text']}" for point in seen.front
    )
    return text.format(title=seen.title, count=len(seen.points), plans=plans)


def _scaling_sentence(rows: Sequence[Row]) -> str:
    text = _("Scaling: {points}.")
    one = _("{mode}, {devices} devices: {rate} tokens/s, efficiency {efficiency}")
    said = (
        one.format(
            mode=row["mode"],
            devices=row["devices"],
            rate=words.shown(_value(row, "tokens_per_s"), "1"),
            efficiency=_shown_share(row["efficiency"]),
        )
        for row in rows
    )
    return text.format(points="; ".join(said))


def _memory_sentence(rows: Sequence[Row]) -> str:
    text = _("Memory of the fullest device: {bars}.")
    said = {
        bar_name(row): _("{used} of {capacity}, {verdict}").format(
            used=show(_value(row, "reserved_bytes"), "B"),
            capacity=show(_value(row, "capacity_bytes"), "B"),
            verdict=words.verdict(str(row["verdict"])).text,
        )
        for row in rows
    }
    return text.format(bars="; ".join(f"{name}: {what}" for name, what in said.items()))


def _time_sentence(rows: Sequence[Row]) -> str:
    text = _("Where the step's time goes; the largest share of each: {bars}.")
    largest: dict[str, Row] = {}
    for row in rows:
        name = bar_name(row)
        if name not in largest or _value(row, "share") > _value(largest[name], "share"):
            largest[name] = row
    said = (
        f"{name}: {words.time_part(str(row['part']))} {words.share(_value(row, 'share'))}"
        for name, row in largest.items()
    )
    return text.format(bars="; ".join(said))


_SENTENCES: dict[str, Callable[[Sequence[Row]], str]] = {
    "pareto": _pareto_sentence,
    "scaling": _scaling_sentence,
    "memory": _memory_sentence,
    "time": _time_sentence,
}
