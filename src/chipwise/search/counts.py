"""How large a search was, and what became of its candidates."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Counts:
    """Candidates: each was ruled out by a bound, or evaluated."""

    candidates: int = 0
    pruned_by_dominance: int = 0
    """Another choice of kernels, loss or recompute is as good in time and memory alike."""
    pruned_by_memory: int = 0
    """In layouts that cannot fit, by their lean bound."""
    pruned_by_time: int = 0
    """In layouts that cannot be among the best, by their fast bound."""
    evaluated: int = 0
    fit: int = 0
    """Of those evaluated."""

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Counts(*(one + another for one, another in pairs))

    @property
    def pruned(self) -> int:
        """Ruled out without being looked at one by one."""
        return self.pruned_by_dominance + self.pruned_by_memory + self.pruned_by_time


@dataclass(frozen=True)
class Tally:
    """The same by cluster, while a search goes on. Each of shape (clusters,)."""

    candidates: NDArray[np.int64]
    pruned_by_dominance: NDArray[np.int64]
    pruned_by_memory: NDArray[np.int64]
    pruned_by_time: NDArray[np.int64]
    evaluated: NDArray[np.int64]
    fit: NDArray[np.int64]

    @classmethod
    def zero(cls, clusters: int) -> Tally:
        """Nothing yet."""
        return cls(*(np.zeros(clusters, dtype=np.int64) for _ in range(6)))

    def add(self, name: str, by_cluster: NDArray[np.int64]) -> None:
        """Count some more."""
        counted: NDArray[np.int64] = getattr(self, name)
        counted += by_cluster

    def of(self, cluster: int) -> Counts:
        """The counts of one cluster."""
        every = (self.candidates, self.pruned_by_dominance, self.pruned_by_memory,
                 self.pruned_by_time, self.evaluated, self.fit)  # fmt: skip
        return Counts(*(int(column[cluster]) for column in every))
