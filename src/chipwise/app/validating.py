"""Use case: predictions against published or own measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from chipwise.app.documents import Assumption, Observed
from chipwise.app.documents_facts import SkippedRow, ValidateConstant, ValidateDocument
from chipwise.app.observing import shift_words
from chipwise.app.requests import ValidateRequest
from chipwise.app.validated import predicted_row, summaries
from chipwise.catalogue.load import use_catalogue
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.validation.report import BUNDLED, Report, validate_training
from chipwise.validation.table import read_rows


def validate(request: ValidateRequest) -> ValidateDocument:
    """Predict every row of a measurement file and compare.

    Raises:
        DataFileError: a file cannot be read or is no measurement file.
        UsageError: the kind contradicts the file, or a source does not occur.
    """
    use_catalogue(Path(request.catalogue) if request.catalogue else None)
    file = Path(request.file) if request.file else None
    kind = request.kind or "training"
    if file is not None:
        _rows, found = read_rows(file)
        if request.kind not in (None, found):
            raise UsageError(
                "kind-contradicts-file",
                _("{file} holds {found} measurements, not {kind}").format(
                    file=file, found=found, kind=request.kind
                ),
            )
        kind = cast(Literal["training", "inference"], found)
    if kind == "inference":
        return _inference(request, file or BUNDLED / "inference.csv")
    report = validate_training(
        file,
        leave_one_source_out=request.leave_one_source_out,
        only_source=request.only_source,
        observed=Path(request.observed) if request.observed else None,
    )
    return _document(request, report)


def _document(request: ValidateRequest, report: Report) -> ValidateDocument:
    rows = [predicted_row(row) for row in report.rows]
    skipped = [SkippedRow(id=row.id, skipped=row.reason) for row in report.skipped]
    return ValidateDocument(
        inputs=request.model_dump(exclude_none=True),
        assumptions=(*_calibration_words(request, report), *_shift_words(report)),
        kind="training",
        n_rows=report.num_rows,
        n_predicted=len(rows),
        n_skipped=len(skipped),
        summary=summaries(report.summary),
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
        rows=(*rows, *skipped),
        observed=_observed(report),
    )


def _shift_words(report: Report) -> tuple[Assumption, ...]:
    shift = report.shift
    if shift is None or shift.tells_nothing:
        return ()
    moved = "; ".join(shift_words(shift))
    text = _("{runs} observed rows moved all predictions, their own excepted: {moved}")
    return (Assumption(text=text.format(runs=report.observed_runs, moved=moved)),)


def _observed(report: Report) -> Observed | None:
    shift = report.shift
    if shift is None:
        return None
    return Observed(
        accelerator="",
        time_shift=shift.time,
        memory_shift=shift.memory,
        time_narrowing=shift.time_narrowing,
        memory_narrowing=shift.memory_narrowing,
        runs=report.observed_runs,
    )


def _calibration_words(request: ValidateRequest, report: Report) -> tuple[Assumption, ...]:
    """Which rows the constants behind the predictions were fitted to."""
    if not request.leave_one_source_out:
        text = _("constants as shipped, fitted to the bundled measurements of all sources")
    elif report.num_sources < 2:
        text = _("constants at their priors and ranges as shipped: no other source to refit from")
    elif request.only_source is None:
        text = _("constants refitted for each source from the rows of all others")
    else:
        text = _("constants refitted without the rows of {source}").format(
            source=request.only_source
        )
    return (Assumption(text=text),)


def _inference(request: ValidateRequest, file: Path) -> ValidateDocument:
    from chipwise.app.validating_inference import validate_inference

    return validate_inference(request, file)
