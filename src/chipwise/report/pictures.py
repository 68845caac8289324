"""A document as a picture file: which kinds there are, and what goes into them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.tidy import tables_of
from chipwise.report.words import Json

FORMS = ("svg", "png", "html", "csv")
"""Suffixes of a picture; ``csv`` holds its numbers."""


def form_of(file: str) -> str:
    """The kind of picture that a file's suffix asks for; fit to be drawn here and now.

    Raises:
        UsageError: no such kind, or the packages that draw it are not installed.
    """
    form = PurePath(file).suffix.lower().removeprefix(".")
    if form not in FORMS:
        valid = ", ".join(f".{one}" for one in FORMS)
        text = _("'{file}' does not end like a picture; choose one of {valid}")
        message = text.format(file=file, valid=valid)
        raise UsageError("unknown-picture-suffix", message, file=file, valid=FORMS)
    if form != "csv":
        from chipwise.report.charts import require

        require()
    return form


def picture(
    document: Json, form: str, allowed: Sequence[str], wanted: str | None = None
) -> bytes | None:
    """The content of a picture file; None where the document has nothing to draw.

    Args:
        document: the JSON document, as plain types.
        form: one of ``FORMS``.
        allowed: the pictures that its command offers.
        wanted: only this one; all when None.

    Raises:
        UsageError: the document has no data for the picture wanted, or a package is missing.
    """
    tables = tables_of(document, allowed, wanted)
    if not tables:
        return None
    if form == "csv":
        from chipwise.report.csv_text import rows_to_csv

        return rows_to_csv(
            [{"picture": name, **row} for name, rows in tables.items() for row in rows]
        ).encode()
    from chipwise.report.charts import draw

    return draw(tables, _subject(document), form)


def _subject(document: Json) -> str:
    """The model, and how much it is trained on."""
    inputs = document["inputs"]
    model = (document.get("subject") or {}).get("model") or inputs.get("model", "")
    tokens, seq = inputs.get("tokens"), inputs.get("seq")
    return words.joined(
        (
            str(model),
            _("{count} tokens").format(count=words.shown(tokens, "1")) if tokens else "",
            _("sequence {tokens}").format(tokens=seq) if seq else "",
        )
    )
