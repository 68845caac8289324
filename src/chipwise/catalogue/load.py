"""Catalogue files on disk: where they are, reading one, and naming what is wrong with it.

The bundled files lie under ``data/``; a person's own folder, with the same sub-folders, is looked
at first, so that a file there adds an entry or replaces a bundled one as a whole.
"""

from __future__ import annotations

import csv
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from chipwise.errors import DataFileError, UsageError
from chipwise.i18n import _

DATA = Path(__file__).parent / "data"
LARGEST_FILE = 2**20
"""Bytes; a catalogue file is a few kilobytes, anything near this size is no catalogue file."""

Table = Mapping[str, Any]

_chosen: Path | None = None
_last: tuple[Path, ...] = ()
_caches: list[Callable[[], None]] = []


def use_catalogue(path: Path | None) -> None:
    """Look into ``path`` before the bundled catalogue; None goes back to the settings.

    Without a chosen folder, ``$CHIPWISE_CATALOGUE`` is used, else the platform's configuration
    folder (``~/.config/chipwise/catalogue`` on Linux) if it exists.

    Raises:
        UsageError: ``path`` is no folder.
    """
    global _chosen, _last
    path = expanded(path) if path is not None else None
    if path is not None and not path.is_dir():
        raise UsageError(
            "no-such-folder",
            _("catalogue folder '{path}' does not exist or is no folder").format(path=path),
            path=str(path),
        )
    _chosen = path
    try:
        now = folders()
    except UsageError:  # said where a file is looked for
        now = ()
    if now != _last or len(now) > 1:  # bundled files do not change, a person's own may
        forget()
    _last = now


def expanded(path: Path) -> Path:
    """With a person's home folder for ``~``; as it is where there is no such person."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def forget() -> None:
    """Drop everything read so far, so that changed files are read again."""
    for clear in _caches:
        clear()


def forgettable(clear: Callable[[], None]) -> None:
    """Register a cache that depends on catalogue files; ``use_catalogue`` empties it."""
    _caches.append(clear)


def folders() -> tuple[Path, ...]:
    """Catalogue folders, the one that wins first."""
    own = _chosen or _folder_from_settings()
    return (own, DATA) if own is not None else (DATA,)


def _folder_from_settings() -> Path | None:
    if stated := os.environ.get("CHIPWISE_CATALOGUE"):
        path = expanded(Path(stated))
        if not path.is_dir():
            raise UsageError(
                "no-such-folder",
                _("CHIPWISE_CATALOGUE names '{path}', which is no folder").format(path=path),
                path=str(path),
            )
        return path
    path = _config_folder() / "chipwise" / "catalogue"
    return path if path.is_dir() else None


def _config_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


@cache
def entry_ids(kind: str) -> tuple[str, ...]:
    """Ids of all entries of a kind (``accelerators``, ``systems`` …), from file names alone."""
    found = {path.stem for folder in folders() for path in (folder / kind).glob("*.toml")}
    return tuple(sorted(found))


def entry_path(kind: str, entry: str) -> Path | None:
    """The file of an entry, or None; a person's own file wins over the bundled one."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", entry):
        return None
    for folder in folders():
        path = folder / kind / f"{entry}.toml"
        if os.path.lexists(path):
            return path
    return None


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of one TOML file.

    Raises:
        DataFileError: no regular file, too large, or no TOML; names file and line.
    """
    try:
        if path.exists() and not path.is_file():
            raise file_error(path, None, _("no regular file"))
        if path.stat().st_size > LARGEST_FILE:
            raise file_error(path, None, _("larger than 1 MiB: this is no catalogue file"))
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise file_error(path, None, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise file_error(path, None, _("not UTF-8 text")) from None
    except RecursionError:
        raise file_error(path, None, _("nested too deeply")) from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise file_error(path, int(line[1]) if line else None, str(error)) from None


def read_csv(path: Path, columns: frozenset[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of one CSV file with their line numbers; empty cells are left out.

    Raises:
        DataFileError: no regular file, too large, no UTF-8, an unknown column, or a row with more
            cells than columns; names file and line.
    """
    try:
        if path.exists() and not path.is_file():
            raise file_error(path, None, _("no regular file"))
        if path.stat().st_size > LARGEST_FILE:
            raise file_error(path, None, _("larger than 1 MiB: this is no catalogue file"))
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            unknown = sorted(set(reader.fieldnames or ()) - columns)
            if unknown:
                raise file_error(path, 1, _("unknown column '{name}'").format(name=unknown[0]))
            for row in reader:
                if None in row:
                    raise file_error(path, reader.line_num, _("more cells than columns"))
                cells = {name: (text or "").strip() for name, text in row.items()}
                yield reader.line_num, {name: text for name, text in cells.items() if text}
    except OSError as error:
        raise file_error(path, None, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise file_error(path, None, _("not UTF-8 text")) from None
    except csv.Error as error:
        raise file_error(path, None, str(error)) from None


def line_of(path: Path, field: str) -> int | None:
    """Number of the line that sets ``table.key`` (or ``key``) in a TOML file, if there is one."""
    table, _dot, key = field.rpartition(".")
    current = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if heading := re.match(r"\s*\[([^\[\]]+)\]", line):
            current = heading[1].strip()
        elif current == table and re.match(rf'\s*"?{re.escape(key)}"?\s*=', line):
            return number
    return None


def file_error(path: Path, line: int | None, reason: str) -> DataFileError:
    """A ``DataFileError`` that names file, line (where known) and reason."""
    place = f"{path}:{line}" if line else str(path)
    return DataFileError(
        "bad-catalogue-file",
        _("{place}: {reason}").format(place=place, reason=reason),
        file=str(path),
        line=line,
        reason=reason,
    )


forgettable(entry_ids.cache_clear)
