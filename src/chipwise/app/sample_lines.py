"""A bounded sample of a text file of examples: JSONL, a JSON list, CSV or TSV. Runs nothing.

Files up to ``WHOLE`` bytes are read whole. Of larger JSONL files the beginning is read, and one
block at a random place in each of equal parts of the rest; the places are always the same.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from random import Random
from typing import Any

from chipwise.errors import DataFileError
from chipwise.i18n import _

WHOLE = 4 << 20
"""Bytes up to which a file is read whole, and of which a larger one's sample consists."""
_FIRST = 1 << 20
_BLOCKS = 12
_BLOCK = (WHOLE - _FIRST) // _BLOCKS
_LONGEST_LINE = 1 << 24
_LARGEST_LIST = 1 << 26
_NAMED = 5
"""Broken lines that are named one by one."""
_SEED = 20
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """Some records of a file, and how many it has."""

    records: tuple[Record, ...]
    total: float
    """Records of the whole file; estimated from its size where ``whole`` is false."""
    whole: bool
    broken: int = 0
    """Of the lines that were read."""
    named: tuple[str, ...] = ()
    """The first broken ones: where, and why."""


def unreadable(path: Path, reason: str) -> DataFileError:
    """A file of examples that cannot be read, with the reason."""
    text = _("cannot read data file '{file}': {reason}").format(file=path, reason=reason)
    return DataFileError("unreadable-data", text, file=str(path), reason=reason)


def sample_lines(path: Path) -> Sample:
    """Records of a JSONL, JSON, CSV or TSV file, by its suffix.

    Raises:
        DataFileError: the file is not what its suffix says.
        OSError: the file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return _table(path, "\t" if suffix == ".tsv" else ",")
    if suffix == ".json" and _starts_with_list(path):
        return _json_list(path)
    return _json_lines(path)


# -- JSONL -----------------------------------------------------------------------------------


class _Gathered:
    """What was read so far."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.named: list[str] = []
        self.broken = 0
        self.size = 0
        """Bytes of all lines that were read."""

    def take(self, line: bytes, where: str) -> None:
        """One line, with its newline."""
        self.size += len(line)
        content = line.strip()
        if not content:
            return
        try:
            record = json.loads(content)
            if not isinstance(record, dict):
                raise ValueError(_("no JSON object"))
            self.records.append(record)
        except RecursionError:
            self.fail(where, _("nested too deeply"))
        except json.JSONDecodeError as error:
            text = _("{reason} at column {column}").format(reason=error.msg, column=error.colno)
            self.fail(where, text)
        except ValueError as error:
            self.fail(where, str(error))

    def fail(self, where: str, reason: str) -> None:
        """One line that is of no use."""
        self.broken += 1
        if len(self.named) < _NAMED:
            self.named.append(f"{where}: {reason}")


def _json_lines(path: Path) -> Sample:
    size, found = path.stat().st_size, _Gathered()
    whole = size <= WHOLE
    with path.open("rb") as file:
        if file.read(3) != b"\xef\xbb\xbf":
            file.seek(0)
        line_of = _("line {number}")
        lines = _lines(file, size if whole else _FIRST)
        for number, (_place, line) in enumerate(lines, 1):
            found.take(line, line_of.format(number=number))
        byte_of = _("the line at byte {place}")
        for start in () if whole else _places(size):
            file.seek(start)
            file.readline(_LONGEST_LINE)
            for place, line in _lines(file, start + _BLOCK):
                found.take(line, byte_of.format(place=place))
    total = len(found.records)
    if not whole and found.size:
        total = round(total * size / found.size)
    return Sample(tuple(found.records), total, whole, found.broken, tuple(found.named))


def _places(size: int) -> list[int]:
    """One random place in each of equal parts behind the beginning."""
    random, part = Random(_SEED), (size - _FIRST) // _BLOCKS
    spare = max(1, part - _BLOCK)
    return [_FIRST + number * part + random.randrange(spare) for number in range(_BLOCKS)]


def _lines(file: BufferedReader, end: int) -> Iterator[tuple[int, bytes]]:
    """Lines that begin before ``end``, each with its place; the last one is read to its end."""
    place = file.tell()
    while place < end and (line := file.readline(_LONGEST_LINE)):
        yield place, line
        place += len(line)


# -- a list in one JSON file -----------------------------------------------------------------


def _starts_with_list(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _json_list(path: Path) -> Sample:
    if path.stat().st_size > _LARGEST_LIST:
        reason = _("a JSON list larger than 64 MiB; write one object per line (.jsonl)")
        raise unreadable(path, reason)
    try:
        found = json.loads(path.read_bytes())
    except RecursionError:
        raise unreadable(path, _("nested too deeply")) from None
    except ValueError as error:
        raise unreadable(path, str(error)) from None
    kept = tuple(one for one in found if isinstance(one, dict))
    odd = [place for place, one in enumerate(found, 1) if not isinstance(one, dict)]
    text = _("item {number}: no JSON object")
    named = tuple(text.format(number=number) for number in odd[:_NAMED])
    return Sample(kept, len(kept), True, len(odd), named)


# -- tables ----------------------------------------------------------------------------------


def _table(path: Path, delimiter: str) -> Sample:
    """The rows at the beginning of a table; quoted cells may hold newlines."""
    size = path.stat().st_size
    whole = size <= WHOLE
    limit = csv.field_size_limit(WHOLE)
    try:
        return _rows(path, delimiter, _beginning(path, whole), size)
    except csv.Error as error:
        raise unreadable(path, str(error)) from None
    finally:
        csv.field_size_limit(limit)


def _beginning(path: Path, whole: bool) -> str:
    with path.open("rb") as file:
        data = file.read(WHOLE).removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if not whole and error.start > len(data) - 4:
            return data[: error.start].decode("utf-8")
        reason = _("no UTF-8 text at byte {place}").format(place=error.start)
        raise unreadable(path, reason) from None


def _rows(path: Path, delimiter: str, text: str, size: int) -> Sample:
    lines = text.splitlines(keepends=True)
    reader = csv.reader(lines, delimiter=delimiter)
    header = next(reader, [])
    if not header:
        raise unreadable(path, _("no header line"))
    records: list[Record] = []
    odd: list[tuple[int, int]] = []
    for row in reader:
        if len(row) == len(header):
            records.append(dict(zip(header, row, strict=True)))
        elif row:
            odd.append((reader.line_num, len(row)))
    whole = size <= WHOLE
    if not whole and odd and odd[-1][0] == len(lines):
        odd.pop()
    words = _("line {number}: {cells} cells under {columns} columns")
    named = [words.format(number=n, cells=c, columns=len(header)) for n, c in odd[:_NAMED]]
    total = len(records) if whole else round(len(records) * size / len(text.encode()))
    return Sample(tuple(records), total, whole, len(odd), tuple(named))
