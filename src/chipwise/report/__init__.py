"""Documents shown as terminal text, Markdown, CSV or HTML. Nothing here computes.

``pages`` decides what to say about each kind of document; the renderers decide how it looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMATS = ("table", "csv", "md", "html")


def render(
    document: Mapping[str, Any], form: str, *, colour: bool = False, width: int | None = None
) -> str:
    """A document as text, ending with a newline.

    Args:
        document: the JSON document, as plain types.
        form: ``table``, ``csv``, ``md`` or ``html``.
        colour: whether ``table`` may use colour.
        width: columns of ``table``; the terminal's when None.

    Raises:
        UnknownNameError: no such format.
    """
    from chipwise.errors import UnknownNameError
    from chipwise.i18n import _
    from chipwise.report.pages import page_of

    if form not in FORMATS:
        raise UnknownNameError(_("format"), form, (*FORMATS, "json"), "chipwise --help")
    page = page_of(document)
    if form == "csv":
        from chipwise.report.csv_text import to_csv

        return to_csv(page)
    if form == "md":
        from chipwise.report.markdown import to_markdown

        return to_markdown(page)
    if form == "html":
        from chipwise.report.html_page import to_html

        return to_html(page)
    from chipwise.report.terminal import to_terminal

    return to_terminal(page, colour=colour, width=width)
