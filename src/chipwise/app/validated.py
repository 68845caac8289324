"""Scored rows and their summaries in the words of the documents, for either kind of measurement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from chipwise.app.documents import Verdict
from chipwise.app.documents_facts import PredictedRow, ValidateSummary
from chipwise.validation.score import Scored, Summary


def predicted_row(row: Scored) -> PredictedRow:
    """One measurement with its prediction; of a run out of memory the verdict is the prediction."""
    verdict = cast(Verdict, row.verdict)
    if row.metric == "oom":
        return PredictedRow(
            id=row.id,
            metric=row.metric,
            predicted=row.verdict,
            measured="does not fit",
            verdict=verdict,
        )
    return PredictedRow(
        id=row.id,
        metric=row.metric,
        predicted=row.predicted,
        low=row.low,
        high=row.high,
        measured=row.measured,
        error=row.error,
        verdict=verdict,
    )


def summaries(found: Iterable[Summary]) -> tuple[ValidateSummary, ...]:
    """The errors of each group."""
    names = ValidateSummary.model_fields
    return tuple(ValidateSummary(**{name: getattr(one, name) for name in names}) for one in found)
