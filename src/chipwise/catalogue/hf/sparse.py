"""Mixtures of experts with plain attention heads.

Biases, norms and defaults are those of each model's own public class [transformers-models].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from chipwise.catalogue.hf.blocks import Layer, Sizes, attention, model, sizes, windows
from chipwise.catalogue.hf.fields import Fields
from chipwise.spec.model import AttentionSpec, FeedForwardSpec, ModelSpec


def experts(
    f: Fields,
    count: int,
    width: int,
    *,
    top_k: int | None = None,
    shared: int = 0,
    router_bias: bool = False,
    shared_gate: bool = False,
    bias: bool = False,
    dense: int = 0,
    extra: int = 0,
) -> FeedForwardSpec:
    """A gated mixture of experts; ``shared`` and ``dense`` are widths every token uses."""
    if top_k is None:
        top_k = f.size("num_experts_per_tok", "experts_per_token", "num_selected_experts", least=1)
    f.ignore("experts_per_token")
    return FeedForwardSpec(
        hidden=dense,
        num_experts=count,
        top_k=top_k,
        expert_hidden=width,
        shared_expert_hidden=shared,
        router_bias=router_bias,
        shared_expert_gate=shared_gate,
        expert_bias=bias,
        extra_params=extra,
    )


def _heads(s: Sizes, **kwargs: object) -> AttentionSpec:
    return attention(heads=s.heads, kv_heads=s.kv_heads, head_dim=s.head_dim, **kwargs)  # type: ignore[arg-type]


def _finish(
    f: Fields,
    id: str,
    s: Sizes,
    layers: Iterable[Layer],
    *,
    tied: bool = False,
    norm: int | None = None,
    head_bias: bool = False,
    vocab: int | None = None,
) -> ModelSpec:
    return model(
        f,
        id=id,
        hidden=s.hidden,
        layers=layers,
        tied=f.flag("tie_word_embeddings", tied),
        final_norm=s.hidden if norm is None else norm,
        head_bias=head_bias,
        vocab=vocab,
    )


def mixtral(f: Fields, id: str) -> ModelSpec:
    """Mixtral: every layer routes, no shared expert."""
    s = sizes(f)
    block = experts(f, f.size("num_local_experts", least=1), f.size("intermediate_size", least=1))
    window = f.window()
    layers = [Layer(_heads(s, window=window), block, 2 * s.hidden)] * s.layers
    return _finish(f, id, s, layers)


def qwen_moe(f: Fields, id: str) -> ModelSpec:
    """Qwen 2 MoE (shared expert with a gate) and Qwen 3 MoE (query/key norms, none shared)."""
    second = f.family.startswith("qwen2")
    f.expect("use_qk_norm", not second)
    s = sizes(f, **({} if second else {"head_dim": 128}))
    on = f.flag("attention_bias") or f.flag("qkv_bias", second)
    bias = (on, on, on and not second)
    f.ignore(
        "sliding_window",
        "use_sliding_window",
        "max_window_layers",
        "shared_expert_intermediate_size",
    )
    window = f.window(4096) if f.flag("use_sliding_window") else 0
    first = f.size("max_window_layers", default=28)
    shared = f.size("shared_expert_intermediate_size", default=0) if second else 0
    sparse = experts(
        f,
        f.size("num_experts", "num_local_experts", least=1),
        f.size("moe_intermediate_size", least=1),
        shared=shared,
        shared_gate=shared > 0,
    )
    dense = FeedForwardSpec(hidden=f.size("intermediate_size", default=0))
    step = f.size("decoder_sparse_step", default=1, least=1)
    plain = f.indices("mlp_only_layers")
    lengths = windows(f, s.layers, window, lambda index: index >= first)
    layers = [
        Layer(
            _heads(s, bias=bias, window=lengths[i], qk_norm=0 if second else 2 * s.head_dim),
            dense if i in plain or (i + 1) % step else sparse,
            2 * s.hidden,
        )
        for i in range(s.layers)
    ]
    return _finish(f, id, s, layers)


def phimoe(f: Fields, id: str) -> ModelSpec:
    """Phi 3.5 MoE: LayerNorm with shift, biased attention and head."""
    s = sizes(f)
    on = f.flag("attention_bias")
    window = f.window()
    block = experts(f, f.size("num_local_experts", least=1), f.size("intermediate_size", least=1))
    layers = [Layer(_heads(s, bias=(on, on, on), window=window), block, 4 * s.hidden)] * s.layers
    return _finish(f, id, s, layers, norm=2 * s.hidden, head_bias=f.flag("lm_head_bias"))


def gpt_oss(f: Fields, id: str) -> ModelSpec:
    """gpt-oss: biases everywhere, one learned sink for each head, every other layer slides."""
    s = sizes(f, head_dim=64)
    on = f.flag("attention_bias", True)
    window = f.window(128)
    block = experts(
        f,
        f.size("num_local_experts", "num_experts", least=1),
        f.size("intermediate_size", least=1),
        router_bias=True,
        bias=True,
    )
    lengths = windows(f, s.layers, window, lambda index: index % 2 == 0)
    layers = [
        Layer(_heads(s, bias=(on, on, on), window=length, extra=s.heads), block, 2 * s.hidden)
        for length in lengths
    ]
    return _finish(f, id, s, layers)


def glm4_moe(f: Fields, id: str) -> ModelSpec:
    """GLM-4.5 and its relatives: dense first layers, shared expert, correction bias."""
    s = sizes(f)
    on = f.flag("attention_bias")
    qk_norm = 2 * s.head_dim if f.flag("use_qk_norm") else 0
    f.expect("moe_layer_freq", 1)
    f.expect("topk_method", "noaux_tc")
    width = f.size("moe_intermediate_size", least=1)
    sparse = experts(
        f,
        f.size("n_routed_experts", "num_local_experts", least=1),
        width,
        shared=f.size("n_shared_experts", default=1) * width,
        router_bias=True,
    )
    dense = FeedForwardSpec(hidden=f.size("intermediate_size", least=1))
    first = f.size("first_k_dense_replace", default=1)
    block = _heads(s, bias=(on, on, False), qk_norm=qk_norm)
    layers = [Layer(block, dense if i < first else sparse, 2 * s.hidden) for i in range(s.layers)]
    return _finish(f, id, s, layers)


def deepseek_v1(f: Fields, id: str) -> ModelSpec:
    """DeepSeek-MoE 16B: plain attention, dense first layer, shared experts."""
    s = sizes(f)
    on = f.flag("attention_bias")
    width = f.size("moe_intermediate_size", least=1)
    sparse = experts(
        f,
        f.size("n_routed_experts", "num_local_experts", least=1),
        width,
        shared=f.size("n_shared_experts", default=0) * width,
    )
    dense = FeedForwardSpec(hidden=f.size("intermediate_size", least=1))
    first = f.size("first_k_dense_replace", default=0)
    f.expect("moe_layer_freq", 1)
    block = _heads(s, bias=(on, on, on))
    layers = [Layer(block, dense if i < first else sparse, 2 * s.hidden) for i in range(s.layers)]
    return _finish(f, id, s, layers)


def minimax_m2(f: Fields, id: str) -> ModelSpec:
    """MiniMax M2: norms over all query and all key heads, correction bias."""
    s = sizes(f)
    f.expect("qk_norm_type", "per_layer")
    f.expect("shared_intermediate_size", 0)
    f.expect("use_qk_norm", True)
    f.expect("attn_type_list", *[[1] * s.layers])
    f.ignore("attn_window_size")
    block = experts(
        f,
        f.size("num_local_experts", least=1),
        f.size("intermediate_size", least=1),
        router_bias=f.flag("use_routing_bias", True),
    )
    qk_norm = (s.heads + s.kv_heads) * s.head_dim
    return _finish(f, id, s, [Layer(_heads(s, qk_norm=qk_norm), block, 2 * s.hidden)] * s.layers)


def llama4(f: Fields, id: str) -> ModelSpec:
    """Llama 4 text: one shared expert; three of four layers see a chunk of the sequence only."""
    s = sizes(f)
    on = f.flag("attention_bias")
    f.ignore("use_qk_norm", "no_rope_layers", "for_llm_compressor")
    chunk = f.size("attention_chunk_size", default=0)
    width = f.size("intermediate_size", least=1)
    sparse = experts(f, f.size("num_local_experts", least=1), width, shared=width)
    dense = FeedForwardSpec(hidden=f.size("intermediate_size_mlp", least=1))
    step = f.size("interleave_moe_layer_step", default=1, least=1)
    routed = f.indices("moe_layers") or frozenset(range(step - 1, s.layers, step))
    f.ignore("layer_types")
    layers = [
        Layer(
            _heads(s, bias=(on, on, on), window=chunk if (i + 1) % 4 else 0),
            sparse if i in routed else dense,
            2 * s.hidden,
        )
        for i in range(s.layers)
    ]
    return _finish(f, id, s, layers)


def dbrx(f: Fields, id: str) -> ModelSpec:
    """DBRX: norms without shift, settings in nested objects."""
    hidden, heads = f.size("d_model", least=1), f.size("n_heads", least=1)
    inner, ffn = f.nested("attn_config"), f.nested("ffn_config")
    ffn.expect("hidden_size", hidden)
    f.expect("num_key_value_heads", inner.size("kv_n_heads", default=heads, least=1))
    kv_heads = inner.size("kv_n_heads", default=heads, least=1)
    inner.ignore("attn_pdrop")
    ffn.ignore("ffn_act_fn")
    s = Sizes(hidden, f.layers("n_layers"), heads, kv_heads, max(1, hidden // heads))
    block = experts(
        ffn,
        ffn.size("moe_num_experts", least=1),
        ffn.size("ffn_hidden_size", least=1),
        top_k=ffn.size("moe_top_k", least=1),
    )
    inner.finish()
    ffn.finish()
    context = f.size("max_seq_len", default=0)
    spec = _finish(f, id, s, [Layer(_heads(s), block, 2 * hidden)] * s.layers)
    return spec.model_copy(update={"max_context": context})


def olmoe(f: Fields, id: str) -> ModelSpec:
    """OLMoE: norms over all query and all key heads."""
    s = sizes(f)
    on = f.flag("attention_bias")
    block = experts(
        f, f.size("num_experts", "num_local_experts", least=1), f.size("intermediate_size", least=1)
    )
    qk_norm = (s.heads + s.kv_heads) * s.head_dim
    heads = _heads(s, bias=(on, on, on), qk_norm=qk_norm)
    return _finish(f, id, s, [Layer(heads, block, 2 * s.hidden)] * s.layers)


def granitemoe(f: Fields, id: str) -> ModelSpec:
    """Granite 3 MoE: Mixtral's sizes with scaled streams."""
    f.ignore("embedding_multiplier", "logits_scaling", "residual_multiplier")
    f.ignore("attention_multiplier")
    s = sizes(f)
    on = f.flag("attention_bias")
    block = experts(f, f.size("num_local_experts", least=1), f.size("intermediate_size", least=1))
    heads = _heads(s, bias=(on, on, on))
    return _finish(f, id, s, [Layer(heads, block, 2 * s.hidden)] * s.layers)


def grok(f: Fields, id: str) -> ModelSpec:
    """Grok 1: four norms in a layer, tied embeddings."""
    s = sizes(f)
    f.ignore("attn_output_multiplier", "embedding_multiplier_scale", "output_multiplier_scale")
    f.ignore("max_attn_value")
    block = experts(
        f, f.size("num_experts", "num_local_experts", least=1), f.size("intermediate_size", least=1)
    )
    return _finish(f, id, s, [Layer(_heads(s), block, 4 * s.hidden)] * s.layers, tied=True)


READERS: dict[str, Callable[[Fields, str], ModelSpec]] = {
    "mixtral": mixtral,
    "qwen2_moe": qwen_moe,
    "qwen3_moe": qwen_moe,
    "qwen3_vl_moe_text": qwen_moe,
    "phimoe": phimoe,
    "gpt_oss": gpt_oss,
    "glm4_moe": glm4_moe,
    "deepseek": deepseek_v1,
    "minimax_m2": minimax_m2,
    "llama4_text": llama4,
    "dbrx": dbrx,
    "grok-1": grok,
    "olmoe": olmoe,
    "granitemoe": granitemoe,
}
