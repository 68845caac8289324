"""What one step more of each resource would give: the model again, with one column changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from chipwise import rules
from chipwise.app.documents import Marginal
from chipwise.app.evaluation import Evaluated
from chipwise.calibration import shipped
from chipwise.catalogue.clusters import make_cluster
from chipwise.columns import training_columns
from chipwise.errors import UsageError
from chipwise.estimate import evaluate_time
from chipwise.i18n import _
from chipwise.quantity import Array
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import Strategy, TrainingJob

Scalars = Mapping[str, float]


@dataclass(frozen=True)
class _Step:
    """One step more: columns that are scaled, or a larger job."""

    resource: str
    change: str
    factors: Scalars = field(default_factory=dict)
    grown: tuple[TrainingJob, Strategy] | None = None


def marginal_of(point: Evaluated, overrides: Mapping[str, float]) -> tuple[Marginal, ...]:
    """Speed with one step more of each resource that the job uses, best first.

    Args:
        point: the evaluated job.
        overrides: measured values, which stay as they are.
    """
    steps = [*_scaled(point), *_more_devices(point)]
    rows = [_columns(point.job, point.strategy, {}, overrides)]
    for step in steps:
        job, strategy = step.grown or (point.job, point.strategy)
        rows.append(_columns(job, strategy, step.factors, overrides))
    columns: dict[str, Array] = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    rate = np.broadcast_to(evaluate_time(columns, ("tokens_per_s",))["tokens_per_s"], (len(rows),))
    gains = [float(gain) for gain in rate[1:] / rate[0]]
    found = [
        Marginal(
            resource=step.resource,
            change=step.change,
            step_time_s=point.time["step_time"] / gain,
            speedup=gain,
        )
        for step, gain in zip(steps, gains, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: -one.speedup))


def _columns(
    job: TrainingJob, strategy: Strategy, factors: Scalars, overrides: Mapping[str, float]
) -> dict[str, float]:
    inputs, keys = training_columns(job, strategy)
    constants = {name: float(value) for name, value in shipped().columns(keys).items()}
    every = {**inputs, **constants, **overrides}
    return every | {name: factor * every[name] for name, factor in factors.items()}


def _scaled(point: Evaluated) -> Iterator[_Step]:
    tenth = _("+10 %")
    yield _Step(_("matrix-product rate"), tenth, dict.fromkeys(("peak_matmul", "peak_16bit"), 1.1))
    yield _Step(_("memory bandwidth"), tenth, {"peak_bandwidth": 1.1})
    yield _Step(_("host time"), _("−10 %"), {"host_factor": 0.9})
    cluster, strategy = point.job.cluster, point.strategy
    if cluster.devices_per_node > 1:
        yield _Step(_("fast link"), _("2 ×"), {"intra_bandwidth": 2.0})
    if cluster.num_nodes > 1:
        yield _Step(_("network"), _("2 ×"), {"network_bandwidth": 2.0})
    if strategy.offload_params or strategy.offload_optimizer or strategy.offload_activations:
        yield _Step(_("host link"), _("2 ×"), {"host_bandwidth": 2.0})


def _more_devices(point: Evaluated) -> Iterator[_Step]:
    """Twice the devices, and one node more where that is something else."""
    cluster = point.job.cluster
    each, nodes = cluster.devices_per_node, cluster.num_nodes
    twice = (each, 2 * nodes) if nodes > 1 else (2 * cluster.num_devices,)
    if grown := _grown(point, twice):
        yield _Step(_("devices"), _("2 × ({system})").format(system=_name(grown)), {}, grown)
    if nodes > 1 and (grown := _grown(point, (each, nodes + 1))):
        yield _Step(_("devices"), _("one node more ({system})").format(system=_name(grown)), {},
                    grown)  # fmt: skip


def _name(grown: tuple[TrainingJob, Strategy]) -> str:
    return grown[0].cluster.name


def _grown(point: Evaluated, counts: tuple[int, ...]) -> tuple[TrainingJob, Strategy] | None:
    """The job with more data-parallel ranks on a larger cluster; None where there is none."""
    job, strategy = point.job, point.strategy
    try:
        cluster: Cluster = make_cluster(job.cluster.accelerator.id, counts)
        fixed = job.cluster.num_devices // (strategy.dp or 1)
        dp, rest = divmod(cluster.num_devices, fixed)
        if rest:
            return None
        batch = rules.smallest_batch(dp, strategy.micro_batch or 1, job.workload.global_batch or 1)
        workload = job.workload.model_copy(update={"global_batch": batch})
        grown = job.model_copy(update={"cluster": cluster, "workload": workload})
        whole = strategy.shard_group == (strategy.dp or 1) * (strategy.cp or 1)
        group = dp * (strategy.cp or 1) if whole else strategy.shard_group
        wider = strategy.model_copy(update={"dp": dp, "shard_group": group})
        rules.check_layout(grown, wider)
    except UsageError:
        return None
    return grown, wider
