"""accelerate's YAML, and what its launcher says by flags [accelerate-config]."""

from __future__ import annotations

from chipwise.configs import recipes
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading, flag, maybe_whole, one_of, whole
from chipwise.i18n import _

TOOL = "accelerate"
_OWN = ("distributed_type", "compute_environment", "num_processes")
_STRATEGIES = {
    **dict.fromkeys(("FULL_SHARD", "1", "HYBRID_SHARD", "4"), "fsdp"),
    **dict.fromkeys(("SHARD_GRAD_OP", "2", "HYBRID_SHARD_ZERO2", "5"), "zero2"),
    **dict.fromkeys(("NO_SHARD", "3"), "none"),
}
_HYBRID = ("HYBRID_SHARD", "4", "HYBRID_SHARD_ZERO2", "5")
_STAGES = {0: "none", 1: "zero1", 2: "zero2", 3: "zero3"}
_PRECISIONS = {"no": None, "bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "": None}
_TYPES = (
    *("NO", "MULTI_GPU", "MULTI_CPU", "MULTI_NPU", "MULTI_XPU", "MULTI_HPU", "MULTI_MLU"),
    *("MULTI_SDAA", "MULTI_MUSA", "MULTI_NEURON", "FSDP", "DEEPSPEED", "MEGATRON_LM", "TPU", "XLA"),
)


def looks_like(marked: Marked) -> bool:
    """A kind of machine and a count of processes."""
    return any(key in marked for key in _OWN) or marked.under("fsdp_config")


def read(marked: Marked) -> Reading:
    """What accelerate's configuration says of a job.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, TOOL)
    found.map(
        {
            "num_processes": ("devices", maybe_whole),
            "mixed_precision": ("precision", one_of(_PRECISIONS)),
            "gradient_accumulation_steps": ("accumulation", maybe_whole),
        }
    )
    if str(marked.get("mixed_precision")).lower() in ("no", "false"):
        found.take("precision", "fp32", "mixed_precision", hint=True)  # the trainer's word wins
    kind = _kind(found)
    if kind == "FSDP":
        _fsdp(found)
    elif kind == "DEEPSPEED":
        _deepspeed(found)
    elif kind == "MEGATRON_LM":
        _megatron(found)
    elif kind.startswith("MULTI"):
        found.take("shard", "none", "distributed_type", hint=True)
    _parallelism(found)
    if str(marked.get("dynamo_config.dynamo_backend") or "no").lower() != "no":
        found.take("compile", True, "dynamo_config.dynamo_backend")
    if recipes.on(found, "use_cpu"):
        raise found.refused("use_cpu", _("training on a CPU is not computed"))
    return found


def _kind(found: Reading) -> str:
    """The kind of run; sections of other kinds have no effect, and are said to have none."""
    stated = found.marked.get("distributed_type")
    found.use("distributed_type")
    kind = "NO" if stated in (None, False) else str(stated).upper()  # YAML reads NO as false
    if kind not in _TYPES:
        text = _("'{kind}' is not known; it can be {known}")
        known = ", ".join(_TYPES)
        raise found.refused("distributed_type", text.format(kind=stated, known=known))
    if stated is None:
        sections = {"FSDP": "fsdp_config", "DEEPSPEED": "deepspeed_config"}
        kind = next((name for name, key in sections.items() if found.marked.under(key)), kind)
    if found.marked.under("fsdp_config.fsdp_version") and found.marked.under(
        "deepspeed_config.zero_stage"
    ):
        why = _("one of them shards the model")
        recipes.clash(found, "fsdp_config.fsdp_version", "deepspeed_config.zero_stage", why)
    return kind


def _fsdp(found: Reading) -> None:
    for key in found.marked.entries:
        if key.startswith("fsdp_config."):
            found.use(key)
    strategy = "fsdp_config.fsdp_sharding_strategy"
    after = "fsdp_config.fsdp_reshard_after_forward"
    stated = found.marked.get(strategy)
    again = found.marked.get(after)
    if stated is not None:
        try:
            found.take("shard", one_of(_STRATEGIES)(stated), strategy)
        except ValueError as error:
            raise found.refused(strategy, str(error)) from None
        if str(stated).upper() in _HYBRID:
            recipes.note(found, strategy, _("copies in each node: give --shard-group"))
    elif again is not None and str(again).upper() in _STRATEGIES:
        found.take("shard", _STRATEGIES[str(again).upper()], after)
    elif again is not None:
        found.take("shard", "fsdp" if flag(again) else "zero2", after)
    else:
        found.take("shard", "fsdp", "distributed_type")
    if recipes.on(found, "fsdp_config.fsdp_offload_params"):
        found.take("offload", "optimizer,params", "fsdp_config.fsdp_offload_params")
    if recipes.on(found, "fsdp_config.fsdp_activation_checkpointing"):
        found.take("recompute", "full", "fsdp_config.fsdp_activation_checkpointing")


def _deepspeed(found: Reading) -> None:
    """A few keys of its own, or the name of a DeepSpeed file."""
    section = "deepspeed_config."
    if found.marked.get(f"{section}deepspeed_config_file"):
        recipes.other_file(found, f"{section}deepspeed_config_file")
    stage = f"{section}zero_stage"
    if found.marked.get(stage) is not None:
        found.use(stage)
        if found.marked.get(stage) not in _STAGES:
            text = _("there is no stage {stage}; write 0, 1, 2 or 3")
            raise found.refused(stage, text.format(stage=found.marked.get(stage)))
        found.take("shard", _STAGES[found.marked.get(stage)], stage)
    if found.marked.get(f"{section}gradient_accumulation_steps") == "auto":
        found.leave("accumulation", f"{section}gradient_accumulation_steps")
    else:
        found.map({f"{section}gradient_accumulation_steps": ("accumulation", maybe_whole)})
    parts = []
    for name, part in (
        ("offload_optimizer_device", "optimizer"),
        ("offload_param_device", "params"),
    ):
        key = section + name
        found.use(key)
        if str(found.marked.get(key) or "none").lower() in ("cpu", "nvme"):
            parts.append((part, key))
    if parts:
        found.take("offload", ",".join(part for part, _key in parts), parts[-1][1])


def _megatron(found: Reading) -> None:
    section = "megatron_lm_config.megatron_lm_"
    found.map(
        {
            f"{section}tp_degree": ("tp", whole),
            f"{section}pp_degree": ("pp", whole),
            f"{section}num_micro_batches": ("accumulation", whole),
            f"{section}sequence_parallelism": ("sequence_parallel", flag),
        }
    )
    if recipes.on(found, f"{section}use_distributed_optimizer"):
        found.take("shard", "zero1", f"{section}use_distributed_optimizer")
    recompute = found.marked.get(f"{section}recompute_activations")
    if recompute is not None:
        found.use(f"{section}recompute_activations")
        kind = "selective" if flag(recompute) else "none"
        found.take("recompute", kind, f"{section}recompute_activations")


def _split(value: object) -> int | None:
    """A size above one; one is no split."""
    size = maybe_whole(value)
    return size if size and size > 1 else None


def _parallelism(found: Reading) -> None:
    """Sizes of an n-dimensional layout."""
    section = "parallelism_config.parallelism_config_"
    for key, name in (("tp_size", "tp"), ("cp_size", "cp"), ("sp_size", "cp")):
        found.map({section + key: (name, _split)})
    sizes = (f"{section}dp_shard_size", f"{section}dp_replicate_size")
    found.use(*sizes)
    shards, copies = (maybe_whole(found.marked.get(key) or 0) for key in sizes)
    if shards and shards > 1 and copies and copies > 1:
        found.take("shard_group", shards, sizes[0])
        found.take("dp", shards * copies, sizes[1])
