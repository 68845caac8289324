"""All runs of a grid on copies of one system: how long, what it costs, how many copies it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

from chipwise.app import costing
from chipwise.app.dataset import Dataset
from chipwise.app.documents_finetune import Experiments, GridRun
from chipwise.app.evaluation import TIGHT, Evaluated, evaluate
from chipwise.app.finetune_jobs import lines_of_task, task_of
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.overrides import read_overrides
from chipwise.app.planning import Planned
from chipwise.app.requests import parse_request
from chipwise.app.running import duration_of
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.search.rank import search

KNOWN = ("rank", "epochs", "global_batch", "seq")
"""Hyperparameters that change time or memory; all others are names only."""
MOST_RUNS = 1000
Values = Mapping[str, str]


@dataclass(frozen=True)
class Schedule:
    """Which copy works on which run, and when."""

    instance: tuple[int, ...]
    """Of each run, from 0."""
    start: tuple[float, ...]
    """Of each run. [s]"""
    makespan: float
    """[s]"""


def schedule(durations: Sequence[float], instances: int) -> Schedule:
    """The longest run first, each on the copy that is free first.

    Args:
        durations: of the runs. [s]
        instances: copies, ≥ 1.

    Returns:
        At most 4/3 of the shortest possible makespan, less 1/3 of it per copy (Graham 1969).
    """
    free = [0.0] * instances
    place, start = [0] * len(durations), [0.0] * len(durations)
    for run in sorted(range(len(durations)), key=lambda run: -durations[run]):
        copy = free.index(min(free))
        place[run], start[run] = copy, free[copy]
        free[copy] += durations[run]
    return Schedule(tuple(place), tuple(start), max(free, default=0.0))


def fewest_instances(durations: Sequence[float], deadline: float) -> int | None:
    """Fewest copies that end all runs in time; None where one run alone is too long.

    Args:
        durations: of the runs. [s]
        deadline: [s]
    """
    if max(durations, default=0.0) > deadline:
        return None
    least = max(1, ceil(sum(durations) / deadline) - 1)  # one below: sums are rounded
    counts = range(least, max(least, len(durations)) + 1)
    return next(n for n in counts if schedule(durations, n).makespan <= deadline)


def hardest(request: PlanFinetuneRequest) -> PlanFinetuneRequest:
    """The request of the largest run: with the highest value of what a grid varies.

    Raises:
        UsageError: a grid too large, or a value that a field does not take.
    """
    count = prod(len(some) for some in request.grid.values())
    if count > MOST_RUNS:
        text = _("--grid has {count} runs; {most} at most").format(count=count, most=MOST_RUNS)
        raise UsageError("grid-too-large", text, count=count)
    single = {"method", "precision", "optimizer"} & {*request.grid}
    if single:
        text = _("--grid {name} changes the plan itself: compare with --vary {name}=…")
        raise UsageError("grid-of-plans", text.format(name=min(single)))
    every = {
        name: [getattr(_with(request, {name: value}), name) for value in some]
        for name, some in request.grid.items()
        if name in KNOWN
    }
    largest = {name: request.grid[name][some.index(max(some))] for name, some in every.items()}
    return _with(request, largest)


def _with(request: PlanFinetuneRequest, values: Values) -> PlanFinetuneRequest:
    """The request with some hyperparameters; adapters only where a rank is among them."""
    if not values:
        return request
    stated = request.model_dump(exclude_unset=True)
    return parse_request(PlanFinetuneRequest, {**stated, **values})


def per_run(request: PlanFinetuneRequest) -> PlanFinetuneRequest:
    """The request of one run: a budget for a grid is shared by its runs."""
    runs = prod(len(some) for some in request.grid.values())
    if request.budget is None or runs == 1:
        return request
    return request.model_copy(update={"budget": request.budget / runs})


def experiments_of(
    request: PlanFinetuneRequest, data: Dataset, planned: Planned
) -> Experiments | None:
    """Every run of the grid on the recommended system; None without a grid or a plan.

    Args:
        request: the question.
        data: its examples.
        planned: the plan of its largest run.
    """
    if not request.grid or not planned.points:
        return None
    best, names = planned.points[0], tuple(request.grid)
    grid = [dict(zip(names, some, strict=True)) for some in product(*request.grid.values())]
    seen: dict[tuple[str, ...], Evaluated | None] = {}
    points = []
    for values in grid:
        key = tuple(values[name] for name in names if name in KNOWN)
        if key not in seen:
            known = {name: values[name] for name in names if name in KNOWN}
            seen[key] = _point(_with(request, known), data, best)
        points.append(seen[key])
    return _report(request, best, grid, points)


def _point(request: PlanFinetuneRequest, data: Dataset, best: Evaluated) -> Evaluated | None:
    """One run in its best layout on the chosen system; None where it does not fit."""
    overrides, cluster = read_overrides(request.set), best.job.cluster
    updates: dict[str, object] = {"method": best.job.workload.method, "vary": {}}
    updates |= {"precision": best.job.workload.precision, "optimizer": best.strategy.optimizer}
    if "global_batch" not in request.grid:
        updates["global_batch"] = best.job.workload.global_batch
    fixed = request.model_copy(update=updates)
    task = task_of(fixed, data, [cluster])
    job = lines_of_task(task, [[cluster]])[0].jobs[0]
    share = 1 - (request.headroom or 0.0)
    for limit in (share * TIGHT, share):
        found = search(job, limit, 1, overrides).best
        if found:
            return evaluate(found[0].job, found[0].strategy, overrides, shift=best.shift)
    return None


def _report(
    request: PlanFinetuneRequest,
    best: Evaluated,
    grid: Sequence[Values],
    points: Sequence[Evaluated | None],
) -> Experiments:
    spans = [None if point is None else duration_of(point) for point in points]
    fitting = [row for row, span in enumerate(spans) if span is not None]
    durations = [span.likely for span in spans if span is not None]
    needed = fewest_instances(durations, request.deadline) if request.deadline else None
    instances = request.instances or needed or 1
    planned = schedule(durations, instances)
    costs = [
        None if point is None or span is None else costing.cost_of(point, span)
        for point, span in zip(points, spans, strict=True)
    ]
    place = {row: number for number, row in enumerate(fitting)}
    runs = [
        GridRun(
            values=values,
            duration_s=span.likely if span else None,
            cost_usd=cost.likely if cost else None,
            instance=planned.instance[place[row]] + 1 if span else None,
            start_s=planned.start[place[row]] if span else None,
        )
        for row, (values, span, cost) in enumerate(zip(grid, spans, costs, strict=True))
    ]
    busy = sum(durations)
    used = [run.cost_usd for run in runs if run.duration_s is not None]
    alone = None if None in used or not used else sum(cost for cost in used if cost is not None)
    paid = planned.makespan * instances
    total = alone * paid / busy if alone is not None and busy else None
    return Experiments(
        system=best.job.cluster.name,
        instances=instances,
        runs=tuple(runs),
        makespan_s=planned.makespan,
        cost_usd=total,
        cost_without_idle_usd=alone,
        idle_share=1 - busy / paid if paid else 0.0,
        instances_for_deadline=needed,
        meets_deadline=None if request.deadline is None else planned.makespan <= request.deadline,
        meets_budget=None
        if request.budget is None
        else total is not None and total <= request.budget,
    )
