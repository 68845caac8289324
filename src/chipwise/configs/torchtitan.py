"""torchtitan's TOML, of all versions that read one [torchtitan-config]."""

from __future__ import annotations

from typing import Any

from chipwise.configs import recipes, words
from chipwise.configs.builders import TORCHTITAN
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading, maybe_whole, whole
from chipwise.i18n import _

TOOL = "torchtitan"
_SCHEDULES = {
    "1F1B": "1f1b",
    "Interleaved1F1B": "interleaved-1f1b",
    "InterleavedZeroBubble": "zero-bubble",
    "ZBVZeroBubble": "zero-bubble",
    "DualPipeV": "dualpipe",
}
_ATTENTION_KINDS = ("_flex_attn", "_flex", "_varlen", "_irope")
"""Endings of flavors that differ in their attention kernel only."""
_INERT = {
    "expert_tensor_parallel_degree": 1,
    "enable_async_tensor_parallel": False,
    "disable_loss_parallel": False,
}
"""Values that change nothing; others are listed as not understood."""
_OLDER = ("training", "experimental")
"""Tables where degrees stood before there was ``[parallelism]``."""


def looks_like(marked: Marked) -> bool:
    """``[model]`` with a flavor, beside ``[training]``."""
    return "model.flavor" in marked and marked.under("training")


def read(marked: Marked) -> Reading:
    """The job of a torchtitan configuration.

    Raises:
        DataFileError: a value that is not understood.
        UsageError: keys that contradict one another.
    """
    found = Reading(marked, TOOL)
    found.map(
        {
            "training.seq_len": ("seq", whole),
            "training.batch_size": ("micro_batch", whole),
            "training.local_batch_size": ("micro_batch", whole),
            "training.global_batch_size": ("global_batch", maybe_whole),
            "optimizer.name": ("optimizer", recipes.optimizer),
        }
    )
    for name, field in (
        ("tensor_parallel_degree", "tp"),
        ("context_parallel_degree", "cp"),
        ("expert_parallel_degree", "ep"),
        ("pipeline_parallel_degree", "pp"),
    ):
        found.map({_key(found, name): (field, maybe_whole)})
    for name, value in _INERT.items():
        if found.marked.get(_key(found, name)) == value:
            found.use(_key(found, name))
    _model(found)
    _precision(found)
    _pipeline(found)
    _sharding(found)
    _recompute(found)
    _compile(found)
    return found


def _key(found: Reading, name: str) -> str:
    """Where a degree stands in this version."""
    places = [f"{table}.{name}" for table in ("parallelism", *_OLDER)]
    return next((key for key in places if key in found.marked), places[0])


def _degree(found: Reading, name: str, default: int) -> int:
    key = _key(found, name)
    found.use(key)
    value = found.marked.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise found.refused(key, _("'{value}' is no whole number").format(value=value))
    return value


def _model(found: Reading) -> None:
    key = "model.flavor"
    found.use("model.name")
    flavor = str(found.marked.get(key))
    bare = flavor
    for ending in _ATTENTION_KINDS:
        bare = bare.removesuffix(ending)
    name = f"{found.marked.get('model.name') or 'llama3'} {bare}"
    if flavor.startswith("debugmodel"):
        recipes.note(found, key, _("a model for tests, in no catalogue; name one with --model"))
        return
    try:
        model: Any = recipes.named(_("model of torchtitan"), TORCHTITAN)(name)
    except ValueError as error:
        raise found.refused(key, str(error)) from None
    found.take("model", model, key)
    recipes.note(found, key, _("{name} is read as {model}").format(name=name, model=model))


def _precision(found: Reading) -> None:
    """Weights are kept in ``dtype`` and cast to ``mixed_precision_param`` where they are used."""
    found.map({"training.mixed_precision_param": ("precision", words.dtype)})
    if str(found.marked.get("training.dtype")) == "bfloat16":
        found.take("precision", "bf16", "training.dtype")
        found.take("master_weights", False, "training.dtype")
        if found.value("optimizer") == "adamw":
            found.take("optimizer", "adamw-bf16", "training.dtype")
    found.use("training.dtype", "model.converters")
    converters = found.marked.get("model.converters") or []
    for word in converters if isinstance(converters, list) else [converters]:
        kind = {"float8": "fp8", "mx": "mxfp8"}.get(str(word).rpartition(".")[2])
        if kind is None:
            text = _("'{word}' is not known; it can be float8, mx").format(word=word)
            raise found.refused("model.converters", text)
        found.take("precision", kind, "model.converters")
    for key in ("float8.enable_float8_linear", "training.enable_float8_linear"):
        if recipes.on(found, key):
            found.take("precision", "fp8", key)


def _pipeline(found: Reading) -> None:
    """With a pipeline the local batch of one rank is cut up."""
    schedule, size = (
        _key(found, f"pipeline_parallel_{name}") for name in ("schedule", "microbatch_size")
    )
    count = _key(found, "pipeline_parallel_microbatches")
    found.use(schedule, size, count)
    if (found.value("pp") or 1) == 1:
        return
    kinds = recipes.named(_("schedule that is computed"), _SCHEDULES)
    found.map({schedule: ("pp_schedule", kinds)})
    if found.value("pp_schedule") not in (None, "1f1b"):
        found.take("vpp", 2, schedule)
    local = found.value("micro_batch") or 8
    pieces, key = _pieces(found, local, size, count)
    if pieces < 1 or local % pieces:
        text = _("{local} sequences cannot be cut into {n} equal pieces")
        raise found.refused(key, text.format(local=local, n=pieces))
    found.take("micro_batch", local // pieces, key)
    if found.value("global_batch") is None:
        found.take("accumulation", pieces, key)


def _pieces(found: Reading, local: int, size: str, count: str) -> tuple[int, str]:
    """How many, and the key that says so.

    One sequence each unless a size is given; versions with ``[experimental]`` degrees cut into as
    many pieces as there are stages.
    """
    degree = _key(found, "pipeline_parallel_degree")
    if found.marked.get(count):
        return _degree(found, "pipeline_parallel_microbatches", 1), count
    if found.marked.get(size):
        piece = _degree(found, "pipeline_parallel_microbatch_size", 1)
        return (local // piece if piece > 0 and local % piece == 0 else 0), size
    older = degree.startswith("experimental.")
    return (_degree(found, "pipeline_parallel_degree", 1) if older else local), degree


def _sharding(found: Reading) -> None:
    """Copies × shards, −1 being all devices that are left."""
    shards = _degree(found, "data_parallel_shard_degree", -1)
    copies = _degree(found, "data_parallel_replicate_degree", 1)
    key = _key(found, "data_parallel_shard_degree")
    older = "training.data_parallel_degree"
    if older in found.marked:
        shards, key = _degree(found, "data_parallel_degree", -1), older
    after = _key(found, "fsdp_reshard_after_forward")
    found.use(after)
    policy = str(found.marked.get(after) or "default")
    stays = policy == "never" or (policy == "default" and (found.value("pp") or 1) > 1)
    found.take("shard", "none" if shards == 1 else "zero2" if stays else "fsdp", key)
    if shards > 0:
        found.take("dp", shards * copies, key)
    if copies > 1 and shards > 1:
        found.take("shard_group", shards * (found.value("cp") or 1), key)
    if recipes.on(found, "training.enable_cpu_offload"):
        found.take("offload", "optimizer,params", "training.enable_cpu_offload")


def _recompute(found: Reading) -> None:
    """``selective`` either repeats every N-th layer or keeps the costly operations."""
    key, option = "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"
    found.use(key, option)
    mode = found.marked.get(key) or "selective"
    if mode == "memory_budget":
        recipes.note(found, key, _("what is kept is chosen by the compiler, and left open here"))
        return
    if mode not in ("none", "selective", "full"):
        text = _("'{mode}' is not known; it can be none, selective, full").format(mode=mode)
        raise found.refused(key, text)
    every = str(found.marked.get(option) or "2")
    if mode != "selective" or every == "op":
        found.take("recompute", mode, key)
        return
    if not every.isdecimal() or int(every) < 1:
        text = _("'{every}' is neither op nor a number of layers").format(every=every)
        raise found.refused(option, text)
    found.take("recompute", "full", key)
    found.take("recompute_every", int(every), option if option in found.marked else key)


def _compile(found: Reading) -> None:
    found.use("compile.components")
    parts = found.marked.get("compile.components")
    for key in ("training.compile", "compile.enable"):
        if key in found.marked:
            whole_model = parts is None or "model" in str(parts)
            found.take("compile", recipes.on(found, key) and whole_model, key)
    if recipes.on(found, "optimizer.early_step_in_backward"):
        recipes.frees_gradients(found, "optimizer.early_step_in_backward")
