"""What a report consists of: a headline, tables, lists and the command to type next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Tone = Literal["plain", "good", "warn", "bad", "muted"]


@dataclass(frozen=True)
class Cell:
    """One value: as shown to people, as a plain value for CSV, and how it is meant."""

    text: str
    value: object = None
    tone: Tone = "plain"


@dataclass(frozen=True)
class Column:
    """One column; ``key`` is its CSV header and carries the unit."""

    title: str
    key: str
    numeric: bool = False
    csv_only: bool = False
    spare: int = 0
    """Above 0: may be left out where the terminal is narrow, the highest first."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; ``first_is_best`` marks the first row."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    first_is_best: bool = False

    def without(self, left_out: Sequence[Column]) -> Table:
        """The table without some of its columns."""
        keep = [i for i, column in enumerate(self.columns) if column not in left_out]
        rows = [[row[i] for i in keep] for row in self.rows]
        return replace(self, columns=[self.columns[i] for i in keep], rows=rows)

    def shown(self) -> tuple[list[Column], list[list[Cell]]]:
        """Columns and rows without what only CSV carries."""
        keep = [i for i, column in enumerate(self.columns) if not column.csv_only]
        return [self.columns[i] for i in keep], [[row[i] for i in keep] for row in self.rows]


@dataclass(frozen=True)
class Note:
    """One paragraph."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Listing:
    """A titled list of sentences."""

    title: str
    items: Sequence[str]


@dataclass(frozen=True)
class NextCommand:
    """The command to type next."""

    text: str


Block = Table | Note | Listing | NextCommand


@dataclass(frozen=True)
class Page:
    """A report; ``main`` is the table that CSV carries."""

    title: str
    blocks: Sequence[Block] = field(default=())
    main: Table | None = None


def page(title: str, main: Table | None, blocks: Iterable[Block | None]) -> Page:
    """A page of the blocks that have something to say."""
    kept = [block for block in blocks if block is not None and not _is_empty(block)]
    return Page(title, kept, main)


def _is_empty(block: Block) -> bool:
    if isinstance(block, Table):
        return not block.rows
    if isinstance(block, Listing):
        return not block.items
    return not block.text
