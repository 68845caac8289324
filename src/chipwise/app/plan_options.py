"""All candidates of a plan side by side: time, money and energy of the run; who beats whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.app.documents_plan import ParetoPoint, Plan
from chipwise.app.observing import Site
from chipwise.app.plan_search import Outcome
from chipwise.app.requests import PlanTrainRequest
from chipwise.calibration import shipped
from chipwise.columns import stack_columns, training_columns
from chipwise.estimate import evaluate_time
from chipwise.quantity import Array
from chipwise.search.rank import Candidate

Vector = NDArray[np.float64]
_HOUR = 3600.0
_KWH = 3.6e6


@dataclass(frozen=True)
class Options:
    """Candidates with what their runs take. Arrays of shape (options,)."""

    candidates: tuple[Candidate, ...]
    lines: tuple[str, ...]
    """Which line of the question each answers."""
    duration: Vector
    """[s]"""
    device_hours: Vector
    cost: Vector
    """Rent, not a number where no price is known. [USD]"""
    energy: Vector
    """Not a number where no power is published. [J]"""

    def __len__(self) -> int:
        return len(self.candidates)

    def taken(self, rows: Sequence[int] | NDArray[np.intp]) -> Options:
        """Some of them, in that order."""
        index = np.asarray(rows, dtype=np.intp)
        return Options(
            tuple(self.candidates[row] for row in index),
            tuple(self.lines[row] for row in index),
            self.duration[index],
            self.device_hours[index],
            self.cost[index],
            self.energy[index],
        )

    def objective(self, name: str) -> Vector:
        """What is to be least; infinite where unknown."""
        values = {
            "time": self.duration,
            "device-hours": self.device_hours,
            "cost": self.cost,
            "energy": self.energy,
        }[name]
        return np.where(np.isnan(values), np.inf, values)

    def rank(self, request: PlanTrainRequest) -> Vector:
        """Order of all: within deadline and budget first, then by the objective. (options,)

        Options whose cost is unknown come after those within a budget, before those over it.
        """
        over = np.zeros(len(self))
        if request.deadline is not None:
            over = np.where(self.duration > request.deadline, 2.0, over)
        if request.budget is not None:
            known = ~np.isnan(self.cost)
            over = np.where(known & (self.cost > request.budget), 2.0, np.where(known, over, 1.0))
        second = self.duration if request.objective != "time" else self.objective("cost")
        first = self.objective(request.objective)
        order = np.lexsort((self.device_hours, second, first, over))
        return np.asarray(order)


def options_of(
    outcomes: Sequence[Outcome], overrides: Mapping[str, float], sites: Mapping[str, Site]
) -> Options:
    """Every candidate that the search found, with duration, cost and energy of its run.

    Args:
        outcomes: of all shards.
        overrides: values that replace inputs, constants or quantities.
        sites: what own runs say, by accelerator.
    """
    pairs = [
        (candidate, one.line.name) for one in outcomes for best in one.best for candidate in best
    ]
    candidates = tuple(candidate for candidate, _line in pairs)
    if not candidates:
        empty = np.zeros(0)
        return Options((), (), empty, empty, empty, empty)
    rows = [training_columns(one.job, one.strategy) for one in candidates]
    inputs, keys = stack_columns(rows)
    columns: dict[str, Array] = {**inputs, **shipped().columns(keys), **overrides}
    if "step_time" not in overrides:
        columns["step_time"] = np.array([_step_time(one, sites) for one in candidates])
    values = evaluate_time(columns, ("duration", "device_time", "cost", "energy"))
    duration, device_time, cost, energy = (
        np.broadcast_to(np.asarray(values[name], dtype=np.float64), (len(rows),))
        for name in ("duration", "device_time", "cost", "energy")
    )
    lines = tuple(line for _candidate, line in pairs)
    return Options(candidates, lines, duration, device_time / _HOUR, cost, energy)


def _step_time(candidate: Candidate, sites: Mapping[str, Site]) -> float:
    site = sites.get(candidate.job.cluster.accelerator.id)
    return site.slower(candidate.step_time) if site else candidate.step_time


def chosen_of(options: Options, request: PlanTrainRequest) -> Options:
    """Those to show: the best of each line of the question, then next best ones.

    Args:
        options: all candidates.
        request: objective, limits and how many to show.
    """
    order = options.rank(request)
    seen: set[str] = set()
    first: list[int] = []
    later: list[int] = []
    for row in order:
        line = options.lines[row]
        (later if line in seen else first).append(int(row))
        seen.add(line)
    kept = set((first + later)[: request.top])
    return options.taken([row for row in order if int(row) in kept])


def best_per_family(options: Options, request: PlanTrainRequest) -> list[int]:
    """The best option of each accelerator family, best first, as rows."""
    found: dict[str, int] = {}
    for row in options.rank(request):
        family = options.candidates[row].job.cluster.accelerator.family
        found.setdefault(family, int(row))
    return list(found.values())


def front(options: Options) -> list[int]:
    """Rows that no other beats in time, cost and energy, fastest first.

    One beats another when it is known to be no worse in all that is known of the other, and
    better in something. What is unknown of the other does not save it; device-hours stand in for
    a cost unknown of both.
    """
    unpriced = np.isnan(options.cost)
    spent = np.where(unpriced, options.device_hours, np.nan)
    no_worse = np.ones((len(options), len(options)), dtype=bool)
    better = np.zeros_like(no_worse)
    for values, needed in (
        (options.duration, True),
        (options.cost, True),
        (options.energy, True),
        (spent, False),
    ):
        one, other = values[:, None], values[None, :]
        unknown = np.isnan(one) & ~np.isnan(other) & needed
        no_worse &= ~(one > other) & ~unknown
        better |= one < other
    rows = [int(row) for row in np.flatnonzero(~(no_worse & better).any(axis=0))]
    first = [row for row in rows if not _repeats(options, row, rows)]
    return sorted(first, key=lambda row: (options.duration[row], options.device_hours[row]))


def _repeats(options: Options, row: int, rows: Sequence[int]) -> bool:
    """Whether an earlier one on the same system is exactly as good."""
    name = options.candidates[row].job.cluster.name
    return any(
        other < row
        and options.candidates[other].job.cluster.name == name
        and options.duration[other] == options.duration[row]
        for other in rows
    )


def point_of(options: Options, row: int, plans: Sequence[Plan]) -> ParetoPoint:
    """One option in the words of the documents."""
    candidate = options.candidates[row]
    cluster, cost, energy = candidate.job.cluster, options.cost[row], options.energy[row]
    return ParetoPoint(
        system=cluster.name,
        family=cluster.accelerator.family,
        devices=cluster.num_devices,
        rank=_rank(options, row, plans),
        duration_s=float(options.duration[row]),
        device_hours=float(options.device_hours[row]),
        cost_usd=None if np.isnan(cost) else float(cost),
        energy_kwh=None if np.isnan(energy) else float(energy) / _KWH,
    )


def _rank(options: Options, row: int, plans: Sequence[Plan]) -> int | None:
    name, duration = options.candidates[row].job.cluster.name, options.duration[row]
    ranks = [
        plan.rank
        for plan in plans
        if plan.system == name and abs(plan.duration_s.likely / duration - 1) < 1e-9
    ]
    return min(ranks, default=None)
