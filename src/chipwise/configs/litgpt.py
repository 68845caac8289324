"""LitGPT's YAML, as in its config_hub [litgpt-train]."""

from __future__ import annotations

from chipwise.configs import recipes, words
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading, amount, maybe_whole, one_of, whole
from chipwise.i18n import _

TOOL = "litgpt"
_PACKED = {
    "bnb.nf4": "nf4", "bnb.nf4-dq": "nf4-dq", "bnb.fp4": "fp4", "bnb.fp4-dq": "fp4",
    "bnb.int8-training": "int8",
}  # fmt: skip
_PRECISIONS = {
    "bf16-true": "bf16", "bf16-mixed": "bf16", "16-true": "fp16", "16-mixed": "fp16",
    "32-true": "fp32", "32": "fp32",
}  # fmt: skip
_LORA = {
    "lora_query": ("q_proj",),
    "lora_key": ("k_proj",),
    "lora_value": ("v_proj",),
    "lora_projection": ("o_proj",),
    "lora_mlp": ("gate_proj", "up_proj", "down_proj"),
    "lora_head": ("lm_head",),
}
_WITHOUT = ("lora_query", "lora_value")
"""Adapted where nothing is said."""


def looks_like(marked: Marked) -> bool:
    """``train.micro_batch_size`` beside a checkpoint folder or a model name."""
    named = ("checkpoint_dir", "model_name", "model.name")
    sizes = ("train.micro_batch_size", "train.global_batch_size")
    return any(key in marked for key in named) and any(key in marked for key in sizes)


def read(marked: Marked) -> Reading:
    """The job of a LitGPT configuration.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, TOOL)
    found.map(
        {
            "checkpoint_dir": ("model", lambda value: str(value).removeprefix("checkpoints/")),
            "model_name": ("model", str),
            "model.name": ("model", str),
            "train.micro_batch_size": ("micro_batch", whole),
            "train.global_batch_size": ("global_batch", whole),
            "train.max_seq_length": ("seq", whole),
            "train.epochs": ("epochs", amount),
            "precision": ("precision", one_of(_PRECISIONS)),
            "optimizer": ("optimizer", recipes.optimizer),
            "optimizer.class_path": ("optimizer", recipes.optimizer),
        }
    )
    _devices(found)
    _method(found)
    _states(found)
    _sharding(found)
    return found


def _devices(found: Reading) -> None:
    """``devices`` is of one node."""
    found.use("devices", "num_nodes")
    said, nodes = found.marked.get("devices"), found.marked.get("num_nodes") or 1
    if said in (None, "auto", -1):
        return
    try:
        found.take("devices", whole(said) * whole(nodes), "devices")
    except (ValueError, TypeError) as error:
        raise found.refused("devices", str(error)) from None


def _method(found: Reading) -> None:
    """Adapters are told by their keys: fine-tuning everything has none of them."""
    found.map({"lora_r": ("rank", maybe_whole)})
    adapts = any(key in found.marked for key in ("lora_r", *_LORA))
    found.take("method", "lora" if adapts else "full", "lora_r" if adapts else "checkpoint_dir")
    if adapts:
        _targets(found)
    found.use("quantize")
    if not found.marked.get("quantize"):
        return
    if not adapts:
        why = _("packed weights cannot be trained; give lora_r too, or leave it out")
        raise found.refused("quantize", why)
    if "mixed" in str(found.marked.get("precision")):
        recipes.clash(found, "quantize", "precision", _("write 'precision: bf16-true'"))
    if (found.value("devices") or 1) > 1:
        why = _("a packed base is trained on one device only; write 'devices: 1'")
        recipes.clash(found, "quantize", "devices", why)
    found.map({"quantize": ("base_dtype", recipes.named(_("quantisation of LitGPT"), _PACKED))})
    found.take("method", "qlora", "quantize")


def _targets(found: Reading) -> None:
    named = {key: modules for key, modules in _LORA.items() if key in found.marked}
    missing = [key for key in _WITHOUT if key not in found.marked]
    names = [name for key in missing for name in _LORA[key]]
    names += recipes.module_targets(found, named)
    order = [name for modules in _LORA.values() for name in modules]
    key = next(iter(named), "lora_r")
    found.take("targets", words.targets(sorted(names, key=order.index)), key)


def _states(found: Reading) -> None:
    """With a ``-true`` precision weights, gradients and states all have it."""
    if found.value("method") == "qlora":
        if found.value("optimizer") == "adamw":
            found.take("optimizer", "paged-adamw", "quantize")
        return
    if found.marked.get("precision") == "bf16-true" and found.value("method") == "full":
        found.take("master_weights", False, "precision")
        found.take("grad_dtype", "bf16", "precision")
        if found.value("optimizer") == "adamw":
            found.take("optimizer", "adamw-bf16", "precision")


def _sharding(found: Reading) -> None:
    """Several devices shard everything; fine-tuning on them repeats every block."""
    pretrains = "checkpoint_dir" not in found.marked
    nodes = found.marked.get("num_nodes") or 1
    if pretrains:
        found.take("compile", True, "model_name" if "model_name" in found.marked else "model.name")
    if (found.value("devices") or 1) == 1:
        return
    found.take("shard", "fsdp", "devices")
    if not pretrains:
        found.take("recompute", "full", "devices")
    elif nodes > 1:
        found.take("shard_group", whole(found.marked.get("devices")), "devices")
