"""Searching the systems of a plan, an accelerator at a time; what to say where nothing fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from chipwise import rules
from chipwise.app.documents_plan import NoFit
from chipwise.app.evaluation import TIGHT
from chipwise.app.growth import smallest_cluster, smallest_larger_device
from chipwise.app.observing import Site
from chipwise.app.overrides import require_sound
from chipwise.app.plan_systems import Line, check_size, divisible
from chipwise.app.requests import PlanTrainRequest
from chipwise.errors import LayoutError, UsageError
from chipwise.i18n import _
from chipwise.search.counts import Counts
from chipwise.search.helpers import AllCores
from chipwise.search.rank import Candidate, Found, holds, search_all
from chipwise.search.runner import Runner
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import TrainingJob
from chipwise.units import show

PER_SYSTEM = 3
_FEW = 16
"""Up to so many clusters, several layouts of each are listed."""
_MOST_DEVICES = 65536


@dataclass(frozen=True)
class Shard:
    """One accelerator in the counts asked for: what is searched at once, here or elsewhere."""

    line: Line
    limit: float
    """Share of the usable memory that may be used."""
    most: int
    """Layouts wanted of each cluster."""
    overrides: Mapping[str, float]
    max_devices: int | None


@dataclass(frozen=True)
class Outcome:
    """What a shard gave: candidates by cluster, the size of the search, and what went wrong."""

    line: Line
    limit: float
    found: tuple[Found, ...] = ()
    errors: tuple[tuple[str, UsageError], ...] = field(default=())
    """Name of a system with the reason why nothing can be done on it."""

    @property
    def counts(self) -> Counts:
        """How large the search was."""
        return sum((one.counts for one in self.found), Counts())

    @property
    def best(self) -> list[tuple[Candidate, ...]]:
        """The candidates of each cluster on which something fits."""
        return [one.best for one in self.found if one.best]


def shards_of(
    lines: Sequence[Line],
    request: PlanTrainRequest,
    overrides: Mapping[str, float],
    sites: Mapping[str, Site],
) -> list[Shard]:
    """What is to be searched."""
    most = PER_SYSTEM if sum(len(line.jobs) for line in lines) <= _FEW else 1
    return [
        Shard(
            line,
            (1 - (request.headroom or 0.0)) / _memory_factor(line, sites),
            most,
            dict(overrides),
            request.max_devices,
        )
        for line in lines
    ]


def _memory_factor(line: Line, sites: Mapping[str, Site]) -> float:
    site = sites.get(line.accelerator)
    return site.memory_factor if site else 1.0


def runner_of(ray: str | None) -> AbstractContextManager[Runner]:
    """Where shards are searched: here, or on a Ray cluster.

    Raises:
        UsageError: Ray is missing or does not answer.
    """
    if ray is None:
        return nullcontext(AllCores())
    from chipwise.search.distributed import on_ray

    return on_ray(ray)


def search_shard(shard: Shard) -> Outcome:
    """The layouts with room to spare; those that just fit where no count has any other."""
    jobs, errors = _able(shard)
    if not jobs:
        return Outcome(shard.line, shard.limit, errors=errors)
    try:
        roomy = search_all(jobs, shard.limit * TIGHT, shard.most, shard.overrides)
    except UsageError as error:
        return Outcome(shard.line, shard.limit, errors=((shard.line.name, error),))
    empty = tuple(
        (one.job.cluster.name, rules.no_layout(one.job))
        for one in roomy
        if not one.counts.candidates
    )
    found = [one for one in roomy if one.best]
    rest = [one.job for one in roomy if not one.best and one.counts.candidates]
    if found:
        found += [one for one in roomy if not one.best and one.counts.candidates]
    elif rest:
        found += search_all(rest, shard.limit, shard.most, shard.overrides)
    return Outcome(shard.line, shard.limit, tuple(found), (*errors, *empty))


def _able(shard: Shard) -> tuple[list[TrainingJob], tuple[tuple[str, UsageError], ...]]:
    jobs, errors = [], []
    for job in shard.line.jobs:
        try:
            check_size(job, shard.max_devices)
        except UsageError as error:
            errors.append((job.cluster.name, error))
        else:
            jobs.append(job)
    return jobs, tuple(errors)


def require_answer(outcomes: Sequence[Outcome]) -> None:
    """Raise the first error where the question itself is wrong, whatever the system.

    Raises:
        UsageError: the question is wrong on every system.
    """
    mistakes = [error for one in outcomes for _name, error in one.errors if _is_mistake(error)]
    clusters = sum(len(one.line.jobs) for one in outcomes)
    if mistakes and len(mistakes) == clusters:
        raise mistakes[0]


def _is_mistake(error: UsageError) -> bool:
    """Whether the question is wrong, not merely this system no answer to it."""
    return isinstance(error, LayoutError) or error.code == "dtype-missing"


# -- where nothing fits ----------------------------------------------------------------------


def no_fits(
    outcomes: Sequence[Outcome], request: PlanTrainRequest, overrides: Mapping[str, float]
) -> list[NoFit]:
    """Each system of the question that offers nothing, with the reason.

    Where the question varies what is trained, a system offers something if it does for one of the
    variants; else the reason is that of the variant that comes nearest to fitting.
    """
    answered = {one.line.name for one in outcomes if one.best}
    nearest: dict[str, Outcome] = {}
    for one in sorted(outcomes, key=_least_share):
        if one.line.name not in answered:
            nearest.setdefault(one.line.name, one)
    named = dict.fromkeys(one.line.name for one in outcomes)
    return [_no_fit(nearest[name], request, overrides) for name in named if name in nearest]


def _least_share(outcome: Outcome) -> float:
    return min((one.lean.share for one in outcome.found if one.lean), default=float("inf"))


def _no_fit(outcome: Outcome, request: PlanTrainRequest, overrides: Mapping[str, float]) -> NoFit:
    lean = [(one.lean.share, one) for one in outcome.found if one.lean is not None]
    if not lean:
        _name, error = outcome.errors[0]
        return NoFit(system=outcome.line.name, reason=error.message)
    _share, closest = min(lean, key=lambda pair: pair[0])
    assert closest.lean is not None
    needed, usable = closest.lean.needed, closest.lean.usable
    require_sound({"needed_bytes": needed}, overrides)
    reason = _("the leanest layout needs {needed} per device, {usable} are usable").format(
        needed=show(needed, "B"), usable=show(usable, "B")
    )
    several = len(outcome.line.jobs) > 1
    if several:
        text = _("no count up to {most} holds it: on {system} {reason}")
        most, name = outcome.line.jobs[-1].cluster.num_devices, closest.job.cluster.name
        reason = text.format(most=most, system=name, reason=reason)
    smallest = None if several else _smallest(closest, outcome.limit, request, overrides)
    if smallest is None and not several:
        reason += _(
            "; no count of them tried up to {most} holds it, nor as many of any larger device"
        ).format(most=request.max_devices or _MOST_DEVICES)
    return NoFit(
        system=outcome.line.name,
        reason=reason,
        short_by_bytes=max(0.0, needed - usable),
        smallest=smallest,
    )


def _smallest(
    closest: Found, limit: float, request: PlanTrainRequest, overrides: Mapping[str, float]
) -> str | None:
    """The smallest larger cluster of the same devices that holds the job, else of larger ones."""
    job, lean = closest.job, closest.lean

    def is_enough(cluster: Cluster) -> bool:
        moved = job.model_copy(update={"cluster": cluster})
        return holds(divisible(moved), limit, overrides)

    found = smallest_cluster(job.cluster, request.max_devices or _MOST_DEVICES, is_enough)
    if found is None and lean is not None:
        found = smallest_larger_device(job.cluster, lean.needed, is_enough)
    return found.name if found else None
