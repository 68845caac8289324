"""The main table of a page, or the rows of pictures, as CSV: SI values, units in the header."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from chipwise.report.page import Page

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def to_csv(page: Page) -> str:
    """The main table; empty for a page without one."""
    if page.main is None:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.key for column in page.main.columns])
    writer.writerows([_plain(cell.value) for cell in row] for row in page.main.rows)
    return text.getvalue()


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows under all their columns, in the order in which these come; empty where unknown."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(row.get(name)) for name in columns] for row in rows)
    return text.getvalue()


def _plain(value: object) -> object:
    """The value; text that a spreadsheet would run as a formula gets a leading quote."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return "" if value is None else value
