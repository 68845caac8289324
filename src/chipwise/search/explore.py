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
from dataclasses import dataclass, replace

import numpy as np

from chipwise.calibration import shipped
from chipwise.search.counts import Tally
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
    tally: Tally

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
    tally = Tally.zero(len(jobs))
    for field in fields:
        everywhere = np.ones(field.allowed.shape, dtype=bool)
        tally.add("candidates", field.count(everywhere, field.candidates))
        tally.add("pruned_by_dominance", field.count(everywhere, field.candidates - field.allowed))
    if exhaustive:
        everything = [field.allowed > 0 for field in fields]
        leaders = _evaluated(fields, everything, most, tally)
    else:
        leaders = _bounded_search(fields, len(jobs), most, tally)
    return Explored(fields, _usual(fields, leaders), tally)


def _bounded_search(fields: Sequence[Field], size: int, most: int, tally: Tally) -> Leaders:
    """The leaders, found without looking at what cannot be among them."""
    where = [field.open for field in fields]
    for field, some in zip(fields, where, strict=True):
        tally.add("pruned_by_memory", field.count(~some))
    seeds = [field.seeds(some, _SEEDS) for field, some in zip(fields, where, strict=True)]
    leaders = _evaluated(fields, seeds, most, tally)
    marks = leaders.marks(size)
    rest = []
    for field, some, done in zip(fields, where, seeds, strict=True):
        beats = field.fast <= marks[field.table.space.cluster]
        rest.append(some & ~done & beats)
        tally.add("pruned_by_time", field.count(some & ~done & ~beats))
    return merged([leaders, _evaluated(fields, rest, most, tally)])


def _usual(fields: Sequence[Field], leaders: Leaders) -> Leaders:
    """Of templates exactly as good the one a stack lists first: what is usual there."""
    template = leaders.template.copy()
    for field in fields:
        rows = np.flatnonzero(leaders.table == field.place)
        if len(rows):
            exact = (leaders.time[rows], leaders.share[rows])
            template[rows] = field.first_equal(template[rows], leaders.layout[rows], *exact)
    return replace(leaders, template=template)


def _evaluated(fields: Sequence[Field], where: Sequence[Mask], most: int, tally: Tally) -> Leaders:
    parts = [Leaders.none(most)]
    for field, chosen in zip(fields, where, strict=True):
        parts += field.evaluated(chosen, tally)
    return merged(parts)
