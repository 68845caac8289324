"""Pages as one HTML file that needs no network and no script."""

from __future__ import annotations

from html import escape

from chipwise.i18n import _, choose_language
from chipwise.report.page import Block, Cell, Column, Listing, NextCommand, Note, Page, Table

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.7rem; text-align: left; vertical-align: top; white-space: pre-line; }
thead th { border-bottom: 2px solid; }
tbody tr { border-bottom: 1px solid #8884; }
tbody tr.best { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: light-dark(#146c2e, #7bd88f); } .warn { color: light-dark(#7a5200, #f0c060); }
.bad { color: light-dark(#b3261e, #ff8a80); } .muted { opacity: 0.75; }
code { padding: 0.1rem 0.3rem; border: 1px solid #8886; border-radius: 4px; }
"""


def to_html(page: Page) -> str:
    """The page as a complete document."""
    body = "\n".join(_block(block) for block in page.blocks)
    title = escape(page.title)
    return (
        f'<!doctype html>\n<html lang="{choose_language()}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>chipwise · {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _block(block: Block) -> str:
    match block:
        case Note(text, tone):
            return f'<p class="{tone}">{escape(text)}</p>'
        case Table():
            return _table(block)
        case Listing(title, items):
            listed = "".join(f"<li>{escape(item)}</li>" for item in items)
            return f"<h2>{escape(title)}</h2>\n<ul>{listed}</ul>"
        case NextCommand(text):
            return f"<p>{escape(_('Next:'))} <code>{escape(text)}</code></p>"


def _table(table: Table) -> str:
    columns, rows = table.shown()
    head = "".join(
        f'<th scope="col"{_number(column)}>{escape(column.title)}</th>' for column in columns
    )
    body = "\n".join(
        f'<tr class="best">{_row(columns, row)}</tr>'
        if table.first_is_best and position == 0
        else f"<tr>{_row(columns, row)}</tr>"
        for position, row in enumerate(rows)
    )
    title = f"<h2>{escape(table.title)}</h2>\n" if table.title else ""
    return (
        f'{title}<div class="wide" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _row(columns: list[Column], row: list[Cell]) -> str:
    return "".join(
        f'<td class="{cell.tone}{" number" if column.numeric else ""}">{escape(cell.text)}</td>'
        for column, cell in zip(columns, row, strict=True)
    )


def _number(column: Column) -> str:
    return ' class="number"' if column.numeric else ""
