"""From scored candidates to a short list: the fastest layouts of a job, each of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chipwise.search.evaluate import Scored, score
from chipwise.search.space import spaces
from chipwise.spec.job import Strategy, TrainingJob


@dataclass(frozen=True)
class Candidate:
    """One layout, complete, with what it was ranked by."""

    job: TrainingJob
    strategy: Strategy
    share: float
    """Needed over usable memory."""
    step_time: float


@dataclass(frozen=True)
class Counts:
    """How large a search was."""

    candidates: int = 0
    evaluated: int = 0
    fit: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.candidates + other.candidates,
            self.evaluated + other.evaluated,
            self.fit + other.fit,
        )


@dataclass(frozen=True)
class Found:
    """The best layouts of a job on one cluster, best first; none where nothing fits."""

    best: tuple[Candidate, ...]
    counts: Counts
    least_share: float
    least_excess: float
    """Bytes by which the leanest layout is over its memory."""


def search(
    job: TrainingJob,
    limit: float,
    most: int = 3,
    overrides: Mapping[str, float] | None = None,
) -> Found:
    """The fastest layouts of a job that keep within a share of the memory.

    Args:
        job: with sequence length, global batch and precision; stated strategy fields pin an axis.
        limit: share of usable memory that may be used.
        most: layouts wanted; they differ in stack, degrees or sharding.
        overrides: values that replace inputs, constants or quantities of every candidate.

    Raises:
        UsageError: nothing trains on this accelerator, or what is pinned breaks a rule.
    """
    scored = [score(space, limit, overrides) for space in spaces(job)]
    counts = sum(
        (Counts(one.space.size, one.evaluated, len(one.share)) for one in scored), Counts()
    )
    leanest = min(scored, key=lambda one: one.least_share, default=None)
    return Found(
        tuple(_best(scored, most)),
        counts,
        leanest.least_share if leanest else float("inf"),
        leanest.least_excess if leanest else float("inf"),
    )


def holds(job: TrainingJob, limit: float, overrides: Mapping[str, float] | None = None) -> bool:
    """Whether any layout of the job keeps within a share of the memory."""
    return any(len(score(space, limit, overrides, with_time=False).share) for space in spaces(job))


def _best(scored: list[Scored], most: int) -> list[Candidate]:
    """The fastest of each kind; on equal time the leaner, then the one listed first."""
    if not scored:
        return []
    place = np.concatenate([np.full(len(one.share), n) for n, one in enumerate(scored)])
    row = np.concatenate([np.arange(len(one.share)) for one in scored])
    share = np.concatenate([one.share for one in scored])
    time = np.concatenate([one.step_time for one in scored])
    found: dict[tuple[object, ...], Candidate] = {}
    for index in np.lexsort((share, time)):
        one, at = scored[int(place[index])], int(row[index])
        strategy = one.space.strategy(int(one.template[at]), int(one.layout[at]))
        kind = (strategy.framework, strategy.shard, *_split(strategy))
        if kind not in found:
            found[kind] = Candidate(
                one.space.job, strategy, float(share[index]), float(time[index])
            )
        if len(found) == most:
            break
    return list(found.values())


def _split(strategy: Strategy) -> tuple[int | None, ...]:
    return strategy.tp, strategy.pp, strategy.cp, strategy.ep
