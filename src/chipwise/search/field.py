"""One table of candidates under search: bounds, what is ruled out, and what is evaluated."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chipwise.search.bounds import Bounds, bounds_of, undominated
from chipwise.search.counts import Tally
from chipwise.search.leaders import Leaders
from chipwise.search.space import Index, Vector
from chipwise.search.table import Table

BLOCK = 16384
"""Candidates per block: intermediates of this size stay in cache."""
_WORTH_THREADS = 4
Mask = NDArray[np.bool_]
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Field:
    """The candidates of one table by group of templates and layout. Arrays (groups, layouts)."""

    table: Table
    place: int
    """Number of the table in the search."""
    limit: float
    bounds: Bounds
    kept: Mask
    """Templates worth a look: no other of their group is as good in all. Shape (templates,)."""
    kinds: Index
    """Number of the degrees of a layout, micro-batch aside. Shape (layouts,)."""
    candidates: Index
    """All candidates of a group and layout."""
    allowed: Index
    """Those of templates that are kept."""
    lean: Vector
    """No candidate needs a smaller share of the usable memory."""
    fast: Vector
    """No candidate takes less time; infinite where none fits. [s]"""

    @classmethod
    def of(cls, table: Table, place: int, limit: float, *, exhaustive: bool = False) -> Field:
        """Work out the bounds of a table; of a small one all is looked at, which is quicker.

        Args:
            table: the candidates.
            place: number of the table in the search.
            limit: share of usable memory that may be used.
            exhaustive: keep all templates.
        """
        bounds, space = bounds_of(table), table.space
        everything = np.ones(len(space.templates), dtype=bool)
        kept = everything if exhaustive else undominated(table, bounds.group)
        candidates, allowed = (_allowed(table, bounds, some) for some in (everything, kept))
        if int(kept.sum()) * space.num_layouts <= BLOCK:
            lean = fast = np.where(allowed > 0, 0.0, np.inf)
        else:
            lean = _lean(table, bounds, allowed > 0, limit)
            fast = _fast(table, bounds, lean <= limit)
        kinds = _kinds(table)
        return cls(table, place, limit, bounds, kept, kinds, candidates, allowed, lean, fast)

    @property
    def is_small(self) -> bool:
        """Whether one block holds all candidates, so that bounds are worth less than they cost."""
        return int(self.kept.sum()) * self.table.space.num_layouts <= BLOCK

    @property
    def open(self) -> Mask:
        """Where a candidate may fit."""
        return np.isfinite(self.fast)

    def seeds(self, where: Mask, most: int) -> Mask:
        """The layouts of each cluster with the best bounds; all of them where there are none."""
        if self.is_small:
            return where
        fast = np.where(where, self.fast, np.inf)
        cluster = self.table.space.cluster
        order = np.lexsort((fast.min(axis=0), cluster))
        starts = np.searchsorted(cluster[order], cluster[order])
        first = order[np.arange(len(order)) - starts < most]
        chosen = np.zeros(where.shape, dtype=bool)
        chosen[:, first] = True
        return chosen & where

    def count(self, where: Mask, of: Index | None = None) -> NDArray[np.int64]:
        """Candidates of some groups and layouts, by cluster. Shape (clusters,).

        Args:
            where: groups and layouts.
            of: candidates of each group and layout; those of templates that are kept when None.
        """
        some = np.where(where, self.allowed if of is None else of, 0).sum(axis=0)
        return self._by_cluster(some)

    def first_equal(self, templates: Index, layouts: Index, time: Vector, share: Vector) -> Index:
        """For some candidates the first template that is exactly as good.

        Only kernels, loss and compilation may differ: other choices are what the search decided.
        """
        table, chosen = self.table, self.table.space.templates.choice
        found = templates.copy()
        for template in np.unique(templates):
            at = np.flatnonzero(templates == template)
            alike = np.flatnonzero(chosen == chosen[template])
            rows = table.rows(alike)
            same = (table.time(rows, layouts[at]) == time[at]) & (
                table.share(rows, layouts[at]) == share[at]
            )
            found[at] = np.where(same.any(axis=0), alike[same.argmax(axis=0)], template)
        return found

    def evaluated(self, where: Mask, tally: Tally) -> list[Leaders]:
        """All candidates of some groups and layouts, by block the best of each layout."""
        if self.is_small:
            return self._evaluated_whole(where, tally)
        found: list[Leaders] = []
        for group in range(self.bounds.num_groups):
            templates = np.flatnonzero(self.kept & (self.bounds.group == group))
            columns = self.table.rows(templates)
            blocks = _blocks(np.flatnonzero(where[group]), len(templates))
            work = _Work(self, templates, columns, group)
            for (part, fits), layouts in zip(spread(work.block, blocks), blocks, strict=True):
                found.append(part)
                tally.add("fit", self._by_cluster(fits, layouts))
        tally.add("evaluated", self.count(where))
        return found

    def _evaluated_whole(self, where: Mask, tally: Tally) -> list[Leaders]:
        """The same of a small table: all groups in one evaluation."""
        group, space = self.bounds.group, self.table.space
        layouts = np.flatnonzero(where.any(axis=0))
        templates = np.flatnonzero(self.kept & np.asarray(where.any(axis=1))[group])
        tally.add("evaluated", self.count(where))
        if not (len(layouts) and len(templates)):
            return []
        columns = self.table.rows(templates)
        share = self.table.share(columns, layouts)
        able = np.asarray(where[group[templates]][:, layouts])
        able = able & space.allowed[templates][:, space.stage_choice[layouts]]
        fits = able & (share <= self.limit)
        tally.add("fit", self._by_cluster(fits.sum(axis=0), layouts))
        if not fits.any():
            return []
        time = np.where(fits, self.table.time(columns, layouts), np.inf)
        found: list[Leaders] = []
        for one in np.unique(group[templates]):
            down = np.flatnonzero(group[templates] == one)
            across = np.flatnonzero(fits[down].any(axis=0))
            some, work = np.ix_(down, across), _Work(self, templates[down], {}, int(one))
            found.append(work.leaders(time[some], share[some], templates[down], layouts[across]))
        return found

    def _by_cluster(self, some: Index, layouts: Index | None = None) -> NDArray[np.int64]:
        space = self.table.space
        cluster = space.cluster if layouts is None else space.cluster[layouts]
        return np.bincount(cluster, weights=some, minlength=len(space.jobs)).astype(np.int64)


@dataclass(frozen=True)
class _Work:
    """Blocks of one group of templates."""

    field: Field
    templates: Index
    columns: dict[str, Vector]
    group: int

    def block(self, layouts: Index) -> tuple[Leaders, Index]:
        """The best template of each layout, and how many candidates fit. (layouts,)"""
        table, space = self.field.table, self.field.table.space
        share = table.share(self.columns, layouts)
        able = space.allowed[self.templates][:, space.stage_choice[layouts]]
        fits = able & (share <= self.field.limit)
        down, across = np.flatnonzero(fits.any(axis=1)), np.flatnonzero(fits.any(axis=0))
        some = np.ix_(down, across)
        columns = {name: value[down] for name, value in self.columns.items()}
        time = table.time(columns, layouts[across]) if len(across) else np.zeros((0, 0))
        time = np.where(fits[some], time, np.inf)
        leaders = self.leaders(time, share[some], self.templates[down], layouts[across])
        return leaders, fits.sum(axis=0)

    def leaders(self, time: Vector, share: Vector, templates: Index, layouts: Index) -> Leaders:
        """The best template of each layout. Times and shares (templates, layouts)."""
        if not len(layouts):
            return Leaders.none(1)
        least = time.min(axis=0)
        row = np.where(time == least, share, np.inf).argmin(axis=0)
        column = np.arange(len(layouts))
        field, size = self.field, len(layouts)
        base = (field.place * 64 + self.group) * 2**20
        return Leaders(
            1,
            field.table.space.cluster[layouts],
            base + field.kinds[layouts],
            np.full(size, field.place),
            templates[row],
            layouts,
            least,
            share[row, column],
        )


def _allowed(table: Table, bounds: Bounds, some: Mask) -> Index:
    """Candidates of some templates. Shape (groups, layouts)."""
    members = (np.arange(bounds.num_groups)[:, None] == bounds.group[None, :]) & some
    by_stage: Index = members.astype(np.intp) @ table.space.allowed.astype(np.intp)
    return by_stage[:, table.space.stage_choice]


def _lean(table: Table, bounds: Bounds, allowed: Mask, limit: float) -> Vector:
    """Lean bounds of groups and layouts; larger micro-batches only where the smallest may fit."""
    first = table.space.smallest
    lean = np.full(allowed.shape, np.inf)
    smallest = first == np.arange(len(first))
    for chosen in (smallest, ~smallest):
        where = allowed & chosen & (smallest | (lean[:, first] <= limit))
        layouts = np.flatnonzero(where.any(axis=0))
        shares = [
            np.concatenate(spread(lambda some, rows=rows: table.least_share(rows, some),  # type: ignore[misc]
                                  _blocks(layouts, bounds.num_groups)), axis=1)
            for rows in bounds.lean
        ] if len(layouts) else [np.zeros((bounds.num_groups, 0))]  # fmt: skip
        found = np.minimum.reduce(shares)
        lean[:, layouts] = np.where(where[:, layouts], found, np.inf)
    return lean


def _fast(table: Table, bounds: Bounds, where: Mask) -> Vector:
    """Fast bounds of groups and layouts, infinite elsewhere. [s]"""
    fast = np.full(where.shape, np.inf)
    layouts = np.flatnonzero(where.any(axis=0))
    parts = spread(lambda some: table.time(bounds.fast, some), _blocks(layouts, bounds.num_groups))
    if parts:
        found = np.concatenate(parts, axis=1)
        fast[:, layouts] = np.where(where[:, layouts], found, np.inf)
    return fast


def spread(function: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """A function of each item, on all cores; NumPy lets several threads work at once.

    A few items are not worth the threads.
    """
    workers = os.cpu_count() or 1
    if len(items) < _WORTH_THREADS * workers:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        tasks = [pool.submit(copy_context().run, function, item) for item in items]
        return [task.result() for task in tasks]


def _blocks(rows: Index, height: int) -> list[Index]:
    """Rows cut so that a block of so many templates stays in cache."""
    width = max(1, BLOCK // height)
    return [rows[start : start + width] for start in range(0, len(rows), width)]


def _kinds(table: Table) -> Index:
    """Numbers for the degrees that make layouts different in kind."""
    degrees = table.space.degrees
    names = ("tp", "pp", "cp", "ep")
    number = np.zeros(table.space.num_layouts, dtype=np.intp)
    for name in names:
        values, place = np.unique(degrees[name], return_inverse=True)
        number = number * len(values) + place.reshape(-1)
    return np.unique(number, return_inverse=True)[1].reshape(-1)
