"""The validation of inference measurements: speed and memory rows together, scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from chipwise.calibration import Calibration, shipped_serving, shipped_serving_widths
from chipwise.validation.inference import (
    CLASSES,
    SpeedTable,
    half_widths,
    predict_left_out,
    predict_speed,
    risk_of,
)
from chipwise.validation.inference_memory import METRIC, MemoryPrediction, predict
from chipwise.validation.inference_rows import ServingRow, serving_row
from chipwise.validation.rows import SkippedRowError
from chipwise.validation.score import Scored
from chipwise.validation.table import Row, SkippedRow, Table

_PLAIN = ("", "no")


@dataclass(frozen=True)
class InferenceReport:
    """Rows with predictions, and those without."""

    rows: tuple[Scored, ...]
    skipped: tuple[SkippedRow, ...]
    constants: Calibration
    notes: Mapping[str, int]
    """What was assumed about rows, and about how many."""
    num_sources: int
    """Sources among the rows of speed."""


def inference_report(
    rows: Sequence[Row], *, leave_one_source_out: bool = False, only_source: str | None = None
) -> InferenceReport:
    """Predict every row of an inference measurement file.

    Args:
        rows: all rows of the file.
        leave_one_source_out: refit the constants of speed for each source from the others' rows.
        only_source: limit the output to this source.
    """
    kept = [row for row in rows if only_source in (None, row.get("source"))]
    memory = [row for row in kept if row.get("metric", "").strip().lower() == METRIC]
    wanted = {id(row) for row in memory}
    speed = [row for row in rows if row.get("metric", "").strip().lower() != METRIC]
    notes: dict[str, int] = {}
    scored, skipped = _memory(memory, notes)
    ready: list[tuple[Row, ServingRow]] = []
    for row in speed:
        try:
            ready.append((row, serving_row(row)))
        except SkippedRowError as reason:
            if id(row) not in wanted and only_source in (None, row.get("source")):
                skipped.append(SkippedRow(row.get("id", ""), row.get("source", ""), str(reason)))
    if ready:
        scored += _speed(ready, notes, left_out=leave_one_source_out, only=only_source)
    return InferenceReport(
        tuple(scored),
        tuple(skipped),
        shipped_serving(),
        notes,
        len({row.get("source", "") for row, _one in ready}),
    )


def speed_table(ready: Sequence[tuple[Row, ServingRow]]) -> SpeedTable:
    """Rows with what was measured; doubted and speculative ones are no ground to learn from."""
    cells = Table(tuple(row for row, _one in ready), (), (), (), len(ready))
    plain = np.array([row.get("speculative", "").strip().lower() in _PLAIN for row, _one in ready])
    sources = [row.get("source", "") for row, _one in ready]
    return SpeedTable.of(
        [one for _row, one in ready], sources, cells.measured, cells.trusted & plain
    )


def _speed(
    ready: Sequence[tuple[Row, ServingRow]],
    notes: dict[str, int],
    *,
    left_out: bool,
    only: str | None,
) -> list[Scored]:
    table = speed_table(ready)
    several = len(np.unique(table.sources)) > 1
    usual = shipped_serving_widths()
    if left_out and several:
        value = predict_left_out(table)
        widths = {
            str(source): {**usual, **half_widths(table, value, table.sources != source)}
            for source in np.unique(table.sources)
        }
    else:
        start = shipped_serving()
        if left_out:  # nothing to refit from
            start = start.with_values([constant.prior for constant in start.constants])
        value, widths = predict_speed(table, start.columns(table.keys)), {}
    cells = Table(tuple(row for row, _one in ready), (), (), (), len(ready))
    found = []
    for place, (row, one) in enumerate(ready):
        source = row.get("source", "")
        if only not in (None, source):
            continue
        for note in one.notes:
            notes[note] = notes.get(note, 0) + 1
        width = widths.get(source, usual)[CLASSES[one.metric]] * risk_of(one)
        found.append(
            Scored(
                id=row.get("id", ""),
                metric=one.metric,
                source=source,
                accelerator=row.get("accelerator", ""),
                trusted=bool(cells.trusted[place]),
                predicted=float(value[place]),
                low=float(value[place]) * exp(-width),
                high=float(value[place]) * exp(width),
                measured=float(cells.measured[place]),
                verdict="fits",
            )
        )
    return found


def _memory(rows: Sequence[Row], notes: dict[str, int]) -> tuple[list[Scored], list[SkippedRow]]:
    cells = Table(tuple(rows), (), (), (), len(rows))
    scored, skipped = [], []
    for place, (row, one) in enumerate(zip(rows, predict(rows), strict=True)):
        if not isinstance(one, MemoryPrediction):
            skipped.append(SkippedRow(row.get("id", ""), row.get("source", ""), one))
            continue
        for note in one.assumptions:
            notes[note] = notes.get(note, 0) + 1
        scored.append(
            Scored(
                id=row.get("id", ""),
                metric=row["metric"],
                source=row.get("source", ""),
                accelerator=row.get("accelerator", ""),
                trusted=bool(cells.trusted[place]),
                predicted=one.predicted,
                low=one.low,
                high=one.high,
                measured=float(cells.measured[place]),
                verdict="fits" if one.fits else "does not fit",
            )
        )
    return scored, skipped
