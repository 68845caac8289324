"""Where the answer goes: stdout or a file, and when colour is allowed. Notes go to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import EACCES, EISDIR, ENOENT
from pathlib import Path
from typing import Any, TextIO

from chipwise.cli.settings import Settings
from chipwise.errors import ChipwiseError, UsageError
from chipwise.i18n import _

PIPED_WIDTH = 120
"""Columns of a table that is not written to a terminal."""
_LONGEST_WIDTH = 6
"""Digits of a width."""


def write(document: Any, settings: Settings) -> None:
    """Render a document (a pydantic model) as asked and write it to stdout or ``--out``."""
    out = settings.output.get("out")
    if settings.wants("patch"):
        text = _patch(document)
    else:
        text = _rendered(document, settings.format, to_file=bool(out))
    as_json = settings.format == "json"
    if out:
        write_atomically(Path(str(out)), _writable(text, "utf-8", as_json=as_json))
    else:
        say(text, sys.stdout, as_json=as_json)


def _patch(document: Any) -> str:
    """The diff alone; why there is none, or what it leaves out, goes to stderr.

    Raises:
        UsageError: no configuration file was given.
    """
    if not getattr(document, "inputs", {}).get("job"):
        raise UsageError("no-job", _("--patch changes a configuration: give it with --job FILE"))
    patch = document.patch
    if patch is None:
        fits = document.exit_code == 0
        note([_("nothing to change: it fits") if fits else _("no change that is known is enough")])
        return ""
    if patch.left_out:
        note([_("not in these files: {flags}").format(flags=patch.left_out)])
    return str(patch.diff)


def say(text: str, stream: TextIO | None, *, as_json: bool = False) -> None:
    """Write text to a stream, whatever its character set; into nothing where it is closed.

    Raises:
        ChipwiseError: the stream takes no more.
    """
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(_writable(text, encoding, as_json=as_json))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        message = _("cannot write the answer: {reason}").format(reason=reason)
        raise ChipwiseError("output-full", message, reason=reason) from None


def _writable(text: str, encoding: str, *, as_json: bool) -> str:
    """The text, with what the character set lacks as ``?``, in JSON as an escape."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        if as_json:
            return re.sub(r"[^\x00-\x7f]", lambda one: json.dumps(one[0])[1:-1], text)
        return text.encode(encoding, "replace").decode(encoding)
    return text


def _rendered(document: Any, form: str, *, to_file: bool) -> str:
    if form == "json":
        return f"{document.model_dump_json()}\n"
    from chipwise.report import render

    terminal = not to_file and sys.stdout is not None and sys.stdout.isatty()
    return render(
        document.model_dump(mode="json"),
        form,
        colour=terminal and not os.environ.get("NO_COLOR"),
        width=None if terminal else _piped_width(os.environ.get("COLUMNS", "")),
    )


def _piped_width(stated: str) -> int:
    """``$COLUMNS`` where it is a width that text can have, else the usual one."""
    width = int(stated) if stated.isdecimal() and len(stated) < _LONGEST_WIDTH else 0
    return width if width > 0 else PIPED_WIDTH


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write the whole file or nothing: a temporary file beside it, then a rename.

    A link stays, and what it points to is written. What is no file (``/dev/null``, a pipe) is
    written to, never replaced.

    Raises:
        UsageError: the folder does not exist, or the path cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        _require_writable(path)
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(path.resolve(), data)
    except (OSError, RuntimeError) as error:
        raise _unwritable(path, error) from None


def require_writable(path: Path) -> None:
    """Say before the work is done that its answer could not be written.

    Raises:
        UsageError: the folder does not exist, or file or folder cannot be written.
    """
    try:
        _require_writable(path)
    except (OSError, RuntimeError) as error:
        raise _unwritable(path, error) from None


def _require_writable(path: Path) -> None:
    there = path.exists()
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
    if not os.access(path if there else folder, os.W_OK):
        raise PermissionError(EACCES, os.strerror(EACCES))


def _unwritable(path: Path, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    text = _("cannot write '{file}': {reason}").format(file=path, reason=reason)
    return UsageError("cannot-write", text, file=str(path), reason=reason)


def _replace(path: Path, data: bytes) -> None:
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, path.stat().st_mode if path.exists() else 0o666 & ~umask)
        os.replace(temporary, path)
        temporary = None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def note(messages: Iterable[str]) -> None:
    """Say something beside the answer, on stderr."""
    for message in messages:
        say(_("note: {message}").format(message=message) + "\n", sys.stderr)


def write_error(
    command: str, code: str, message: str, details: Mapping[str, object], *, as_json: bool
) -> None:
    """Say on stderr what went wrong; with ``--json`` stdout carries it as a document too.

    A stream that takes no more is passed over: there is nowhere left to say so.
    """
    with suppress(ChipwiseError):
        say(_("error: {message}").format(message=message) + "\n", sys.stderr)
    if as_json:
        error = {"code": code, "message": message, "details": dict(details)}
        document = {"schema": 1, "command": command, "error": error}
        text = json.dumps(document, default=str, ensure_ascii=False) + "\n"
        with suppress(ChipwiseError):
            say(text, sys.stdout, as_json=True)
