"""From explored spaces to short lists: the fastest layouts of a job on each of its clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chipwise.search.counts import Counts
from chipwise.search.explore import Explored, explore
from chipwise.search.leanest import Leanest, leanest
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
class Found:
    """The best layouts of a job on one cluster, best first; none where nothing fits."""

    job: TrainingJob
    best: tuple[Candidate, ...]
    counts: Counts
    lean: Leanest | None = None
    """What the leanest layout needs, on the largest cluster where nothing fits on any."""


def search_all(
    jobs: Sequence[TrainingJob],
    limit: float,
    most: int = 3,
    overrides: Mapping[str, float] | None = None,
    *,
    exhaustive: bool = False,
) -> tuple[Found, ...]:
    """The fastest layouts of a job on clusters of one accelerator, within a share of the memory.

    Args:
        jobs: the same job on each cluster, with sequence length, global batch and precision;
            stated strategy fields pin an axis.
        limit: share of usable memory that may be used.
        most: layouts wanted of each cluster; they differ in stack, degrees or sharding.
        overrides: values that replace inputs, constants or quantities of every candidate.
        exhaustive: evaluate all candidates, whatever the bounds say.

    Raises:
        UsageError: nothing trains on this accelerator, or what is pinned breaks a rule.
    """
    explored = explore(jobs, limit, most, overrides or {}, exhaustive=exhaustive)
    found = [_found(explored, job, place) for place, job in enumerate(jobs)]
    if not any(one.best for one in found):
        largest = max(range(len(jobs)), key=lambda place: jobs[place].cluster.num_devices)
        lean = leanest(explored.fields, largest)
        found[largest] = replace(found[largest], lean=lean)
    return tuple(found)


def search(
    job: TrainingJob,
    limit: float,
    most: int = 3,
    overrides: Mapping[str, float] | None = None,
) -> Found:
    """The fastest layouts of a job on its cluster; see ``search_all``."""
    return search_all([job], limit, most, overrides)[0]


def holds(job: TrainingJob, limit: float, overrides: Mapping[str, float] | None = None) -> bool:
    """Whether any layout of the job keeps within a share of the memory."""
    return bool(search(job, limit, 1, overrides).best)


def _found(explored: Explored, job: TrainingJob, place: int) -> Found:
    leaders = explored.leaders
    best = []
    for row in np.flatnonzero(leaders.cluster == place):
        space = explored.tables[int(leaders.table[row])].space
        strategy = space.strategy(int(leaders.template[row]), int(leaders.layout[row]))
        share, time = float(leaders.share[row]), float(leaders.time[row])
        best.append(Candidate(space.jobs[place], strategy, share, time))
    return Found(job, tuple(best), explored.tally.of(place))
