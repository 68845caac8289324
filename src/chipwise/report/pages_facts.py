"""The pages of facts: explanations, validation, catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.page import Block, Cell, Column, NextCommand, Note, Page, Table, Tone, page
from chipwise.report.words import Json

_ESSENTIAL = 2
"""Columns of a listing after the first that stay however narrow the terminal is."""
SEVERITY_TONES: dict[str, Tone] = {"error": "bad", "warning": "warn", "note": "muted"}


def explain_page(document: Json) -> Page:
    """The tree behind one quantity, or the list of quantities."""
    if "quantities" in document:
        return _quantities_page(document)
    table = Table(
        "",
        (
            Column(_("quantity"), "quantity"),
            Column("", "depth", csv_only=True),
            Column(_("value"), "value", numeric=True),
            Column("", "unit", csv_only=True),
            Column(_("formula or meaning"), "formula"),
            Column(_("basis"), "basis", spare=1),
            Column(_("source"), "source", spare=2),
        ),
        list(_tree(document, "", "", 0, set())),
    )
    blocks = (table, words.warnings(document), words.assumptions(document))
    return page(_("Explanation of {quantity}").format(quantity=document["quantity"]), table, blocks)


def _tree(node: Json, lead: str, branch: str, depth: int, seen: set[str]) -> Iterator[list[Cell]]:
    """One row per quantity; a quantity that stands above already is not unfolded again."""
    name, again = node["quantity"], bool(node["needs"]) and node["quantity"] in seen
    seen.add(name)
    formula = words.formula(node["formula"]) or node["meaning"]
    yield [
        Cell(f"{lead}{branch}{name}", name),
        Cell(str(depth), depth),
        words.amount(node["value"], node["unit"]),
        Cell("", node["unit"]),
        Cell(_("see above") if again else formula, formula),
        Cell(words.basis(node["basis"]), node["basis"]),
        Cell(node["source"], node["source"], "muted"),
    ]
    if again:
        return
    below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    for position, need in enumerate(node["needs"], start=1):
        last = position == len(node["needs"])
        yield from _tree(need, below, "└─ " if last else "├─ ", depth + 1, seen)


def _quantities_page(document: Json) -> Page:
    table = Table(
        "",
        (
            Column(_("quantity"), "name"),
            Column(_("unit"), "unit"),
            Column(_("meaning"), "meaning"),
            Column(_("source"), "source", spare=1),
        ),
        [
            [
                Cell(entry["name"], entry["name"]),
                Cell(entry["unit"], entry["unit"]),
                Cell(entry["meaning"].removesuffix(f" [{entry['unit']}]"), entry["meaning"]),
                Cell(entry["source"], entry["source"]),
            ]
            for entry in document["quantities"]
        ],
    )
    hint = NextCommand("chipwise explain step_time llama-2-7b --on h100-sxm:8")
    return page(_("Quantities"), table, (table, hint))


def validate_page(document: Json) -> Page:
    """Errors by group; CSV carries the rows."""
    counts = _("{kind}: {rows} rows, {predicted} predicted, {skipped} skipped").format(
        kind=document["kind"],
        rows=document["n_rows"],
        predicted=document["n_predicted"],
        skipped=document["n_skipped"],
    )
    definition = _("error = exp|ln(predicted/measured)| − 1: half and double are equally wrong")
    blocks: tuple[Block | None, ...] = (
        Note(counts),
        Note(definition, "muted"),
        *(
            _summary(title, [row for row in document["summary"] if row["by"] == by])
            for by, title in (
                ("all", _("All rows")),
                ("source", _("By source")),
                ("accelerator", _("By accelerator")),
            )
        ),
        _constants(document["constants"]),
        words.warnings(document),
        words.assumptions(document),
    )
    return page(_("Validation"), _measured_rows(document["rows"]), blocks)


def _summary(title: str, summary: list[Json]) -> Table:
    shares = ("median_error", "p90_error", "median_signed", "within_20pct", "interval80_coverage")
    return Table(
        title,
        (
            Column(_("group"), "group"),
            Column(_("metric"), "metric"),
            Column("n", "n", numeric=True),
            Column(_("median\nerror"), "median_error", numeric=True),
            Column(_("p90\nerror"), "p90_error", numeric=True),
            Column(_("median\nsigned"), "median_signed", numeric=True, spare=2),
            Column(_("within\n20 %"), "within_20pct", numeric=True, spare=3),
            Column(_("in 80 %\nrange"), "interval80_coverage", numeric=True, spare=1),
        ),
        [
            [
                Cell(row["group"], row["group"]),
                Cell(row["metric"], row["metric"]),
                Cell(str(row["n"]), row["n"]),
                *(Cell(words.share(row[key]), row[key]) for key in shares),
            ]
            for row in summary
        ],
    )


def _constants(constants: list[Json]) -> Table:
    return Table(
        _("Calibrated constants"),
        (
            Column(_("name"), "name"),
            Column(_("value"), "value", numeric=True),
            Column(_("spread"), "spread", numeric=True),
            Column(_("fitted to"), "fitted_to", spare=1),
        ),
        [
            [
                Cell(row["name"], row["name"]),
                words.amount(row["value"], row["unit"]),
                words.amount(row["spread"], "1"),
                Cell(row["fitted_to"], row["fitted_to"]),
            ]
            for row in constants
        ],
    )


def _measured_rows(rows: list[Json]) -> Table:
    keys = (
        *("id", "metric", "predicted", "low", "high", "measured", "error", "verdict", "skipped"),
    )
    return Table(
        _("Rows"),
        [Column(key, key) for key in keys],
        [[Cell(str(row.get(key, "")), row.get(key)) for key in keys] for row in rows],
    )


def catalogue_page(document: Json) -> Page:
    """A listing, one entry with its sources, or the findings of a check."""
    if document["kind"] == "show":
        return _entry_page(document)
    if document["kind"] == "check":
        return _check_page(document)
    columns = document["columns"]
    shown = [
        Column(item["title"], item["name"], bool(item["unit"]), spare=max(0, place - _ESSENTIAL))
        for place, item in enumerate(columns)
    ]
    table = Table(
        "",
        shown,
        [[_listed(row.get(item["name"]), item["unit"]) for item in columns]
         for row in document["rows"]],
    )  # fmt: skip
    first = document["rows"][0].get("id", "") if document["rows"] else ""
    hint = NextCommand(f"chipwise catalogue show {first}") if first else None
    return page(document["kind"], table, (table, words.warnings(document), hint))


def _listed(value: Any, unit: str) -> Cell:
    if value is None or value in ("", [], ()):
        return Cell("–", None)
    if unit and isinstance(value, (int, float)) and not isinstance(value, bool):
        return Cell(words.shown(value, unit), value)
    if isinstance(value, (list, tuple)):
        return Cell(", ".join(map(str, value)), " ".join(map(str, value)))
    if isinstance(value, bool):
        return Cell(_("yes") if value else _("no"), value)
    return Cell(str(value), value)


def _entry_page(document: Json) -> Page:
    table = Table(
        "",
        (
            Column(_("fact"), "name"),
            Column(_("value"), "value"),
            Column("", "unit", csv_only=True),
            Column(_("source"), "source"),
            Column(_("retrieved"), "retrieved", spare=1),
        ),
        [
            [
                Cell(fact["name"], fact["name"]),
                _listed(fact["value"], fact["unit"]),
                Cell("", fact["unit"]),
                Cell(fact["source"], fact["source"], "muted"),
                Cell(fact["retrieved"], fact["retrieved"], "muted"),
            ]
            for fact in document["facts"]
        ],
    )
    return page(document["id"], table, (table, words.warnings(document)))


def _check_page(document: Json) -> Page:
    findings = document["findings"]
    keys = ("severity", "file", "where", "message")
    table = Table(
        _("Findings"),
        (
            Column(_("severity"), "severity"),
            Column(_("file"), "file"),
            Column(_("where"), "where"),
            Column(_("what"), "message"),
        ),
        [
            [Cell(item[key], item[key], SEVERITY_TONES[item["severity"]]) for key in keys]
            for item in findings
        ],
    )
    said = (
        _("{count} findings in {checked} entries").format(
            count=len(findings), checked=document["checked"]
        )
        if findings
        else _("{checked} entries checked, nothing found").format(checked=document["checked"])
    )
    return page(_("Catalogue check"), table, (Note(said), table))
