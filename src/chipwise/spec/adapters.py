"""Exact counts of what a fine-tuning method trains, as peft creates it [peft].

Everything here is a sum over the modules of ``spec.modules`` that the targets name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.job import TrainingWorkload
from chipwise.spec.method import METHODS, Method
from chipwise.spec.model import AttentionSpec, ModelSpec
from chipwise.spec.module_names import names_of
from chipwise.spec.modules import Module, modules
from chipwise.spec.targets import WITH_HEAD, Adapted, adapted

_FFN_INPUT = frozenset({"ffn.down", "shared_expert.down"})


def trained_params(model: ModelSpec, workload: TrainingWorkload) -> int:
    """Parameters that an adapter method adds and trains, parts trained whole included.

    Args:
        model: the architecture.
        workload: a method other than full training; absent ranks and targets are the usual ones.

    Raises:
        UsageError: the model has no such module, or no place for the method.
    """
    saved = workload.tuning.modules_to_save
    return own_params(model, workload) + sum(outer_params(model)[part] for part in saved)


def own_params(model: ModelSpec, workload: TrainingWorkload) -> int:
    """Parameters of the adapters themselves: as stated, else counted.

    Raises:
        UsageError: the model has no such module, or no place for the method.
    """
    return workload.trainable_params or _COUNTS[workload.method](model, workload)


def outer_params(model: ModelSpec) -> Mapping[str, int]:
    """Parameters of the input embeddings and of the head as separate matrices. [1]"""
    head = model.vocab * model.hidden + model.head_bias * model.vocab
    return {"embeddings": model.vocab * model.hidden, "head": head}


def targets_of(model: ModelSpec, workload: TrainingWorkload) -> tuple[Adapted, ...]:
    """The modules of the layers that a workload adapts; of its last layers where it says so.

    Raises:
        UsageError: the model has no such module.
    """
    trait = METHODS[workload.method]
    if workload.method == "ia3" and workload.lora_targets is None:
        found = tuple(map(Adapted, _ia3_modules(model)))
    elif "targets" in trait.takes:
        stated = workload.lora_targets
        found = adapted(model, trait.targets if stated is None else stated)
    else:
        found = ()
    last = workload.tuning.train_last
    return found if last is None else tuple(_in_last(model, found, last))


def last_layers(model: ModelSpec, last: int) -> tuple[int, ...]:
    """How many of the last layers each group of equal layers holds.

    Groups are taken in their order; of kinds that alternate, the later ones count first.
    """
    left, held = last, []
    for group in reversed(model.layers):
        held.append(min(left, group.count))
        left -= held[-1]
    return tuple(reversed(held))


def _in_last(model: ModelSpec, found: tuple[Adapted, ...], last: int) -> Iterator[Adapted]:
    held = last_layers(model, last)
    for one in found:
        module = one.module
        count = module.count * held[module.group] // model.layers[module.group].count
        if count:
            yield Adapted(replace(module, count=count), one.rank_factor)


def _rank(workload: TrainingWorkload) -> int:
    return workload.lora_rank or METHODS[workload.method].rank


def _low_rank(model: ModelSpec, workload: TrainingWorkload) -> int:
    """LoRA: rank · (inputs + outputs) for each adapted matrix."""
    rank = _rank(workload)
    head = rank * (model.hidden + model.vocab) if workload.lora_targets == WITH_HEAD else 0
    return sum(one.low_rank(rank) for one in targets_of(model, workload)) + head


def _dora(model: ModelSpec, workload: TrainingWorkload) -> int:
    """LoRA and a magnitude for each output."""
    head = model.vocab if workload.lora_targets == WITH_HEAD else 0
    return (
        _low_rank(model, workload)
        + head
        + sum(module.count * module.outputs for module in linear_targets(model, workload))
    )


def _adalora(model: ModelSpec, workload: TrainingWorkload) -> int:
    """LoRA, a singular value for each rank, and the rank in use, which peft counts as well."""
    each = _rank(workload) + 1
    modules_adapted = sum(module.count for module in linear_targets(model, workload))
    return _low_rank(model, workload) + each * modules_adapted


def _vera(model: ModelSpec, workload: TrainingWorkload) -> int:
    """Two vectors for each matrix; the low-rank pair itself is random, shared and frozen."""
    rank = _rank(workload)
    return sum(m.count * (rank + m.outputs) for m in linear_targets(model, workload))


def _ia3(model: ModelSpec, workload: TrainingWorkload) -> int:
    """One factor for each output, or for each input of a matrix that ends a feed-forward block."""
    return sum(m.count * ia3_width(m) for m in linear_targets(model, workload))


def ia3_width(module: Module) -> int:
    """Factors that IA3 trains on one module."""
    return module.inputs if _FFN_INPUT & set(module.matrices) else module.outputs


def _ia3_modules(model: ModelSpec) -> Iterator[Module]:
    scaled = frozenset(names_of(model.architecture).ia3) | _FFN_INPUT
    for module in modules(model):
        if scaled & set(module.matrices) and module.kind == "linear":
            yield module


def linear_targets(model: ModelSpec, workload: TrainingWorkload) -> tuple[Module, ...]:
    """The adapted modules of methods that only know linear modules.

    Raises:
        UsageError: stacked expert parameters are among the targets.
    """
    found = tuple(one.module for one in targets_of(model, workload))
    stacked = [module.leaf for module in found if module.kind != "linear"]
    if stacked:
        text = _(
            "method {method} adapts linear modules only, but {model} keeps its experts in stacked "
            "parameters; use --method lora, or leave {names} out of --targets"
        )
        names = ", ".join(f"'{name}'" for name in dict.fromkeys(stacked))
        text = text.format(method=workload.method, model=model.id, names=names)
        raise UsageError("stacked-target", text, method=workload.method, nearest=["lora"])
    return found


def _norms(model: ModelSpec, workload: TrainingWorkload) -> int:
    """The norms of the layers and the final one, without those of queries and keys."""
    held = last_layers(model, workload.tuning.train_last or model.num_layers)
    groups = zip(held, model.layers, strict=True)
    return sum(n * group.norm_params for n, group in groups) + model.final_norm_params


def _prompt(model: ModelSpec, workload: TrainingWorkload) -> int:
    """A vector of the model's width for each virtual token."""
    return virtual_tokens(workload) * model.hidden


def _prefix(model: ModelSpec, workload: TrainingWorkload) -> int:
    """A key and a value in each layer for each virtual token, as wide as the widest cache."""
    width = max(_cache_width(model, group.attention) for group in model.layers)
    return virtual_tokens(workload) * model.num_layers * width


def _cache_width(model: ModelSpec, attention: AttentionSpec | None) -> int:
    if attention is None or attention.kind in ("mla", "linear"):
        text = _(
            "prefix tuning gives every layer keys and values of its own, and some layers of "
            "{model} have none or keep them compressed; use --method prompt or lora"
        )
        raise UsageError("no-prefix", text.format(model=model.id), nearest=["prompt", "lora"])
    kv = attention.kv_heads
    if names_of(model.architecture).cache_heads == "query" and kv > 1:
        kv = attention.heads
    return kv * (attention.head_dim + attention.v_dim)


def virtual_tokens(workload: TrainingWorkload) -> int:
    """Virtual tokens of a workload; 0 for methods without, and where only a count is stated."""
    usual = METHODS[workload.method].virtual_tokens
    if not usual or (workload.trainable_params and workload.tuning.virtual_tokens is None):
        return 0
    return workload.tuning.virtual_tokens or usual


def _bottleneck(model: ModelSpec, workload: TrainingWorkload) -> int:
    """Two bottlenecks in a layer, each 2·m·d weights and m + d biases [houlsby2019]."""
    width = _rank(workload)
    each = 2 * width * model.hidden + width + model.hidden
    return 2 * (workload.tuning.train_last or model.num_layers) * each


_COUNTS: Mapping[Method, Callable[[ModelSpec, TrainingWorkload], int]] = {
    **dict.fromkeys(("lora", "rslora", "qlora"), _low_rank),
    "dora": _dora,
    "adalora": _adalora,
    "vera": _vera,
    "ia3": _ia3,
    "ln-tuning": _norms,
    "prompt": _prompt,
    "prefix": _prefix,
    "adapter": _bottleneck,
}
