"""torchtune's recipe configurations [torchtune].

``${output_dir}`` and the like are plain text here: only paths are written that way.
"""

from __future__ import annotations

from chipwise.configs import recipes, words
from chipwise.configs.builders import TORCHTUNE
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading, amount, flag, maybe_whole, one_of, whole
from chipwise.i18n import _

TOOL = "torchtune"
_MODEL = "model._component_"
_MODULES = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "output_proj": "o_proj"}
_MLP = ("gate_proj", "up_proj", "down_proj")
_LOSSES = {
    "LinearCrossEntropyLoss": "yes",
    "CEWithChunkedOutputLoss": "yes",
    "CrossEntropyLoss": "no",
}
_MORE = (
    *("DPOLoss", "RSOLoss", "SimPOLoss", "PPOLoss"),
    *("GRPOLoss", "GRPOSimpleLoss", "LinearGRPOLoss"),
    *(
        f"{kind}KL{way}Loss"
        for kind in ("Forward", "Reverse", "Symmetric")
        for way in ("", "WithChunkedOutput")
    ),
)
"""Losses of preferences, rewards and distillation."""
_DISTRIBUTED = ("data_parallel_shard_dim", "fsdp_cpu_offload", "fsdp.cpu_offload",
                "custom_sharded_layers", "memory_efficient_fsdp_wrap",
                "fsdp_reshard_after_forward")  # fmt: skip


def looks_like(marked: Marked) -> bool:
    """A model or tokenizer made by one of torchtune's builders."""
    keys = (_MODEL, "tokenizer._component_", "checkpointer._component_")
    return any(str(marked.get(key)).startswith("torchtune.") for key in keys)


def read(marked: Marked) -> Reading:
    """The job of a torchtune configuration.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, TOOL)
    found.map(
        {
            "tokenizer.max_seq_len": ("seq", whole),
            "batch_size": ("micro_batch", whole),
            "gradient_accumulation_steps": ("accumulation", maybe_whole),
            "epochs": ("epochs", amount),
            "dtype": ("precision", words.dtype),
            "dataset.packed": ("packing", flag),
            "optimizer._component_": ("optimizer", recipes.optimizer),
            "tensor_parallel_dim": ("tp", maybe_whole),
            "context_parallel_dim": ("cp", maybe_whole),
        }
    )
    _model(found)
    _targets(found)
    _optimizer(found)
    _memory(found)
    _loss(found)
    _sharding(found)
    return found


def _model(found: Reading) -> None:
    """Builders are named ``qlora_llama3_1_8b``: method, then model."""
    value = found.marked.get(_MODEL)
    if value is None:
        return
    name = str(value).rpartition(".")[2]
    method = next((one for one in ("qlora", "lora") if name.startswith(f"{one}_")), "full")
    bare = name.removeprefix(f"{method}_")
    try:
        model = recipes.named(_("builder of torchtune"), TORCHTUNE)(bare)
    except ValueError as error:
        raise found.refused(_MODEL, str(error)) from None
    found.take("model", model, _MODEL)
    recipes.note(found, _MODEL, _("{name} is read as {model}").format(name=name, model=model))
    found.take("method", method, _MODEL)
    packs = recipes.on(found, "model.quantize_base")
    if packs and method == "full":
        why = _("packed weights cannot be trained; take the builder lora_{name}")
        recipes.clash(found, "model.quantize_base", _MODEL, why.format(name=bare))
    if method == "qlora" or packs:
        found.take("method", "qlora", "model.quantize_base" if packs else _MODEL)
        found.take("base_dtype", "nf4-dq", "model.quantize_base" if packs else _MODEL)
    if recipes.on(found, "model.use_dora") and method != "full":
        found.take("method", "dora", "model.use_dora")


def _targets(found: Reading) -> None:
    if found.value("method") in (None, "full"):
        return
    key = "model.lora_attn_modules"
    found.map({"model.lora_rank": ("rank", whole)})
    found.use(key)
    listed = found.marked.get(key) or []
    try:
        convert = one_of(_MODULES)
        names = [convert(name) for name in (listed if isinstance(listed, list) else [listed])]
    except ValueError as error:
        raise found.refused(key, str(error)) from None
    switches = {"model.apply_lora_to_mlp": _MLP, "model.apply_lora_to_output": ("lm_head",)}
    names += recipes.module_targets(found, switches)
    if names:
        found.take("targets", words.targets(names), key)


def _optimizer(found: Reading) -> None:
    """States have the number format of the weights, which ``dtype`` sets."""
    if found.value("precision") == "bf16" and found.value("method") == "full":
        found.take("master_weights", False, "dtype")
        found.take("grad_dtype", "bf16", "dtype")
        if found.value("optimizer") == "adamw":
            found.take("optimizer", "adamw-bf16", "optimizer._component_")
    if "CPUOffloadOptimizer" in str(found.marked.get("optimizer._component_")):
        found.take("offload", "optimizer", "optimizer._component_")
    if not recipes.on(found, "optimizer_in_bwd"):
        return
    if (found.value("accumulation") or 1) > 1:
        why = _("optimizer_in_bwd needs gradient_accumulation_steps: 1")
        recipes.clash(found, "optimizer_in_bwd", "gradient_accumulation_steps", why)
    if found.marked.get("clip_grad_norm") is not None:
        recipes.clash(found, "optimizer_in_bwd", "clip_grad_norm", _("write clip_grad_norm: null"))
    recipes.frees_gradients(found, "optimizer_in_bwd")


def _memory(found: Reading) -> None:
    keeps, offloads = "enable_activation_checkpointing", "enable_activation_offloading"
    if keeps in found.marked:
        found.take("recompute", "full" if recipes.on(found, keeps) else "none", keeps)
    if recipes.on(found, offloads):
        if not recipes.on(found, keeps):
            why = _("offloading activations needs 'enable_activation_checkpointing: true'")
            raise found.refused(offloads, why)
        found.take("offload", "activations", offloads)
    compiles = [key for key in ("compile", "compile.model") if key in found.marked]
    for key in compiles:
        found.take("compile", recipes.on(found, key), key)
    if recipes.on(found, "enable_fp8_training"):
        found.take("precision", "fp8", "enable_fp8_training")


def _loss(found: Reading) -> None:
    key = "loss._component_"
    if found.marked.get(key) is None:
        return
    name = str(found.marked.get(key)).rpartition(".")[2]
    if name in _MORE:
        recipes.objective(found, key, str(name))
        return
    known = {**_LOSSES, **dict.fromkeys(_MORE)}
    found.map({key: ("chunked_loss", recipes.last_name(recipes.named(_("loss"), known)))})


def _sharding(found: Reading) -> None:
    """Which recipe runs is said on the command line; keys of the distributed ones tell it."""
    said = [key for key in _DISTRIBUTED if found.marked.get(key) is not None]
    found.use(*_DISTRIBUTED, "data_parallel_replicate_dim")
    if not said:
        return
    sharded = found.marked.get("data_parallel_shard_dim")
    stays = found.marked.get("fsdp_reshard_after_forward") is False
    found.take("shard", "none" if sharded == 1 else "zero2" if stays else "fsdp", said[0])
    copies = found.marked.get("data_parallel_replicate_dim")
    if isinstance(copies, int) and copies > 1 and isinstance(sharded, int) and sharded > 1:
        found.take("shard_group", sharded, "data_parallel_shard_dim")
    for key in ("fsdp_cpu_offload", "fsdp.cpu_offload"):
        if recipes.on(found, key):
            found.take("offload", "optimizer,params", key)
