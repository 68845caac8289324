"""The memory bill of a job: what is alive on the fullest device at its fullest moment."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.app.documents import Memory, MemoryPart
from chipwise.app.evaluation import Evaluated, Scalars
from chipwise.app.ranges import memory_range
from chipwise.estimate import MEMORY_PARTS
from chipwise.i18n import _
from chipwise.physics import MODEL
from chipwise.units import show

OTHER = "other live tensors"
LOADED = "checkpoint being loaded"
_NAMES = {
    "weights_resident_bytes": "weights",
    "adapter_bytes": "adapters",
    "gradient_bytes": "gradients",
    "optimizer_state_bytes": "optimizer states",
    "communication_buffer_bytes": "communication buffers",
    "kept_activation_bytes": "kept activations",
    "recomputed_layer_bytes": "recomputed layer",
    "working_bytes": "working memory",
    "logits_bytes": "logits and loss",
    "optimizer_step_bytes": "optimizer step copies",
    "reference_bytes": "reference weights",
    "reward_model_bytes": "reward model weights",
    "teacher_bytes": "teacher weights",
    "critic_states_bytes": "critic states",
    "critic_peak_bytes": "critic at work",
    "frozen_logits_bytes": "teacher logits",
    "rollout_weights_bytes": "rollout engine weights",
    "rollout_cache_bytes": "rollout KV cache",
}
_ROUNDING = 1e-6
_ALWAYS = (
    *("weights_resident_bytes", "adapter_bytes"),
    *("optimizer_state_bytes", "communication_buffer_bytes"),
    *("reference_bytes", "reward_model_bytes", "teacher_bytes", "critic_states_bytes"),
)
"""Alive from step to step."""
_ENGINE = ("rollout_weights_bytes", "rollout_cache_bytes")
"""Alive while answers are generated; from step to step unless the engine sleeps."""
_AT_STEP = ("gradient_bytes", "optimizer_step_bytes")
"""Alive when the optimizer steps; freed layer by layer if it steps inside the backward pass."""


def memory_of(point: Evaluated, *, formulas: bool = True) -> Memory:
    """The bill of one evaluated job.

    Args:
        point: the job.
        formulas: say how each line is computed.
    """
    values = point.memory
    total, usable = values["allocated_bytes"], values["usable_bytes"]
    lines = _within({name: size for name, size in _alive(values) if size > 0}, total)
    rest = total - sum(lines.values())
    if rest > _ROUNDING * total:
        lines[OTHER] = rest
    fits = values["needed_bytes"] <= usable
    reserved = values["reserved_bytes"]
    return Memory(
        parts=tuple(
            MemoryPart(
                name=part_name(name),
                bytes=size,
                share=size / total,
                formula=MODEL[name].formula if formulas and name in MODEL else "",
                source=MODEL[name].source if name in MODEL else "",
            )
            for name, size in lines.items()
        ),
        total_bytes=total,
        reserved_bytes=min(reserved, max(usable, total)) if fits else reserved,
        capacity_bytes=point.job.cluster.accelerator.memory_bytes,
        usable_bytes=usable,
        load_peak_bytes=values["load_peak_bytes"],
        load_unpartitioned_bytes=_unpartitioned(point),
        save_peak_bytes=values["save_peak_bytes"],
        range=memory_range(point, reserved),
    )


def load_warnings(point: Evaluated) -> list[str]:
    """Sentences where reading or writing a checkpoint, not training, is what does not fit."""
    values = point.memory
    usable, training = values["usable_bytes"], values["training_peak_bytes"]
    loading, saving = values["load_peak_bytes"], values["save_peak_bytes"]
    found: list[str] = []
    if training < usable < loading:
        text = _(
            "training would take {training}, but this stack reads the whole checkpoint on each "
            "device ({loading}): load it sharded or through host memory"
        )
        found.append(text.format(training=show(training, "B"), loading=show(loading, "B")))
    unpartitioned = _unpartitioned(point) or 0.0
    if max(training, loading) < usable < unpartitioned:
        text = _(
            "a model that is built whole on each device before it is partitioned takes {size} "
            "there: build it sharded (zero.Init, or a meta device)"
        )
        found.append(text.format(size=show(unpartitioned, "B")))
    if training < usable < saving:
        text = _(
            "gathering the full state on one device to save it would take {saving}: save sharded, "
            "the adapter only, or gather it on the host"
        )
        found.append(text.format(saving=show(saving, "B")))
    return found


def _unpartitioned(point: Evaluated) -> float | None:
    """What building the model whole takes, where its weights are sharded only afterwards."""
    if point.memory["shard_weights"] < 1 or point.memory["loads_on_host"] > 0:
        return None
    return max(point.memory["unpartitioned_load_bytes"], point.memory["load_peak_bytes"])


def _within(lines: dict[str, float], total: float) -> dict[str, float]:
    """Lines that add up to no more than the total: own runs may have shown that less is needed.

    What is counted (states) stays, what is modelled (activations, temporaries) gives way.
    """
    excess = sum(lines.values()) - total
    if excess <= _ROUNDING * total:
        return lines
    loose = {name: size for name, size in lines.items() if name not in (*_ALWAYS, *_AT_STEP)}
    gives = loose if sum(loose.values()) > excess else lines
    factor = 1 - excess / sum(gives.values())
    return {name: size * (factor if name in gives else 1.0) for name, size in lines.items()}


def part_name(quantity: str) -> str:
    """The line of the bill that a quantity becomes."""
    return _NAMES.get(quantity, quantity.removesuffix("_bytes").replace("_", " "))


def _alive(values: Scalars) -> Iterator[tuple[str, float]]:
    """The parts alive at the moment that decides: loading, the loss, or the optimizer step."""
    if values["load_peak_bytes"] > values["training_peak_bytes"]:
        yield "weights_resident_bytes", values["weights_resident_bytes"]
        yield LOADED, values["load_peak_bytes"] - values["weights_resident_bytes"]
    elif values["companion_peak_bytes"] > max(values["loss_peak_bytes"], values["step_peak_bytes"]):
        yield from _alive_beside(values)
    elif values["step_peak_bytes"] > values["loss_peak_bytes"]:
        yield from _alive_at_step(values)
    else:
        for name in MEMORY_PARTS:
            kept = values["gradients_persist"] if name == "gradient_bytes" else 1.0
            if name in _ENGINE:
                kept = 1 - values["rollout_asleep"]
            if name != "optimizer_step_bytes":
                yield name, kept * values.get(name, 0.0)


def _alive_beside(values: Scalars) -> Iterator[tuple[str, float]]:
    """While answers are generated, or the critic is trained."""
    generating = values["rollout_peak_bytes"] >= values["critic_peak_bytes"]
    for name in _ALWAYS:
        yield name, values[name]
    for name in _ENGINE:
        yield name, values[name] * (1.0 if generating else 1 - values["rollout_asleep"])
    if generating:
        yield "gradient_bytes", values["gradients_persist"] * values["gradient_bytes"]
    else:
        yield "critic_peak_bytes", values["critic_peak_bytes"]


def _alive_at_step(values: Scalars) -> Iterator[tuple[str, float]]:
    layer = 1.0 / values["stage_layers"]
    late = layer if values["gradients_freed_early"] else 1.0
    for name in MEMORY_PARTS:
        if name in _ALWAYS:
            yield name, values.get(name, 0.0)
        elif name in _ENGINE:
            yield name, (1 - values["rollout_asleep"]) * values.get(name, 0.0)
        elif name in _AT_STEP:
            yield name, late * values[name]
        elif name == "kept_activation_bytes":
            yield name, layer * values[name]
