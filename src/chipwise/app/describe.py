"""An evaluated job in the words of the documents: layout, speed, subject, assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chipwise import rules
from chipwise.app.documents import Layout, Performance, Subject, TimePart
from chipwise.app.evaluation import Evaluated, Scalars
from chipwise.app.ranges import time_range
from chipwise.estimate import TIME_PARTS
from chipwise.physics import MODEL
from chipwise.spec.job import Strategy, TrainingJob
from chipwise.spec.method import Tuning
from chipwise.spec.model import ModelSpec
from chipwise.spec.objective import Objective

_SMALLEST_SHARE = 1e-9
_INSIDE = {
    "busy_time": "microbatch_time",
    "stage_compute_time": "layer_time",
    "stage_exposed_time": "layer_exposed_time",
}
"""Times that are a multiple of another one: broken down by that one's parts."""
_ON_HOST = "offloaded_optimizer_time"
_NAMES = {
    "layer_linear_time": "matrix products",
    "attention_core_time": "attention",
    "layer_moving_time": "memory-bound operators",
    "layer_host_time": "host launches",
    "tp_exposed_time": "tensor-parallel communication",
    "ep_exposed_time": "expert communication",
    "cp_exposed_time": "context-parallel communication",
    "shard_exposed_time": "gathering sharded weights",
    "fetch_time": "fetching weights from the host",
    "activation_fetch_time": "fetching activations from the host",
    "head_stage_time": "head and loss",
    "stage_send_time": "pipeline communication",
    "accumulation_time": "gradient accumulation",
    "microbatch_host_time": "host per micro-batch",
    "bubble_time": "pipeline bubble",
    "sync_exposed_time": "gradient synchronisation",
    "optimizer_time": "optimizer",
    _ON_HOST: "optimizer on the host",
    "step_host_time": "host per step",
    "straggler_time": "stragglers",
    "rollout_time": "generating answers",
    "scoring_time": "scoring without gradients",
    "critic_time": "training the critic",
}
_BOUND = {
    "compute": (
        *("matrix products", "attention", "head and loss"),
        *("scoring without gradients", "training the critic"),
    ),
    "memory bandwidth": ("memory-bound operators", "gradient accumulation", "optimizer"),
    "host": ("host launches", "host per micro-batch", "host per step"),
    "communication": (
        *("tensor-parallel communication", "expert communication", "pipeline communication"),
        *("context-parallel communication", "gathering sharded weights"),
        *("fetching weights from the host", "fetching activations from the host"),
        "optimizer on the host",
        "gradient synchronisation",
    ),
    "pipeline bubble": ("pipeline bubble",),
    "generation": ("generating answers",),
    "stragglers": ("stragglers",),
}
_ZERO_STAGE = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}


def subject_of(job: TrainingJob) -> Subject:
    """Which model on which machine, as understood."""
    cluster = job.cluster
    return Subject(
        model=job.model.id,
        system=cluster.name,
        devices=cluster.num_devices,
        understood=cluster.understood,
    )


def layout_of(point: Evaluated) -> Layout:
    """How the job is split and which measures are on."""
    split, workload = point.strategy, point.job.workload
    tp, pp, dp, cp, ep, vpp = rules.degrees(split)
    shard = split.shard or "none"
    return Layout(
        framework=split.framework or "other",
        **{"dp": dp, "tp": tp, "pp": pp, "cp": cp, "ep": ep, "vpp": vpp},
        sequence_parallel=bool(split.sequence_parallel),
        shard=shard,
        zero_stage=_ZERO_STAGE[shard],
        shard_group=split.shard_group or dp * cp,
        micro_batch=split.micro_batch or 1,
        num_microbatches=round(point.time["num_microbatches"]),
        global_batch=workload.global_batch or 1,
        seq_len=workload.seq_len or 1,
        recompute=split.recompute or "none",
        recompute_every=split.recompute_every or 1,
        attention=split.attention or "flash",
        optimizer=split.optimizer or "adamw",
        precision=workload.precision or "bf16",
        method=workload.method,
        offload=tuple(
            what
            for what in ("optimizer", "params", "activations")
            if getattr(split, f"offload_{what}")
        ),
        other=dict(_other(split, point.job)),
    )


def _other(split: Strategy, job: TrainingJob) -> Iterator[tuple[str, Any]]:
    for name in ("pp_schedule", "grad_dtype", "chunked_loss", "compiled", "master_weights"):
        value = getattr(split, name)
        if value is not None:
            yield name, value
    if experts := rules.num_experts(job.model):
        yield "experts", experts
    for name in ("base_dtype", "lora_rank", "lora_targets"):
        value = getattr(job.workload, name)
        if value is not None:
            yield name, value
    for name in Tuning.model_fields:
        if value := getattr(job.workload.tuning, name):
            yield name, value
    yield from _objective(job.workload.objective)


def _objective(what: Objective) -> Iterator[tuple[str, Any]]:
    """What is stated or assumed of the loss; nothing for next-token training."""
    if what.loss == "sft":
        return
    for name, value in what:
        if value is not None:
            yield name, value.id if isinstance(value, ModelSpec) else value


def performance_of(point: Evaluated) -> dict[str, Any]:
    """The fields of ``Performance`` of one evaluated job."""
    values = point.time
    parts = time_parts(values)
    return {
        "step_time_s": time_range(point, values["step_time"]),
        **{
            name: time_range(point, values[name])
            for name in ("tokens_per_s", "tokens_per_s_per_device", "mfu", "hfu")
        },
        "peak_flops_per_s": values["peak_matmul"],
        "peak_dtype": point.job.workload.precision or "bf16",
        "bound_by": bound_by(parts),
        "time_parts": parts,
    }


def performance(point: Evaluated) -> Performance:
    """How fast one evaluated job is."""
    return Performance(**performance_of(point))


def bound_by(parts: tuple[TimePart, ...]) -> str:
    """The resource that takes the most of the step."""
    sums = dict.fromkeys(_BOUND, 0.0)
    for part in parts:
        for resource, names in _BOUND.items():
            if part.name in names:
                sums[resource] += part.seconds
    return max(sums, key=lambda resource: sums[resource])


def time_parts(values: Scalars) -> tuple[TimePart, ...]:
    """The shares of a step, largest first; they add up to the step time, be it measured."""
    total = values["step_time"]
    moved = total / sum(values[name] for name in TIME_PARTS)
    sums: dict[str, float] = {}
    for name in TIME_PARTS:
        for part, seconds in _split(name, moved * values[name], values):
            sums[part] = sums.get(part, 0.0) + seconds
    return tuple(
        TimePart(name=name, seconds=seconds, share=seconds / total)
        for name, seconds in sorted(sums.items(), key=lambda item: -item[1])
        if seconds > _SMALLEST_SHARE * total
    )


def _split(name: str, seconds: float, values: Scalars) -> Iterator[tuple[str, float]]:
    """A time as its parts, each scaled so that they add up to ``seconds``."""
    if name in _INSIDE:
        yield from _split(_INSIDE[name], seconds, values)
    elif name == "layer_time" and values[name] > 0:
        yield from _layer_parts(seconds, values)
    elif name in MODEL and MODEL[name].parts and values[name] > 0:
        for need in MODEL[name].needs:
            yield from _split(need, seconds * values[need] / values[name], values)
    else:
        if name == "optimizer_time" and not values["optimizer_on_device"]:
            name = _ON_HOST
        yield _NAMES.get(name, name.removesuffix("_time").replace("_", " ")), seconds


def _layer_parts(seconds: float, values: Scalars) -> Iterator[tuple[str, float]]:
    """A layer's time: what the device needs, by operator class; the rest waits for the host."""
    device = min(seconds, seconds * values["layer_device_time"] / values["layer_time"])
    repeated = values["recompute_time_share"]
    shares = {
        "layer_linear_time": 1 + values["backward_passes"] + repeated,
        "attention_core_time": 1
        + values["attention_backward_ratio"]
        + repeated
        + (1 - repeated) * values["scores_recomputed"],
        "layer_moving_time": 1 + values["moving_backward_ratio"] + repeated,
    }
    work = {name: factor * values[name] for name, factor in shares.items()}
    total = sum(work.values())
    for name, one in work.items():
        yield _NAMES[name], device * one / total
    yield _NAMES["layer_host_time"], seconds - device
