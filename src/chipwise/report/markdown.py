"""Pages as Markdown, for pull requests and notes."""

from __future__ import annotations

from chipwise.i18n import _
from chipwise.report.page import Block, Listing, NextCommand, Note, Page, Table


def to_markdown(page: Page) -> str:
    """The page as Markdown with pipe tables."""
    parts = [f"## {_escaped(page.title)}", *(_block(block) for block in page.blocks)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Note(text):
            return _escaped(text)
        case Table():
            return _table(block)
        case Listing(title, items):
            return "\n".join([f"**{_escaped(title)}**", "", *(f"- {_escaped(i)}" for i in items)])
        case NextCommand(text):
            return f"{_('Next:')} `{text}`"


def _table(table: Table) -> str:
    columns, rows = table.shown()
    lines = [
        _line([_escaped(column.title) for column in columns]),
        _line(["---:" if column.numeric else "---" for column in columns]),
        *(_line([_escaped(cell.text) for cell in row]) for row in rows),
    ]
    head = [f"### {_escaped(table.title)}", ""] if table.title else []
    return "\n".join([*head, *lines])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    for sign in ("\\", "|", "*", "_", "`", "<", "["):
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", "<br>")
