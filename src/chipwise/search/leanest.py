"""The candidate of a cluster that needs least memory, for jobs that fit nowhere on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.search.field import Field

_AT_ONCE = 64


@dataclass(frozen=True)
class Leanest:
    """What the leanest candidate needs of each device, and what there is."""

    needed: float
    usable: float

    @property
    def share(self) -> float:
        """Needed over usable memory; infinite where nothing is usable."""
        return self.needed / self.usable if self.usable > 0 else float("inf")

    @property
    def excess(self) -> float:
        """Bytes over the usable memory; negative when it fits."""
        return self.needed - self.usable


def leanest(fields: Sequence[Field], cluster: int) -> Leanest | None:
    """The leanest candidate on a cluster; None where there is no candidate.

    Looks at layouts in the order of their bounds until no bound can win any more.
    """
    bound, place, group, layout = _entries(fields, cluster)
    order = np.argsort(bound, kind="stable")
    best: Leanest | None = None
    for start in range(0, len(order), _AT_ONCE):
        rows = order[start : start + _AT_ONCE]
        if best is not None and bound[rows[0]] >= best.share:
            break
        for table, kind in {(int(place[row]), int(group[row])) for row in rows}:
            chosen = rows[(place[rows] == table) & (group[rows] == kind)]
            one = _least_of(fields[table], kind, layout[chosen])
            best = one if best is None or one.share < best.share else best
    return best


def _entries(
    fields: Sequence[Field], cluster: int
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Bounds with table, group and layout, of all that a cluster could have."""
    none = np.zeros(0, dtype=np.intp)
    found = [(np.zeros(0), none, none, none)]
    for place, field in enumerate(fields):
        here = (field.allowed > 0) & (field.table.space.cluster == cluster)
        group, layout = np.nonzero(here)
        found.append((field.lean[group, layout], np.full(len(group), place), group, layout))
    bound, places, groups, layouts = zip(*found, strict=True)
    return (np.concatenate(bound), np.concatenate(places), np.concatenate(groups),
            np.concatenate(layouts))  # fmt: skip


def _least_of(field: Field, group: int, layouts: NDArray[np.intp]) -> Leanest:
    """The leanest candidate of some layouts, among those whose offloaded part the host can hold."""
    space = field.table.space
    templates = np.flatnonzero(field.bounds.group == group)
    able = space.allowed[templates][:, space.stage_choice[layouts]]
    needed, usable, host = field.table.memory(field.table.rows(templates), layouts)
    held = np.where(able & (host <= field.table.host_memory[layouts]), needed, np.inf)
    least = np.unravel_index(int(np.argmin(held)), held.shape)
    return Leanest(float(held[least]), float(usable[least]))
