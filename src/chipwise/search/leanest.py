"""The candidate of a cluster that needs least memory, for jobs that fit nowhere on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.search.field import Field


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
    bound, place, group, layout = (np.concatenate(column) for column in _entries(fields, cluster))
    best: Leanest | None = None
    for row in np.argsort(bound, kind="stable"):
        if best is not None and bound[row] >= best.share:
            break
        one = _least_of(fields[int(place[row])], int(group[row]), int(layout[row]))
        best = one if best is None or one.share < best.share else best
    return best


def _entries(
    fields: Sequence[Field], cluster: int
) -> Iterator[tuple[NDArray[np.float64] | NDArray[np.intp], ...]]:
    """Bounds with table, group and layout, of all that a cluster could have, column by column."""
    found = []
    for place, field in enumerate(fields):
        here = (field.allowed > 0) & (field.table.space.cluster == cluster)
        group, layout = np.nonzero(here)
        found.append((field.lean[group, layout], np.full(len(group), place), group, layout))
    yield from zip(*found, strict=True)


def _least_of(field: Field, group: int, layout: int) -> Leanest:
    space = field.table.space
    able = space.allowed[:, space.stage_choice[layout]] & (field.bounds.group == group)
    rows = field.table.rows(np.flatnonzero(able))
    needed, usable, _host = field.table.memory(rows, np.array([layout]))
    least = int(np.argmin(needed[:, 0]))
    return Leanest(float(needed[least, 0]), float(usable[least, 0]))
