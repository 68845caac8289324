"""Where the answer goes: stdout or a file, and when colour is allowed. Notes go to stderr."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chipwise.cli.settings import Settings
from chipwise.errors import UsageError
from chipwise.i18n import _

PIPED_WIDTH = 120
"""Columns of a table that is not written to a terminal."""


def write(document: Any, settings: Settings) -> None:
    """Render a document (a pydantic model) as asked and write it to stdout or ``--out``."""
    out = settings.output.get("out")
    text = _rendered(document, settings.format, to_file=bool(out))
    if out:
        write_atomically(Path(str(out)), text)
    else:
        sys.stdout.write(text)


def _rendered(document: Any, form: str, *, to_file: bool) -> str:
    if form == "json":
        return f"{document.model_dump_json()}\n"
    from chipwise.report import render

    terminal = not to_file and sys.stdout.isatty()
    return render(
        document.model_dump(mode="json"),
        form,
        colour=terminal and not os.environ.get("NO_COLOR"),
        width=None if terminal else int(os.environ.get("COLUMNS", PIPED_WIDTH)),
    )


def write_atomically(path: Path, text: str) -> None:
    """Write the whole file or nothing: a temporary file beside it, then a rename.

    Raises:
        UsageError: the folder does not exist or cannot be written.
    """
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        reason = error.strerror or str(error)
        text = _("cannot write '{file}': {reason}").format(file=path, reason=reason)
        raise UsageError("cannot-write", text, file=str(path), reason=reason) from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def note(messages: Iterable[str]) -> None:
    """Say something beside the answer, on stderr."""
    for message in messages:
        print(_("note: {message}").format(message=message), file=sys.stderr)


def write_error(
    command: str, code: str, message: str, details: Mapping[str, object], *, as_json: bool
) -> None:
    """Say on stderr what went wrong; with ``--json`` stdout carries it as a document too."""
    print(_("error: {message}").format(message=message), file=sys.stderr)
    if as_json:
        import json

        error = {"code": code, "message": message, "details": dict(details)}
        document = {"schema": 1, "command": command, "error": error}
        sys.stdout.write(json.dumps(document, default=str, ensure_ascii=False) + "\n")
