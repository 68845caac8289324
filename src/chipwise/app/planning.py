"""The use case ``plan train``: ranked systems and layouts for a training job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, lcm
from time import perf_counter

from chipwise import rules
from chipwise.app import costing
from chipwise.app.assumptions import assumptions_of
from chipwise.app.bill import memory_of
from chipwise.app.describe import layout_of, performance_of
from chipwise.app.documents import Assumption, NoFit, Plan, PlanDocument, SearchReport
from chipwise.app.evaluation import TIGHT, UNMOVED, Evaluated, evaluate, verdict
from chipwise.app.growth import smallest_cluster, smallest_larger_device
from chipwise.app.jobs import Complete, clusters_of, job_on
from chipwise.app.observed_job import site_warnings, sites_of
from chipwise.app.observing import Site, observed_of, site_words
from chipwise.app.overrides import read_overrides, require_sound
from chipwise.app.requests import PlanTrainRequest
from chipwise.app.running import device_hours_of, duration_of, run_assumptions, run_of
from chipwise.defaults import default_precision
from chipwise.errors import LayoutError, UsageError
from chipwise.i18n import _
from chipwise.search.rank import Candidate, Counts, Found, holds, search
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import TrainingJob
from chipwise.units import show

TOKENS_PER_STEP = 2**20
TOKENS_PER_DEVICE = 2**10
"""Global batch where none is stated: a million tokens, and a thousand per device at least.

Published runs use 1 to 4 million tokens up to 70B parameters, and 16 million on 16,384 devices.
"""
_PER_SYSTEM = 3
_MOST_DEVICES = 65536


@dataclass(frozen=True)
class _Searched:
    """One system with what the search found on it."""

    job: TrainingJob
    found: Found


def plan_train(request: PlanTrainRequest) -> PlanDocument:
    """The best layouts on each system, the recommendation first.

    Raises:
        UsageError: unknown names, a contradiction, or pinned degrees that no system can have.
    """
    began = perf_counter()
    overrides = read_overrides(request.set)
    clusters = clusters_of(request)
    jobs = [job_on(cluster, request) for cluster in clusters]
    sites = sites_of(jobs, request.observed, overrides)
    jobs = _with_batch([_with_sequence(job) for job in jobs])
    searched, no_fit = _searched(jobs, request, overrides, sites)
    chosen = _chosen(searched, request, sites)
    points = [_evaluated(one, overrides, sites) for one in chosen]
    plans = _ranked([_plan(point, request, sites) for point in points], request)
    counts = sum((one.found.counts for one in searched), Counts())
    return PlanDocument(
        inputs=_inputs(request, jobs[0]),
        assumptions=(
            *(site_words(site) for site in sites.values()),
            *(run_assumptions(points[0]) if points else ()),
            *(
                text
                for point in costing.recommended(points, plans)
                for text in costing.cost_assumptions(point)
            ),
            *_assumptions(jobs, chosen, request),
        ),
        warnings=(
            *site_warnings(jobs, request.observed, overrides, sites),
            *rules.model_warnings(jobs[0].model, jobs[0].workload.seq_len),
            *_warnings(clusters, chosen),
            *costing.cost_warnings(points),
        ),
        plans=plans,
        search=SearchReport(
            candidates=counts.candidates,
            evaluated=counts.evaluated,
            pruned=counts.candidates - counts.evaluated,
            fit=counts.fit,
            elapsed_s=perf_counter() - began,
        ),
        pareto=costing.pareto(plans),
        no_fit=tuple(no_fit),
        observed=tuple(map(observed_of, sites.values())),
    )


# -- the jobs --------------------------------------------------------------------------------


def _with_sequence(job: TrainingJob) -> TrainingJob:
    """With sequence length and precision, so that all systems train the same."""
    updates: dict[str, object] = {}
    if job.workload.seq_len is None:
        updates["seq_len"] = min(4096, job.model.max_context or 4096)
    if job.workload.precision is None:
        updates["precision"] = default_precision(job.cluster.accelerator, "fsdp")
    strategy = job.strategy
    if strategy.optimizer is None:
        strategy = strategy.model_copy(update={"optimizer": "adamw"})
    workload = job.workload.model_copy(update=updates)
    return job.model_copy(update={"workload": workload, "strategy": strategy})


def _with_batch(jobs: list[TrainingJob]) -> list[TrainingJob]:
    """With one global batch for all systems, divisible by all their device counts if possible.

    A stated micro-batch always divides it.
    """
    if jobs[0].workload.global_batch is not None:
        return jobs
    most = max(job.cluster.num_devices for job in jobs)
    tokens = max(TOKENS_PER_STEP, TOKENS_PER_DEVICE * most)
    target = max(1, round(tokens / (jobs[0].workload.seq_len or 1)))
    micro_batch = jobs[0].strategy.micro_batch or 1
    common = lcm(*(job.cluster.num_devices * micro_batch for job in jobs))
    batch = _up(target, common) if common <= 2 * target else _up(target, micro_batch)
    return [
        job.model_copy(update={"workload": job.workload.model_copy(update={"global_batch": batch})})
        for job in jobs
    ]


def _searched(
    jobs: list[TrainingJob],
    request: PlanTrainRequest,
    overrides: Mapping[str, float],
    sites: Mapping[str, Site],
) -> tuple[list[_Searched], list[NoFit]]:
    """What was found on each system, and the systems that offer nothing with the reason.

    Raises:
        UsageError: the question is wrong on every system.
    """
    searched: list[_Searched] = []
    no_fit: list[NoFit] = []
    errors: list[UsageError] = []
    for job in jobs:
        try:
            one = _search(job, request, overrides, sites)
        except UsageError as error:
            errors += [error] if _is_mistake(error) else []
            no_fit.append(NoFit(system=job.cluster.name, reason=error.message))
            continue
        searched.append(_Searched(job, one))
        if not one.best:
            no_fit.append(_no_fit(job, one, _limit(request, job, sites), request, overrides))
    if errors and len(errors) == len(jobs):
        raise errors[0]
    return searched, no_fit


def _up(least: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not less."""
    return ceil(least / step) * step


def _is_mistake(error: UsageError) -> bool:
    """Whether the question is wrong, not merely this system no answer to it."""
    return isinstance(error, LayoutError) or error.code == "dtype-missing"


def _search(
    job: TrainingJob,
    request: PlanTrainRequest,
    overrides: Mapping[str, float],
    sites: Mapping[str, Site],
) -> Found:
    """The layouts with room to spare; those that just fit only where no other does.

    Raises:
        LayoutError: what is stated breaks a rule, or leaves no layout at all.
        UsageError: more devices than allowed, or ones that cannot train the job.
    """
    devices = job.cluster.num_devices
    if request.max_devices is not None and devices > request.max_devices:
        text = _("{devices} devices are more than --max-devices {most}")
        raise UsageError("too-many-devices", text.format(devices=devices, most=request.max_devices))
    limit = _limit(request, job, sites)
    found = search(job, limit * TIGHT, _PER_SYSTEM, overrides)
    if not found.counts.candidates:
        raise rules.no_layout(job)
    return found if found.best else search(job, limit, _PER_SYSTEM, overrides)


def _limit(request: PlanTrainRequest, job: TrainingJob, sites: Mapping[str, Site]) -> float:
    """Share of the usable memory that a prediction may need, given what own runs needed."""
    site = sites.get(job.cluster.accelerator.id)
    return (1 - (request.headroom or 0.0)) / (site.memory_factor if site else 1.0)


# -- the plans -------------------------------------------------------------------------------


def _chosen(
    searched: list[_Searched], request: PlanTrainRequest, sites: Mapping[str, Site]
) -> list[Candidate]:
    """The best of each system, then next best ones as far as the list goes."""
    ranked = sorted(
        (
            (place > 0, _objective(candidate, request, sites), number, candidate)
            for number, one in enumerate(searched)
            for place, candidate in enumerate(one.found.best)
        ),
        key=lambda entry: entry[:3],
    )
    return [entry[-1] for entry in ranked[: request.top]]


def _objective(candidate: Candidate, request: PlanTrainRequest, sites: Mapping[str, Site]) -> float:
    """What is minimised; steps are the same for all candidates."""
    cluster = candidate.job.cluster
    site = sites.get(cluster.accelerator.id)
    time = site.slower(candidate.step_time) if site else candidate.step_time
    return costing.per_run(cluster, time, request)


def _evaluated(
    candidate: Candidate, overrides: Mapping[str, float], sites: Mapping[str, Site]
) -> Evaluated:
    site = sites.get(candidate.job.cluster.accelerator.id)
    shift = site.shift if site else UNMOVED
    return evaluate(candidate.job, candidate.strategy, overrides, shift=shift)


def _plan(point: Evaluated, request: PlanTrainRequest, sites: Mapping[str, Site]) -> Plan:
    duration = duration_of(point)
    devices = point.job.cluster.num_devices
    site = sites.get(point.job.cluster.accelerator.id)
    cost = costing.cost_of(point, duration)
    meets = None if request.deadline is None else duration.likely <= request.deadline
    return Plan(
        rank=1,
        system=point.job.cluster.name,
        vendor=point.job.cluster.accelerator.vendor,
        devices=devices,
        understood=point.job.cluster.understood,
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


def _ranked(plans: list[Plan], request: PlanTrainRequest) -> tuple[Plan, ...]:
    """Those that meet deadline and budget first, then by the objective."""
    ordered = sorted(plans, key=lambda plan: costing.order(plan, request))
    return tuple(plan.model_copy(update={"rank": rank}) for rank, plan in enumerate(ordered, 1))


# -- where nothing fits ----------------------------------------------------------------------


def _no_fit(
    job: TrainingJob,
    found: Found,
    limit: float,
    request: PlanTrainRequest,
    overrides: Mapping[str, float],
) -> NoFit:
    usable = job.cluster.accelerator.visible_bytes
    require_sound({"needed_bytes": found.least_excess + usable}, overrides)
    needed = found.least_excess + usable
    reason = _("the leanest layout needs {needed} per device, {usable} are usable").format(
        needed=show(needed, "B"), usable=show(usable, "B")
    )
    most = request.max_devices or _MOST_DEVICES
    smallest = _smallest(job, needed, limit, most, overrides)
    if smallest is None:
        reason += _(
            "; no count of them tried up to {most} holds it, nor as many of any larger device"
        ).format(most=most)
    return NoFit(
        system=job.cluster.name,
        reason=reason,
        short_by_bytes=max(0.0, found.least_excess),
        smallest=smallest,
    )


def _smallest(
    job: TrainingJob, needed: float, limit: float, most: int, overrides: Mapping[str, float]
) -> str | None:
    """The smallest larger cluster of the same devices that holds the job, else of larger ones."""

    def is_enough(cluster: Cluster) -> bool:
        moved = job.model_copy(update={"cluster": cluster})
        return holds(_divisible(moved), limit, overrides)

    found = smallest_cluster(job.cluster, most, is_enough)
    found = found or smallest_larger_device(job.cluster, needed, is_enough)
    return found.name if found else None


def _divisible(job: TrainingJob) -> TrainingJob:
    """With a global batch that the devices can share, so that only memory decides."""
    devices, micro_batch = job.cluster.num_devices, job.strategy.micro_batch or 1
    batch = rules.smallest_batch(devices, micro_batch, job.workload.global_batch or 1)
    workload = job.workload.model_copy(update={"global_batch": batch})
    return job.model_copy(update={"workload": workload})


# -- words -----------------------------------------------------------------------------------


def _inputs(request: PlanTrainRequest, job: TrainingJob) -> Mapping[str, object]:
    workload = job.workload
    return request.model_dump(exclude_none=True) | {
        "seq": workload.seq_len,
        "global_batch": workload.global_batch,
    }


def _assumptions(
    jobs: list[TrainingJob], chosen: list[Candidate], request: PlanTrainRequest
) -> tuple[Assumption, ...]:
    workload = jobs[0].workload
    found = []
    if request.global_batch is None:
        tokens = (workload.global_batch or 1) * (workload.seq_len or 1)
        text = _("global batch {batch} sequences ({tokens} tokens), the same on all systems")
        found.append(
            Assumption(text=text.format(batch=workload.global_batch, tokens=show(tokens, "1")))
        )
    if request.headroom is None:
        text = _("{share:.0f} % of the memory left free where possible (--headroom says otherwise)")
        found.append(Assumption(text=text.format(share=100 * (1 - TIGHT))))
    if chosen:
        best = chosen[0]
        stated = best.job.model_copy(
            update={"workload": request.workload, "strategy": request.strategy}
        )
        known = {"global_batch": 1}
        workload = stated.workload.model_copy(update=known)
        split = ("tp", "pp", "micro_batch", "recompute", "shard", "framework")
        searched = {name: getattr(best.strategy, name) for name in split}
        strategy = stated.strategy.model_copy(update=searched)
        stated = stated.model_copy(update={"workload": workload, "strategy": strategy})
        found += assumptions_of(Complete(stated, best.job, best.strategy))
    return tuple(found)


def _warnings(clusters: list[Cluster], chosen: list[Candidate]) -> list[str]:
    understood = [cluster.understood for cluster in clusters if cluster.understood]
    slow = [text for one in chosen for text in rules.layout_warnings(one.job.cluster, one.strategy)]
    return list(dict.fromkeys([*understood, *slow]))
