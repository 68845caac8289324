"""The use case ``validate`` for inference measurements: serving memory, the rest skipped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chipwise.app.documents import Assumption
from chipwise.app.documents_facts import SkippedRow, ValidateDocument
from chipwise.app.requests import ValidateRequest
from chipwise.app.validated import predicted_row, summaries
from chipwise.i18n import _
from chipwise.validation.inference_memory import MemoryPrediction, predict
from chipwise.validation.score import Scored, summarise
from chipwise.validation.table import Table, read_rows, rows_of


def validate_inference(request: ValidateRequest, file: Path) -> ValidateDocument:
    """Predict every row of an inference measurement file and compare.

    Raises:
        DataFileError: the file cannot be read.
        UsageError: the source does not occur.
    """
    every, _kind = read_rows(file)
    rows = rows_of(every, request.only_source)
    found = predict(rows)
    pairs = [
        (row, one)
        for row, one in zip(rows, found, strict=True)
        if isinstance(one, MemoryPrediction)
    ]
    table = Table(tuple(row for row, _one in pairs), (), (), (), len(pairs))
    scored = [
        _scored(row, one, measured=float(measured), trusted=bool(trusted))
        for (row, one), measured, trusted in zip(pairs, table.measured, table.trusted, strict=True)
    ]
    skipped = [
        SkippedRow(id=row.get("id", ""), skipped=one)
        for row, one in zip(rows, found, strict=True)
        if isinstance(one, str)
    ]
    return ValidateDocument(
        inputs=request.model_dump(exclude_none=True),
        assumptions=_assumptions(pairs),
        warnings=_warnings(request),
        kind="inference",
        n_rows=len(rows),
        n_predicted=len(scored),
        n_skipped=len(skipped),
        summary=summaries(summarise(scored)),
        rows=(*map(predicted_row, scored), *skipped),
    )


def _scored(
    row: Mapping[str, str], one: MemoryPrediction, *, measured: float, trusted: bool
) -> Scored:
    return Scored(
        id=row.get("id", ""),
        metric=row["metric"],
        source=row.get("source", ""),
        accelerator=row.get("accelerator", ""),
        trusted=trusted,
        predicted=one.predicted,
        low=one.low,
        high=one.high,
        measured=measured,
        verdict="fits" if one.fits else "does not fit",
    )


def _assumptions(
    pairs: list[tuple[dict[str, str], MemoryPrediction]],
) -> tuple[Assumption, ...]:
    """What was assumed about rows, the most frequent first."""
    counts: dict[str, int] = {}
    for _row_cells, one in pairs:
        for text in one.assumptions:
            counts[text] = counts.get(text, 0) + 1
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    return tuple(
        Assumption(text=text, effect=_("{n} rows").format(n=counts[text])) for text in ranked
    )


def _warnings(request: ValidateRequest) -> tuple[str, ...]:
    if not (request.leave_one_source_out or request.observed):
        return ()
    return (_("no constant of serving memory is fitted: nothing to leave out or to observe"),)
