"""From a request to a complete job: names looked up, gaps filled, rules checked, layout chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import lcm
from pathlib import Path

import numpy as np

from chipwise import rules
from chipwise.app.evaluation import compare
from chipwise.app.objective import objective_of
from chipwise.app.requests import JobRequest
from chipwise.catalogue.load import use_catalogue
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.defaults import default_precision, resolve
from chipwise.errors import LayoutError, UsageError, shortened
from chipwise.i18n import _
from chipwise.search.space import trainers
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import Run, Strategy, TrainingJob
from chipwise.spec.price import Terms

MICROBATCHES_PER_STAGE = 4
"""Micro-batches per pipeline stage and step where no global batch is stated."""
_NAMED = 6
"""Systems named one by one in an error."""


@dataclass(frozen=True)
class Complete:
    """A job as stated, and as it is evaluated: nothing left unsaid."""

    stated: TrainingJob
    job: TrainingJob
    strategy: Strategy


def clusters_of(request: JobRequest) -> list[Cluster]:
    """The systems of a request, with the request's own catalogue in use."""
    use_catalogue(Path(request.catalogue) if request.catalogue else None)
    return parse_system(request.on or "")


def stated_job(request: JobRequest) -> TrainingJob:
    """The job of a question about one configuration, gaps and all.

    Raises:
        UsageError: no model, several systems, or a contradiction in what is trained.
    """
    clusters = clusters_of(request)
    if len(clusters) > 1:
        first = [cluster.name for cluster in clusters[:_NAMED]]
        names = ", ".join(first if len(clusters) <= _NAMED else [*first, "…"])
        raise UsageError(
            "one-system",
            _(
                "one system at a time: '{on}' is {count} ({names}); 'plan train' ranks several"
            ).format(on=shortened(request.on or ""), count=len(clusters), names=names),
            on=request.on,
            systems=[cluster.name for cluster in clusters],
        )
    return job_on(clusters[0], request)


def job_on(cluster: Cluster, request: JobRequest) -> TrainingJob:
    """The job of a request on one of its systems.

    Raises:
        UsageError: no model, or a contradiction in what is trained.
    """
    if not request.model:
        raise UsageError("no-model", _("name a MODEL, such as llama-2-7b"))
    job = TrainingJob(
        model=load_model(request.model),
        cluster=cluster,
        workload=request.workload.model_copy(update={"objective": objective_of(request)}),
        strategy=request.strategy,
        run=getattr(request, "run", None) or Run(),
        terms=getattr(request, "terms", None) or Terms(),
        power_cap_watts=getattr(request, "power_cap", None),
        host_memory_bytes=request.host_memory,
    )
    rules.check_workload(job.workload, job.model)
    return job if request.accumulation is None else accumulated(job, request.accumulation)


def accumulated(job: TrainingJob, accumulation: int) -> TrainingJob:
    """A job with the global batch that so many micro-batches per rank make.

    Raises:
        UsageError: another global batch is stated too.
    """
    split = job.strategy
    ranks = job.cluster.num_devices // ((split.tp or 1) * (split.pp or 1) * (split.cp or 1))
    batch = accumulation * (split.micro_batch or 1) * max(1, ranks)
    stated = job.workload.global_batch
    if stated is not None and stated != batch:
        text = _(
            "--accumulation {accumulation} of {micro_batch} sequences on {ranks} ranks is a global "
            "batch of {batch}, but --global-batch is {stated}; leave one of them out"
        )
        raise UsageError(
            "contradiction",
            text.format(
                accumulation=accumulation,
                micro_batch=split.micro_batch or 1,
                ranks=ranks,
                batch=batch,
                stated=stated,
            ),
        )
    workload = job.workload.model_copy(update={"global_batch": batch, "accumulation": accumulation})
    return job.model_copy(update={"workload": workload})


def complete(
    stated: TrainingJob, overrides: Mapping[str, float] | None = None, limit: float = 1.0
) -> Complete:
    """Fill every gap and choose the first of the possible layouts that fits, else the leanest.

    Args:
        stated: the job, gaps and all.
        overrides: values that replace inputs, constants or quantities.
        limit: share of the usable memory within which a layout fits.

    Raises:
        LayoutError: no possible layout obeys the rules.
        UsageError: the device lacks the number format.
    """
    rules.check_stated(stated)
    options = list(_valid(possible(stated)))
    share = compare(options, overrides).share
    fitting = np.flatnonzero(share <= limit)
    chosen = options[int(fitting[0] if len(fitting) else np.argmin(share))]
    return Complete(stated, *chosen)


def possible(stated: TrainingJob) -> Iterator[tuple[TrainingJob, Strategy]]:
    """Complete jobs that fill the gaps, preferred ones first; rules not checked yet.

    Where memory is short and nothing was said, activations are recomputed and the micro-batch
    is one sequence, whatever the stack does by itself.
    """
    resolved = resolve(_with_usual_choices(stated))
    choices = list(resolved.alternatives)
    if stated.strategy.recompute is None:
        choices = [lean for one in choices for lean in (one, _updated(one, recompute="full"))]
    if stated.strategy.micro_batch is None:
        choices += [_updated(one, micro_batch=1) for one in choices]
    for choice in dict.fromkeys(choices):
        strategy = _equal_chunks(resolved.job, choice)
        yield with_batch(resolved.job, strategy), strategy


def training_warnings(job: TrainingJob, strategy: Strategy) -> tuple[str, ...]:
    """What contradicts the model's files or is slow, and devices that no software trains on."""
    found = [
        *rules.model_warnings(job.model, job.workload.seq_len),
        *rules.layout_warnings(job.cluster, strategy),
    ]
    if not trainers(job.cluster.accelerator):
        text = _("no training stack runs on {name}: the numbers are what its hardware would allow")
        found.append(text.format(name=job.cluster.accelerator.id))
    return tuple(found)


def _updated(strategy: Strategy, **updates: object) -> Strategy:
    return strategy.model_copy(update=updates)


def _valid(
    options: Iterator[tuple[TrainingJob, Strategy]],
) -> Iterator[tuple[TrainingJob, Strategy]]:
    """The options that obey all rules, as stated; the first one's error when none does."""
    first_error: LayoutError | None = None
    found = False
    for job, strategy in options:
        try:
            rules.check_layout(job, strategy)
        except LayoutError as error:
            first_error = first_error or error
            continue
        found = True
        yield job, strategy
    if not found and first_error is not None:
        raise first_error


def _with_usual_choices(job: TrainingJob) -> TrainingJob:
    """What a person means by some words: 16 bit and AdamW unless said, ZeRO is DeepSpeed's."""
    strategy = job.strategy
    if strategy.optimizer is None:
        strategy = strategy.model_copy(update={"optimizer": "adamw"})
    if strategy.shard in ("zero1", "zero2", "zero3") and strategy.framework is None:
        plain = strategy.tp in (None, 1) and strategy.pp in (None, 1)
        if plain and job.cluster.accelerator.kind == "gpu":
            updates = {"framework": "deepspeed", "tp": 1, "pp": 1}
            strategy = strategy.model_copy(update=updates)
    if (strategy.tp or 1) > job.cluster.devices_per_node and strategy.pp is None:
        strategy = strategy.model_copy(update={"pp": 1})
    workload = job.workload
    if workload.precision is None:
        precision = default_precision(job.cluster.accelerator, "fsdp")
        workload = workload.model_copy(update={"precision": precision})
    return job.model_copy(update={"strategy": strategy, "workload": workload})


def _equal_chunks(job: TrainingJob, strategy: Strategy) -> Strategy:
    """With assumed virtual stages lowered until they divide the layers."""
    pp, chunks = strategy.pp or 1, strategy.vpp or 1
    if job.strategy.vpp is not None or chunks == 1:
        return strategy
    layers = job.model.num_layers
    equal = max((n for n in range(1, chunks + 1) if layers % (pp * n) == 0), default=1)
    return strategy.model_copy(update={"vpp": equal})


def with_batch(job: TrainingJob, strategy: Strategy) -> TrainingJob:
    """With a global batch where none is stated: enough micro-batches to fill the pipeline."""
    if job.workload.global_batch is not None:
        return job
    pp = strategy.pp or 1
    each = (strategy.micro_batch or 1) * (strategy.dp or 1)
    batch = each * (MICROBATCHES_PER_STAGE * pp if pp > 1 else 1)
    batch = lcm(batch, job.workload.objective.group_size or 1)
    workload = job.workload.model_copy(update={"global_batch": batch})
    return job.model_copy(update={"workload": workload})
