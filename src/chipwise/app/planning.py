"""The use case ``plan train``: ranked systems and layouts for a training job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from chipwise import rules
from chipwise.app import costing, plan_batch
from chipwise.app.assumptions import assumptions_of
from chipwise.app.bill import memory_of
from chipwise.app.configured import config_assumptions, config_warnings, sources_of
from chipwise.app.describe import layout_of, performance_of
from chipwise.app.documents import Assumption
from chipwise.app.documents_plan import Plan, PlanDocument, SearchReport
from chipwise.app.evaluation import TIGHT, UNMOVED, Evaluated, evaluate, verdict
from chipwise.app.jobs import Complete, job_on
from chipwise.app.observed_job import site_warnings, sites_of
from chipwise.app.observing import Site, observed_of, site_words
from chipwise.app.overrides import read_overrides
from chipwise.app.plan_binds import binds_of
from chipwise.app.plan_choice import choice_of
from chipwise.app.plan_options import (
    Options,
    best_per_family,
    chosen_of,
    front,
    options_of,
    point_of,
)
from chipwise.app.plan_scaling import scaling_of
from chipwise.app.plan_search import (
    Outcome,
    no_fits,
    require_answer,
    runner_of,
    search_shard,
    shards_of,
)
from chipwise.app.plan_systems import Line, lines_of
from chipwise.app.requests import PlanTrainRequest
from chipwise.app.running import device_hours_of, duration_of, run_assumptions, run_of
from chipwise.i18n import _
from chipwise.search.counts import Counts
from chipwise.search.rank import Candidate
from chipwise.spec.job import TrainingJob, TrainingWorkload
from chipwise.units import show


@dataclass(frozen=True)
class Planned:
    """A plan with what it was made of."""

    document: PlanDocument
    options: Options
    """Every candidate that was found."""
    points: tuple[Evaluated, ...]
    """The plans of the document, evaluated."""


def plan_train(request: PlanTrainRequest) -> PlanDocument:
    """The best layouts on each system, the recommendation first.

    Raises:
        UsageError: unknown names, a contradiction, or pinned degrees that no system can have.
    """
    began = perf_counter()
    return plan_on(request, lines_of(request), began).document


def plan_on(request: PlanTrainRequest, lines: Sequence[Line], began: float) -> Planned:
    """The best layouts on given systems.

    Args:
        request: objective and limits.
        lines: systems, each in one or several counts, with the job there.
        began: when the question was asked, on the clock of ``perf_counter``. [s]

    Raises:
        UsageError: a contradiction, or pinned degrees that no system can have.
    """
    overrides, sources = read_overrides(request.set), sources_of(request.job, request.tool)
    jobs = [job for line in lines for job in line.jobs]
    asked = [job_on(line.jobs[0].cluster, request) for line in lines] if request.observed else []
    sites = sites_of(asked, request.observed, overrides)
    with runner_of(request.ray) as runner:
        outcomes = runner.map(search_shard, shards_of(lines, request, overrides, sites))
    require_answer(outcomes)
    options = options_of(outcomes, overrides, sites)
    chosen = chosen_of(options, request)
    points = tuple(_evaluated(one, overrides, sites) for one in chosen.candidates)
    plans = tuple(_plan(rank, point, request, sites) for rank, point in enumerate(points, 1))
    batches = plan_batch.advice_of(jobs[0], [plan.layout.global_batch for plan in plans])
    document = PlanDocument(
        inputs=_inputs(request, jobs[0].workload),
        assumptions=(
            *config_assumptions(sources),
            *(site_words(site) for site in sites.values()),
            *(run_assumptions(points[0]) if points else ()),
            *(costing.cost_assumptions(points[0]) if points else ()),
            *_assumptions(lines, chosen, request),
        ),
        warnings=(
            *config_warnings(sources),
            *site_warnings(jobs, request.observed, overrides, sites),
            *rules.model_warnings(jobs[0].model, jobs[0].workload.seq_len),
            *_warnings(lines, chosen),
            *plan_batch.batch_warnings(batches),
            *costing.cost_warnings(points),
        ),
        plans=plans,
        search=_report(outcomes, perf_counter() - began),
        pareto=tuple(point_of(options, row, plans) for row in front(options)),
        best_per_family=tuple(
            point_of(options, row, plans) for row in best_per_family(options, request)
        ),
        binds=binds_of(points[0], plans[0], request, overrides) if points else (),
        choice=choice_of(chosen, points, plans, request, overrides),
        scaling=scaling_of(points[0], request.scaling, overrides)
        if points and request.scaling
        else (),
        batch=batches,
        no_fit=tuple(no_fits(outcomes, request, overrides)),
        observed=tuple(map(observed_of, sites.values())),
    )
    return Planned(document, options, points)


def _report(outcomes: Sequence[Outcome], elapsed: float) -> SearchReport:
    counts = sum((one.counts for one in outcomes), Counts())
    return SearchReport(
        systems=sum(len(one.line.jobs) for one in outcomes),
        candidates=counts.candidates,
        evaluated=counts.evaluated,
        pruned=counts.pruned,
        pruned_by={
            "dominance": counts.pruned_by_dominance,
            "memory": counts.pruned_by_memory,
            "time": counts.pruned_by_time,
        },
        fit=counts.fit,
        elapsed_s=elapsed,
    )


def _evaluated(
    candidate: Candidate, overrides: Mapping[str, float], sites: Mapping[str, Site]
) -> Evaluated:
    site = sites.get(candidate.job.cluster.accelerator.id)
    shift = site.shift if site else UNMOVED
    return evaluate(candidate.job, candidate.strategy, overrides, shift=shift)


def _plan(
    rank: int, point: Evaluated, request: PlanTrainRequest, sites: Mapping[str, Site]
) -> Plan:
    duration = duration_of(point)
    cluster = point.job.cluster
    site = sites.get(cluster.accelerator.id)
    cost = costing.cost_of(point, duration)
    meets = None if request.deadline is None else duration.likely <= request.deadline
    return Plan(
        rank=rank,
        system=cluster.name,
        vendor=cluster.accelerator.vendor,
        devices=cluster.num_devices,
        understood=cluster.understood,
        layout=layout_of(point),
        verdict=verdict(point.share, request.headroom),
        duration_s=duration,
        device_hours=device_hours_of(point, duration),
        cost_usd=cost,
        energy_kwh=costing.energy_of(point, duration),
        price=costing.price_of(point),
        memory=memory_of(point, formulas=False),
        meets_deadline=meets,
        meets_budget=costing.meets_budget(cost, request.budget),
        run=run_of(point),
        observed=observed_of(site) if site else None,
        **performance_of(point),
    )


def _inputs(request: PlanTrainRequest, workload: TrainingWorkload) -> Mapping[str, object]:
    """The question with the gaps filled that all candidates share."""
    shared = {"seq": workload.seq_len, "global_batch": workload.global_batch}
    filled = {name: value for name, value in shared.items() if name not in request.vary}
    return request.model_dump(exclude_none=True) | filled


# -- words -----------------------------------------------------------------------------------


def _assumptions(
    lines: Sequence[Line], chosen: Options, request: PlanTrainRequest
) -> tuple[Assumption, ...]:
    workload = lines[0].jobs[0].workload
    found = []
    if request.global_batch is None and "global_batch" not in request.vary:
        tokens = (workload.global_batch or 1) * (workload.seq_len or 1)
        text = _("global batch {batch} sequences ({tokens} tokens), the same on all systems{why}")
        text = text.format(
            batch=workload.global_batch, tokens=show(tokens, "1"), why=_why(lines[0].jobs[0])
        )
        found.append(Assumption(text=text))
    if request.headroom is None:
        text = _("{share:.0f} % of the memory left free where possible (--headroom says otherwise)")
        found.append(Assumption(text=text.format(share=100 * (1 - TIGHT))))
    if any(len(line.jobs) > 1 for line in lines):
        most = max(line.jobs[-1].cluster.num_devices for line in lines)
        text = _("counts up to {most} devices: shares of a node, then 2^k and 3·2^k nodes, slices")
        found.append(Assumption(text=text.format(most=most)))
    if len(chosen):
        found += _gaps(chosen.candidates[0], request)
    return tuple(found)


def _why(job: TrainingJob) -> str:
    law = plan_batch.law_of(job)
    if law is None:
        return ""
    return _("; laws of pre-training advise {advised}, critical are {critical} tokens").format(
        advised=show(law.advised, "1"), critical=show(law.critical, "1")
    )


def _gaps(best: Candidate, request: PlanTrainRequest) -> Sequence[Assumption]:
    """What was left unsaid of the best plan, beside what the search decided."""
    workload = request.workload.model_copy(update={"global_batch": 1})
    split = ("tp", "pp", "micro_batch", "recompute", "shard", "framework")
    searched = {name: getattr(best.strategy, name) for name in split}
    strategy = request.strategy.model_copy(update=searched)
    stated = best.job.model_copy(update={"workload": workload, "strategy": strategy})
    return assumptions_of(Complete(stated, best.job, best.strategy))


def _warnings(lines: Sequence[Line], chosen: Options) -> list[str]:
    understood = [
        line.jobs[0].cluster.understood
        for line in lines
        if len(line.jobs) == 1 and line.jobs[0].cluster.understood
    ]
    slow = [
        text
        for one in chosen.candidates
        for text in rules.layout_warnings(one.job.cluster, one.strategy)
    ]
    return list(dict.fromkeys([*understood, *slow]))
