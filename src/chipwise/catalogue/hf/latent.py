"""Models with multi-head latent attention: DeepSeek V2 and V3, Kimi, GLM-5.

Queries and keys/values pass through low-rank latents [deepseek-v2]; V3.2 and GLM-5 add a small
indexer that chooses which tokens to attend to [deepseek-v3.2].
"""

from __future__ import annotations

from collections.abc import Callable

from chipwise.catalogue.hf.blocks import Layer, model, projection
from chipwise.catalogue.hf.fields import Fields
from chipwise.catalogue.hf.sparse import experts
from chipwise.spec.model import AttentionSpec, FeedForwardSpec, ModelSpec, Projection


def deepseek(f: Fields, id: str) -> ModelSpec:
    """DeepSeek V2/V3/V3.2/R1, Kimi K2 and GLM-5; prediction layers are left out."""
    hidden, num_layers = f.size("hidden_size", least=1), f.layers("num_hidden_layers")
    own = _latent_attention(f, hidden)
    indexers = f.per_layer("indexer_types", num_layers)
    without = {"projections": (), "extra_params": 0}
    blocks = [
        own.model_copy(update=without) if kind == "shared" else own
        for kind in indexers or ["full"] * num_layers
    ]
    sparse = _mixture(f)
    dense = FeedForwardSpec(hidden=f.size("intermediate_size", least=1), bias=f.flag("mlp_bias"))
    first = f.size("first_k_dense_replace", default=_FIRST_DENSE.get(f.family, 3))
    every = f.size("moe_layer_freq", default=1, least=1)
    kinds = f.per_layer("mlp_layer_types", num_layers)
    layers = [
        Layer(blocks[index], sparse if _routed(index, first, every, kinds) else dense, 2 * hidden)
        for index in range(num_layers)
    ]
    return model(
        f,
        id=id,
        hidden=hidden,
        layers=layers,
        tied=f.flag("tie_word_embeddings"),
        final_norm=hidden,
    )


def _routed(index: int, first: int, every: int, kinds: list[object]) -> bool:
    return kinds[index] == "sparse" if kinds else index >= first and index % every == 0


def _latent_attention(f: Fields, hidden: int) -> AttentionSpec:
    heads = f.size("num_attention_heads", least=1)
    q_rank, kv_rank = f.rank("q_lora_rank"), f.size("kv_lora_rank", least=1)
    nope, rope = f.size("qk_nope_head_dim", least=1), f.size("qk_rope_head_dim")
    value = f.size("v_head_dim", least=1)
    on = f.flag("attention_bias")
    f.ignore("num_key_value_heads", "head_dim", "qk_head_dim")
    indexer = _indexer(f, hidden, q_rank)
    return AttentionSpec(
        kind="mla",
        heads=heads,
        kv_heads=heads,
        head_dim=nope,
        value_head_dim=value,
        q_bias=on and q_rank > 0,
        kv_bias=on,
        output_bias=on,
        qk_norm_params=q_rank + kv_rank,
        q_lora_rank=q_rank,
        kv_lora_rank=kv_rank,
        qk_rope_dim=rope,
        projections=indexer,
        extra_params=2 * indexer[1].outputs if indexer else 0,
    )


def _indexer(f: Fields, hidden: int, q_rank: int) -> tuple[Projection, ...]:
    """The sparse-attention indexer: queries, one key (which has a norm), head weights."""
    f.ignore("index_topk", "index_topk_freq", "index_topk_pattern", "indexer_rope_interleave")
    f.ignore("index_share_for_mtp_iteration", "index_skip_topk_offset")
    f.ignore("layer_types", "num_experts")
    heads, width = f.size("index_n_heads", default=0), f.size("index_head_dim", default=0)
    if not heads:
        return ()
    return (
        projection("self_attn.indexer.wq_b", heads * width, q_rank),
        projection("self_attn.indexer.wk", width, hidden),
        projection("self_attn.indexer.weights_proj", heads, hidden),
    )


def _mixture(f: Fields) -> FeedForwardSpec:
    width = f.size("moe_intermediate_size", default=0)
    method = f.text("topk_method", "" if f.family == "deepseek_v2" else "noaux_tc")
    count = f.size("n_routed_experts", "num_local_experts", default=0)
    if not count:
        return FeedForwardSpec(hidden=f.size("intermediate_size", least=1))
    return experts(
        f,
        count,
        width,
        shared=f.size("n_shared_experts", default=0) * width,
        router_bias=method == "noaux_tc",
    )


_FIRST_DENSE = {"deepseek_v2": 0, "glm4_moe_lite": 1}
"""Leading dense layers where the configuration does not say; 3 in all other classes."""

READERS: dict[str, Callable[[Fields, str], ModelSpec]] = {
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "deepseek_v32": deepseek,
    "kimi_k2": deepseek,
    "glm_moe_dsa": deepseek,
    "glm4_moe_lite": deepseek,
}
