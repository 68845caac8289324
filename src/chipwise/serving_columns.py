"""Specs to columns for serving: a model, a cluster and how an engine is set up, as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chipwise.catalogue.engines import Engine
from chipwise.catalogue.weight_formats import WeightFormat
from chipwise.quantity import Array
from chipwise.spec.hardware import Cluster
from chipwise.spec.model import AttentionSpec, LayerGroup, ModelSpec
from chipwise.spec.tensors import tensors

Scalars = dict[str, float]
KV_BYTES = {
    **{"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0},
    **{"int8": 34 / 32, "int4": 18 / 32},
}
"""Bytes per key or value kept; int8 and int4 with their block scales, as GGUF's q8_0 and q4_0."""
_STATE_VALUE_BYTES = 4.0
"""Recurrent states are kept in fp32."""
_KEY_VALUE = ("key", "value", "key.bias", "value.bias")
_LATENT = ("key_value_down", "key_value_down.bias", "query_down", "query.bias", "extra")


@dataclass(frozen=True)
class ServingSetup:
    """One way to serve one copy of a model on some devices of a cluster; nothing left unsaid."""

    model: ModelSpec
    cluster: Cluster
    engine: Engine
    weights: WeightFormat
    kv_dtype: str
    tp: int
    pp: int
    context: int
    concurrency: int
    batched_tokens: int
    sequences: int
    utilization: float
    headroom: float = 0.0
    compute_bytes: float = 2.0
    expert_shards: int = 0
    """Devices that share the routed experts; 0 for the tensor-parallel group."""


def serving_columns(setup: ServingSetup) -> Scalars:
    """All input columns of the serving memory model.

    Args:
        setup: complete; ``tp`` × ``pp`` devices hold one copy of the model.
    """
    engine, device = setup.engine, setup.cluster.accelerator
    shares = engine.pool_share < 1
    return (
        serving_model_columns(setup.model)
        | weight_columns(setup.weights)
        | {
            "visible_bytes": device.visible_bytes or device.memory_bytes,
            "free_share": 1.0 - setup.headroom,
            "tp": float(setup.tp),
            "pp": float(setup.pp),
            "expert_shards": float(setup.expert_shards or setup.tp),
            "utilization": engine.utilization if shares else setup.utilization,
            "pool_share": setup.utilization if shares else engine.pool_share,
            "plans_activations": float(engine.plans_activations),
            "plans_graphs": float(engine.plans_graphs),
            "allocates_pool": float(engine.pool),
            "table_on_device": float(engine.table_on_device),
            "context_bytes": engine.runtime,
            "channel_bytes": engine.channel,
            "graph_layer_bytes": engine.graph_layer if device.kind == "gpu" else 0.0,
            "logit_bytes": float(engine.logit_bytes),
            "kv_value_bytes": KV_BYTES[setup.kv_dtype],
            "compute_bytes": setup.compute_bytes,
            "score_bytes": 0.0,
            "prefill_scores": 0.0,
            "context": float(setup.context),
            "concurrency": float(setup.concurrency),
            "batched_tokens": float(setup.batched_tokens),
            "logit_rows": float(min(setup.sequences, setup.batched_tokens)),
        }
    )


def weight_columns(stored: WeightFormat) -> Scalars:
    """Bytes per weight of each kind of matrix."""
    return {
        "attention_bytes": stored.attention_bits / 8,
        "block_bytes": stored.layers / 8,
        "table_bytes": stored.table / 8,
        "head_bytes": stored.head / 8,
        "small_bytes": stored.small / 8,
    }


def serving_model_columns(model: ModelSpec) -> Scalars:
    """Sizes of a model as serving needs them: parameters by how they are divided, KV widths."""
    return _params(model) | _kv_widths(model) | _working_widths(model) | {
        "layers": float(model.num_layers),
        "hidden": float(model.hidden),
        "vocab": float(model.vocab),
        "table_params": float(model.vocab * model.hidden),
        "tied_embeddings": float(model.tied_embeddings),
    }  # fmt: skip


def _params(model: ModelSpec) -> Scalars:
    sums = dict.fromkeys(("split", "kv", "whole", "block", "small", "table"), 0.0)
    experts = 0.0
    for tensor in tensors(model):
        sums[_division(tensor.name, tensor.part)] += tensor.params
        experts += tensor.params if tensor.part == "expert" else 0.0
    return {
        "attention_split_params": sums["split"],
        "attention_kv_params": sums["kv"],
        "attention_whole_params": sums["whole"],
        "block_params": sums["block"],
        "expert_params": experts,
        "small_params": sums["small"],
    }


def _division(name: str, part: str) -> str:
    """How tensor parallelism divides a tensor; the vocabulary tables are counted apart."""
    if name in ("embedding", "head"):
        return "table"
    last = name.partition("attention.")[2]
    if part == "attention":
        return "kv" if last in _KEY_VALUE else "whole" if last in _LATENT else "split"
    return "block" if part in ("dense_ffn", "shared_expert", "expert") else "small"


def kv_width(spec: AttentionSpec) -> int:
    """Values one layer keeps for one token.

    Latent attention keeps its compressed vector and the rotary part. One key head that serves as
    value too is kept once. Linear attention keeps none: its state does not grow.
    """
    if spec.kind == "linear":
        return 0
    if spec.kind == "mla":
        return spec.kv_lora_rank + spec.qk_rope_dim
    if spec.shared_kv and spec.kv_heads == 1:
        return spec.head_dim
    return spec.kv_heads * (spec.head_dim + spec.v_dim)


def _growing(model: ModelSpec) -> Iterator[tuple[LayerGroup, AttentionSpec]]:
    for group in model.layers:
        for spec in (group.attention, group.cross_attention):
            if spec is not None:
                yield group, spec


def _kv_widths(model: ModelSpec) -> Scalars:
    full = window = state = 0.0
    longest, heads = 0, []
    for group, spec in _growing(model):
        if spec.kind == "linear":
            state += group.count * spec.heads * spec.head_dim * spec.v_dim * _STATE_VALUE_BYTES
            continue
        heads.append(1 if spec.kind == "mla" else spec.kv_heads)
        width = group.count * kv_width(spec)
        if spec.window:
            window, longest = window + width, max(longest, spec.window)
        else:
            full += width
    return {
        "kv_full_width": full,
        "kv_window_width": window,
        "window": float(longest),
        "sequence_state_bytes": state,
        "kv_heads": float(min(heads, default=1)),
    }


def _working_widths(model: ModelSpec) -> Scalars:
    dense = attention = routed = 0
    expert = top_k = 0
    for group in model.layers:
        if spec := group.attention:
            query = spec.heads * (spec.head_dim + spec.qk_rope_dim)
            attention = max(attention, query + spec.kv_heads * (spec.head_dim + spec.v_dim)
                            + spec.heads * spec.v_dim)  # fmt: skip
        if block := group.feed_forward:
            copies = 3 if block.gated else 2
            dense = max(dense, copies * max(block.hidden, block.shared_expert_hidden))
            if block.top_k * block.expert_hidden > routed:
                routed = block.top_k * block.expert_hidden
                top_k, expert = block.top_k, block.expert_hidden
    return {
        "ffn_activation_width": float(dense),
        "attention_activation_width": float(attention),
        "top_k": float(top_k),
        "expert_width": float(expert),
    }


def stack_setups(setups: Sequence[ServingSetup]) -> dict[str, Array]:
    """Several setups as arrays. Each column has shape (setups,)."""
    rows = [serving_columns(setup) for setup in setups]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
