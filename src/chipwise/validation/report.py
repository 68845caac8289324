"""The validation document: rows, summaries, constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from chipwise.calibration import Calibration, shipped, shipped_widths
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.intervals import Widths
from chipwise.validation.observed import Shift, learn_shift
from chipwise.validation.score import Scored, Summary, summarise
from chipwise.validation.table import SkippedRow, Table, read_rows, rows_of, training_table
from chipwise.validation.training import (
    Predicted,
    observations,
    predict,
    predict_left_out,
    scored,
)

BUNDLED = Path(__file__).parent.parent / "catalogue" / "data" / "measurements"


@dataclass(frozen=True)
class Report:
    """What ``chipwise validate`` found."""

    kind: str
    num_rows: int
    rows: tuple[Scored, ...]
    skipped: tuple[SkippedRow, ...]
    summary: tuple[Summary, ...]
    constants: Calibration
    assumptions: Mapping[str, tuple[str, ...]]
    """Row id → what had to be assumed."""
    shift: Shift | None
    observed_runs: int = 0
    """Observed rows that could be used."""
    num_sources: int = 0
    """Sources among the rows that can be predicted, wanted or not."""


def validate_training(
    file: Path | None = None,
    *,
    leave_one_source_out: bool = False,
    only_source: str | None = None,
    observed: Path | None = None,
) -> Report:
    """Predict every training row of a file and compare.

    Args:
        file: a measurement file; the bundled one when None.
        leave_one_source_out: refit the constants for each source from the other sources' rows.
        only_source: limit the output to this source.
        observed: measured rows of the same site; they shift and narrow all others.

    Raises:
        DataFileError: a file cannot be read.
        UsageError: the source does not occur.
    """
    raw, _kind = read_rows(file or BUNDLED / "training.csv")
    num_rows = len(rows_of(raw, only_source))
    table = training_table(raw)
    if leave_one_source_out:
        predicted, learnt = predict_left_out(table, only_source)
        widths = {"*": shipped_widths()} | {name: _known(one) for name, one in learnt.items()}
    else:
        predicted, widths = predict(table, shipped()), {"*": shipped_widths()}
    shift, own, runs = _learn(observed, table, predicted) if observed else (None, {}, 0)
    rows = scored(table, predicted, widths, shift, own)
    kept = [row for row in rows if only_source in (None, row.source)]
    return Report(
        kind="training",
        num_rows=num_rows,
        rows=tuple(kept),
        skipped=tuple(row for row in table.skipped if only_source in (None, row.source)),
        summary=tuple(summarise(kept)),
        constants=shipped(),
        assumptions={
            row["id"]: notes for row, notes in zip(table.rows, table.assumed, strict=True)
        },
        shift=shift,
        observed_runs=runs,
        num_sources=len(set(table.sources.tolist())),
    )


def _known(learnt: Widths) -> Widths:
    """Half-widths with the shipped ones where no other source has a row to learn from."""
    usual = shipped_widths()
    return Widths(
        learnt.time if isfinite(learnt.time) else usual.time,
        learnt.memory if isfinite(learnt.memory) else usual.memory,
    )


def _learn(
    observed: Path, table: Table, predicted: Predicted
) -> tuple[Shift, dict[int, Shift | None], int]:
    """The shift from observed rows, that of each table row observed itself, and how many there are.

    Observed rows that stand in the table are predicted as there, so that with sources left out
    they are predicted without their own source as well. Such a row is moved by the other observed
    rows only: its own value never reaches its prediction.
    """
    raw, _kind = read_rows(observed)
    own = training_table(raw)
    places = {_configuration(row): i for i, row in enumerate(table.rows)}
    value = predict(own, shipped()).value.copy()
    for i, row in enumerate(own.rows):
        if (place := places.get(_configuration(row))) is not None:
            value[i] = predicted.value[place]
    seen = observations(own, value)
    if not any(seen):
        reasons: Sequence[str] = sorted({row.reason for row in own.skipped})
        raise UsageError(
            "nothing-observed",
            _("{path}: no usable observed row ({reasons})").format(
                path=observed, reasons="; ".join(reasons) or _("the file is empty")
            ),
        )
    itself = {(_configuration(row), row.get("value")): i for i, row in enumerate(own.rows)}
    exceptions: dict[int, Shift | None] = {}
    for place, row in enumerate(table.rows):
        match = itself.get((_configuration(row), row.get("value")))
        if match is not None:
            others = [pair for i, pair in enumerate(seen) if i != match and pair]
            exceptions[place] = learn_shift(others) if others else None
    usable = [pair for pair in seen if pair]
    return learn_shift(usable), exceptions, len(usable)


_NOT_CONFIGURATION = frozenset(
    {"id", "source", "source_ref", "published", "notes", "value", "config_id"}
)


def _configuration(row: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in row.items() if k not in _NOT_CONFIGURATION))
