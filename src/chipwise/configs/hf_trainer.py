"""Arguments of Hugging Face's Trainer and of TRL's trainers: JSON, YAML, or flags of a script.

[transformers-trainer] [trl-config]. Scripts of people have switches of their own for adapters;
those that public ones use most are understood too.
"""

from __future__ import annotations

from chipwise.configs import deepspeed, recipes, words
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading, amount, flag, maybe_whole, one_of, whole
from chipwise.i18n import _

TRAINER, TRL = "hf-trainer", "trl"
_OWN = (
    *("per_device_train_batch_size", "num_train_epochs", "gradient_checkpointing", "optim"),
    *("gradient_accumulation_steps", "per_device_eval_batch_size"),
)
_OF_TRL = (
    *("use_peft", "load_in_4bit", "load_in_8bit", "lora_target_modules", "dataset_name"),
    *("max_seq_length", "max_length", "max_prompt_length", "packing", "dataset_mixer"),
    *("loss_type", "dataset_mixture.datasets", "num_generations", "dataset_text_field"),
)
_SWITCHES = ("use_peft", "use_lora", "lora_enable", "lora", "enable_lora")
_PACKED = {"load_in_4bit": 4, "q_lora": 4, "use_4bit_quantization": 4, "load_in_8bit": 8}
_DOUBLE = ("use_bnb_nested_quant", "bnb_4bit_use_double_quant", "use_nested_quant", "double_quant")
_KINDS = ("bnb_4bit_quant_type", "quant_type")
_LENGTHS = ("block_size", "model_max_length", "max_seq_length", "max_seq_len", "max_length")
_LOAD_DTYPES = ("torch_dtype", "dtype", "model_init_kwargs.torch_dtype", "model_init_kwargs.dtype")
_NO_SHARD = ("", "none", "false")


def looks_like(marked: Marked) -> bool:
    """A model beside arguments of training, or those arguments alone."""
    return any(key in marked for key in _OWN) or (
        "model_name_or_path" in marked and any(key in marked for key in _OF_TRL)
    )


def read(marked: Marked) -> Reading:
    """The job of HF Trainer's or TRL's arguments.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    trl = any(key in marked or marked.under(key) for key in _OF_TRL)
    return read_as(marked, TRL if trl else TRAINER)


def read_as(marked: Marked, tool: str, loss: str | None = None) -> Reading:
    """The same, for a tool that is known.

    Args:
        marked: the arguments.
        tool: ``hf-trainer`` or ``trl``.
        loss: what is minimised, where a command or a script's name says it.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, tool)
    found.map(
        {
            "model_name": ("model", str),
            "model_name_or_path": ("model", str),
            **dict.fromkeys(_LENGTHS, ("seq", maybe_whole)),
            "per_device_train_batch_size": ("micro_batch", whole),
            "gradient_accumulation_steps": ("accumulation", maybe_whole),
            "num_train_epochs": ("epochs", amount),
            "optim": ("optimizer", recipes.optimizer),
            "attn_implementation": ("attention", words.attention),
            "model_init_kwargs.attn_implementation": ("attention", words.attention),
            "packing": ("packing", flag),
            "torch_compile": ("compile", flag),
        }
    )
    _loss(found, loss)
    _method(found)
    _precision(found)
    _memory(found)
    _sharding(found)
    _load_dtype(found)
    return found


def _loss(found: Reading, loss: str | None) -> None:
    """What the command says; else what the arguments give away."""
    marked = found.marked
    if loss is None and "num_generations" in marked:
        loss, key = "grpo", "num_generations"
    elif loss is None and "max_prompt_length" in marked:
        loss, key = "dpo", "max_prompt_length"
        text = _("taken for preference pairs, as DPO trains on them; --loss says otherwise")
        recipes.note(found, key, text)
    else:
        key = next(iter(marked.entries), "")
    if loss and loss != "sft":
        recipes.objective(found, key, loss)


def _method(found: Reading) -> None:
    found.use(*_SWITCHES, *_PACKED, *_DOUBLE, *_KINDS, "bits", "lora_r", "lora_rank")
    found.use("lora_target_modules", "bnb_4bit_quant_storage", "bnb_4bit_compute_dtype")
    switch = next((key for key in _SWITCHES if recipes.on(found, key)), None)
    packed = next((key for key in _PACKED if recipes.on(found, key)), None)
    if str(found.marked.get("bits")) in ("4", "8"):
        packed = "bits"
    if switch is None:
        if packed is None:
            return
        off = next((key for key in _SWITCHES if key in found.marked), None)
        why = _("packed weights cannot be trained; write 'use_peft: true', or leave it out")
        if off:
            recipes.clash(found, packed, off, why)
        raise found.refused(packed, why)
    found.take("method", "lora", switch)
    found.map(dict.fromkeys(("lora_rank", "lora_r"), ("rank", whole)))
    found.map({"lora_target_modules": ("targets", words.targets)})
    if packed:
        _packed(found, packed)
    if recipes.on(found, "use_dora"):
        found.take("method", "dora", "use_dora")
    for key in ("lora_modules_to_save", "modules_to_save"):
        recipes.trained_beside(found, key)


def _packed(found: Reading, key: str) -> None:
    bits = _PACKED.get(key) or int(found.marked.get("bits"))
    named = next((name for name in _KINDS if found.marked.get(name)), None)
    try:
        kind = one_of({"nf4": "nf4", "fp4": "fp4"})(found.marked.get(named) if named else "nf4")
    except ValueError as error:
        raise found.refused(str(named), str(error)) from None
    double = any(recipes.on(found, name) for name in _DOUBLE)
    found.take("method", "qlora", key)
    found.take("base_dtype", words.base_dtype(bits, kind=kind, double=double), key)


def _precision(found: Reading) -> None:
    recipes.one_precision(found, {"fp16": "fp16", "bf16": "bf16"})
    for key in ("pure_bf16", "bf16_full"):
        if recipes.on(found, key):
            found.take("precision", "bf16", key)


def _load_dtype(found: Reading) -> None:
    """Weights that are read in 16 bit are trained in 16 bit, except where an engine keeps fp32."""
    key = next((name for name in _LOAD_DTYPES if found.marked.get(name)), None)
    found.use(*_LOAD_DTYPES)
    if key is None:
        return
    try:
        kept = words.dtype(found.marked.get(key))
    except ValueError as error:
        raise found.refused(key, str(error)) from None
    if kept not in ("bf16", "fp16"):
        return
    if found.value("precision") is None:
        found.take("precision", kept, key)
    if found.value("method") in (None, "full") and found.value("shard") is None:
        found.take("master_weights", False, key, hint=True)
        found.take("grad_dtype", kept, key, hint=True)


def _memory(found: Reading) -> None:
    if "gradient_checkpointing" in found.marked:
        kept = recipes.on(found, "gradient_checkpointing")
        found.take("recompute", "full" if kept else "none", "gradient_checkpointing")
    if recipes.on(found, "activation_offloading"):
        found.take("offload", "activations", "activation_offloading")
    for key in ("use_liger_kernel", "use_liger", "use_liger_loss"):
        if recipes.on(found, key):
            found.take("chunked_loss", "fused", key)
    if str(found.marked.get("loss_type") or "") in ("nll", "chunked_nll"):
        chunked = found.marked.get("loss_type") == "chunked_nll"
        found.take("chunked_loss", "yes" if chunked else "no", "loss_type")
    for key in ("use_flash_attention_2", "use_flash_attn"):
        if recipes.on(found, key):
            found.take("attention", "flash", key)
    if recipes.on(found, "adafactor"):
        found.take("optimizer", "adafactor", "adafactor")
    if recipes.on(found, "auto_find_batch_size"):
        text = _("the micro-batch is halved until it fits, beginning with what is stated")
        recipes.note(found, "auto_find_batch_size", text)


def _sharding(found: Reading) -> None:
    """FSDP's words, or a DeepSpeed configuration: a file, or a section of this one."""
    marked = found.marked
    fsdp = str(marked.get("fsdp") or "").strip("[]'\" ").lower() not in _NO_SHARD
    section = marked.under("deepspeed") and not isinstance(marked.get("deepspeed"), str)
    named = isinstance(marked.get("deepspeed"), str) and bool(marked.get("deepspeed"))
    if fsdp and (named or section):
        key = "deepspeed" if named else next(k for k in marked.entries if k.startswith("deepspeed"))
        recipes.clash(found, "fsdp", key, _("one of them shards the model"))
    found.use("fsdp", "deepspeed")
    for key in marked.entries:
        if key.startswith(("fsdp_config", "fsdp_transformer_layer", "fsdp_min_num")):
            found.use(key)
    if fsdp:
        recipes.shard_words(found, "fsdp")
        key = "fsdp_config.activation_checkpointing"
        if recipes.on(found, key):
            found.take("recompute", "full", key)
    elif named:
        recipes.other_file(found, "deepspeed")
    elif section:
        deepspeed.read_section(found, "deepspeed.")
