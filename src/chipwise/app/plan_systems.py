"""The systems of a plan: as written where there is a count, else in every count there is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil, lcm, log2
from pathlib import Path

from chipwise import rules
from chipwise.app.jobs import job_on
from chipwise.app.plan_batch import tokens_per_step
from chipwise.app.requests import PlanTrainRequest, parse_request
from chipwise.catalogue.load import use_catalogue
from chipwise.catalogue.sizes import choices_of
from chipwise.defaults import default_precision, usual_seq_len
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import TrainingJob
from chipwise.spec.method import adapts
from chipwise.spec.objective import completed


@dataclass(frozen=True)
class Line:
    """One system of the question, or one accelerator in all its counts: an answer each."""

    name: str
    jobs: tuple[TrainingJob, ...]
    """One for each count, the smallest first."""

    @property
    def accelerator(self) -> str:
        """Accelerator id."""
        return self.jobs[0].cluster.accelerator.id


def lines_of(request: PlanTrainRequest) -> list[Line]:
    """The systems of a request, with the request's own catalogue in use.

    Raises:
        UsageError: unknown names, no model, or a contradiction in what is trained.
    """
    use_catalogue(Path(request.catalogue) if request.catalogue else None)
    choices = choices_of(request.on or "", request.max_devices)
    return [line for one in variants_of(request) for line in lines_on(choices, one)]


def variants_of(request: PlanTrainRequest) -> list[PlanTrainRequest]:
    """The request once for each combination of what it varies; itself where nothing is.

    Raises:
        UsageError: a value that the field does not take.
    """
    stated = request.model_dump(exclude_unset=True, exclude={"vary"})
    return [
        parse_request(
            type(request), {**stated, **dict(zip(request.vary, values, strict=True))}
        )
        for values in product(*request.vary.values())
    ] if request.vary else [request]  # fmt: skip


def lines_on(choices: list[list[Cluster]], request: PlanTrainRequest) -> list[Line]:
    """One line for each system to choose from.

    Args:
        choices: clusters of each, the smallest first.
        request: what is trained there; nothing in it is varied.
    """
    first = _with_sequence(job_on(choices[0][0], request))
    every = [[_on(first, cluster, request) for cluster in clusters] for clusters in choices]
    batch = _batch([job for jobs in every for job in jobs])
    lines = []
    for jobs in every:
        filled = tuple(_with(job, global_batch=batch) for job in jobs)
        cluster = filled[0].cluster
        lines.append(Line(cluster.accelerator.id if len(filled) > 1 else cluster.name, filled))
    return lines


def check_size(job: TrainingJob, most: int | None) -> None:
    """Refuse a system that is larger than allowed, or that cannot hold what is stated.

    Raises:
        UsageError: too many devices.
        LayoutError: what is stated breaks a rule there.
    """
    devices = job.cluster.num_devices
    if most is not None and devices > most:
        text = _("{devices} devices are more than --max-devices {most}")
        raise UsageError("too-many-devices", text.format(devices=devices, most=most))
    rules.check_stated(job)


def divisible(job: TrainingJob) -> TrainingJob:
    """With a global batch that the devices can share, so that only memory decides."""
    devices, micro_batch = job.cluster.num_devices, job.strategy.micro_batch or 1
    batch = rules.smallest_batch(devices, micro_batch, job.workload.global_batch or 1)
    return _with(job, global_batch=batch)


def _with_sequence(job: TrainingJob) -> TrainingJob:
    """With a sequence length and an optimizer, so that all systems train the same."""
    strategy = job.strategy
    if strategy.optimizer is None:
        strategy = strategy.model_copy(update={"optimizer": "adamw"})
    job = job.model_copy(update={"strategy": strategy})
    if job.workload.seq_len is None:
        job = _with(job, seq_len=usual_seq_len(job))
    workload = job.workload
    what = completed(workload.objective, adapts(workload.method), workload.seq_len)
    job = _with(job, objective=what)
    rules.check_workload(job.workload, job.model)
    return job


def _on(job: TrainingJob, cluster: Cluster, request: PlanTrainRequest) -> TrainingJob:
    moved = job.model_copy(update={"cluster": cluster})
    if request.precision is not None:
        return moved
    return _with(moved, precision=default_precision(cluster.accelerator, "fsdp"))


def _with(job: TrainingJob, **updates: object) -> TrainingJob:
    return job.model_copy(update={"workload": job.workload.model_copy(update=updates)})


def _batch(jobs: list[TrainingJob]) -> int:
    """One global batch for all systems, near a power of two: most layouts share one evenly.

    Divisible by all device counts if possible. A stated micro-batch always divides it.
    """
    stated = jobs[0].workload.global_batch
    if stated is not None:
        return stated
    most = max(job.cluster.num_devices for job in jobs)
    tokens = tokens_per_step(jobs[0], most)
    target = 2 ** max(0, round(log2(tokens / (jobs[0].workload.seq_len or 1))))
    micro_batch = jobs[0].strategy.micro_batch or 1
    group = jobs[0].workload.objective.group_size or 1
    common = lcm(group, *{job.cluster.num_devices * micro_batch for job in jobs})
    if common <= 2 * target:
        return _up(target, common)
    return _up(target, lcm(micro_batch, group))


def _up(least: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not less."""
    return ceil(least / step) * step
