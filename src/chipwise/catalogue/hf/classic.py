"""Decoders with LayerNorm and two feed-forward matrices: GPT and its relatives.

Biases, norms and defaults are those of each model's own public class [transformers-models].
"""

from __future__ import annotations

from collections.abc import Callable

from chipwise.catalogue.hf.blocks import Layer, attention, model
from chipwise.catalogue.hf.fields import Fields
from chipwise.spec.model import FeedForwardSpec, ModelSpec

Bias = tuple[bool, bool, bool]
ALL: Bias = (True, True, True)
NONE: Bias = (False, False, False)


def _stack(
    f: Fields,
    id: str,
    *,
    hidden: int,
    layers: int,
    heads: int,
    ffn: int,
    norms: int,
    kv_heads: int = 0,
    head_dim: int = 0,
    bias: Bias = ALL,
    mlp_bias: bool = True,
    shift: bool = True,
    qk_norm: int = 0,
    windows: list[int] | None = None,
    tied: bool,
    vocab: int | None = None,
    context: int | None = None,
    positions: int = 0,
    head_bias: bool = False,
    extra: int = 0,
    final_norm: bool = True,
    gated: bool = False,
) -> ModelSpec:
    """Equal layers; ``norms`` in each of them, with or without shift (LayerNorm bias)."""
    per_norm = 2 * hidden if shift else hidden
    feed_forward = FeedForwardSpec(hidden=ffn, gated=gated, bias=mlp_bias)
    blocks = {
        window: attention(
            heads=heads,
            kv_heads=kv_heads or heads,
            head_dim=head_dim or max(1, hidden // heads),
            bias=bias,
            window=window,
            qk_norm=qk_norm,
        )
        for window in set(windows or [0])
    }
    return model(
        f,
        id=id,
        hidden=hidden,
        layers=[
            Layer(blocks[window], feed_forward, norms * per_norm)
            for window in windows or [0] * layers
        ],
        tied=f.flag("tie_word_embeddings", tied),
        final_norm=per_norm if final_norm else 0,
        vocab=vocab,
        context=context,
        position=positions * hidden,
        head_bias=head_bias,
        extra=extra,
    )


def gpt2(f: Fields, id: str) -> ModelSpec:
    """GPT-2 and, by the same matrices, GPT-3; learned positions, everything biased."""
    f.expect("add_cross_attention", False)
    f.ignore("n_ctx", "summary_first_dropout")
    hidden, context = f.size("n_embd", "hidden_size", least=1), f.size("n_positions", least=1)
    return _stack(
        f,
        id,
        hidden=hidden,
        layers=f.layers("n_layer", "num_hidden_layers"),
        heads=f.size("n_head", "num_attention_heads", least=1),
        ffn=f.size("n_inner", default=4 * hidden),
        norms=2,
        tied=True,
        context=context,
        positions=context,
    )


def gpt_bigcode(f: Fields, id: str) -> ModelSpec:
    """StarCoder 1 and SantaCoder: GPT-2 with one key/value head."""
    f.expect("add_cross_attention", False)
    f.ignore("n_ctx", "attention_softmax_in_fp32", "inference_runner", "pre_allocate_kv_cache")
    f.ignore("max_sequence_length", "max_batch_size", "validate_runner_input", "pad_key_length")
    hidden, context = f.size("n_embd", least=1), f.size("n_positions", least=1)
    heads = f.size("n_head", least=1)
    kv_heads = 1 if f.flag("multi_query", True) else heads
    f.expect("num_key_value_heads", kv_heads)
    return _stack(
        f,
        id,
        hidden=hidden,
        layers=f.layers("n_layer"),
        heads=heads,
        kv_heads=kv_heads,
        ffn=f.size("n_inner", default=4 * hidden),
        norms=2,
        tied=True,
        context=context,
        positions=context,
    )


def gptj(f: Fields, id: str) -> ModelSpec:
    """GPT-J: parallel blocks behind one norm, a biased head, no attention biases."""
    f.ignore("n_ctx")
    hidden = f.size("n_embd", least=1)
    return _stack(
        f,
        id,
        hidden=hidden,
        layers=f.layers("n_layer"),
        heads=f.size("n_head", least=1),
        ffn=f.size("n_inner", default=4 * hidden),
        norms=1,
        bias=NONE,
        tied=False,
        context=f.size("n_positions", default=0),
        head_bias=True,
    )


def gpt_neo(f: Fields, id: str) -> ModelSpec:
    """GPT-Neo: alternating full and local layers, bias only behind attention."""
    hidden = f.size("hidden_size", least=1)
    layers = f.layers("num_layers")
    context = f.size("max_position_embeddings", least=1)
    local = f.size("window_size", default=256)
    f.ignore("attention_types")
    kinds = f.per_layer("attention_layers", layers) or ["global", "local"] * layers
    return _stack(
        f,
        id,
        hidden=hidden,
        layers=layers,
        heads=f.size("num_heads", least=1),
        ffn=f.size("intermediate_size", default=4 * hidden),
        norms=2,
        bias=(False, False, True),
        windows=[local if kind == "local" else 0 for kind in kinds[:layers]],
        tied=True,
        context=context,
        positions=context,
    )


def gpt_neox(f: Fields, id: str) -> ModelSpec:
    """GPT-NeoX, Pythia and the first StableLM: everything biased, rotary positions."""
    f.ignore("use_parallel_residual")
    on = f.flag("attention_bias", True)
    return _stack(
        f,
        id,
        hidden=f.size("hidden_size", least=1),
        layers=f.layers("num_hidden_layers"),
        heads=f.size("num_attention_heads", least=1),
        ffn=f.size("intermediate_size", least=1),
        norms=2,
        bias=(on, on, on),
        tied=False,
    )


def opt(f: Fields, id: str) -> ModelSpec:
    """OPT: learned positions with an offset of two, norm before the blocks."""
    hidden = f.size("hidden_size", least=1)
    f.expect("word_embed_proj_dim", hidden)
    f.expect("do_layer_norm_before", True)
    f.expect("_remove_final_layer_norm", False)
    on = f.flag("enable_bias", True)
    affine = f.flag("layer_norm_elementwise_affine", True)
    context = f.size("max_position_embeddings", least=1)
    spec = _stack(
        f,
        id,
        hidden=hidden,
        layers=f.layers("num_hidden_layers"),
        heads=f.size("num_attention_heads", least=1),
        ffn=f.size("ffn_dim", least=1),
        norms=2 if affine else 0,
        bias=(on, on, on),
        mlp_bias=on,
        tied=True,
        context=context,
        positions=context + 2,
        final_norm=affine,
    )
    return spec


def bloom(f: Fields, id: str) -> ModelSpec:
    """BLOOM: ALiBi positions, a norm behind the embedding."""
    hidden = f.size("hidden_size", "n_embed", least=1)
    f.ignore("n_embed", "seq_length", "num_attention_heads", "n_inner", "offset_alibi")
    return _stack(
        f,
        id,
        hidden=hidden,
        layers=f.layers("n_layer", "num_hidden_layers"),
        heads=f.size("n_head", "num_attention_heads", least=1),
        ffn=4 * hidden,
        norms=2,
        tied=True,
        context=f.size("seq_length", default=0),
        extra=2 * hidden,
    )


def falcon(f: Fields, id: str) -> ModelSpec:
    """Falcon 7B (one key/value head), 40B and 180B (groups), and the older class names."""
    hidden = f.size("hidden_size", least=1)
    heads = f.size("num_attention_heads", "n_head", least=1)
    grouped = f.flag("new_decoder_architecture", f.family == "RefinedWeb")
    multi = f.flag("multi_query", True)
    groups = f.size("num_kv_heads", "n_head_kv", default=heads)
    parallel = f.flag("parallel_attn", True)
    on = f.flag("bias")
    f.ignore("alibi", "num_kv_heads", "n_head_kv")
    norms = f.size("num_ln_in_parallel_attn", default=2 if grouped else 1)
    return _stack(
        f,
        id,
        hidden=hidden,
        layers=f.layers("num_hidden_layers", "n_layer"),
        heads=heads,
        kv_heads=groups if grouped or not multi else 1,
        ffn=f.size("ffn_hidden_size", default=4 * hidden),
        norms=norms if parallel else 2,
        bias=(on, on, on),
        mlp_bias=on,
        tied=True,
    )


def mpt(f: Fields, id: str) -> ModelSpec:
    """MPT: ALiBi, norms without shift and no biases (``no_bias``)."""
    hidden = f.size("d_model", least=1)
    heads = f.size("n_heads", least=1)
    inner = f.nested("attn_config")
    inner.ignore("attn_pdrop", "attn_impl", "alibi", "prefix_lm", "softmax_scale", "attn_type")
    inner.ignore("attn_uses_sequence_id")
    inner.expect("qk_ln", False)
    kv_heads = inner.size("kv_n_heads", default=heads, least=1)
    inner.finish()
    f.expect("no_bias", True)
    f.expect("norm_type", "low_precision_layernorm", "layernorm")
    f.ignore("learned_pos_emb", "embedding_fraction", "init_config", "logit_scale", "emb_pdrop")
    ratio = f.size("expansion_ratio", default=4, least=1)
    return _stack(
        f,
        id,
        hidden=hidden,
        layers=f.layers("n_layers"),
        heads=heads,
        kv_heads=kv_heads,
        ffn=ratio * hidden,
        norms=2,
        bias=NONE,
        mlp_bias=False,
        shift=False,
        tied=True,
        context=f.size("max_seq_len", default=0),
    )


def phi(f: Fields, id: str) -> ModelSpec:
    """Phi 1.5 and 2: parallel blocks behind one norm, everything biased, head too."""
    heads = f.size("num_attention_heads", least=1)
    f.expect("qk_layernorm", False)
    return _stack(
        f,
        id,
        hidden=f.size("hidden_size", least=1),
        layers=f.layers("num_hidden_layers"),
        heads=heads,
        kv_heads=f.size("num_key_value_heads", default=heads, least=1),
        ffn=f.size("intermediate_size", least=1),
        norms=1,
        tied=False,
        head_bias=True,
    )


def chatglm(f: Fields, id: str) -> ModelSpec:
    """ChatGLM 2, 3 and GLM-4 9B in their own format: RMSNorm and a gated block."""
    heads = f.size("num_attention_heads", least=1)
    multi = f.flag("multi_query_attention")
    groups = f.size("multi_query_group_num", default=heads, least=1)
    linear, qkv = f.flag("add_bias_linear"), f.flag("add_qkv_bias")
    f.expect("rmsnorm", True)
    f.expect("post_layer_norm", True)
    f.ignore("classifier_dropout", "attention_softmax_in_fp32")
    context = f.size("seq_length", default=0)
    vocab = f.size("padded_vocab_size", "vocab_size", least=1)
    return _stack(
        f,
        id,
        hidden=f.size("hidden_size", least=1),
        layers=f.layers("num_layers", "num_hidden_layers"),
        heads=heads,
        kv_heads=groups if multi else heads,
        head_dim=f.size("kv_channels", default=0),
        ffn=f.size("ffn_hidden_size", least=1),
        norms=2,
        bias=(linear or qkv, linear or qkv, linear),
        mlp_bias=linear,
        shift=False,
        tied=False,
        vocab=vocab,
        context=context,
        gated=True,
    )


def qwen1(f: Fields, id: str) -> ModelSpec:
    """Qwen 1: ``intermediate_size`` counts gate and up matrices together."""
    f.expect("no_bias", True)
    f.ignore("seq_length", "use_cache_quantization", "use_cache_kernel")
    context = f.size("seq_length", default=0)
    heads = f.size("num_attention_heads", least=1)
    width = f.size("kv_channels", default=0)
    return _stack(
        f,
        id,
        hidden=f.size("hidden_size", least=1),
        layers=f.layers("num_hidden_layers"),
        heads=heads,
        head_dim=width,
        ffn=f.size("intermediate_size", least=2) // 2,
        norms=2,
        bias=(True, True, False),
        mlp_bias=False,
        shift=False,
        tied=False,
        context=f.size("max_position_embeddings", default=context),
        gated=True,
    )


READERS: dict[str, Callable[[Fields, str], ModelSpec]] = {
    "gpt2": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "gptj": gptj,
    "gpt_neo": gpt_neo,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "bloom": bloom,
    "falcon": falcon,
    "RefinedWeb": falcon,
    "RefinedWebModel": falcon,
    "mpt": mpt,
    "phi": phi,
    "chatglm": chatglm,
    "qwen": qwen1,
}
