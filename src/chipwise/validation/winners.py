"""Published layouts that won at their authors', beside the best layout the search finds.

Who tunes a run by hand publishes the fastest layout found. The search ranks layouts by predicted
time alone, so a published winner should be among its fastest; where it is not, some term of the
model makes another layout too cheap. Rows are chosen by their cells, never by what is predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chipwise.calibration import shipped
from chipwise.estimate import choose, evaluate_time
from chipwise.search.rank import search
from chipwise.spec.job import Strategy, TrainingJob
from chipwise.validation.rows import count_in, framework_in, number_in, word_in
from chipwise.validation.table import SPEED, Row, Table, training_table

ROOMY = 0.9
"""Share of the memory that plans use by preference."""
CLOSE = 1.10
"""A winner may take so much longer than the best layout found."""
_STACKS = ("megatron-core", "megatron", "other")
"""Stacks whose users choose tensor and pipeline degrees by hand."""
_STATED = ("tp", "pp", "global_batch", "seq_len")
_FEWEST_DEVICES = 32
_SAME = (
    *("layers", "hidden", "ffn_hidden", "num_experts", "vocab", "method"),
    *("accelerator", "num_devices", "precision", "seq_len", "global_batch", "metric"),
)
"""Cells that make two rows answers to one question."""
_DEGREES = ("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "shard_group")
_MEMORY = ("sequence_parallel", "shard", "recompute", "recompute_every")
_REPEATING_PARTS = "2022-05"
"""When sequence parallelism and the recompute of parts were published [korthikanti2022]. Nobody
could choose them before, nor had Megatron sharded optimizer states."""


@dataclass(frozen=True)
class Winner:
    """A published layout and the best that the search finds for the same job."""

    row: Row
    job: TrainingJob
    """The job with its layout left open."""
    published: Strategy
    published_time: float
    """Predicted. [s]"""
    best: Strategy | None
    """None where the search finds nothing that fits."""
    best_time: float
    """Predicted; infinite where nothing fits. [s]"""

    @property
    def ratio(self) -> float:
        """Predicted time of the published layout over that of the best found."""
        return self.published_time / self.best_time

    @property
    def close(self) -> bool:
        """Whether the published layout is as good as the best found, or nearly."""
        return self.ratio <= CLOSE


def tuned(rows: Sequence[Row]) -> list[Row]:
    """The fastest row of each question that was answered by a choice of layout.

    Notes:
        Speed metric; a stack that splits by hand; full training; degrees, batch and sequence
        stated, and the batch divides over the ranks; at least 32 devices.
    """
    best: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if not _chosen_by_hand(row):
            continue
        question = (framework_in(row), *((row.get(name) or "").strip() for name in _SAME))
        if question not in best or _speed(row) > _speed(best[question]):
            best[question] = row
    return list(best.values())


def winners(rows: Sequence[Row], limit: float = ROOMY) -> list[Winner]:
    """Predicted times of tuned rows, and of the best layouts found in their place.

    Args:
        rows: measurement rows; those that cannot be predicted are left out.
        limit: share of the usable memory that the layouts found may use.
    """
    table = training_table(tuned(rows))
    table = table.take(table.trusted & (table.measured > 0))
    if not table.rows:
        return []
    calibration = shipped()
    chosen = choose(table.resolved, calibration)
    found = evaluate_time(chosen.columns | calibration.columns(chosen.keys), ("step_time",))
    times = np.broadcast_to(found["step_time"], (len(table.rows),))
    return [
        _winner(table, place, strategy, float(times[place]), limit)
        for place, strategy in enumerate(chosen.strategies)
    ]


def _winner(table: Table, place: int, published: Strategy, time: float, limit: float) -> Winner:
    resolved = table.resolved[place]
    free = published.model_copy(update=dict.fromkeys(_open(table.rows[place])))
    job = resolved.job.model_copy(update={"strategy": free})
    best = search(job, limit, 1).best
    if not best:
        return Winner(table.rows[place], job, published, time, None, float("inf"))
    return Winner(table.rows[place], job, published, time, best[0].strategy, best[0].step_time)


def _chosen_by_hand(row: Row) -> bool:
    if row["metric"] not in SPEED or framework_in(row) not in _STACKS:
        return False
    if not all(row.get(name) for name in _STATED) or word_in(row, "method") not in ("", "full"):
        return False
    return (count_in(row, "num_devices") or 1) >= _FEWEST_DEVICES and _divides(row)


def _divides(row: Row) -> bool:
    """Whether the ranks that a row's degrees leave share its batch evenly."""
    devices, sequences = count_in(row, "num_devices") or 1, count_in(row, "global_batch") or 1
    parts = [count_in(row, name) or 1 for name in ("tp", "pp", "cp")]
    dp = count_in(row, "dp") or devices // (parts[0] * parts[1] * parts[2])
    return sequences % dp == 0


def _open(row: Row) -> tuple[str, ...]:
    """What the search may choose in place of a row's layout."""
    early = (row.get("published") or _REPEATING_PARTS) < _REPEATING_PARTS
    return _DEGREES if early else (*_DEGREES, *_MEMORY)


def _speed(row: Row) -> float:
    """Comparable within one metric only: higher is faster."""
    value = number_in(row, "value") or 0.0
    return -value if row["metric"] == "step_time_s" else value
