"""LLaMA-Factory's YAML or JSON [llama-factory]."""

from __future__ import annotations

from chipwise.configs import recipes, words
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading, amount, maybe_whole, one_of, whole
from chipwise.i18n import _

TOOL = "llama-factory"
_OWN = ("finetuning_type", "stage", "cutoff_len", "template")
_STAGES = ("pt", "sft", "rm", "ppo", "dpo", "kto")
_METHODS = {"bnb": "bnb", "bitsandbytes": "bnb", "hqq": "hqq", "eetq": "eetq", "gptq": "gptq",
            "awq": "awq", "aqlm": "aqlm", "quanto": "quanto", "mxfp4": "mxfp4",
            "fp8": "fp8"}  # fmt: skip
_ON_THE_FLY = ("bnb", "hqq", "eetq")
_ATTENTION = {"auto": None, "disabled": "eager", "off": "eager", "sdpa": "sdpa", "fa2": "flash",
              "fa3": "flash"}  # fmt: skip
_SMALLER = ("use_galore", "use_apollo", "use_badam", "use_adam_mini")


def looks_like(marked: Marked) -> bool:
    """``model_name_or_path`` beside a key that only LLaMA-Factory has."""
    return "model_name_or_path" in marked and any(key in marked for key in _OWN)


def read(marked: Marked) -> Reading:
    """The job of a LLaMA-Factory configuration.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, TOOL)
    found.map(
        {
            "model_name_or_path": ("model", str),
            "cutoff_len": ("seq", whole),
            "per_device_train_batch_size": ("micro_batch", whole),
            "gradient_accumulation_steps": ("accumulation", maybe_whole),
            "num_train_epochs": ("epochs", amount),
            "optim": ("optimizer", recipes.optimizer),
            "flash_attn": ("attention", one_of(_ATTENTION)),
            "ray_num_workers": ("devices", maybe_whole),
        }
    )
    _stage(found)
    _method(found)
    _base(found)
    _precision(found)
    _memory(found)
    _optimizer(found)
    _sharding(found)
    return found


def _stage(found: Reading) -> None:
    """Preferences and rewards cost more than what is computed, and that is said."""
    stage = str(found.marked.get("stage") or "sft")
    found.use("stage")
    if stage not in _STAGES:
        known = ", ".join(_STAGES)
        text = _("'{stage}' is not known; it can be {known}")
        raise found.refused("stage", text.format(stage=stage, known=known))
    if stage not in ("pt", "sft"):
        recipes.objective(found, "stage", str(stage))
    packed = [key for key in ("packing", "neat_packing") if recipes.on(found, key)]
    if packed:
        found.take("packing", True, packed[-1])
    elif found.marked.get("packing") is not None:
        found.take("packing", False, "packing")
    if "neat_packing" in packed and stage != "sft":
        recipes.clash(found, "neat_packing", "stage", _("neat_packing needs 'stage: sft'"))


def _method(found: Reading) -> None:
    kind = str(found.marked.get("finetuning_type") or "lora")
    found.use("finetuning_type", "lora_rank", "lora_target")
    if kind == "lora":
        found.take("method", "lora", "finetuning_type")
        found.map({"lora_rank": ("rank", whole), "lora_target": ("targets", words.targets)})
        if recipes.on(found, "use_dora"):
            found.take("method", "dora", "use_dora")
        recipes.trained_beside(found, "additional_target")
        return
    if kind not in ("full", "freeze"):
        text = _("'{kind}' is not computed; write lora, or full")
        raise found.refused("finetuning_type", text.format(kind=kind))
    found.take("method", "full", "finetuning_type")
    if recipes.on(found, "use_dora"):
        recipes.clash(found, "use_dora", "finetuning_type", _("write 'finetuning_type: lora'"))
    if kind == "freeze":
        found.use("freeze_trainable_layers", "freeze_trainable_modules", "freeze_extra_modules")
        layers = found.marked.get("freeze_trainable_layers") or 2
        found.take("train_last", abs(int(layers)), "finetuning_type")


def _base(found: Reading) -> None:
    """A base packed while it is read; one that is packed on disk says so in its own files."""
    keys = ("quantization_type", "double_quantization", "quantization_method")
    found.use("quantization_bit", *keys)
    if found.marked.get("quantization_bit") is None:
        return
    if found.value("method") == "full":
        why = _("packed weights cannot be trained; write 'finetuning_type: lora', or leave it out")
        if "finetuning_type" in found.marked:
            recipes.clash(found, "quantization_bit", "finetuning_type", why)
        raise found.refused("quantization_bit", why)
    try:
        packer = one_of(_METHODS)(found.marked.get("quantization_method") or "bnb")
        kind = one_of({"nf4": "nf4", "fp4": "fp4"})(found.marked.get("quantization_type") or "nf4")
    except ValueError as error:
        key = "quantization_method" if "quantization_method" in found.marked else keys[0]
        raise found.refused(key, str(error)) from None
    if packer not in _ON_THE_FLY:
        text = _("weights are packed in the model's own files, and quantization_bit has no effect")
        recipes.note(found, "quantization_method", text)
        return
    said = found.marked.get("double_quantization")
    double = said is None or recipes.on(found, "double_quantization")
    recipes.quantised(found, "quantization_bit", packer, kind, double=double)


def _precision(found: Reading) -> None:
    """Trained weights are kept in fp32, except with ``pure_bf16`` [llama-factory]."""
    recipes.one_precision(found, {"fp16": "fp16", "bf16": "bf16", "pure_bf16": "bf16"})
    if recipes.on(found, "pure_bf16"):
        found.take("master_weights", False, "pure_bf16")
        found.take("grad_dtype", "bf16", "pure_bf16")
    if recipes.on(found, "fp8"):
        found.take("precision", "fp8", "fp8")
    for key in ("upcast_layernorm", "upcast_lmhead_output"):
        if recipes.on(found, key):
            recipes.note(found, key, _("kept in fp32, and not counted"))


def _memory(found: Reading) -> None:
    trains = str(found.marked.get("stage") or "sft") in ("pt", "sft")
    if "disable_gradient_checkpointing" in found.marked:
        off = recipes.on(found, "disable_gradient_checkpointing")
        found.take("recompute", "none" if off else "full", "disable_gradient_checkpointing")
    for key in ("use_unsloth", "use_unsloth_gc"):
        if recipes.on(found, key) and found.value("recompute") != "none":
            found.take("recompute", "full", key)
            found.take("offload", "activations", key)
    for key in ("use_unsloth", "enable_liger_kernel"):
        if recipes.on(found, key) and trains:
            found.take("chunked_loss", "fused", key)
    if "torch_compile" in found.marked:
        found.take("compile", recipes.on(found, "torch_compile"), "torch_compile")


def _optimizer(found: Reading) -> None:
    for key in _SMALLER:
        if not recipes.on(found, key):
            continue
        if key == "use_galore":
            found.take("optimizer", "galore-adamw", key)
            found.map({"galore_rank": ("optimizer_rank", whole)})
        if found.value("method") != "full" and key != "use_adam_mini":
            named = "finetuning_type" if "finetuning_type" in found.marked else "model_name_or_path"
            recipes.clash(found, key, named, _("it needs 'finetuning_type: full'"))
        if key != "use_galore":
            recipes.less_state(found, key)
        for name in found.marked.entries:
            if name.startswith(f"{key.removeprefix('use_')}_"):
                found.use(name)
    if recipes.on(found, "use_muon"):
        found.take("optimizer", "muon", "use_muon")


def _sharding(found: Reading) -> None:
    """A DeepSpeed file is named, not part of this one; gradients have its number format."""
    if found.marked.get("deepspeed"):
        recipes.other_file(found, "deepspeed")
        if found.value("precision") in ("bf16", "fp16"):
            found.take("grad_dtype", found.value("precision"), "deepspeed")
    else:
        found.use("deepspeed")
    if "fsdp" in found.marked:
        recipes.shard_words(found, "fsdp")
