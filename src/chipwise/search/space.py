"""The layouts a job can have on a cluster: every combination that obeys the rules, as arrays.

A *template* is a complete strategy of degree 1 for one choice of stack, sharding and recompute;
its columns are made once. The *degrees* (tp, pp, dp, cp, ep, vpp, micro-batch) are arrays over all
valid combinations and replace the template's columns, so that no object exists per candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from chipwise import rules
from chipwise.catalogue.frameworks import Stack, stacks
from chipwise.defaults import resolve
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.hardware import Accelerator
from chipwise.spec.job import Framework, Recompute, Shard, Strategy, TrainingJob
from chipwise.spec.model import ModelSpec

Degrees = dict[str, NDArray[np.float64]]
AXES = ("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch")
_LEAST_TOKENS_PER_CP_RANK = 1024
"""Shorter pieces of a sequence are not worth a ring."""
_STACKS: dict[str, tuple[Framework, ...]] = {
    "cuda": ("megatron-core", "fsdp"),
    "rocm": ("megatron", "fsdp"),
    "xla": ("xla",),
    "neuron": ("xla",),
    "synapse": ("gaudi",),
    "cann": ("ascend",),
    "oneapi": ("fsdp",),
}
"""Training stacks by the software an accelerator runs."""
_SHARDS: dict[Framework, tuple[Shard, ...]] = {
    "megatron-core": ("zero1",),
    "megatron": ("zero1",),
    "fsdp": ("zero2", "zero3"),
    "xla": ("zero1", "zero3"),
    "gaudi": ("zero1", "zero3"),
    "ascend": ("zero1",),
    "deepspeed": ("zero1", "zero2", "zero3"),
    "nanotron": ("zero1",),
    "finetune": ("none", "zero2", "zero3"),
    "other": ("zero1", "zero3"),
}
"""How a stack can divide states over its data-parallel ranks."""
_RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")


@dataclass(frozen=True)
class Space:
    """Templates of one stack, and the degrees that each of them is combined with."""

    job: TrainingJob
    """Complete but for the layout: sequence, batch, precision and method are stated."""
    templates: tuple[Strategy, ...]
    degrees: Degrees
    """Each of shape (layouts,)."""

    @property
    def size(self) -> int:
        """Candidates: templates × layouts."""
        return len(self.templates) * len(self.degrees["tp"])

    def strategy(self, template: int, layout: int) -> Strategy:
        """One candidate as a strategy."""
        chosen = {name: int(self.degrees[name][layout]) for name in AXES}
        base = self.templates[template]
        parallel = self.job.strategy.sequence_parallel
        if parallel is None:
            parallel = chosen["tp"] > 1 and base.framework != "deepspeed"
        group = self.job.strategy.shard_group or chosen["dp"] * chosen["cp"]
        return base.model_copy(
            update={**chosen, "sequence_parallel": parallel, "shard_group": group}
        )


def spaces(job: TrainingJob) -> list[Space]:
    """All candidates of a job, by stack, replicated and sharded apart.

    Args:
        job: with sequence length, global batch and precision; stated strategy fields pin an axis.

    Raises:
        UsageError: nothing trains on this accelerator, or it lacks the number format.
        LayoutError: what is pinned breaks a rule.
    """
    rules.check_stated(job)
    found = []
    for framework in frameworks_for(job):
        stack = stacks()[framework]
        degrees = _degrees(job, framework, stack)
        ranks = degrees["dp"] * degrees["cp"]
        for several in (False, True):
            chosen = {name: values[(ranks > 1) == several] for name, values in degrees.items()}
            if len(chosen["tp"]):
                templates = tuple(_templates(job, framework, several))
                found.append(Space(_resolved(job, templates[0]), templates, chosen))
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
    if job.strategy.shard in ("zero1", "zero2", "zero3"):
        able = tuple(name for name in found if job.strategy.shard in _SHARDS[name])
        found = able or ("deepspeed",)
    if job.workload.method != "full" and "fsdp" in found:
        return ("finetune",)
    return found


def trainers(accelerator: Accelerator) -> tuple[Framework, ...]:
    """The stacks that train on an accelerator; empty where none is known."""
    for software in accelerator.software:
        if software in _STACKS:
            return _STACKS[software]
    return ()


def _templates(job: TrainingJob, framework: Framework, several: bool) -> Iterator[Strategy]:
    """Complete strategies of degree 1, one for each choice of sharding and recompute."""
    pinned = job.strategy
    shards: tuple[Shard, ...] = _SHARDS[framework] if several else ("none",)
    if several and pinned.shard is not None:
        shards = ("zero3",) if pinned.shard == "fsdp" else (pinned.shard,)
    modes = _RECOMPUTE if pinned.recompute is None else (pinned.recompute,)
    for shard, recompute in product(shards, modes):
        updates = {
            **{"framework": framework, "shard": shard, "recompute": recompute},
            **{"tp": 1, "pp": 1, "cp": 1, "ep": 1, "vpp": 1, "micro_batch": 1},
            **{"dp": job.cluster.num_devices, "shard_group": None},
        }
        strategy = pinned.model_copy(update=updates)
        yield resolve(job.model_copy(update={"strategy": strategy})).alternatives[0]


def _resolved(job: TrainingJob, template: Strategy) -> TrainingJob:
    """The job with its workload's gaps filled as for the templates."""
    workload = resolve(job.model_copy(update={"strategy": template})).job.workload
    return job.model_copy(update={"workload": workload})


def _degrees(job: TrainingJob, framework: Framework, stack: Stack) -> Degrees:
    """All combinations of degrees that obey the rules, as arrays of equal length."""
    rows = [
        (*split, micro_batch)
        for split in _splits(job, framework, stack)
        for micro_batch in _micro_batches(job, split)
    ]
    table = np.array(rows, dtype=np.float64).reshape(-1, len(AXES))
    return {name: table[:, place] for place, name in enumerate(AXES)}


def _splits(
    job: TrainingJob, framework: Framework, stack: Stack
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """tp, pp, dp, cp, ep, vpp that fill the cluster."""
    model, devices, pinned = job.model, job.cluster.num_devices, job.strategy
    divides = stack.pipelines or framework == "other"
    batch, seq_len = job.workload.global_batch or 1, job.workload.seq_len or 1
    for tp in _pinned(pinned.tp, _tensor_degrees(job) if divides else [1]):
        for pp in _pinned(pinned.pp, _stages(model, devices // tp) if divides else [1]):
            rest = devices // (tp * pp)
            for cp in _pinned(pinned.cp, _context_degrees(seq_len, rest) if divides else [1]):
                if devices % (tp * pp * cp):
                    continue
                dp = devices // (tp * pp * cp)
                if batch % dp or pinned.dp not in (None, dp):
                    continue
                chunks = _chunks(model, pp) if stack.interleaves else [1]
                experts = _expert_degrees(model, dp * cp * tp) if divides else [1]
                for ep in _pinned(pinned.ep, experts):
                    for vpp in _pinned(pinned.vpp, chunks):
                        yield tp, pp, dp, cp, ep, vpp


def _pinned(stated: int | None, choices: list[int]) -> list[int]:
    return choices if stated is None else [stated]


def _tensor_degrees(job: TrainingJob) -> list[int]:
    """Within the fast-link domain; a stated degree may go beyond it."""
    heads, devices = rules.attention_heads(job.model), job.cluster.num_devices
    return [
        degree
        for degree in rules.divisors(devices)
        if degree <= job.cluster.devices_per_node and (not heads or heads % degree == 0)
    ]


def _stages(model: ModelSpec, devices: int) -> list[int]:
    return [degree for degree in rules.divisors(devices) if degree <= model.num_layers]


def _context_degrees(seq_len: int, devices: int) -> list[int]:
    """Powers of two; each rank holds two equal pieces, so that causal work is even."""
    found, degree = [1], 2
    while devices % degree == 0 and seq_len // degree >= _LEAST_TOKENS_PER_CP_RANK:
        if seq_len % (2 * degree) == 0:
            found.append(degree)
        degree *= 2
    return found


def _expert_degrees(model: ModelSpec, ranks: int) -> list[int]:
    experts = rules.num_experts(model)
    return [ep for ep in rules.divisors(experts) if ranks % ep == 0] if experts else [1]


def _chunks(model: ModelSpec, pp: int) -> list[int]:
    """Virtual stages that cut the layers evenly."""
    if pp == 1 or model.num_layers % pp:
        return [1]
    return rules.divisors(model.num_layers // pp)


def _micro_batches(job: TrainingJob, split: tuple[int, int, int, int, int, int]) -> list[int]:
    """Sizes the batch of one rank can be cut into; interleaving needs whole rounds of stages."""
    _tp, pp, dp, _cp, _ep, vpp = split
    per_rank = (job.workload.global_batch or 1) // dp
    stated = job.strategy.micro_batch
    sizes = rules.divisors(per_rank) if stated is None else [stated]
    return [
        size
        for size in sizes
        if per_rank % size == 0 and (vpp == 1 or (per_rank // size) % pp == 0)
    ]
