"""ms-swift's arguments as YAML or JSON [ms-swift]."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from chipwise.configs import recipes, words
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading, amount, flag, maybe_whole, one_of, whole
from chipwise.i18n import _

TOOL = "ms-swift"
_TUNERS = ("tuner_type", "train_type", "sft_type")
_NEEDED = ("model", "model_id_or_path")
_OWN = (*_TUNERS, "split_dataset_ratio", "attn_impl", "quant_bits", "torch_dtype", "tuner_backend")
_OTHERS = ("micro_batch_size", "tensor_model_parallel_size", "train.gpus", "rollout.gpus")
_ZERO = {"zero0": "none", "zero1": "zero1", "zero2": "zero2", "zero3": "zero3",
         "zero2_offload": "zero2", "zero3_offload": "zero3"}  # fmt: skip
_OFFLOADS = {"zero2_offload": "optimizer", "zero3_offload": "optimizer,params"}
_METHODS = {"full": "full", "lora": "lora", "dora": "dora"}
_SMALLER = ("use_galore", "lisa_activated_layers")


def looks_like(marked: Marked) -> bool:
    """``model`` beside a key that only ms-swift has; its Megatron and Ray roles are others."""
    if any(key in marked for key in _OTHERS):
        return False
    return any(key in marked for key in _NEEDED) and any(key in marked for key in _OWN)


def read(marked: Marked) -> Reading:
    """The job of ms-swift's arguments.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, TOOL)
    found.map(
        {
            "model_id_or_path": ("model", str),
            "model": ("model", str),
            "max_length": ("seq", whole),
            "per_device_train_batch_size": ("micro_batch", whole),
            "gradient_accumulation_steps": ("accumulation", maybe_whole),
            "num_train_epochs": ("epochs", amount),
            "optim": ("optimizer", recipes.optimizer),
            "attn_impl": ("attention", words.attention),
            "packing": ("packing", flag),
            "torch_dtype": ("precision", words.dtype),
            "sequence_parallel_size": ("cp", maybe_whole),
            "deepspeed_autotp_size": ("tp", maybe_whole),
            "device_groups.nproc_per_node": ("devices", maybe_whole),
        }
    )
    recipes.one_precision(found, {"fp16": "fp16", "bf16": "bf16"})
    _method(found)
    _base(found)
    _memory(found)
    _sharding(found)
    return found


def _method(found: Reading) -> None:
    key = next((name for name in _TUNERS if found.marked.get(name)), "tuner_type")
    found.use(*_TUNERS, "lora_rank", "target_modules", "use_dora")
    kind = str(found.marked.get(key) or "lora")
    if kind not in _METHODS:
        text = _("'{kind}' is not computed; write lora, or full")
        raise found.refused(key, text.format(kind=kind))
    found.take("method", _METHODS[kind], key)
    if found.marked.get("rlhf_type"):
        recipes.objective(found, "rlhf_type", str(found.marked.get("rlhf_type")))
    if kind == "full":
        return
    found.map({"lora_rank": ("rank", whole), "target_modules": ("targets", words.targets)})
    if found.marked.get("target_regex"):
        text = _("patterns of module names are not read; write target_modules: all-linear, or list")
        raise found.refused("target_regex", text)
    if recipes.on(found, "use_dora"):
        found.take("method", "dora", "use_dora")
    recipes.trained_beside(found, "modules_to_save")


def _base(found: Reading) -> None:
    keys = ("quant_method", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant")
    found.use("quant_bits", *keys)
    if found.marked.get("quant_bits") in (None, 0):
        return
    if found.value("method") == "full":
        key = next((name for name in _TUNERS if name in found.marked), "quant_bits")
        why = _("packed weights cannot be trained; write 'tuner_type: lora', or leave it out")
        recipes.clash(found, "quant_bits", key, why)
    known = {name: name for name in ("bnb", "hqq", "eetq", "quanto")}
    try:
        packer = one_of(known)(found.marked.get("quant_method") or "bnb")
    except ValueError as error:
        raise found.refused("quant_method", str(error)) from None
    kind = str(found.marked.get("bnb_4bit_quant_type") or "nf4")
    said = found.marked.get("bnb_4bit_use_double_quant")
    double = said is None or recipes.on(found, "bnb_4bit_use_double_quant")
    recipes.quantised(found, "quant_bits", packer, kind, double=double)


def _memory(found: Reading) -> None:
    if "gradient_checkpointing" in found.marked:
        kept = recipes.on(found, "gradient_checkpointing")
        found.take("recompute", "full" if kept else "none", "gradient_checkpointing")
    backend = str(found.marked.get("tuner_backend") or "peft")
    found.use("tuner_backend")
    if backend == "unsloth":
        found.take("chunked_loss", "fused", "tuner_backend")
    if recipes.on(found, "use_liger_kernel"):
        found.take("chunked_loss", "fused", "use_liger_kernel")
    for key in _SMALLER:
        if found.marked.get(key):
            recipes.less_state(found, key)


def _sharding(found: Reading) -> None:
    """``deepspeed`` is a word for a bundled file, or names a file of its own."""
    value: Any = found.marked.get("deepspeed")
    found.use("deepspeed")
    if value and (PurePath(str(value)).suffix or "/" in str(value)):
        recipes.other_file(found, "deepspeed")
    elif value:
        try:
            stage = recipes.named(_("DeepSpeed configuration of ms-swift"), _ZERO)(value)
        except ValueError as error:
            raise found.refused("deepspeed", str(error)) from None
        found.take("shard", stage, "deepspeed")
        if str(value) in _OFFLOADS:
            found.take("offload", _OFFLOADS[str(value)], "deepspeed")
    if found.marked.get("fsdp") == "fsdp2":
        found.take("shard", "fsdp", "fsdp")
    elif "fsdp" in found.marked:
        recipes.shard_words(found, "fsdp")
    if value and found.marked.get("fsdp"):
        recipes.clash(found, "deepspeed", "fsdp", _("one of them shards the model"))
