"""The results of a study as Parquet files, written so that an interruption loses nothing stored.

Each part is written beside its place, flushed to the disk and then renamed, so that it is whole or
absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chipwise.app.arrow import load_arrow
from chipwise.errors import UsageError
from chipwise.i18n import _

_WORDS = (
    *("id", "status", "error", "reason", "request", "model", "system", "framework", "shard"),
    *("recompute", "verdict"),
)
_COUNTS = (
    *("job", "devices", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch"),
    *("seq_len", "candidates", "evaluated"),
)
_NUMBERS = (
    *("step_time_s", "tokens_per_s", "mfu", "duration_s", "duration_low_s", "duration_high_s"),
    *("device_hours", "cost_usd", "cost_low_usd", "cost_high_usd"),
    *("energy_kwh", "energy_low_kwh", "energy_high_kwh"),
)
_OWNER = "study.json"
Row = Mapping[str, Any]


class Store:
    """A folder with the rows of one study."""

    def __init__(self, folder: Path, study: str) -> None:
        """Open or make the folder.

        Raises:
            UsageError: it holds another study or other files, or cannot be written.
        """
        self._arrow = load_arrow("study")
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            owner = folder / _OWNER
            if owner.exists():
                found = json.loads(owner.read_text(encoding="utf-8")).get("study")
                if found != study:
                    raise _foreign(folder, _("the study '{name}'").format(name=found))
            elif any(folder.iterdir()):
                raise _foreign(folder, _("other files"))
            else:
                _write(owner, json.dumps({"study": study}).encode())
        except (OSError, ValueError) as error:
            text = _("cannot use {folder}: {reason}").format(folder=folder, reason=error)
            raise UsageError("study-folder", text, folder=str(folder)) from None

    def ids(self) -> set[str]:
        """Identities of the jobs that are stored."""
        return {str(name) for part in self._parts() for name in self._column(part, "id")}

    def add(self, rows: Sequence[Row]) -> None:
        """Store rows as one more part."""
        arrow, parquet = self._arrow
        fields = [
            *((name, arrow.string()) for name in _WORDS),
            *((name, arrow.int64()) for name in _COUNTS),
            *((name, arrow.float64()) for name in _NUMBERS),
        ]
        table = arrow.Table.from_pylist(
            [{name: row.get(name) for name, _kind in fields} for row in rows],
            schema=arrow.schema(fields),
        )
        number = max((int(part.stem.split("-")[1]) for part in self._parts()), default=0) + 1
        sink = arrow.BufferOutputStream()
        parquet.write_table(table, sink)
        _write(self._folder / f"part-{number:06d}.parquet", sink.getvalue().to_pybytes())

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("part-*.parquet"))

    def _column(self, part: Path, name: str) -> Iterable[object]:
        _arrow, parquet = self._arrow
        values: list[object] = parquet.read_table(part, columns=[name])[name].to_pylist()
        return values


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, whenever the process dies."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _foreign(folder: Path, what: str) -> UsageError:
    text = _("{folder} holds {what}; say --into with another folder")
    return UsageError("foreign-folder", text.format(folder=folder, what=what), folder=str(folder))
