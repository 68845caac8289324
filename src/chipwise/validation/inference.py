"""Measured speed of serving against its model: as shipped, or refitted without each source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import Calibration, shipped_serving
from chipwise.intervals import conformal_width
from chipwise.quantity import Array
from chipwise.serving_estimate import serving_speed
from chipwise.serving_speed_columns import speed_columns, speed_keys, stack_speed
from chipwise.validation.fit import fit_constants, source_weights
from chipwise.validation.inference_rows import RATES, ServingRow

Vector = NDArray[np.float64]
KIND = "serving"
_INFORMATION, _SCALE = 0.3, 0.2
"""One row says little against priors: what engines do differs more between labs than rows know."""
_LESS_TOLD = {"ttft_ms": 0.35}
"""Weight of rows whose protocol is mostly not recorded."""
_TARGETS = ("time_per_output_token", "time_to_first_token", "output_rate", "prompt_rate")
CLASSES = {
    **dict.fromkeys(RATES, "rate"),
    "prefill_tokens_per_s": "prompt",
    "tpot_ms": "token",
    "tokens_per_s_per_user": "token",
    "ttft_ms": "first",
}
"""Metrics whose errors are alike."""


@dataclass(frozen=True)
class SpeedTable:
    """Rows that can be predicted, ready to be."""

    rows: tuple[ServingRow, ...]
    columns: Mapping[str, Array]
    keys: Mapping[str, NDArray[np.str_]]
    metrics: NDArray[np.str_]
    sources: NDArray[np.str_]
    measured: Vector
    learnable: NDArray[np.bool_]
    """Rows that constants may learn from."""

    @classmethod
    def of(
        cls,
        rows: Sequence[ServingRow],
        sources: Sequence[str],
        measured: Vector,
        learnable: NDArray[np.bool_],
    ) -> SpeedTable:
        """A table of rows with what was measured."""
        columns, keys = stack_speed(
            [(speed_columns(r.deployment, r.traffic), speed_keys(r.deployment)) for r in rows]
        )
        metrics = np.array([row.metric for row in rows], dtype=np.str_)
        names = np.array(sources, dtype=np.str_)
        return cls(tuple(rows), columns, keys, metrics, names, measured, learnable)

    def take(self, keep: NDArray[np.bool_]) -> SpeedTable:
        """The rows where ``keep`` is true."""
        index = np.flatnonzero(keep)
        return SpeedTable(
            tuple(self.rows[i] for i in index),
            {name: np.asarray(value)[index] for name, value in self.columns.items()},
            {axis: value[index] for axis, value in self.keys.items()},
            self.metrics[index],
            self.sources[index],
            self.measured[index],
            self.learnable[index],
        )


def predict_speed(table: SpeedTable, constants: Mapping[str, Array]) -> Vector:
    """Predictions in the unit of each row's metric. Shape (rows,).

    Args:
        table: the rows.
        constants: by name, bound to the rows.
    """
    found = serving_speed({**table.columns, **constants}, _TARGETS)
    shape = (len(table.rows),)
    rate, token = (np.broadcast_to(found[n], shape) for n in ("output_rate", _TARGETS[0]))
    answer = np.asarray(table.columns["output_tokens"])
    prompt = np.asarray(table.columns["prompt_tokens"])
    choices = {
        "output_tokens_per_s": rate,
        "total_tokens_per_s": rate * (prompt + answer) / answer,
        "requests_per_s": rate / answer,
        "prefill_tokens_per_s": found["prompt_rate"],
        "tpot_ms": 1e3 * token,
        "tokens_per_s_per_user": 1 / token,
        "ttft_ms": 1e3 * np.asarray(found["time_to_first_token"]),
    }
    value = np.zeros(shape)
    for metric, numbers in choices.items():
        value = np.where(table.metrics == metric, numbers, value)
    return np.maximum(value, 1e-9)


def calibrate_speed(
    table: SpeedTable, start: Calibration | None = None
) -> tuple[Calibration, dict[str, float]]:
    """Constants fitted to a table, and the spread of each after the fit.

    Args:
        table: rows to learn from; those that are not learnable are left out.
        start: the calibration whose priors hold the constants.
    """
    start = start or shipped_serving()
    prior = start.with_values([constant.prior for constant in start.constants])
    rows = table.take(table.learnable & (table.measured > 0))
    if not len(rows.rows):
        return prior, {}
    told = np.array([_LESS_TOLD.get(str(metric), 1.0) for metric in rows.metrics])
    unsaid = np.array(["prompts of" in " ".join(row.notes) for row in rows.rows])
    fit = fit_constants(
        lambda constants: predict_speed(rows, constants),
        rows.keys,
        rows.measured,
        source_weights(rows.sources) * told * np.where(unsaid, 0.5, 1.0),
        prior,
        KIND,
        scale=_SCALE,
        weight=_INFORMATION,
    )
    return fit.calibration, fit.spread


def predict_left_out(table: SpeedTable, only: str | None = None) -> Vector:
    """Each source predicted with constants refitted to all others. Shape (rows,).

    Args:
        table: all rows.
        only: the one source that is wanted; others stay NaN.
    """
    value = np.full(len(table.rows), np.nan)
    for source in np.unique(table.sources):
        if only not in (None, str(source)):
            continue
        mine = table.sources == source
        fitted, _spread = calibrate_speed(table.take(~mine))
        part = table.take(mine)
        value[mine] = predict_speed(part, fitted.columns(part.keys))
    return value


def half_widths(table: SpeedTable, value: Vector, keep: NDArray[np.bool_]) -> dict[str, float]:
    """Half-width of 80 % intervals in ln, by class of metric, from left-out errors."""
    found: dict[str, float] = {}
    classes = np.array([CLASSES[str(metric)] for metric in table.metrics])
    good = keep & table.learnable & (table.measured > 0) & np.isfinite(value)
    for name in dict.fromkeys(CLASSES.values()):
        rows = good & (classes == name)
        if rows.any():
            errors = np.log(value[rows] / table.measured[rows])
            risks = np.array([risk_of(table.rows[i]) for i in np.flatnonzero(rows)])
            found[name] = conformal_width(errors, risks, table.sources[rows].tolist())
    return found


def risk_of(row: ServingRow) -> float:
    """How much wider than usual the interval of a row is: young stacks, experts, open lengths."""
    risk = 1.0
    keys = speed_keys(row.deployment)
    if keys["stack"] != "usual":
        risk *= 1.5
    blocks = (group.feed_forward for group in row.deployment.setup.model.layers)
    if any(block is not None and block.num_experts for block in blocks):
        risk *= 1.3
    if any("prompts of" in note for note in row.notes):
        risk *= 1.3
    if row.traffic.at_once:
        risk *= 1.5
    return risk
