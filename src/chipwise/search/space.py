"""The candidates of a job: templates × layouts, over all counts of one accelerator at once.

A *template* (``measures``) is a choice of sharding, recompute, kernels and offload; a *layout*
(``layouts``) is a cluster with degrees and a micro-batch. Both are arrays, so that no object exists
per candidate; what a stack or the rules exclude is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chipwise import rules
from chipwise.catalogue.frameworks import stacks
from chipwise.defaults import resolve
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.search.layouts import AXES, Room, layouts
from chipwise.search.measures import Measures, measures
from chipwise.spec.hardware import Accelerator
from chipwise.spec.job import Framework, Strategy, TrainingJob, TrainingWorkload

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
_STACKS: dict[str, tuple[Framework, ...]] = {
    "cuda": ("megatron-core", "fsdp", "deepspeed"),
    "rocm": ("megatron", "fsdp", "deepspeed"),
    "xla": ("xla",),
    "neuron": ("xla",),
    "synapse": ("gaudi",),
    "cann": ("ascend",),
    "oneapi": ("fsdp",),
}
"""Training stacks by the software an accelerator runs."""


@dataclass(frozen=True)
class Space:
    """Templates of one stack, and the layouts that each of them is combined with."""

    jobs: tuple[TrainingJob, ...]
    """One for each cluster; complete but for the layout."""
    templates: Measures
    degrees: dict[str, Vector]
    """Each of shape (layouts,)."""
    cluster: Index
    """Place of a layout's cluster in ``jobs``. Shape (layouts,)."""

    @property
    def framework(self) -> Framework:
        """The stack."""
        return self.templates.strategies[0].framework or "other"

    @property
    def num_layouts(self) -> int:
        """Layouts over all clusters."""
        return len(self.cluster)

    @cached_property
    def smallest(self) -> Index:
        """The layout with the same degrees and the smallest micro-batch. Shape (layouts,)."""
        new = np.ones(self.num_layouts, dtype=bool)
        new[1:] = self.cluster[1:] != self.cluster[:-1]
        for name, values in self.degrees.items():
            if name != "micro_batch":
                new[1:] |= values[1:] != values[:-1]
        first: Index = np.flatnonzero(new)[np.cumsum(new) - 1]
        return first

    @cached_property
    def stage_choice(self) -> Index:
        """Which of the pipeline degrees a layout has. Shape (layouts,)."""
        return np.unique(self.degrees["pp"], return_inverse=True)[1].reshape(-1)

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Which templates go with which pipeline degrees. Shape (templates, pipeline degrees).

        Every N-th layer is repeated only where a stage has N layers; offloaded activations and
        some ways of sharding do not go with a pipeline.
        """
        some, stack = self.templates, stacks()[self.framework]
        pp = np.unique(self.degrees["pp"])[None, :]
        alone = np.array([one.shard not in ("none", *stack.pipeline_shards)
                          for one in some.strategies])  # fmt: skip
        no_pipeline = (some.offloads_activations | alone)[:, None]
        layers_per_stage = np.ceil(self.jobs[0].model.num_layers / pp)
        able: NDArray[np.bool_] = (some.every[:, None] <= layers_per_stage) & ~(
            no_pipeline & (pp > 1)
        )
        return able

    def strategy(self, template: int, layout: int) -> Strategy:
        """One candidate as a strategy."""
        chosen: dict[str, object] = {name: int(self.degrees[name][layout]) for name in AXES}
        chosen["sequence_parallel"] = bool(chosen["sequence_parallel"])
        return self.templates.strategies[template].model_copy(update=chosen)


def spaces(jobs: Sequence[TrainingJob]) -> list[Space]:
    """All candidates of a job, by stack, replicated and sharded apart.

    Args:
        jobs: the same job on clusters of one accelerator, with sequence length, global batch and
            precision; stated strategy fields pin an axis.

    Raises:
        UsageError: nothing trains on this accelerator, or it lacks the number format.
        LayoutError: what is pinned breaks a rule.
    """
    for job in jobs:
        rules.check_stated(job)
    found = []
    for framework in frameworks_for(jobs[0]):
        tables = [layouts(Room.of(job, framework)) for job in jobs]
        cluster = np.repeat(np.arange(len(jobs)), [len(table) for table in tables])
        table = np.concatenate(tables)
        ranks = table[:, AXES.index("dp")] * table[:, AXES.index("cp")]
        for several in (False, True):
            rows = np.flatnonzero((ranks > 1) == several)
            if len(rows):
                found.append(_space(tuple(jobs), framework, table[rows], cluster[rows], several))
    return found


def frameworks_for(job: TrainingJob) -> tuple[Framework, ...]:
    """The stacks that train on the job's accelerator.

    Raises:
        UsageError: none does.
    """
    if job.strategy.framework is not None:
        return (job.strategy.framework,)
    found = trainers(job.cluster.accelerator)
    if not found:
        text = _("no training stack runs on {name} ({software})")
        software = ", ".join(job.cluster.accelerator.software) or _("no known software")
        raise UsageError(
            "no-training-stack", text.format(name=job.cluster.accelerator.id, software=software)
        )
    if job.workload.method != "full" and "fsdp" in found:
        return ("finetune",)
    stated = job.strategy.shard
    if stated in ("zero1", "zero2", "zero3"):
        found = tuple(name for name in found if stated in stacks()[name].shards) or found
    return found


def trainers(accelerator: Accelerator) -> tuple[Framework, ...]:
    """The stacks that train on an accelerator; empty where none is known."""
    for software in accelerator.software:
        if software in _STACKS:
            return _STACKS[software]
    return ()


def _space(
    jobs: tuple[TrainingJob, ...],
    framework: Framework,
    table: Vector,
    cluster: Index,
    several: bool,
) -> Space:
    stated = jobs[0].strategy
    start = {
        **{"framework": framework, "shard": "none", "recompute": "none", "recompute_every": 1},
        **{name: 1 for name in AXES if name != "sequence_parallel"},
        **{"dp": jobs[0].cluster.num_devices, "sequence_parallel": False},
    }
    resolved = resolve(jobs[0].model_copy(update={"strategy": stated.model_copy(update=start)}))
    alone = {"dp": 1, "shard_group": 1}
    base = resolved.alternatives[0].model_copy(update=alone)
    workload = resolved.job.workload
    return Space(
        tuple(_with_gaps_filled(job, workload) for job in jobs),
        measures(base, stated, workload, several),
        {name: table[:, place] for place, name in enumerate(AXES)},
        cluster,
    )


def _with_gaps_filled(job: TrainingJob, workload: TrainingWorkload) -> TrainingJob:
    """The job trained as the first one is, with its own global batch."""
    own = workload.model_copy(update={"global_batch": job.workload.global_batch})
    return job.model_copy(update={"workload": own})
