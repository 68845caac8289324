"""Predictions for training measurements: as shipped, or refitted without each source.

Memory constants are fitted to memory rows and decide which strategy a row with gaps gets; speed
constants are fitted to speed rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import Calibration, shipped
from chipwise.intervals import Widths, conformal_width, memory_risk, time_risk
from chipwise.validation.fit import INFORMATION, fit_constants, source_weights
from chipwise.validation.observed import Shift, apply_shift
from chipwise.validation.predict import Predictor
from chipwise.validation.score import Scored
from chipwise.validation.table import SPEED, Table

Vector = NDArray[np.float64]
TIGHT, FULL = 0.9, 1.0


@dataclass(frozen=True)
class Predicted:
    """Predictions for all rows of a table, in order. Each array has shape (rows,)."""

    value: Vector
    """In the unit of the row's metric; peak memory in GB for ``oom`` rows."""
    share: Vector
    """Needed over usable memory."""
    risk: Vector


def calibrate(table: Table, start: Calibration) -> tuple[Calibration, dict[str, float]]:
    """Constants fitted to a table, and the spread of each after the fit.

    Args:
        table: rows to learn from; doubted ones are left out.
        start: the calibration whose priors hold the constants; its values are not used.
    """
    prior = start.with_values([constant.prior for constant in start.constants])
    table = table.take(table.trusted & (table.measured > 0))
    spread: dict[str, float] = {}
    fitted = prior
    for kind, keep in (
        ("memory", table.metrics == "peak_memory_gb"),
        ("speed", np.isin(table.metrics, SPEED)),
    ):
        rows = table.take(keep)
        if not len(rows.rows):
            continue
        predictor = Predictor.of(rows, fitted)
        predict = predictor.memory_gb if kind == "memory" else predictor.speed
        fit = fit_constants(
            predict,
            predictor.chosen.keys,
            rows.measured,
            source_weights(rows.sources),
            fitted,
            kind,
            weight=INFORMATION[kind],
        )
        fitted = fit.calibration
        spread |= fit.spread
    return fitted, spread


def predict(table: Table, calibration: Calibration) -> Predicted:
    """Predict every row from its configuration with one calibration."""
    if not len(table.rows):
        empty = np.zeros(0)
        return Predicted(empty, empty, empty)
    predictor = Predictor.of(table, calibration)
    constants = calibration.columns(predictor.chosen.keys)
    memory = predictor.memory(constants)
    share = memory["needed_bytes"] / memory["usable_bytes"]
    is_speed = np.isin(table.metrics, SPEED)
    value = np.where(is_speed, predictor.speed(constants), predictor.memory_gb(constants))
    risks = [
        time_risk(one.job, one.job.strategy, float(full))
        if speed
        else memory_risk(one.job, one.job.strategy)
        for one, full, speed in zip(table.resolved, share, is_speed, strict=True)
    ]
    return Predicted(value, share, np.array(risks))


def predict_left_out(table: Table, only: str | None = None) -> tuple[Predicted, dict[str, Widths]]:
    """Predict each source with constants refitted to the rows of all other sources.

    Args:
        table: all rows.
        only: the one source wanted; widths still need the errors of all others.

    Returns:
        Predictions of all rows, and the interval half-widths of each source, learnt from the
        left-out errors of the other sources.
    """
    sources = table.sources
    value, share, risk = (np.zeros(len(table.rows)) for _ in range(3))
    for source in np.unique(sources):
        mine = sources == source
        fitted, _ = calibrate(table.take(~mine), shipped())
        part = predict(table.take(mine), fitted)
        value[mine], share[mine], risk[mine] = part.value, part.share, part.risk
    found = Predicted(value, share, risk)
    wanted = [only] if only else [str(source) for source in np.unique(sources)]
    return found, {source: widths(table, found, sources != source) for source in wanted}


def widths(table: Table, predicted: Predicted, keep: NDArray[np.bool_]) -> Widths:
    """Half-widths from the errors of the rows kept."""
    usable = keep & table.trusted & (table.measured > 0) & (predicted.value > 0)
    speed = usable & np.isin(table.metrics, SPEED)
    memory = usable & (table.metrics == "peak_memory_gb")
    found: list[float] = []
    for rows in (speed, memory):
        errors = np.log(predicted.value[rows] / table.measured[rows])
        found.append(conformal_width(errors, predicted.risk[rows], table.sources[rows].tolist()))
    return Widths(*found)


def verdict(share: float) -> str:
    """``fits``, ``tight`` (under 10 % left) or ``does not fit``."""
    if share > FULL:
        return "does not fit"
    return "tight" if share > TIGHT else "fits"


def scored(
    table: Table,
    predicted: Predicted,
    by_source: dict[str, Widths],
    shift: Shift | None,
    own: Mapping[int, Shift | None],
) -> list[Scored]:
    """Rows with predictions and intervals, moved by what was observed on the same site.

    Args:
        table: the rows.
        predicted: their predictions.
        by_source: interval half-widths by source, ``*`` for all others.
        shift: how the site moves; None when nothing was observed.
        own: shifts of rows that were observed themselves, by place in the table.
    """
    rows: list[Scored] = []
    measured, trusted, sources = table.measured, table.trusted, table.sources
    for i, row in enumerate(table.rows):
        half = by_source.get(str(sources[i])) or by_source["*"]
        speed = row["metric"] in SPEED
        width = (half.time if speed else half.memory) * float(predicted.risk[i])
        value, width = apply_shift(
            own.get(i, shift), row["metric"], float(predicted.value[i]), width
        )
        nearly_full = 1.5 if predicted.share[i] > 0.93 and row["metric"] == "step_time_s" else 1.0
        rows.append(
            Scored(
                id=row["id"],
                metric=row["metric"],
                source=str(sources[i]),
                accelerator=row.get("accelerator", ""),
                trusted=bool(trusted[i]),
                predicted=value,
                low=value * float(np.exp(-width)),
                high=value * float(np.exp(width * nearly_full)),
                measured=float(measured[i]),
                verdict=verdict(float(predicted.share[i])),
            )
        )
    return rows


def observations(table: Table, value: Vector) -> list[tuple[str, float] | None]:
    """(metric, ln(measured / predicted)) of observed rows; None where one is not positive.

    Args:
        table: observed rows.
        value: their predictions. Shape (rows,).
    """
    pairs = zip(table.rows, table.measured, value, strict=True)
    return [
        (row["metric"], float(np.log(measured / guess))) if measured > 0 and guess > 0 else None
        for row, measured, guess in pairs
    ]
