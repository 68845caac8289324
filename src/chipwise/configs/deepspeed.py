"""DeepSpeed's JSON, on its own or inside another file [deepspeed-config].

``auto`` is no value of DeepSpeed's: HF Trainer and accelerate put their own in its place, and so
does ``joining`` [transformers-deepspeed].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chipwise.configs import recipes, words
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading, flag, maybe_whole, whole
from chipwise.i18n import _

TOOL = "deepspeed"
_AUTO = "auto"
_OWN = ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size")
_STAGES = {0: "none", 1: "zero1", 2: "zero2", 3: "zero3"}
_BATCHES = {
    "train_micro_batch_size_per_gpu": "micro_batch",
    "gradient_accumulation_steps": "accumulation",
    "train_batch_size": "global_batch",
}
_PLACES = ("cpu", "nvme")


def looks_like(marked: Marked) -> bool:
    """ZeRO's section, or a batch size as only DeepSpeed calls it."""
    return any(marked.under(key) for key in _OWN)


def read(marked: Marked) -> Reading:
    """What a DeepSpeed file says of a job.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, TOOL)
    read_section(found)
    return found


def read_section(found: Reading, prefix: str = "") -> None:
    """Take what a DeepSpeed configuration says, also where it lies below a key of another file.

    Args:
        found: the reading of the file.
        prefix: the key it lies below, with its dot; empty for a file of its own.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    for key, name in _BATCHES.items():
        _take(found, prefix + key, name, whole)
    _devices(found, prefix)
    _precision(found, prefix)
    _optimizer(found, prefix)
    _zero(found, f"{prefix}zero_optimization.")
    _take(found, f"{prefix}data_types.grad_accum_dtype", "grad_dtype", words.dtype)
    _take(found, f"{prefix}tensor_parallel.autotp_size", "tp", maybe_whole)
    _take(found, f"{prefix}sequence_parallel_size", "cp", maybe_whole)
    if recipes.on(found, f"{prefix}activation_checkpointing.cpu_checkpointing"):
        key = f"{prefix}activation_checkpointing.cpu_checkpointing"
        found.take("offload", _and_more(found, "activations"), key)


def _take(found: Reading, key: str, name: str, convert: Callable[[Any], Any]) -> None:
    """A key that may be left open."""
    if found.marked.get(key) == _AUTO:
        found.leave(name, key)
    else:
        found.map({key: (name, convert)})


def _devices(found: Reading, prefix: str) -> None:
    """The count of devices, where all three batch sizes are stated."""
    micro, steps, batch = (found.value(name) for name in _BATCHES.values())
    if not (micro and steps and batch):
        return
    key = f"{prefix}train_batch_size"
    if batch % (micro * steps):
        text = _(
            "{batch} is not {micro} × {steps} × a count of devices: micro-batch × accumulation "
            "steps × devices make the batch; leave one of the three out, or write 'auto'"
        )
        raise found.refused(key, text.format(batch=batch, micro=micro, steps=steps))
    found.take("devices", batch // (micro * steps), key, hint=True)


def _precision(found: Reading, prefix: str) -> None:
    keys = {f"{prefix}bf16.enabled": "bf16", f"{prefix}fp16.enabled": "fp16"}
    keys |= {f"{prefix}bfloat16.enabled": "bf16"}
    stated = {key: word for key, word in keys.items() if found.marked.get(key) != _AUTO}
    recipes.one_precision(found, stated)
    for key in keys:
        if found.marked.get(key) == _AUTO:
            found.leave("precision", key)
    if found.value("precision"):
        found.autos.pop("precision", None)


def _optimizer(found: Reading, prefix: str) -> None:
    key = f"{prefix}optimizer.type"
    kind = found.marked.get(key)
    if kind is None:
        return
    try:
        found.take("optimizer", recipes.optimizer(_PLAIN.get(str(kind).lower(), kind)), key)
    except ValueError:
        recipes.less_state(found, key)


_PLAIN: Mapping[str, str] = {
    **dict.fromkeys(
        ("adam", "deepspeedcpuadam", "cpuadam", "onebitadam", "zerooneadam", "lamb", "onebitlamb"),
        "adamw",
    )
}
"""DeepSpeed's own optimizers with the states of AdamW."""


def _zero(found: Reading, prefix: str) -> None:
    key = f"{prefix}stage"
    stage = found.marked.get(key)
    found.use(key)
    if stage is not None:
        if isinstance(stage, bool) or stage not in _STAGES:
            text = _("there is no stage {stage}; write 0, 1, 2 or 3")
            raise found.refused(key, text.format(stage=stage))
        found.take("shard", _STAGES[stage], key)
    elif not found.marked.under(prefix.removesuffix(".")):
        batch = next((name for name in found.marked.entries if "batch" in name), key)
        found.take("shard", "none", batch, hint=True)
    states = _offloaded(found, f"{prefix}offload_optimizer.", f"{prefix}cpu_offload")
    weights = _offloaded(found, f"{prefix}offload_param.", f"{prefix}cpu_offload_params")
    if weights and found.value("shard") != "zero3":
        text = _("has no effect below stage 3")
        recipes.note(found, weights, text)
        weights = ""
    parts = [name for name, place in (("optimizer", states), ("params", weights)) if place]
    if parts:
        found.take("offload", ",".join(parts), weights or states)
    found.map({f"{prefix}mics_shard_size": ("shard_group", maybe_whole)})
    group = f"{prefix}zero_hpz_partition_size"
    if (found.marked.get(group) or 1) != 1:
        recipes.note(found, group, _("a second copy of the weights in each node is not counted"))
    for name in ("zero_quantized_weights", "zero_quantized_gradients"):
        if recipes.on(found, prefix + name):
            recipes.note(found, prefix + name, _("smaller messages are not counted"))


def _offloaded(found: Reading, section: str, old: str) -> str:
    """The key that sends something to the host; empty where it stays."""
    key = f"{section}device"
    for name in found.marked.entries:
        if name.startswith(section):
            found.use(name)
    place = str(found.marked.get(key) or "none").lower()
    if place not in ("none", *_PLACES):
        text = _("'{place}' is no place; write cpu, nvme or none")
        raise found.refused(key, text.format(place=place))
    if place == "nvme":
        recipes.note(found, key, _("computed as if it lay in host memory, which is faster"))
    if place in _PLACES:
        return key
    found.use(old)
    return old if flag(found.marked.get(old) or False) else ""


def _and_more(found: Reading, part: str) -> str:
    before = found.value("offload")
    return f"{before},{part}" if before else part
