"""How large a search was, and what became of its candidates."""

from __future__ import annotations

from dataclasses import dataclass, fields


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
        names = [field.name for field in fields(self)]
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in names})
