"""DeepSeek V4: one shared key/value head, compressed caches, low-rank output, several streams.

Layers without compression slide over a short window. The others see the whole sequence through
compressed entries; they are described as full attention, so that their cache is an upper bound.
Layout as in the public class [transformers-models].
"""

from __future__ import annotations

from collections.abc import Callable

from chipwise.catalogue.hf.blocks import Layer, model, projection
from chipwise.catalogue.hf.fields import Fields
from chipwise.catalogue.hf.sparse import experts
from chipwise.spec.model import AttentionSpec, ModelSpec, Projection

_RATIOS = {
    "sliding_attention": 0,
    "compressed_sparse_attention": 4,
    "heavily_compressed_attention": 128,
}
"""Tokens that one cache entry stands for, by kind of layer; 0: no compression."""


def deepseek_v4(f: Fields, id: str) -> ModelSpec:
    """DeepSeek V4 Flash and Pro; hash routing in the first layers has no correction bias."""
    hidden, num_layers = f.size("hidden_size", least=1), f.layers("num_hidden_layers")
    f.expect("num_key_value_heads", 1)
    f.expect("attention_bias", False)
    f.expect("mlp_bias", False)
    f.ignore("index_topk", "hc_sinkhorn_iters", "compress_rope_theta", "topk_method")
    f.expect("compress_rates", {name: ratio for name, ratio in _RATIOS.items() if ratio})
    ratios = f.per_layer("compress_ratios", num_layers) or [
        _RATIOS.get(str(kind)) for kind in f.per_layer("layer_types", num_layers)
    ]
    f.ignore("layer_types")
    if not ratios:
        raise f.missing("compress_ratios")
    blocks = {ratio: _attention(f, hidden, ratio) for ratio in (0, 4, 128)}
    width = f.size("moe_intermediate_size", least=1)
    count, shared = f.size("n_routed_experts", least=1), f.size("n_shared_experts", default=1)
    hashed = f.size("num_hash_layers", default=0)
    kinds = f.per_layer("mlp_layer_types", num_layers) or [
        "hash_moe" if index < hashed else "moe" for index in range(num_layers)
    ]
    routed = {
        bias: experts(f, count, width, shared=shared * width, router_bias=bias)
        for bias in (False, True)
    }
    streams = f.size("hc_mult", default=4, least=1)
    mixing = (2 + streams) * streams * (streams * hidden + 1) + 3
    layers = []
    for kind, ratio in zip(kinds, ratios, strict=True):
        if ratio not in (0, 4, 128):
            raise f.not_one_of("compress_ratios", ratio, (0, 4, 128))
        layers.append(
            Layer(blocks[ratio], routed[kind != "hash_moe"], 2 * hidden, extra_params=2 * mixing)
        )
    return model(
        f,
        id=id,
        hidden=hidden,
        layers=layers,
        tied=f.flag("tie_word_embeddings"),
        final_norm=hidden,
        extra=streams * (streams * hidden + 1) + 1,
    )


def _attention(f: Fields, hidden: int, ratio: int) -> AttentionSpec:
    heads, width = f.size("num_attention_heads", least=1), f.size("head_dim", least=1)
    rank, groups = f.size("q_lora_rank", least=1), f.size("o_groups", least=1)
    f.ignore("qk_rope_head_dim")
    window = f.size("sliding_window", least=1)
    modules, small = _compressor(f, hidden, width, rank, ratio)
    return AttentionSpec(
        kind="gqa",
        heads=heads,
        kv_heads=1,
        head_dim=width,
        window=0 if ratio else window,
        qk_norm_params=rank + width,
        q_lora_rank=rank,
        shared_kv=True,
        o_lora_rank=f.size("o_lora_rank", least=1),
        o_groups=groups,
        projections=modules,
        extra_params=heads + small,
    )


def _compressor(
    f: Fields, hidden: int, width: int, q_rank: int, ratio: int
) -> tuple[tuple[Projection, ...], int]:
    """Modules of the compressor and, where entries are also selected, of the indexer; the rest."""
    heads, index_width = f.size("index_n_heads", least=1), f.size("index_head_dim", least=1)
    own, index = "self_attn.compressor", "self_attn.compressor.indexer"
    if ratio == 0:
        return (), 0
    if ratio == 128:
        return _pair(own, width, hidden), ratio * width + width
    return (
        *_pair(own, 2 * width, hidden),
        *_pair(index, 2 * index_width, hidden),
        projection(f"{index}.q_b_proj", heads * index_width, q_rank),
        projection(f"{index}.weights_proj", heads, hidden),
    ), 2 * ratio * width + width + 2 * ratio * index_width + index_width


def _pair(path: str, outputs: int, inputs: int) -> tuple[Projection, Projection]:
    gate = projection(f"{path}.gate_proj", outputs, inputs)
    return projection(f"{path}.kv_proj", outputs, inputs), gate


READERS: dict[str, Callable[[Fields, str], ModelSpec]] = {"deepseek_v4": deepseek_v4}
