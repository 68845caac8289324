"""The main table of a page as CSV: plain SI values under headers that carry the unit."""

from __future__ import annotations

import csv
import io

from chipwise.report.page import Cell, Page

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def to_csv(page: Page) -> str:
    """The main table; empty for a page without one."""
    if page.main is None:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.key for column in page.main.columns])
    writer.writerows([_plain(cell) for cell in row] for row in page.main.rows)
    return text.getvalue()


def _plain(cell: Cell) -> object:
    """The value; text that a spreadsheet would run as a formula gets a leading quote."""
    value = cell.value
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return "" if value is None else value
