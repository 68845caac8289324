"""How sure the choice is: the chance that it is best, its regret, ties, and what turns it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import NDArray

from chipwise.app import costing
from chipwise.app.documents_plan import Choice, Plan, Turn
from chipwise.app.evaluation import Evaluated
from chipwise.app.plan_options import Options
from chipwise.app.requests import PlanTrainRequest
from chipwise.calibration import shipped
from chipwise.i18n import _
from chipwise.search.uncertainty import sampled_times, scaled_times

SAMPLES = 1000
TIE = 0.2
"""Plans that beat the first one in so many draws are called ties."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class _Change:
    words: str
    factors: Mapping[str, float] = field(default_factory=dict)
    dearest: bool = False
    """At the dearest provider's price instead of the cheapest one's."""


def choice_of(
    chosen: Options,
    points: Sequence[Evaluated],
    plans: Sequence[Plan],
    request: PlanTrainRequest,
    overrides: Mapping[str, float],
) -> Choice | None:
    """How sure the first of several plans is; None where there is nothing to choose.

    Plans that miss the deadline or the budget are no alternatives.

    Args:
        chosen: the plans' options, best first.
        points: the same, evaluated.
        plans: the same, as documents.
        request: objective and limits.
        overrides: values that replace inputs, constants or quantities; they are certain.
    """
    rows = [
        place
        for place, plan in enumerate(plans)
        if False not in (plan.meets_deadline, plan.meets_budget)
        and np.isfinite(chosen.objective(request.objective)[place])
    ]
    if len(rows) < 2 or 0 not in rows:
        return None
    some = chosen.taken(rows)
    widths = np.array([_half_width(plans[row]) for row in rows])
    factors = sampled_times(some.candidates, widths, shipped(), overrides, SAMPLES)
    spent = some.objective(request.objective)[:, None] * factors
    best = spent.argmin(axis=0)
    regret = spent[0] / spent.min(axis=0) - 1
    chance = np.bincount(best, minlength=len(rows)) / SAMPLES
    beats = (spent < spent[:1]).mean(axis=1)
    return Choice(
        samples=SAMPLES,
        probability_best={plans[row].rank: float(p) for row, p in zip(rows, chance, strict=True)},
        regret_mean=float(regret.mean()),
        regret_p90=float(np.quantile(regret, 0.9)),
        ties=tuple(plans[row].rank for row, p in zip(rows, beats, strict=True) if p >= TIE),
        sensitivity=_sensitivity(some, [points[row] for row in rows], request, overrides),
    )


def _half_width(plan: Plan) -> float:
    span = plan.step_time_s
    return log(span.high / span.likely)


def _sensitivity(
    some: Options,
    points: Sequence[Evaluated],
    request: PlanTrainRequest,
    overrides: Mapping[str, float],
) -> tuple[Turn, ...]:
    """What the winner would be if an input were otherwise, those that matter most first."""
    changes = list(_changes(request))
    factors = scaled_times(
        some.candidates, shipped(), overrides, [change.factors for change in changes]
    )
    before = some.objective(request.objective)
    found = []
    for place, change in enumerate(changes):
        spent = before * factors[:, place]
        if change.dearest:
            spent = spent * np.array([_dearest(point) for point in points])
        winner = int(spent.argmin())
        found.append(
            Turn(
                change=change.words,
                winner=some.candidates[winner].job.cluster.name,
                turns=winner != 0,
                effect=float(spent[0] / before[0] - 1),
            )
        )
    return tuple(sorted(found, key=lambda one: (not one.turns, -abs(one.effect))))


def _changes(request: PlanTrainRequest) -> Iterator[_Change]:
    yield _Change(_("network half as fast"), {"network_bandwidth": 0.5})
    yield _Change(_("fast link half as fast"), {"intra_bandwidth": 0.5})
    slower = dict.fromkeys(("peak_matmul", "peak_16bit"), 0.9)
    yield _Change(_("matrix products 10 % slower"), slower)
    yield _Change(_("memory bandwidth 10 % lower"), {"peak_bandwidth": 0.9})
    yield _Change(_("host work half as much again"), {"host_factor": 1.5})
    if request.objective == "cost":
        yield _Change(_("rented from the dearest provider"), dearest=True)


def _dearest(point: Evaluated) -> float:
    price = costing.price_of(point)
    if price is None or not price.usd_per_device_hour:
        return 1.0
    return price.high_usd_per_device_hour / price.usd_per_device_hour
