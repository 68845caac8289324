"""Scaling curves: the best layout at each count of a plan's devices, same job or same share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chipwise.app.documents_plan import Mode, ScalingPoint
from chipwise.app.evaluation import TIGHT, Evaluated
from chipwise.app.plan_systems import check_size
from chipwise.catalogue.sizes import sizes_of
from chipwise.errors import UsageError
from chipwise.search.rank import Candidate, search_all
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import TrainingJob


def scaling_of(
    point: Evaluated, most: int, overrides: Mapping[str, float]
) -> tuple[ScalingPoint, ...]:
    """Throughput from the smallest count that holds the job up to ``most`` devices.

    Strong scaling keeps the global batch; weak scaling keeps it per device, at the recommended
    plan's. Efficiency is throughput per device over that of the smallest count of the curve.

    Args:
        point: the plan, evaluated.
        most: devices at most.
        overrides: values that replace inputs, constants or quantities.
    """
    clusters = sizes_of(point.job.cluster.accelerator.id, most)
    found: list[ScalingPoint] = []
    modes: tuple[Mode, ...] = ("strong", "weak")
    for mode in modes:
        jobs = [job for cluster in clusters for job in _job(point.job, cluster, mode)]
        found += _curve(mode, jobs, overrides)
    return tuple(found)


def _job(job: TrainingJob, cluster: Cluster, mode: Mode) -> Iterator[TrainingJob]:
    """The job on another count, where the batch can be shared so and the layout rules hold."""
    batch = job.workload.global_batch or 1
    if mode == "weak":
        batch, rest = divmod(batch * cluster.num_devices, job.cluster.num_devices)
        if rest or not batch:
            return
    workload = job.workload.model_copy(update={"global_batch": batch})
    moved = job.model_copy(update={"cluster": cluster, "workload": workload})
    try:
        check_size(moved, None)
    except UsageError:
        return
    yield moved


def _curve(
    mode: Mode, jobs: Sequence[TrainingJob], overrides: Mapping[str, float]
) -> Iterator[ScalingPoint]:
    best = (
        [one.best[0] for one in search_all(jobs, TIGHT, 1, overrides) if one.best] if jobs else []
    )
    if not best:
        return
    first = _rate(best[0]) / best[0].job.cluster.num_devices
    for one in best:
        cluster, rate = one.job.cluster, _rate(one)
        yield ScalingPoint(
            mode=mode,
            system=cluster.name,
            devices=cluster.num_devices,
            nodes=cluster.num_nodes,
            global_batch=one.job.workload.global_batch or 1,
            step_time_s=one.step_time,
            tokens_per_s=rate,
            efficiency=rate / cluster.num_devices / first,
        )


def _rate(one: Candidate) -> float:
    workload = one.job.workload
    pairs = 2 if workload.objective.pairs else 1
    return (workload.global_batch or 1) * pairs * (workload.seq_len or 1) / one.step_time
