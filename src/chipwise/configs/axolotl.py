"""axolotl's YAML."""

from __future__ import annotations

from chipwise.configs import recipes, words
from chipwise.configs.marked import Marked
from chipwise.configs.reading import (
    Reading,
    amount,
    contradiction,
    flag,
    maybe_whole,
    one_of,
    whole,
)
from chipwise.i18n import _

TOOL = "axolotl"


def looks_like(marked: Marked) -> bool:
    """``base_model`` beside a key that only axolotl has."""
    own = ("micro_batch_size", "sequence_len", "sample_packing", "adapter", "datasets.0.path")
    return "base_model" in marked and any(key in marked for key in own)


def read(marked: Marked) -> Reading:
    """The job of an axolotl configuration.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, TOOL)
    found.map(
        {
            "base_model": ("model", str),
            "sequence_len": ("seq", whole),
            "micro_batch_size": ("micro_batch", whole),
            "gradient_accumulation_steps": ("accumulation", maybe_whole),
            "optimizer": ("optimizer", words.optimizer),
            "num_epochs": ("epochs", amount),
            "lora_r": ("rank", maybe_whole),
            "lora_target_modules": ("targets", words.targets),
            "sample_packing": ("packing", flag),
            "torch_compile": ("compile", lambda value: None if value == "auto" else flag(value)),
            "attn_implementation": ("attention", words.attention),
            "tensor_parallel_size": ("tp", maybe_whole),
            "context_parallel_size": ("cp", maybe_whole),
            "sequence_parallel_degree": ("cp", maybe_whole),
            "expert_parallel_size": ("ep", maybe_whole),
        }
    )
    if marked.get("rl"):
        recipes.objective(found, "rl", str(marked.get("rl")))
    _method(found)
    _precision(found)
    _memory(found)
    _sharding(found)
    return found


def _method(found: Reading) -> None:
    marked = found.marked
    found.use("adapter", "load_in_4bit", "load_in_8bit", "lora_target_linear")
    adapter = str(marked.get("adapter") or "").lower()
    four, eight = recipes.on(found, "load_in_4bit"), recipes.on(found, "load_in_8bit")
    if not adapter:
        found.taken.pop("rank", None)
        found.taken.pop("targets", None)
        if four or eight:
            key = "load_in_4bit" if four else "load_in_8bit"
            raise found.refused(
                key, _("packed weights cannot be trained; write 'adapter: qlora', or leave it out")
            )
        return
    convert = one_of({"lora": "lora", "qlora": "qlora", "dora": "dora"})
    found.map({"adapter": ("method", convert)})
    if recipes.on(found, "lora_target_linear"):
        found.take("targets", "all-linear", "lora_target_linear")
    if four or eight:
        found.take("method", "qlora", "adapter")
        key = "load_in_4bit" if four else "load_in_8bit"
        found.take("base_dtype", words.base_dtype(4 if four else 8, double=True), key)
    if recipes.on(found, "peft_use_dora"):
        found.take("method", "dora", "peft_use_dora")
    recipes.trained_beside(found, "lora_modules_to_save")


def _precision(found: Reading) -> None:
    """``bf16: auto`` takes what the device has, and that is left open."""
    marked = found.marked
    found.use("bf16", "fp16", "tf32", "bfloat16", "float16")
    for key, word in (
        ("fp16", "fp16"),
        ("float16", "fp16"),
        ("bf16", "bf16"),
        ("bfloat16", "bf16"),
    ):
        value = marked.get(key)
        if value not in (None, "auto", "full") and recipes.on(found, key):
            before = found.taken.get("precision")
            if before is not None and before.value != word:
                here = Reading(marked, TOOL)
                here.take("precision", word, key)
                raise contradiction(before, here.taken["precision"], _("one of them is on at most"))
            found.take("precision", word, key)


def _memory(found: Reading) -> None:
    marked = found.marked
    value = marked.get("gradient_checkpointing")
    if value is not None:
        found.use("gradient_checkpointing")
        on = str(value).lower() in ("unsloth", "offload", "offload_disk") or recipes.on(
            found, "gradient_checkpointing"
        )
        found.take("recompute", "full" if on else "none", "gradient_checkpointing")
        if str(value).lower() in ("unsloth", "offload"):
            found.take("offload", "activations", "gradient_checkpointing")
    if str(marked.get("activation_offloading") or "false").lower() != "false":
        found.take("offload", "activations", "activation_offloading")
    for key, kernel in (
        ("eager_attention", "eager"),
        ("sdp_attention", "sdpa"),
        ("flex_attention", "sdpa"),
        ("xformers_attention", "flash"),
        ("flash_attention", "flash"),
    ):
        if key in marked:
            found.use(key)
            if recipes.on(found, key):
                found.take("attention", kernel, key)
    for key in ("liger_fused_linear_cross_entropy", "cut_cross_entropy"):
        if key in marked:
            found.use(key)
            if recipes.on(found, key):
                found.take("chunked_loss", "fused", key)


def _sharding(found: Reading) -> None:
    """A DeepSpeed file is named, not part of this one; FSDP stands here."""
    marked = found.marked
    if marked.get("deepspeed"):
        recipes.other_file(found, "deepspeed")
    if marked.get("fsdp") or marked.under("fsdp_config"):
        found.use(
            "fsdp",
            "fsdp_version",
            *(key for key in marked.entries if key.startswith("fsdp_config.")),
        )
        key = "fsdp" if "fsdp" in marked else "fsdp_config.fsdp_version"
        words_of = str(marked.get("fsdp") or "")
        grads_only = "shard_grad_op" in words_of
        found.take("shard", "zero2" if grads_only else "fsdp", key)
        offloads = ("fsdp_config.fsdp_offload_params", "fsdp_config.offload_params")
        if "offload" in words_of or any(recipes.on(found, name) for name in offloads):
            found.take("offload", "optimizer,params", key)
    _copies(found)
    if recipes.on(found, "fsdp_config.activation_checkpointing"):
        found.take("recompute", "full", "fsdp_config.activation_checkpointing")


def _copies(found: Reading) -> None:
    """Shards × copies of a hybrid layout."""
    sizes = ("dp_shard_size", "dp_replicate_size")
    found.use(*sizes)
    shards, copies = (maybe_whole(found.marked.get(key) or 0) for key in sizes)
    if shards and shards > 1 and found.value("shard") is None:
        found.take("shard", "fsdp", sizes[0])
    if shards and shards > 1 and copies and copies > 1:
        found.take("shard_group", shards, sizes[0])
        found.take("dp", shards * copies, sizes[1])
