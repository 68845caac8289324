"""What holds the recommended plan back: each limit with its slack, and what one step more buys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chipwise.app.documents_plan import Bind, Plan
from chipwise.app.evaluation import TIGHT, Evaluated
from chipwise.app.marginal import marginal_of
from chipwise.app.requests import PlanTrainRequest
from chipwise.catalogue.sizes import sizes_of
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.search.rank import search

_MORE_MEMORY = 1.25
_NOTABLE = 1.005
_RESOURCES = 3


def binds_of(
    point: Evaluated, plan: Plan, request: PlanTrainRequest, overrides: Mapping[str, float]
) -> tuple[Bind, ...]:
    """Limits and resources of a plan; what one step more of each would give is computed.

    Args:
        point: the plan, evaluated.
        plan: the same as a document.
        request: its limits.
        overrides: values that replace inputs, constants or quantities.
    """
    found = [*_limits(plan, request), *_memory(point, request, overrides)]
    found += _devices(point, request, overrides)
    gains = [one for one in marginal_of(point, overrides) if one.speedup > _NOTABLE]
    found += [
        Bind(constraint=one.resource, step=one.change, speedup=one.speedup)
        for one in gains[:_RESOURCES]
    ]
    return tuple(found)


def _limits(plan: Plan, request: PlanTrainRequest) -> Iterator[Bind]:
    if request.deadline is not None:
        yield _limit("deadline", "s", plan.duration_s.likely, request.deadline)
    if request.budget is not None and plan.cost_usd is not None:
        yield _limit("budget", "USD", plan.cost_usd.likely, request.budget)


def _limit(constraint: str, unit: str, value: float, limit: float) -> Bind:
    return Bind(constraint=constraint, unit=unit, value=value, limit=limit, slack=1 - value / limit)


def _memory(
    point: Evaluated, request: PlanTrainRequest, overrides: Mapping[str, float]
) -> Iterator[Bind]:
    """The same machine with a quarter more memory, searched again."""
    share = 1 - (request.headroom or 0.0)
    used = TIGHT if point.share <= share * TIGHT else 1.0
    limit = share * used
    more = search(point.job, limit * _MORE_MEMORY, 1, overrides).best
    usable = point.memory["usable_bytes"]
    bind = _limit("memory", "B", point.memory["needed_bytes"], usable * limit)
    if more:
        speedup = max(1.0, _search_time(point) / more[0].step_time)
        bind = bind.model_copy(update={"step": _("+25 %"), "speedup": speedup})
    yield bind


def _search_time(point: Evaluated) -> float:
    """The step time before own runs moved it."""
    return point.time["step_time"] / point.shift.time_factor


def _devices(
    point: Evaluated, request: PlanTrainRequest, overrides: Mapping[str, float]
) -> Iterator[Bind]:
    """The next larger count, searched again, where a limit on devices stands in its way."""
    cluster = point.job.cluster
    if request.max_devices is None:
        return
    larger = [
        one
        for one in sizes_of(cluster.accelerator.id, 2 * request.max_devices)
        if one.num_devices > request.max_devices
    ]
    bind = _limit("max-devices", "1", float(cluster.num_devices), float(request.max_devices))
    for grown in larger[-1:]:
        try:
            best = search(point.job.model_copy(update={"cluster": grown}), TIGHT, 1, overrides).best
        except UsageError:
            continue
        if best:
            step = _("{count} devices ({system})").format(
                count=grown.num_devices, system=grown.name
            )
            speedup = _search_time(point) / best[0].step_time
            bind = bind.model_copy(update={"step": step, "speedup": speedup})
    yield bind
