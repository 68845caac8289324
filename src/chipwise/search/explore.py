"""The whole space of a job on one accelerator, all counts at once: bounds first, then the rest.

1. Layouts whose lean bound is over the limit hold no candidate that fits.
2. The layouts with the best fast bounds are evaluated with all their templates; the best found on
   each cluster is the mark to beat.
3. Layouts whose fast bound does not beat the mark of their cluster hold nothing better.
4. All others are evaluated with all their templates.

Nothing that could be among the best is left out, so the answer is that of looking at everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import shipped
from chipwise.search.counts import Counts
from chipwise.search.field import Field, Mask
from chipwise.search.leaders import Leaders, merged
from chipwise.search.space import spaces
from chipwise.search.table import Table
from chipwise.spec.job import TrainingJob

_SEEDS = 8
"""Layouts of each cluster and stack that set the mark."""


@dataclass(frozen=True)
class Explored:
    """What was found on the clusters of one accelerator."""

    fields: tuple[Field, ...]
    leaders: Leaders
    """The best candidates of each cluster."""
    counts: Counts
    candidates: NDArray[np.intp]
    """Candidates of each cluster. Shape (clusters,)."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that leaders point into."""
        return tuple(field.table for field in self.fields)


def explore(
    jobs: Sequence[TrainingJob],
    limit: float,
    most: int,
    overrides: Mapping[str, float],
    *,
    exhaustive: bool = False,
) -> Explored:
    """The best candidates on each cluster of one accelerator.

    Args:
        jobs: the same job on clusters of one accelerator.
        limit: share of usable memory that may be used.
        most: candidates wanted of each cluster; they differ in stack, sharding or degrees.
        overrides: values that replace inputs, constants or quantities of every candidate.
        exhaustive: evaluate all candidates, whatever the bounds say.

    Raises:
        UsageError: nothing trains on this accelerator, or what is pinned breaks a rule.
    """
    tables = [Table.of(space, shipped(), overrides) for space in spaces(jobs)]
    fields = tuple(
        Field.of(table, place, limit, exhaustive=exhaustive) for place, table in enumerate(tables)
    )
    size = len(jobs)
    if exhaustive:
        leaders, counts = _evaluated(fields, [field.allowed > 0 for field in fields], most)
    else:
        leaders, counts = _bounded_search(fields, size, most)
    return Explored(fields, leaders, counts + _whole(fields), _per_cluster(fields, size))


def _bounded_search(fields: Sequence[Field], size: int, most: int) -> tuple[Leaders, Counts]:
    """Leaders and counts, whatever cannot be among the leaders left out."""
    where = [field.open for field in fields]
    counts = _lost(fields, [field.allowed > 0 for field in fields], where, "memory")
    seeds = [field.seeds(some, _SEEDS) for field, some in zip(fields, where, strict=True)]
    leaders, seen = _evaluated(fields, seeds, most)
    where = [some & ~done for some, done in zip(where, seeds, strict=True)]
    rest, lost = _beating(fields, where, leaders.marks(size))
    found, seen_later = _evaluated(fields, rest, most)
    return merged([leaders, found]), counts + seen + lost + seen_later


def _beating(
    fields: Sequence[Field], where: Sequence[Mask], marks: NDArray[np.float64]
) -> tuple[list[Mask], Counts]:
    """Where a candidate may still beat the mark of its cluster, and how many may not."""
    left = [
        some & (field.fast <= marks[field.table.space.cluster])
        for field, some in zip(fields, where, strict=True)
    ]
    return left, _lost(fields, where, left, "time")


def _lost(
    fields: Sequence[Field], before: Sequence[Mask], after: Sequence[Mask], bound: str
) -> Counts:
    lost = sum(
        field.count(old & ~new) for field, old, new in zip(fields, before, after, strict=True)
    )
    return Counts(**{f"pruned_by_{bound}": lost})


def _evaluated(
    fields: Sequence[Field], where: Sequence[Mask], most: int
) -> tuple[Leaders, Counts]:
    parts, counts = [Leaders.none(most)], Counts()
    for field, chosen in zip(fields, where, strict=True):
        found, seen = field.evaluated(chosen)
        parts += found
        counts += seen
    return merged(parts), counts


def _whole(fields: Sequence[Field]) -> Counts:
    every = sum(int(field.candidates.sum()) for field in fields)
    kept = sum(int(field.allowed.sum()) for field in fields)
    return Counts(candidates=every, pruned_by_dominance=every - kept)


def _per_cluster(fields: Sequence[Field], size: int) -> NDArray[np.intp]:
    found = np.zeros(size, dtype=np.intp)
    for field in fields:
        np.add.at(found, field.table.space.cluster, field.candidates.sum(axis=0))
    return found
