"""A measurement file as jobs, measured values and sources, ready to be predicted.

The values and sources stay beside the jobs; nothing here lets them reach a prediction.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from chipwise.defaults import Resolved, resolve
from chipwise.errors import ChipwiseError, DataFileError, UsageError
from chipwise.i18n import _
from chipwise.validation.rows import SkippedRowError, training_job

Row = Mapping[str, str]
R = TypeVar("R", bound=Row)
SPEED = ("tokens_per_s_per_device", "step_time_s", "mfu", "hfu", "model_tflops_per_device")
MEMORY_METRICS = ("peak_memory_gb", "oom")
_LARGEST_FILE = 64 * 2**20
_DOUBTFUL = ("DISTRUST", "FLAG", "CHECK")


@dataclass(frozen=True)
class Counting:
    """How a source counts FLOPs when it prints a utilization."""

    attention_factor: float
    """2 when the masked half of the scores is counted, 1 when it is not."""
    recompute: bool
    per_param: float
    """FLOP per parameter and token where the source uses a bare rule such as 8·N; else 0."""
    peak: float
    """Peak the source divides by, FLOP/s; 0 means the peak of the training dtype."""


class SkippedRow(NamedTuple):
    """A row that cannot be predicted, and why."""

    id: str
    source: str
    reason: str


@dataclass(frozen=True)
class Table:
    """Rows that can be predicted, in file order, and the reasons for those that cannot."""

    rows: tuple[Row, ...]
    resolved: tuple[Resolved, ...]
    assumed: tuple[tuple[str, ...], ...]
    skipped: tuple[SkippedRow, ...]
    num_rows: int

    @property
    def metrics(self) -> NDArray[np.str_]:
        """Metric of each row. Shape (rows,)."""
        return np.array([row["metric"] for row in self.rows], dtype=np.str_)

    @property
    def sources(self) -> NDArray[np.str_]:
        """Source of each row. Shape (rows,)."""
        return np.array([row.get("source", "") for row in self.rows], dtype=np.str_)

    @property
    def measured(self) -> NDArray[np.float64]:
        """Measured values; utilizations above 1.5 are percentages, NaN is none. Shape (rows,)."""
        return np.array([_measured(row) for row in self.rows], dtype=np.float64)

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """Rows whose notes do not doubt the value. Shape (rows,)."""
        return np.array(
            [not any(w in row.get("notes", "") for w in _DOUBTFUL) for row in self.rows],
            dtype=np.bool_,
        )

    def take(self, keep: NDArray[np.bool_]) -> Table:
        """The rows where ``keep`` is true."""
        index = np.flatnonzero(keep)
        return Table(
            tuple(self.rows[i] for i in index),
            tuple(self.resolved[i] for i in index),
            tuple(self.assumed[i] for i in index),
            (),
            len(index),
        )


def read_rows(path: Path) -> tuple[list[dict[str, str]], str]:
    """The rows of a measurement file and its kind, recognised by its columns.

    Raises:
        DataFileError: not a file, too large, no CSV, or columns of neither kind.
    """
    if not path.is_file():
        raise DataFileError(
            "no-such-file", _("{path} is no file").format(path=path), path=str(path)
        )
    if path.stat().st_size > _LARGEST_FILE:
        raise DataFileError("file-too-large", _("{path} is over 64 MiB").format(path=path))
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows = [{k: v or "" for k, v in row.items() if k is not None} for row in reader]
            columns = reader.fieldnames or []
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataFileError("not-csv", f"{path}: {error}", path=str(path)) from error
    return rows, _kind(path, columns)


def _kind(path: Path, columns: Sequence[str]) -> str:
    missing = [name for name in ("id", "metric", "accelerator", "layers") if name not in columns]
    if not missing and "input_len" in columns:
        return "inference"
    if not missing and "seq_len" in columns:
        return "training"
    raise DataFileError(
        "unknown-columns",
        _("{path}: not a measurement file; missing columns: {names}").format(
            path=path, names=", ".join(missing or ["seq_len or input_len"])
        ),
        path=str(path),
    )


def rows_of(rows: Sequence[R], source: str | None) -> list[R]:
    """The rows of one source, or all.

    Raises:
        UsageError: no row has this source.
    """
    found = [row for row in rows if source in (None, row.get("source", ""))]
    if source is not None and not found:
        known = sorted({row.get("source", "") for row in rows})
        raise UsageError(
            "unknown-source",
            _("no row has source '{name}'; there are {known}").format(
                name=source, known=", ".join(known)
            ),
        )
    return found


def training_table(rows: Sequence[Row]) -> Table:
    """Rows to resolved jobs; rows that cannot be predicted are listed with their reason."""
    kept: list[Row] = []
    resolved: list[Resolved] = []
    assumed: list[tuple[str, ...]] = []
    skipped: list[SkippedRow] = []
    for row in rows:
        try:
            if row["metric"] not in (*SPEED, *MEMORY_METRICS):
                reason = _("metric {name} is not predicted").format(name=row["metric"])
                raise SkippedRowError(reason)
            job, notes = training_job(row)
            complete = resolve(job)
        except (SkippedRowError, ChipwiseError) as error:
            skipped.append(SkippedRow(row["id"], row.get("source", ""), str(error)))
            continue
        kept.append(row)
        resolved.append(complete)
        assumed.append((*notes, *complete.assumptions))
    return Table(tuple(kept), tuple(resolved), tuple(assumed), tuple(skipped), len(rows))


def _measured(row: Row) -> float:
    try:
        value = float(row.get("value", ""))
    except ValueError:
        return float("nan")
    if not isfinite(value):
        return float("nan")
    return value / 100 if row["metric"] in ("mfu", "hfu") and value > 1.5 else value


def counting(row: Row) -> Counting:
    """The FLOP convention of a row, from its ``flops_convention`` cell.

    Notes:
        Unstated: full (not halved) attention without recompute, as Megatron and most sources
        count; ``hfu`` counts recompute.
    """
    text = row.get("flops_convention", "").lower()
    bare = re.search(r"(\d+)\s*\*\s*n\s*\*\s*t", text)
    peak = re.search(r"peak (\d+)", text)
    halved = "causal" in text and "non-causal" not in text
    return Counting(
        attention_factor=1.0 if halved else 2.0,
        recompute="hardware" in text or row["metric"] == "hfu",
        per_param=float(bare[1]) if bare else 0.0,
        peak=float(peak[1]) * 1e12 if peak else 0.0,
    )
