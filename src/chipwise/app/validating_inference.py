"""The use case ``validate`` for inference measurements: speed and memory of serving."""

from __future__ import annotations

from pathlib import Path

from chipwise.app.documents import Assumption
from chipwise.app.documents_facts import SkippedRow, ValidateConstant, ValidateDocument
from chipwise.app.requests import ValidateRequest
from chipwise.app.validated import predicted_row, summaries
from chipwise.i18n import _
from chipwise.validation.inference_report import InferenceReport, inference_report
from chipwise.validation.score import summarise
from chipwise.validation.table import read_rows, rows_of


def validate_inference(request: ValidateRequest, file: Path) -> ValidateDocument:
    """Predict every row of an inference measurement file and compare.

    Raises:
        DataFileError: the file cannot be read.
        UsageError: the source does not occur.
    """
    every, _kind = read_rows(file)
    wanted = rows_of(every, request.only_source)
    report = inference_report(
        every,
        leave_one_source_out=request.leave_one_source_out,
        only_source=request.only_source,
    )
    return ValidateDocument(
        inputs=request.model_dump(exclude_none=True),
        assumptions=(*_constants(request, report), *_assumptions(report)),
        warnings=_warnings(request),
        kind="inference",
        n_rows=len(wanted),
        n_predicted=len(report.rows),
        n_skipped=len(report.skipped),
        summary=summaries(summarise(report.rows)),
        constants=tuple(
            ValidateConstant(
                name=constant.label,
                value=constant.value,
                unit=constant.unit,
                spread=constant.spread,
                fitted_to=constant.fitted_to,
            )
            for constant in report.constants.constants
            if constant.fitted_to
        ),
        rows=(
            *map(predicted_row, report.rows),
            *(SkippedRow(id=row.id, skipped=row.reason) for row in report.skipped),
        ),
    )


def _constants(request: ValidateRequest, report: InferenceReport) -> tuple[Assumption, ...]:
    """Which rows the constants of speed were fitted to."""
    if not request.leave_one_source_out:
        text = _("constants as shipped, fitted to the bundled measurements of all sources")
    elif report.num_sources < 2:
        text = _("constants at their priors and ranges as shipped: no other source to refit from")
    else:
        text = _("constants refitted for each source from the rows of all others")
    return (Assumption(text=text),)


def _assumptions(report: InferenceReport) -> tuple[Assumption, ...]:
    """What was assumed about rows, the most frequent first."""
    ranked = sorted(report.notes, key=lambda text: (-report.notes[text], text))
    return tuple(
        Assumption(text=text, effect=_("{n} rows").format(n=report.notes[text])) for text in ranked
    )


def _warnings(request: ValidateRequest) -> tuple[str, ...]:
    if not request.observed:
        return ()
    return (_("observed rows do not move the speed of serving yet, and were left out"),)
