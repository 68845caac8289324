"""Memory first, then time: a search space evaluated in a few array operations.

Memory grows with the micro-batch, so each layout is first tried with its smallest one; only where
that fits are the larger ones looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import Calibration, shipped
from chipwise.columns import stack_columns, training_columns
from chipwise.estimate import evaluate_memory, evaluate_time
from chipwise.quantity import Array
from chipwise.search.space import Degrees, Space

CHUNK = 16384
"""Candidates per evaluation: intermediates of this size stay in cache."""
Index = NDArray[np.intp]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """The candidates of one space that fit, with memory and time. Arrays of shape (fitting,)."""

    space: Space
    template: Index
    layout: Index
    share: Vector
    """Needed over usable memory."""
    step_time: Vector
    evaluated: int
    """Candidates whose memory was computed."""
    least_share: float
    """Smallest share of usable memory that any candidate needs."""
    least_excess: float
    """Bytes by which the leanest candidate is over its memory; negative when it fits."""


def score(
    space: Space,
    limit: float,
    overrides: Mapping[str, float] | None = None,
    *,
    with_time: bool = True,
) -> Scored:
    """Evaluate a space.

    Args:
        space: templates and degrees.
        limit: share of usable memory that may be used.
        overrides: values that replace inputs, constants or quantities of every candidate.
        with_time: also compute the step time of what fits.
    """
    table = _Table.of(space, shipped(), overrides or {})
    first = _smallest_micro_batches(space.degrees)
    template, layout = _pairs(len(space.templates), first)
    needed, usable = table.memory(template, layout)
    share, excess = _share(needed, usable), needed - usable
    leanest = int(np.argmin(share))
    fits = share <= limit
    evaluated = len(share)
    more_template, more_layout = _larger(space.degrees, first, template[fits], layout[fits])
    if len(more_layout):
        needed, usable = table.memory(more_template, more_layout)
        evaluated += len(needed)
        more_share = _share(needed, usable)
        keep = more_share <= limit
        template = np.concatenate([template[fits], more_template[keep]])
        layout = np.concatenate([layout[fits], more_layout[keep]])
        kept = np.concatenate([share[fits], more_share[keep]])
    else:
        template, layout, kept = template[fits], layout[fits], share[fits]
    time = table.time(template, layout) if with_time else np.zeros(len(kept))
    return Scored(
        space,
        template,
        layout,
        kept,
        time,
        evaluated,
        float(share[leanest]),
        float(excess[leanest]),
    )


def _share(needed: Vector, usable: Vector) -> Vector:
    """Needed over usable memory; without any usable memory nothing fits."""
    return np.where(usable > 0, needed / np.where(usable > 0, usable, 1.0), np.inf)


def _pairs(templates: int, layouts: Index) -> tuple[Index, Index]:
    """Every template with every layout."""
    return np.repeat(np.arange(templates), len(layouts)), np.tile(layouts, templates)


def _group_of(degrees: Degrees) -> Index:
    """Number of the layout that each row belongs to, micro-batch aside; rows lie together."""
    names = [name for name in degrees if name != "micro_batch"]
    changed = np.zeros(len(degrees["tp"]), dtype=bool)
    for name in names:
        changed[1:] |= degrees[name][1:] != degrees[name][:-1]
    return np.cumsum(changed)


def _smallest_micro_batches(degrees: Degrees) -> Index:
    """Rows with the smallest micro-batch of their layout (sizes rise within a layout)."""
    group = _group_of(degrees)
    return np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))


def _larger(degrees: Degrees, first: Index, template: Index, layout: Index) -> tuple[Index, Index]:
    """All rows with larger micro-batches of the layouts given."""
    ends = np.append(first[1:], len(degrees["tp"]))
    place = np.searchsorted(first, layout)
    counts = ends[place] - first[place] - 1
    total = int(counts.sum())
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(total) - starts
    return np.repeat(template, counts), np.repeat(layout, counts) + 1 + within


@dataclass(frozen=True)
class _Table:
    """Columns of the templates with constants bound, and the degrees that replace some."""

    space: Space
    columns: dict[str, Array]
    """A number where all templates agree, else shape (templates,)."""

    @classmethod
    def of(cls, space: Space, calibration: Calibration, overrides: Mapping[str, float]) -> _Table:
        rows = [training_columns(space.job, strategy) for strategy in space.templates]
        inputs, keys = stack_columns(rows)
        size = (len(rows),)
        every = {**inputs, **calibration.columns(keys), **overrides}
        return cls(space, {name: _agreed(value, size) for name, value in every.items()})

    def memory(self, template: Index, layout: Index) -> tuple[Vector, Vector]:
        """Needed and usable bytes of some candidates."""
        names = ("needed_bytes", "usable_bytes")
        found = [
            [np.broadcast_to(np.asarray(values[name]), (count,)) for name in names]
            for columns, count in self._chunks(template, layout)
            for values in [evaluate_memory(columns, names)]
        ]
        needed, usable = (np.concatenate([one[place] for one in found]) for place in (0, 1))
        return needed, usable

    def time(self, template: Index, layout: Index) -> Vector:
        """Step time of some candidates."""
        if not len(layout):
            return np.zeros(0)
        return np.concatenate(
            [
                np.broadcast_to(
                    np.asarray(evaluate_time(columns, ("step_time",))["step_time"]), (count,)
                )
                for columns, count in self._chunks(template, layout)
            ]
        )

    def _chunks(self, template: Index, layout: Index) -> Iterator[tuple[dict[str, Array], int]]:
        for start in range(0, len(layout), CHUNK):
            part = slice(start, start + CHUNK)
            yield self._candidates(template[part], layout[part]), len(layout[part])

    def _candidates(self, template: Index, layout: Index) -> dict[str, Array]:
        columns = {
            name: value[template] if isinstance(value, np.ndarray) else value
            for name, value in self.columns.items()
        }
        chosen = {name: values[layout] for name, values in self.space.degrees.items()}
        tp, ranks = chosen["tp"], chosen["dp"] * chosen["cp"]
        stated = self.space.job.strategy
        parallel: Array = np.where(tp > 1, 1.0, 0.0)
        if stated.sequence_parallel is not None:
            parallel = float(stated.sequence_parallel)
        elif self.space.templates[0].framework == "deepspeed":
            parallel = 0.0
        return {
            **columns,
            **chosen,
            "expert_tp": np.where(chosen["ep"] == 1, tp, 1.0),
            "shard_group": float(stated.shard_group) if stated.shard_group else ranks,
            "sequence_parallel": parallel,
        }


def _agreed(value: Array, size: tuple[int, ...]) -> Array:
    """One number where all templates have the same."""
    every = np.broadcast_to(np.asarray(value, dtype=np.float64), size)
    return float(every[0]) if bool(np.all(every == every[0])) else np.array(every)
