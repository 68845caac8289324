"""Where a number comes from: values with source and date, and the list of sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from chipwise.catalogue.load import file_error, folders, forgettable, line_of, read_toml
from chipwise.errors import UnitError
from chipwise.i18n import _
from chipwise.units import parse

_FIELDS = {"value", "source", "retrieved", "also", "basis", "note"}


@dataclass(frozen=True)
class Sourced:
    """One value of a catalogue file, as written, with where it comes from."""

    value: str
    """As written, with its unit: ``3350 GB/s``."""
    source: str
    """Key into the source list."""
    retrieved: str
    """Day it was read, ISO 8601."""
    note: str = ""
    also: tuple[str, ...] = ()
    """Further sources that state the same."""
    basis: str = "datasheet"
    """``datasheet``, or ``assumed`` where nothing is published; the note says why."""


@dataclass(frozen=True)
class Source:
    """One entry of ``sources.toml``."""

    title: str
    reference: str
    kind: str
    retrieved: str


def sourced(path: Path, field: str, raw: object) -> Sourced:
    """The value table of a field, checked for its keys.

    Raises:
        DataFileError: no table, a key missing, or an unknown one; names file, line and reason.
    """
    if not isinstance(raw, dict) or not {"value", "source", "retrieved"} <= set(raw):
        raise file_error(
            path,
            line_of(path, field),
            _("'{field}' must be a table with value, source and retrieved").format(field=field),
        )
    if unknown := set(raw) - _FIELDS:
        raise file_error(
            path,
            line_of(path, field),
            _("'{field}' has the unknown key '{key}'").format(field=field, key=min(unknown)),
        )
    values: dict[str, Any] = {key: str(text) for key, text in raw.items() if key != "also"}
    return Sourced(**values, also=tuple(map(str, raw.get("also", ()))))


def number(path: Path, field: str, value: Sourced, unit: str) -> float:
    """The SI number of a value.

    Raises:
        DataFileError: the text is no number of that unit; names file, line and reason.
    """
    try:
        return parse(value.value, unit)
    except UnitError as error:
        reason = _("'{field}': {reason}").format(field=field, reason=error.message)
        raise file_error(path, line_of(path, field), reason) from None


@cache
def sources() -> Mapping[str, Source]:
    """All sources by key; a person's own ``sources.toml`` adds to the bundled list."""
    found: dict[str, Source] = {}
    for folder in reversed(folders()):
        path = folder / "sources.toml"
        if path.is_file():
            for key, table in read_toml(path).items():
                found[key] = _source(path, key, table)
    return found


def _source(path: Path, key: str, table: object) -> Source:
    fields = ("title", "reference", "kind", "retrieved")
    if not isinstance(table, dict) or any(not table.get(field) for field in fields):
        raise file_error(
            path, None, _("source '{key}' needs {fields}").format(key=key, fields=", ".join(fields))
        )
    return Source(*(str(table[field]) for field in fields))


forgettable(sources.cache_clear)
