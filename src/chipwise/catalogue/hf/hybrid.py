"""Stacks that mix attention with recurrent layers, or heads of several sizes.

Recurrent layers become ``linear`` attention: their exact weights in ``extra_params`` and the size
of their state in heads and widths. Layouts follow the public classes [transformers-models].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from chipwise.catalogue.hf.blocks import (
    FULL,
    SLIDING,
    Layer,
    Sizes,
    attention,
    model,
    projection,
    sizes,
)
from chipwise.catalogue.hf.fields import Fields
from chipwise.catalogue.hf.sparse import experts
from chipwise.i18n import _
from chipwise.spec.model import AttentionSpec, FeedForwardSpec, ModelSpec, Projection

LINEAR = "linear_attention"


def qwen_hybrid(f: Fields, id: str) -> ModelSpec:
    """Qwen3-Next and Qwen 3.5: three gated delta nets to one gated full attention."""
    s = sizes(f, head_dim=256)
    f.expect("attn_output_gate", True)
    f.expect("use_qk_norm", True)
    f.ignore("linear_attn_implementation")
    on = f.flag("attention_bias")
    full = attention(
        heads=s.heads,
        kv_heads=s.kv_heads,
        head_dim=s.head_dim,
        bias=(on, on, on),
        qk_norm=2 * s.head_dim,
        gate=True,
    )
    recurrent = _delta_net(f, s.hidden)
    every = f.size("full_attention_interval", default=4, least=1)
    kinds = f.per_layer("layer_types", s.layers) or [
        FULL if (index + 1) % every == 0 else LINEAR for index in range(s.layers)
    ]
    blocks = _qwen_feed_forward(f, s.layers)
    layers = [
        Layer(_choose(f, kind, {FULL: full, LINEAR: recurrent}), block, 2 * s.hidden)
        for kind, block in zip(kinds, blocks, strict=True)
    ]
    return _finish(f, id, s, layers)


def _qwen_feed_forward(f: Fields, layers: int) -> list[FeedForwardSpec]:
    dense = FeedForwardSpec(hidden=f.size("intermediate_size", default=0))
    plain, step = f.indices("mlp_only_layers"), f.size("decoder_sparse_step", default=1, least=1)
    count = f.size("num_experts", "num_local_experts", default=0)
    if not count:
        return [dense] * layers
    shared = f.size("shared_expert_intermediate_size", default=0)
    sparse = experts(
        f,
        count,
        f.size("moe_intermediate_size", least=1),
        shared=shared,
        shared_gate=shared > 0,
    )
    return [dense if i in plain or (i + 1) % step else sparse for i in range(layers)]


def _delta_net(f: Fields, hidden: int) -> AttentionSpec:
    """Gated delta net: fused projections, short convolution, decay, norm, output."""
    key_heads = f.size("linear_num_key_heads", least=1)
    value_heads = f.size("linear_num_value_heads", least=1)
    key_dim = f.size("linear_key_head_dim", least=1)
    value_dim = f.size("linear_value_head_dim", least=1)
    kernel = f.size("linear_conv_kernel_dim", default=4, least=1)
    key, value = key_heads * key_dim, value_heads * value_dim
    mixed = 2 * key + value
    small = mixed * kernel + 2 * value_heads + value_dim
    return AttentionSpec(
        kind="linear",
        heads=value_heads,
        kv_heads=key_heads,
        head_dim=key_dim,
        value_head_dim=value_dim,
        projections=(
            *_delta_inputs(f.family, hidden, mixed, value, value_heads),
            projection("linear_attn.out_proj", hidden, value),
        ),
        extra_params=small,
    )


def _delta_inputs(
    family: str, hidden: int, mixed: int, value: int, heads: int
) -> tuple[Projection, ...]:
    """Qwen3-Next fuses its input projections in pairs; Qwen 3.5 has four."""
    widths = {"qkvz": mixed + value, "ba": 2 * heads}
    if family != "qwen3_next":
        widths = {"qkv": mixed, "z": value, "b": heads, "a": heads}
    names = {f"linear_attn.in_proj_{what}": width for what, width in widths.items()}
    return tuple(projection(name, width, hidden) for name, width in names.items())


def nemotron_h(f: Fields, id: str) -> ModelSpec:
    """Nemotron-H and Nemotron 3: each layer is one of Mamba-2, attention, experts or MLP."""
    listed = 0 if "num_hidden_layers" in f else len(f.sequence("layers_block_type"))
    s = sizes(f, layers=listed, head_dim=128)
    f.ignore("mtp_layers_block_type")
    f.ignore("num_logits_to_keep", "time_step_limit", "time_step_floor", "time_step_max")
    f.ignore("time_step_min", "time_step_rank", "use_mamba_kernels", "residual_in_fp32")
    f.ignore("chunk_size", "mamba_hidden_act", "mlp_hidden_act", "expand", "attention_head_dim")
    f.ignore(
        "moe_shared_expert_overlap", "mtp_hybrid_override_pattern", "keys_to_ignore_at_inference"
    )
    f.ignore("hybrid_override_pattern", "mamba_n_groups", "mamba_d_conv", "mamba_d_state")
    f.expect("mlp_bias", False)
    f.expect("attention_bias", False)
    blocks: dict[str, tuple[AttentionSpec | None, FeedForwardSpec | None]] = {
        "M": (_mamba(f, s.hidden), None),
        "*": (attention(heads=s.heads, kv_heads=s.kv_heads, head_dim=s.head_dim), None),
        "-": (None, FeedForwardSpec(hidden=f.size("intermediate_size", default=0), gated=False)),
        "E": (None, _ungated_experts(f)),
    }
    layers = [Layer(*blocks[kind], s.hidden) for kind in _pattern(f, s.layers, set(blocks))]
    return _finish(f, id, s, layers)


def _pattern(f: Fields, layers: int, known: set[str]) -> str:
    pattern = f.text("hybrid_override_pattern")
    if not pattern:
        names = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E", LINEAR: "M", FULL: "*"}
        kinds = f.per_layer("layers_block_type", layers)
        pattern = "".join(names.get(str(kind), "?") for kind in kinds)
    f.ignore("layers_block_type")
    if len(pattern) != layers or not set(pattern) <= known:
        text = _("must be {layers} letters of {known}")
        reason = text.format(layers=layers, known=" ".join(sorted(known)))
        raise f.bad("hybrid_override_pattern", pattern, reason)
    return pattern


def _mamba(f: Fields, hidden: int) -> AttentionSpec:
    """Mamba-2 mixer: input projection, short convolution, decay, norm, output."""
    heads = f.size("mamba_num_heads", least=1)
    width = f.size("mamba_head_dim", least=1)
    groups = f.size("n_groups", default=8, least=1)
    state = f.size("ssm_state_size", least=1)
    kernel = f.size("conv_kernel", default=4, least=1)
    inner = heads * width
    mixed = inner + 2 * groups * state
    bias = f.flag("use_bias")
    f.expect("mamba_proj_bias", bias)
    biases = (inner + mixed + heads + hidden) if bias else 0
    small = mixed * kernel + (mixed if f.flag("use_conv_bias", True) else 0) + 3 * heads + inner
    return AttentionSpec(
        kind="linear",
        heads=heads,
        kv_heads=groups if heads % groups == 0 else heads,
        head_dim=state,
        value_head_dim=width,
        projections=(
            projection("mixer.in_proj", inner + mixed + heads, hidden),
            projection("mixer.out_proj", hidden, inner),
        ),
        extra_params=biases + small,
    )


def _ungated_experts(f: Fields) -> FeedForwardSpec | None:
    count = f.size("n_routed_experts", "num_local_experts", default=0)
    width = f.size("moe_intermediate_size", default=0)
    shared = f.size("moe_shared_expert_intermediate_size", default=0)
    latent = f.size("moe_latent_size", default=0)
    f.ignore("n_shared_experts", "num_experts_per_tok")
    if not count:
        return None
    return FeedForwardSpec(
        hidden=0,
        gated=False,
        num_experts=count,
        top_k=f.size("num_experts_per_tok", least=1),
        expert_hidden=width,
        shared_expert_hidden=shared,
        router_bias=True,
        latent_hidden=latent,
    )


def gemma4(f: Fields, id: str) -> ModelSpec:
    """Gemma 4: wider heads in full layers, keys as values there, dense and routed side by side."""
    s = sizes(f, head_dim=256)
    f.expect("hidden_size_per_layer_input", 0)
    f.expect("num_kv_shared_layers", 0)
    f.expect("use_double_wide_mlp", False)
    f.ignore("vocab_size_per_layer_input", "use_bidirectional_attention")
    attentions = _gemma4_attention(f, s)
    width = f.size("intermediate_size", least=1)
    f.ignore("top_k_experts", "moe_intermediate_size", "num_experts", "expert_intermediate_size")
    routed = f.flag("enable_moe_block")
    feed_forward, norms = FeedForwardSpec(hidden=width), 4
    if routed:
        count = f.size("num_experts", least=1)
        feed_forward, norms = (
            experts(
                f,
                count,
                f.size("moe_intermediate_size", "expert_intermediate_size", least=1),
                top_k=f.size("top_k_experts", least=1),
                dense=width,
                extra=s.hidden + count,
            ),
            7,
        )
    layers = [Layer(block, feed_forward, norms * s.hidden) for block in attentions]
    return _finish(f, id, s, layers, tied=True)


def _gemma4_attention(f: Fields, s: Sizes) -> list[AttentionSpec]:
    """The attention of each layer; saved configurations list full layers as overrides."""
    on, keys_only = f.flag("attention_bias"), f.flag("attention_k_eq_v")
    overrides = f.layer_overrides("per_layer_config", s.layers, "head_dim", "num_key_value_heads")
    wide = f.size("global_head_dim", default=s.head_dim if overrides else 512, least=1)
    groups = f.size("num_global_key_value_heads", default=s.kv_heads, least=1)
    window = f.window(512)

    @cache
    def block(kind: str, width: int, kv_heads: int) -> AttentionSpec:
        return attention(
            heads=s.heads,
            kv_heads=kv_heads,
            head_dim=width,
            bias=(on, on, on),
            window=window if kind == SLIDING else 0,
            qk_norm=2 * width,
            shared_kv=keys_only and kind == FULL,
        )

    kinds = f.per_layer("layer_types", s.layers) or [
        SLIDING if (index + 1) % 6 and index + 1 < s.layers else FULL for index in range(s.layers)
    ]
    blocks = []
    for index, kind in enumerate(kinds):
        if kind not in (FULL, SLIDING):
            raise f.not_one_of("layer_types", kind, (FULL, SLIDING))
        full = kind == FULL
        width, kv_heads = (
            (wide, groups if keys_only else s.kv_heads) if full else (s.head_dim, s.kv_heads)
        )
        if own := overrides.get(index):
            width = own.size("head_dim", default=width, least=1)
            kv_heads = own.size("num_key_value_heads", default=kv_heads, least=1)
        blocks.append(block(str(kind), width, kv_heads))
    return blocks


def mimo_v2(f: Fields, id: str) -> ModelSpec:
    """MiMo V2 Flash: sliding layers with more key/value heads and a sink for each head."""
    s = sizes(f)
    on = f.flag("attention_bias")
    f.ignore("sliding_window_size", "attention_chunk_size", "hybrid_block_size")
    pattern = f.per_layer("hybrid_layer_pattern", s.layers) or [
        kind == SLIDING for kind in f.per_layer("layer_types", s.layers)
    ]
    f.ignore("layer_types")
    window = f.size("sliding_window", least=1)
    full = attention(
        heads=s.heads,
        kv_heads=s.kv_heads,
        head_dim=s.head_dim,
        value_dim=f.size("v_head_dim", default=s.head_dim, least=1),
        bias=(on, on, False),
        extra=s.heads if f.flag("add_full_attention_sink_bias") else 0,
    )
    heads = f.size("swa_num_attention_heads", default=s.heads, least=1)
    sliding = attention(
        heads=heads,
        kv_heads=f.size("swa_num_key_value_heads", default=2 * s.kv_heads, least=1),
        head_dim=f.size("swa_head_dim", default=s.head_dim, least=1),
        value_dim=f.size("swa_v_head_dim", default=full.v_dim, least=1),
        bias=(on, on, False),
        window=window,
        extra=heads if f.flag("add_swa_attention_sink_bias", True) else 0,
    )
    dense = FeedForwardSpec(hidden=f.size("intermediate_size", least=1))
    f.expect("topk_method", "noaux_tc")
    width = f.size("moe_intermediate_size", least=1)
    sparse = experts(
        f,
        f.size("n_routed_experts", "num_local_experts", least=1),
        width,
        shared=f.size("n_shared_experts", default=0) * width,
        router_bias=True,
    )
    routed = f.per_layer("moe_layer_freq", s.layers) or [
        kind == "sparse" for kind in f.per_layer("mlp_layer_types", s.layers)
    ]
    f.ignore("mlp_layer_types")
    if not pattern or not routed:
        raise f.missing("hybrid_layer_pattern")
    layers = [
        Layer(sliding if slides else full, sparse if moe else dense, 2 * s.hidden)
        for slides, moe in zip(pattern, routed, strict=True)
    ]
    return _finish(f, id, s, layers)


def step(f: Fields, id: str) -> ModelSpec:
    """Step 3.5 and 3.7 Flash: a gate for each head, more query heads in sliding layers."""
    s = sizes(f)
    on = f.flag("attention_bias")
    other = f.nested("attention_other_setting")
    other.ignore("attention_type", "true_head_dim")
    more = other.size("num_attention_heads", default=s.heads, least=1)
    groups = other.size("num_attention_groups", default=s.kv_heads, least=1)
    width = other.size("head_dim", default=s.head_dim, least=1)
    other.finish()
    more = f.size("num_sliding_attention_heads", default=more, least=1)

    def block(heads: int, kv_heads: int, head_dim: int, window: int) -> AttentionSpec:
        return attention(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            bias=(on, on, on),
            window=window,
            qk_norm=2 * head_dim,
            projections=(projection("self_attn.g_proj", heads, s.hidden),),
        )

    kinds = {
        FULL: block(s.heads, s.kv_heads, s.head_dim, 0),
        SLIDING: block(more, groups, width, f.window(512)),
    }
    dense = FeedForwardSpec(hidden=f.size("intermediate_size", least=1), bias=f.flag("mlp_bias"))
    shared = f.size("share_expert_dim", "share_expert_dims", default=1280)
    f.ignore("n_shared_experts")
    sparse = experts(
        f,
        f.size("n_routed_experts", "num_experts", "moe_num_experts", least=1),
        f.size("moe_intermediate_size", least=1),
        shared=shared,
        router_bias=f.flag("use_moe_router_bias", True),
    )
    first = f.size("first_k_dense_replace", default=3)
    routed = [kind == "sparse" for kind in f.per_layer("mlp_layer_types", s.layers)] or [
        index >= first for index in range(s.layers)
    ]
    types = f.per_layer("layer_types", s.layers) or [FULL] * s.layers
    for index, own in f.layer_overrides(
        "per_layer_config", s.layers, "num_attention_heads"
    ).items():
        if own.size("num_attention_heads", default=more) != (more, s.heads)[types[index] == FULL]:
            raise f.bad("per_layer_config", index, _("differs from num_sliding_attention_heads"))
    layers = [
        Layer(_choose(f, kind, kinds), sparse if moe else dense, 2 * s.hidden)
        for kind, moe in zip(types, routed, strict=True)
    ]
    return _finish(f, id, s, layers)


def minimax(f: Fields, id: str) -> ModelSpec:
    """MiniMax Text 01: lightning attention in most layers, softmax attention in the others."""
    s = sizes(f)
    for name in ("full", "linear", "mlp"):
        f.ignore(f"{name}_attn_alpha_factor", f"{name}_attn_beta_factor")
        f.ignore(f"{name}_alpha_factor", f"{name}_beta_factor")
    f.ignore("block_size", "postnorm")
    f.expect("shared_intermediate_size", 0)
    f.expect("sliding_window", 0)
    inner = s.heads * s.head_dim
    recurrent = AttentionSpec(
        kind="linear",
        heads=s.heads,
        kv_heads=s.heads,
        head_dim=s.head_dim,
        projections=(
            projection("self_attn.qkv_proj", 3 * inner, s.hidden),
            projection("self_attn.output_gate", inner, s.hidden),
            projection("self_attn.out_proj", s.hidden, inner),
        ),
        extra_params=inner,
    )
    full = attention(heads=s.heads, kv_heads=s.kv_heads, head_dim=s.head_dim)
    kinds = f.per_layer("layer_types", s.layers) or [
        FULL if flag == 1 else LINEAR for flag in f.per_layer("attn_type_list", s.layers)
    ]
    f.ignore("attn_type_list")
    if not kinds:
        raise f.missing("layer_types")
    block = experts(f, f.size("num_local_experts", least=1), f.size("intermediate_size", least=1))
    layers = [
        Layer(_choose(f, kind, {FULL: full, LINEAR: recurrent}), block, 2 * s.hidden)
        for kind in kinds
    ]
    return _finish(f, id, s, layers)


def _choose(f: Fields, kind: object, blocks: dict[str, AttentionSpec]) -> AttentionSpec:
    if kind not in blocks:
        raise f.not_one_of("layer_types", kind, blocks)
    return blocks[str(kind)]


def _finish(f: Fields, id: str, s: Sizes, layers: list[Layer], *, tied: bool = False) -> ModelSpec:
    return model(
        f,
        id=id,
        hidden=s.hidden,
        layers=layers,
        tied=f.flag("tie_word_embeddings", tied),
        final_norm=s.hidden,
    )


READERS: dict[str, Callable[[Fields, str], ModelSpec]] = {
    "qwen3_next": qwen_hybrid,
    "qwen3_5_text": qwen_hybrid,
    "qwen3_5_moe_text": qwen_hybrid,
    "nemotron_h": nemotron_h,
    "gemma4_text": gemma4,
    "mimo_v2_flash": mimo_v2,
    "step3p7": step,
    "step3p5": step,
    "minimax": minimax,
    "minimax_text_01": minimax,
}
