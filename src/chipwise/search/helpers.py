"""Other processes of this machine that work on the items of a long search.

They run ``python -m chipwise.search.helpers`` and speak pickles over their pipes, so that nothing
of the caller's program is loaded or run again.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from time import perf_counter
from typing import IO, Any, Generic, TypeVar

from chipwise.search.runner import Progress

S = TypeVar("S")
T = TypeVar("T")
PATIENCE = 0.7
"""Seconds of work after which others are called: they need about as long to start."""


class AllCores:
    """Items here first; where they last, on the other processors too."""

    def __init__(self, others: int | None = None, patience: float = PATIENCE) -> None:
        self._others = (os.cpu_count() or 1) - 1 if others is None else others
        self._patience = patience

    def map(
        self, function: Callable[[S], T], items: Sequence[S], progress: Progress | None = None
    ) -> list[T]:
        """See ``Runner.map``."""
        work = _Work(function, items, progress)
        began = perf_counter()
        called: list[Thread] = []
        while work.left:
            work.do_one()
            if not called and perf_counter() - began > self._patience:
                called = [Thread(target=_helped, args=(work,)) for _place in range(self._others)]
                for one in called:
                    one.start()
        for one in called:
            one.join()
        while work.left:  # what a helper that died gave back
            work.do_one()
        return work.results()


class _Work(Generic[S, T]):
    """Items not yet taken, and what became of the others."""

    def __init__(
        self, function: Callable[[S], T], items: Sequence[S], progress: Progress | None
    ) -> None:
        self.function = function
        self.items = items
        self.left = deque(range(len(items)))
        self._progress = progress
        self._found: dict[int, T] = {}
        self._failed: dict[int, Exception] = {}

    def take(self) -> int | None:
        """The next item; None where all are taken or one has failed."""
        try:
            return self.left.popleft()
        except IndexError:
            return None

    def do_one(self) -> None:
        """The next item, in this process."""
        place = self.take()
        if place is None:
            return
        try:
            self.done(place, self.function(self.items[place]))
        except Exception as error:
            self.failed(place, error)

    def done(self, place: int, result: T) -> None:
        """An item is done."""
        self._found[place] = result
        if self._progress:
            self._progress(len(self._found), len(self.items))

    def failed(self, place: int, error: Exception) -> None:
        """An item has failed: no more are begun."""
        self._failed[place] = error
        self.left.clear()

    def results(self) -> list[T]:
        """All results in order.

        Raises:
            Exception: what the function raised on the first item on which it did.
        """
        if self._failed:
            raise self._failed[min(self._failed)]
        return [self._found[place] for place in range(len(self.items))]


def _helped(work: _Work[Any, Any]) -> None:
    """Give items to a helper until none are left; give the last one back if the helper dies."""
    helper = subprocess.Popen(
        [sys.executable, "-m", "chipwise.search.helpers"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with helper:
        assert helper.stdin is not None and helper.stdout is not None
        while (place := work.take()) is not None:
            try:
                _send(helper.stdin, (work.function, work.items[place]))
                good, answer = pickle.load(helper.stdout)
            except (OSError, EOFError, pickle.PickleError):
                work.left.append(place)
                break
            if good:
                work.done(place, answer)
            else:
                work.failed(place, answer)
        with suppress(OSError):
            helper.stdin.close()


def _send(pipe: IO[bytes], what: object) -> None:
    pickle.dump(what, pipe, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _serve() -> None:
    """Work on items from the standard input until it ends."""
    inward, outward = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    while True:
        try:
            function, item = pickle.load(inward)
        except EOFError:
            return
        try:
            answer = (True, function(item))
        except Exception as error:
            answer = (False, error)
        _send(outward, answer)


if __name__ == "__main__":
    _serve()
