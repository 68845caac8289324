"""The best candidates of each cluster, kept while blocks of candidates come in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WHOLE = ("cluster", "kind", "table", "template", "layout")
_REAL = ("time", "share")


@dataclass(frozen=True)
class Leaders:
    """Candidates, best first within a cluster, each of another kind there. Columns (leaders,)."""

    most: int
    """Candidates kept of each cluster."""
    cluster: NDArray[np.intp]
    kind: NDArray[np.intp]
    """Stack, sharding and degrees as one number; of one kind only the best is kept."""
    table: NDArray[np.intp]
    template: NDArray[np.intp]
    layout: NDArray[np.intp]
    time: NDArray[np.float64]
    """Step time. [s]"""
    share: NDArray[np.float64]
    """Needed over usable memory."""

    @classmethod
    def none(cls, most: int) -> Leaders:
        """Nothing yet."""
        whole, real = np.zeros(0, dtype=np.intp), np.zeros(0)
        return cls(most, whole, whole, whole, whole, whole, real, real)

    def __len__(self) -> int:
        return len(self.cluster)

    def marks(self, clusters: int) -> NDArray[np.float64]:
        """What a candidate has to beat on each cluster, infinite where places are free. [s]"""
        marks = np.full(clusters, np.inf)
        last = self._place() == self.most - 1
        marks[self.cluster[last]] = self.time[last]
        return marks

    def best(self, order: NDArray[np.intp]) -> Leaders:
        """The best of each kind and cluster, ranked, as many as are kept.

        Args:
            order: all rows, those that come first on equal cluster, time and share first.
        """
        cluster, kind = self.cluster[order], self.kind[order]
        ranked = order[np.lexsort((self.share[order], self.time[order], kind, cluster))]
        cluster, kind = self.cluster[ranked], self.kind[ranked]
        first = np.ones(len(ranked), dtype=bool)
        first[1:] = (cluster[1:] != cluster[:-1]) | (kind[1:] != kind[:-1])
        kept = np.sort(ranked[first])
        again = kept[np.lexsort((self.share[kept], self.time[kept], self.cluster[kept]))]
        found = self.taken(again)
        return found.taken(np.flatnonzero(found._place() < self.most))

    def taken(self, rows: NDArray[np.intp]) -> Leaders:
        """Some rows, in that order."""
        columns = {name: getattr(self, name)[rows] for name in (*_WHOLE, *_REAL)}
        return Leaders(self.most, **columns)

    def _place(self) -> NDArray[np.intp]:
        """Rank within the cluster, for rows sorted by cluster."""
        starts = np.flatnonzero(np.diff(self.cluster, prepend=-1))
        lengths = np.diff(np.append(starts, len(self)))
        return np.arange(len(self)) - np.repeat(starts, lengths)


def merged(parts: list[Leaders]) -> Leaders:
    """The leaders of several lots together; on equal time and share the earlier lot wins."""
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in (*_WHOLE, *_REAL)
    }
    every = Leaders(parts[0].most, **columns)
    order = np.lexsort((every.layout, every.template, every.table))
    return every.best(order)
