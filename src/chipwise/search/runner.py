"""Where the shards of a search are worked on: here, or wherever a runner sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

S = TypeVar("S")
T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with how many items are done and how many there are."""


class Runner(Protocol):
    """Applies a function to items; the same results whatever the place."""

    def map(
        self, function: Callable[[S], T], items: Sequence[S], progress: Progress | None = None
    ) -> list[T]:
        """Results in the order of the items; the first exception of the function propagates."""


class Here:
    """One after the other, in this process."""

    def map(
        self, function: Callable[[S], T], items: Sequence[S], progress: Progress | None = None
    ) -> list[T]:
        """See ``Runner.map``."""
        found = []
        for done, item in enumerate(items, 1):
            found.append(function(item))
            if progress:
                progress(done, len(items))
        return found
