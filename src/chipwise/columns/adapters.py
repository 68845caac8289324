"""Fine-tuning as columns: what is trained, what is kept for that, what is temporary."""

from __future__ import annotations

from chipwise.catalogue.optimizers import SMALLEST_PAGED, USUAL_RANK, OptimizerFacts, optimizers
from chipwise.columns.model import Scalars
from chipwise.spec.adapters import (
    linear_targets,
    outer_params,
    own_params,
    targets_of,
    trained_params,
    virtual_tokens,
)
from chipwise.spec.job import Strategy, TrainingWorkload
from chipwise.spec.method import METHODS, adapts
from chipwise.spec.model import ModelSpec
from chipwise.spec.modules import modules
from chipwise.spec.targets import Adapted
from chipwise.spec.tensors import params_total
from chipwise.spec.trained import trained_shares

_INPUT_OVERHEAD = 0.03
"""Work of small adapters beside the product with the base weights, in passes."""
_FP32 = 4.0
"""peft keeps adapter weights in fp32 beside a 16-bit base, and so gradients and states [peft]."""
_DORA_COPIES = 4
"""fp32 copies of a matrix that peft's DoRA makes for the norm of its columns: the low-rank
product, the base weight, the scaled product and their sum [peft]."""
_UNKNOWN_SHARE = 0.25
"""Share of linear inputs that adapters keep of which only their number is known. Assumed."""
_QKV, _OUT = ("query", "key", "value"), ("output",)
_KEPT = {
    (True, False, False): 0.5,
    (True, True, False): 0.75,
    (False, True, False): 0.25,
    (False, False, True): 0.75,
    (False, True, True): 0.9,
    (True, False, True): 0.9,
    (True, True, True): 1.0,
}
"""Share of linear inputs that low-rank adapters keep for their own gradients, by whether they sit
on inputs of attention, on its output, and on the feed-forward block."""
_LOW_RANK = ("lora", "rslora", "dora", "qlora", "adalora")


def tuning_columns(
    workload: TrainingWorkload, model: ModelSpec, strategy: Strategy, compute: float
) -> Scalars:
    """What is trained and what training it keeps.

    Args:
        workload: a complete workload.
        model: the architecture.
        strategy: whose optimizer decides about states.
        compute: bytes per value in the compute dtype.

    Raises:
        UsageError: the model has no module that the targets name.
    """
    adapters = adapts(workload.method)
    shares = trained_shares(model, workload)
    adapter = float(trained_params(model, workload)) if adapters else 0.0
    part = adapter / params_total(model)
    virtual = float(virtual_tokens(workload))
    facts = optimizers()[strategy.optimizer or "adamw"]
    return {
        "base_trained": float(not adapters),
        "trained_dense_share": shares.dense,
        "trained_expert_share": shares.experts,
        "trained_outer_share": shares.outer,
        "trained_share": min(1.0, part) if adapters else shares.total,
        "reached_share": shares.reached,
        "backward_passes": shares.reached * (1 + _INPUT_OVERHEAD) + part
        if adapters
        else shares.reached + shares.layers,
        "linear_inputs_saved": _inputs_saved(workload, model),
        "adapter_params": adapter,
        "adapter_saved_width": _saved_width(workload, model),
        "adapter_temporary_bytes": _temporary(workload, model),
        "prompt_tokens": virtual if workload.method == "prompt" else 0.0,
        "prefix_tokens": virtual if workload.method == "prefix" else 0.0,
    } | _state_columns(workload, model, facts, compute)


def _inputs_saved(workload: TrainingWorkload, model: ModelSpec) -> float:
    """Share of linear inputs kept, of the layers that gradients reach."""
    if not adapts(workload.method):
        shares = trained_shares(model, workload)
        return shares.layers / shares.reached
    if workload.method in _LOW_RANK:
        return _KEPT.get(_roles(targets_of(model, workload)), 0.0)
    return _UNKNOWN_SHARE if _unknown(workload) else 0.0


def _unknown(workload: TrainingWorkload) -> bool:
    """Whether an adapter is known by its parameter count alone, not by what it adapts."""
    detailed = workload.lora_targets is not None or workload.tuning.virtual_tokens is not None
    return bool(workload.trainable_params) and workload.method not in _LOW_RANK and not detailed


def trains_norms(workload: TrainingWorkload) -> bool:
    """Whether norms of the layers have gradients, and so keep their normalised output."""
    return not adapts(workload.method) or (
        workload.method == "ln-tuning" and not _unknown(workload)
    )


def _roles(found: tuple[Adapted, ...]) -> tuple[bool, bool, bool]:
    """Whether inputs of attention, its output and the feed-forward block are adapted."""
    attention = [one.module for one in found if one.module.part == "attention"]
    output = any(m.outputs and _is_output(m.matrices) for m in attention)
    inputs = any(not _is_output(m.matrices) for m in attention)
    return inputs, output, any(one.module.part != "attention" for one in found)


def _is_output(matrices: tuple[str, ...]) -> bool:
    return any("output" in name or name.endswith("out_proj") for name in matrices)


def _saved_width(workload: TrainingWorkload, model: ModelSpec) -> float:
    """Values per token that all adapters keep beside what the layers keep anyway. [1]

    Notes:
        DoRA: the outputs of base and low-rank product, for the gradient of the magnitudes. IA3 and
        VeRA: one value for each of their factors, which it multiplies. Bottlenecks: their input,
        and their width before and after the activation function.
    """
    method = workload.method
    if _unknown(workload):
        return 0.0
    if method == "dora":
        return float(sum(2 * m.count * m.outputs for m in linear_targets(model, workload)))
    if method in ("ia3", "vera"):
        return float(own_params(model, workload))
    if method == "adapter":
        width = workload.lora_rank or METHODS[method].rank
        layers = workload.tuning.train_last or model.num_layers
        return float(2 * layers * (model.hidden + 2 * width))
    return 0.0


def _temporary(workload: TrainingWorkload, model: ModelSpec) -> float:
    """DoRA's largest copies for a column norm, the identity it multiplies included. [B]"""
    if workload.method != "dora":
        return 0.0
    sizes = (
        m.inputs * m.inputs + _DORA_COPIES * m.inputs * m.outputs
        for m in linear_targets(model, workload)
    )
    return _FP32 * max(sizes, default=0)


def _state_columns(
    workload: TrainingWorkload, model: ModelSpec, facts: OptimizerFacts, compute: float
) -> Scalars:
    """States of adapters, paging, and the low rank of projected states."""
    share, projection = _projected(workload, model, facts, compute)
    paged = facts.state_bytes * _paged_share(workload, model) if facts.paged else 0.0
    return {
        "adapter_state_bytes": 2 * _FP32 + facts.state_bytes,
        "adapter_paged_bytes": paged,
        "optimizer_paged": float(facts.paged),
        "optimizer_state_share": share,
        "projection_bytes": projection,
    }


def _paged_share(workload: TrainingWorkload, model: ModelSpec) -> float:
    """Share of the adapter parameters in tensors large enough to be paged."""
    saved = workload.tuning.modules_to_save if adapts(workload.method) else ()
    large = float(sum(outer_params(model)[part] for part in saved))
    if not adapts(workload.method):
        return 0.0
    if workload.method in _LOW_RANK:
        rank = workload.lora_rank or METHODS[workload.method].rank
        for one in targets_of(model, workload):
            module, each = one.module, rank * one.rank_factor * one.module.experts
            sides = (each * module.inputs, each * module.outputs)
            large += module.count * sum(side for side in sides if side >= SMALLEST_PAGED)
    return min(1.0, large / max(1, trained_params(model, workload)))


def _projected(
    workload: TrainingWorkload, model: ModelSpec, facts: OptimizerFacts, compute: float
) -> tuple[float, float]:
    """States kept over those of full gradients, and bytes of projections per trained parameter.

    Notes:
        A linear module of m × n, m ≤ n, keeps states for r·n values and a projection of m·r
        [galore2024]; embeddings, norms, head and experts keep full ones.
    """
    if not facts.projected:
        return 1.0, 0.0
    total = params_total(model)
    rank, saved, projections = workload.tuning.optimizer_rank or USUAL_RANK, 0, 0
    for module in modules(model):
        small, large = sorted((module.inputs, module.outputs))
        if module.kind == "linear" and rank < small:
            saved += module.count * large * (small - rank)
            projections += module.count * small * rank
    return 1 - saved / total, compute * projections / total
