"""The numbers of a picture as tidy rows: one observation a row, the unit in the column's name.

Values are taken from the document as they are. The two exceptions are comparisons, not physics:
which points lie on the front of the two values drawn, and the ideal throughput, which the
document states as the throughput over its efficiency. What a document does not know is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.words import Json

Row = dict[str, object]
PICTURES = ("pareto", "scaling", "memory", "time")
"""Every picture there is, in the order in which they are drawn."""


def tables_of(
    document: Json, allowed: Sequence[str] = PICTURES, wanted: str | None = None
) -> dict[str, list[Row]]:
    """The rows of each picture that a document has data for, by the picture's name.

    Args:
        document: the JSON document, as plain types.
        allowed: the pictures that its command offers.
        wanted: only this one; all when None.

    Raises:
        UsageError: the document has data, but none for the picture wanted.
    """
    found = {name: _TABLES[name](document) for name in PICTURES if name in allowed}
    found = {name: rows for name, rows in found.items() if rows}
    if wanted is None or not found:
        return found
    if wanted not in found:
        text = _("this answer has no data for the picture '{name}'; it has {valid}")
        message = text.format(name=wanted, valid=", ".join(found))
        raise UsageError("nothing-to-draw", message, picture=wanted, valid=tuple(found))
    return {wanted: found[wanted]}


# -- time and cost ---------------------------------------------------------------------------


def pareto_rows(document: Json) -> list[Row]:
    """One row per plan: how long, how many device hours, what it costs, what it draws.

    ``expense`` names the column that the front (``on_front``) and the picture take beside the
    time: ``cost_usd`` where any plan has one above 0, else ``device_hours``.
    """
    rows = [_plan_point(plan) for plan in document.get("plans", ())]
    vendors = {row["system"]: row["vendor"] for row in rows}
    rows += [
        _front_point(point, str(vendors.get(point["system"], "")))
        for point in document.get("pareto", ())
        if point.get("rank") is None
    ]
    expense = "cost_usd" if any(row["cost_usd"] for row in rows) else "device_hours"
    for row in rows:
        row["expense"] = expense
        row["on_front"] = not any(_beats(other, row, expense) for other in rows) and (
            row[expense] is not None
        )
    return rows


def _plan_point(plan: Json) -> Row:
    return {
        "rank": plan["rank"],
        "system": plan["system"],
        "vendor": plan.get("vendor", ""),
        "devices": plan["devices"],
        "layout": words.layout(plan["layout"]),
        **_span(plan.get("duration_s"), "duration", "s"),
        **_span(plan.get("device_hours"), "device_hours"),
        **_span(plan.get("cost_usd"), "cost", "usd"),
        **_span(plan.get("energy_kwh"), "energy", "kwh"),
    }


def _front_point(point: Json, vendor: str) -> Row:
    """A point of the document's front that stands in no ranked plan: likely values alone."""
    values = ("duration_s", "device_hours", "cost_usd", "energy_kwh")
    named = {"rank": None, "layout": "", "vendor": vendor}
    return {
        **named,
        "system": point["system"],
        "devices": point["devices"],
        **{name: point.get(name) for name in values},
    }


def _beats(one: Row, other: Row, expense: str) -> bool:
    """Whether one is no worse in both values and better in one; the unknown beats nothing."""
    mine = _numbers(one, "duration_s", expense)
    theirs = _numbers(other, "duration_s", expense)
    if mine is None or theirs is None:
        return False
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


def _numbers(row: Row, *names: str) -> tuple[float, ...] | None:
    values = tuple(row.get(name) for name in names)
    numbers = tuple(value for value in values if isinstance(value, (int, float)))
    return numbers if len(numbers) == len(values) else None


def _span(value: object, name: str, unit: str = "") -> Row:
    """Likely value and both ends of a range, each None where it is unknown."""
    known: Mapping[str, object] = value if isinstance(value, Mapping) else {}
    end = f"_{unit}" if unit else ""
    return {
        f"{name}{end}": known.get("likely"),
        f"{name}_low{end}": known.get("low"),
        f"{name}_high{end}": known.get("high"),
    }


# -- scaling ---------------------------------------------------------------------------------


def scaling_rows(document: Json) -> list[Row]:
    """One row per device count and mode (strong: same batch; weak: batch grows with devices)."""
    return [
        {
            "mode": point["mode"],
            "devices": point["devices"],
            "nodes": point.get("nodes"),
            "step_time_s": point.get("step_time_s"),
            "tokens_per_s": point["tokens_per_s"],
            "ideal_tokens_per_s": _ideal(point),
            "efficiency": point.get("efficiency"),
        }
        for point in document.get("scaling") or ()
    ]


def _ideal(point: Json) -> float | None:
    """Throughput at efficiency 1."""
    efficiency = point.get("efficiency")
    return float(point["tokens_per_s"]) / float(efficiency) if efficiency else None


# -- memory and time, part by part -----------------------------------------------------------


def memory_rows(document: Json) -> list[Row]:
    """One row per plan and line of its memory bill, with what the device holds and has."""
    return [
        {
            **_bar(subject),
            "verdict": subject["verdict"],
            "part": part["name"],
            "bytes": part["bytes"],
            "share": part["share"],
            "total_bytes": subject["memory"]["total_bytes"],
            "reserved_bytes": subject["memory"]["reserved_bytes"],
            "reserved_low_bytes": (subject["memory"].get("range") or {}).get("low"),
            "reserved_high_bytes": (subject["memory"].get("range") or {}).get("high"),
            "usable_bytes": subject["memory"]["usable_bytes"],
            "capacity_bytes": subject["memory"]["capacity_bytes"],
        }
        for subject in _subjects(document)
        for part in (subject.get("memory") or {}).get("parts", ())
    ]


def time_rows(document: Json) -> list[Row]:
    """One row per plan and share of its step."""
    return [
        {
            **_bar(subject),
            "part": part["name"],
            "seconds": part["seconds"],
            "share": part["share"],
            **_span(subject["step_time_s"], "step_time", "s"),
        }
        for subject in _subjects(document)
        for part in subject.get("time_parts", ())
    ]


def _subjects(document: Json) -> Iterable[Json]:
    """What has a bar of its own: every plan, or the one configuration of the document."""
    plans = document.get("plans")
    return plans if plans is not None else (document,)


def _bar(subject: Json) -> Row:
    """What a bar is called."""
    named = subject.get("subject") or subject
    layout = subject["layout"]
    return {
        "rank": subject.get("rank"),
        "system": named["system"],
        "layout": words.serving_layout(layout) if "engine" in layout else words.layout(layout),
    }


_TABLES: dict[str, Callable[[Json], list[Row]]] = {
    "pareto": pareto_rows,
    "scaling": scaling_rows,
    "memory": memory_rows,
    "time": time_rows,
}
