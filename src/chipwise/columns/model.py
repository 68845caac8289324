"""A model as columns: parameters by part, widths summed over its layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from chipwise.spec.model import FeedForwardSpec, LayerGroup, ModelSpec
from chipwise.spec.tensors import params_by_part

Scalars = dict[str, float]


@lru_cache(maxsize=4096)
def model_columns(model: ModelSpec, gated_saved: int = 2) -> Scalars:
    """Sizes of a model: parameters by part, widths summed over layers.

    Args:
        model: the architecture.
        gated_saved: widths a gated block keeps for its activation function (2 when fused).
    """
    parts = params_by_part(model)
    groups = model.layers
    layers = model.num_layers
    moe = [
        (g.count, g.feed_forward) for g in groups if g.feed_forward and g.feed_forward.num_experts
    ]
    moe_layers = sum(count for count, _ in moe)
    block = moe[0][1] if moe else None
    return (
        {
            "layers": float(layers),
            "hidden": float(model.hidden),
            "vocab": float(model.vocab),
            "attention_params": float(parts["attention"]),
            "dense_ffn_params": float(parts["dense_ffn"] + parts["shared_expert"]),
            "expert_params": float(parts["expert"]),
            "router_params": float(parts["router"]),
            "norm_params": float(parts["norm"]),
            "embedding_params": float(parts["embedding"] + parts["position"]),
            "head_params": float(parts["head"]),
            "other_params": float(parts["other"]),
            "tied_embeddings": float(model.tied_embeddings),
            "num_experts": float(block.num_experts if block else 0),
            "top_k": float(block.top_k if block else 0),
            "active_expert_share": block.top_k / block.num_experts if block else 0.0,
            "has_experts": float(bool(moe)),
            "moe_layer_share": moe_layers / layers,
            "leading_dense_layers": float(_leading_dense(groups)) if moe else 0.0,
            "routed_width": float(sum(n * f.top_k * model.hidden for n, f in moe)),
            "expert_width": float(block.expert_hidden if block else 1),
            "expert_saved_width": float(
                sum(n * f.top_k * f.expert_hidden * (_saved(f, gated_saved) + 1) for n, f in moe)
            ),
        }
        | _attention_columns(model)
        | _ffn_columns(model, gated_saved)
    )


def _leading_dense(groups: Sequence[LayerGroup]) -> int:
    """Layers before the first one with routed experts."""
    count = 0
    for group in groups:
        if group.feed_forward and group.feed_forward.num_experts:
            break
        count += group.count
    return count


def _saved(block: FeedForwardSpec, gated_saved: int) -> int:
    return gated_saved if block.gated else 1


def _attention_columns(model: ModelSpec) -> Scalars:
    total = dict.fromkeys(
        ("full", "window", "heads", "query", "kv", "saved", "output", "window_len"), 0.0
    )
    for group in model.layers:
        spec = group.attention
        if spec is None:
            continue
        rope = spec.qk_rope_dim
        qk, v = spec.head_dim + rope, spec.v_dim
        latent = spec.q_lora_rank + spec.kv_lora_rank + rope if spec.kind == "mla" else 0
        kv_width = spec.kv_heads * (qk + v)
        total["query"] += group.count * spec.heads * qk
        total["kv"] += group.count * (latent if spec.kind == "mla" else kv_width)
        total["saved"] += group.count * (spec.heads * qk + kv_width + latent)
        total["output"] += group.count * spec.heads * v
        if spec.kind == "linear":
            continue
        score_width = group.count * spec.heads * (qk + v)
        total["window" if spec.window else "full"] += score_width
        total["window_len"] = max(total["window_len"], float(spec.window))
        total["heads"] += group.count * spec.heads
    causal = all(group.causal for group in model.layers)
    return {
        "attention_full_width": total["full"],
        "attention_window_width": total["window"],
        "window": total["window_len"],
        "causal_share": 0.5 if causal else 1.0,
        "misaligned_heads": float(
            any(g.attention.head_dim % 8 for g in model.layers if g.attention is not None)
        ),
        "score_heads": total["heads"],
        "query_width": max(1.0, total["query"] / model.num_layers),
        "key_value_width": total["kv"],
        "attention_saved_width": total["saved"],
        "attention_output_width": total["output"],
    }


def dense_width(group: LayerGroup) -> int:
    """Width of the dense and shared feed-forward blocks of one layer."""
    block = group.feed_forward
    return block.hidden + block.shared_expert_hidden if block else 0


def _ffn_columns(model: ModelSpec, gated_saved: int) -> Scalars:
    blocks = [(g.count, dense_width(g), g.feed_forward) for g in model.layers if g.feed_forward]
    width = sum(n * w for n, w, _ in blocks)
    routed = max((f.top_k * f.expert_hidden for _, _, f in blocks), default=0)
    matrices = [w * model.hidden for _, w, _ in blocks]
    matrices += [f.expert_hidden * model.hidden for _, _, f in blocks]
    matrices += [
        g.attention.heads * g.attention.head_dim * model.hidden for g in model.layers if g.attention
    ]
    return {
        "ffn_saved_width": float(sum(n * w * _saved(f, gated_saved) for n, w, f in blocks)),
        "ffn_output_width": float(width),
        "ffn_width": max(1.0, width / model.num_layers),
        "widest_ffn": float(max(max((w for _, w, _ in blocks), default=0), routed)),
        "largest_matrix_params": float(max(matrices, default=0)),
    }
