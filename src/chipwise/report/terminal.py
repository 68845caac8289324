"""Pages as terminal text, with rich tables; rich is imported only here."""

from __future__ import annotations

import io
import re

from rich.box import SIMPLE, SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from chipwise.i18n import _
from chipwise.report.page import Block, Cell, Column, Listing, NextCommand, Note, Page, Table, Tone

READABLE_WIDTH = 16
"""Text columns are not squeezed below this; a table that would need it becomes records."""

UNBOUNDED_WIDTH = 10_000
STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "muted": "dim",
}


def to_terminal(page: Page, *, colour: bool = False, width: int | None = None) -> str:
    """The page as text; with ``colour`` it carries terminal escapes.

    Args:
        page: what to say.
        colour: whether escapes are allowed.
        width: columns; those of the terminal when None.
    """
    console = Console(
        file=io.StringIO(),
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        width=width,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        for block in page.blocks:
            _print(console, block)
    lines = "\n".join(line.rstrip() for line in capture.get().splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n") + "\n"


def _print(console: Console, block: Block) -> None:
    match block:
        case Note(text, tone):
            console.print(Text(text, STYLES[tone]))
        case Table():
            _print_table(console, block)
        case Listing(title, items):
            console.print(Text(f"\n{title}:", "bold"))
            for item in items:
                console.print(Text(f"- {item}"))
        case NextCommand(text):
            console.print(Text(f"\n{_('Next:')} ", "bold").append(text, "cyan"), soft_wrap=True)


def _print_table(console: Console, table: Table) -> None:
    if table.title:
        console.print(Text(f"\n{table.title}", "bold"))
    left_out: list[Column] = []
    for column in [None, *_spare(table)]:
        left_out += [column] if column else []
        drawn = _drawn(table.without(left_out))
        if _least_width(console, drawn) <= console.width:
            console.print(drawn)
            _say_left_out(console, left_out)
            return
    _print_records(console, table)


def _spare(table: Table) -> list[Column]:
    """What a narrow terminal may leave out, in that order."""
    spare = [column for column in table.columns if column.spare and not column.csv_only]
    return sorted(spare, key=lambda column: -column.spare)


def _least_width(console: Console, drawn: RichTable) -> int:
    unbounded = console.options.update(width=UNBOUNDED_WIDTH)
    return Measurement.get(console, unbounded, drawn).minimum


def _say_left_out(console: Console, left_out: list[Column]) -> None:
    if left_out:
        names = ", ".join(" ".join(column.title.split()) for column in left_out)
        text = _("Not shown, for want of width: {names}").format(names=names)
        console.print(Text(text, STYLES["muted"]))


def _drawn(table: Table) -> RichTable:
    columns, rows = table.shown()
    headed = any(column.title for column in columns)
    drawn = RichTable(
        box=SIMPLE_HEAD if headed else SIMPLE,
        show_header=headed,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for position, column in enumerate(columns):
        texts = (column.title, *(row[position].text for row in rows))
        longest = max((cell_len(line) for text in texts for line in text.splitlines()), default=0)
        drawn.add_column(
            column.title,
            justify="right" if column.numeric else "left",
            no_wrap=column.numeric,
            min_width=longest if column.numeric else min(longest, READABLE_WIDTH),
            overflow="fold",
        )
    for position, row in enumerate(rows):
        best = table.first_is_best and position == 0
        drawn.add_row(*map(_text, row), style="bold" if best else "")
    return drawn


def _print_records(console: Console, table: Table) -> None:
    """A table that is wider than the terminal, as one short paragraph per row."""
    columns, rows = table.shown()
    for position, row in enumerate(rows):
        console.print()
        for column, cell in zip(columns, row, strict=True):
            title = " ".join(column.title.split())
            style = "bold" if table.first_is_best and position == 0 else ""
            value = Text("; ".join(cell.text.splitlines()), STYLES[cell.tone] or style)
            console.print(Text(f"{title}: ", "dim").append(value))
    console.print()


def _text(cell: Cell) -> Text:
    return Text(cell.text, STYLES[cell.tone])
