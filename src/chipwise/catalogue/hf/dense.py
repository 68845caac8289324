"""Dense decoders with RMSNorm and a gated feed-forward block: Llama and its relatives.

Biases, norms and defaults are those of each model's own public class [transformers-models].
"""

from __future__ import annotations

from collections.abc import Callable

from chipwise.catalogue.hf.blocks import Layer, Sizes, attention, model, sizes, windows
from chipwise.catalogue.hf.fields import Fields
from chipwise.spec.model import AttentionSpec, FeedForwardSpec, ModelSpec

Bias = tuple[bool, bool, bool]
NO_BIAS: Bias = (False, False, False)
QKV_BIAS: Bias = (True, True, False)


def gated_decoder(
    f: Fields,
    id: str,
    *,
    bias: Bias = NO_BIAS,
    mlp_bias: bool = False,
    norms: int = 2,
    norm_params: int | None = None,
    qk_norm: Callable[[Sizes], int] = lambda s: 0,
    tied: bool = False,
    window: int = 0,
    slides: Callable[[int], bool] = lambda index: False,
    defaults: dict[str, int] | None = None,
    vocab: int | None = None,
    head_bias: bool = False,
    gated: bool = True,
) -> ModelSpec:
    """A stack of equal layers up to the sliding window.

    Args:
        f: the configuration.
        id: name of the model.
        bias: of query, key/value and output projections.
        mlp_bias: the feed-forward matrices have biases.
        norms: norms in a layer.
        norm_params: parameters of one norm; the hidden size when None.
        qk_norm: parameters of query and key norms together.
        tied: whether embeddings are tied when the configuration does not say.
        window: sliding-window length, tokens.
        slides: which layers slide when ``layer_types`` is absent.
        defaults: sizes of the family's class for absent fields.
        vocab: vocabulary when stated under another name.
        head_bias: the head has a bias.
        gated: the feed-forward block has a gate.
    """
    s = sizes(f, **(defaults or {}))
    width = f.size("intermediate_size", least=1)
    feed_forward = FeedForwardSpec(hidden=width, gated=gated, bias=mlp_bias)
    per_norm = s.hidden if norm_params is None else norm_params

    def block(length: int) -> AttentionSpec:
        return attention(
            heads=s.heads,
            kv_heads=s.kv_heads,
            head_dim=s.head_dim,
            bias=bias,
            window=length,
            qk_norm=qk_norm(s),
        )

    blocks = {length: block(length) for length in (0, window)}
    layers = [
        Layer(blocks[length], feed_forward, norms * per_norm)
        for length in windows(f, s.layers, window, slides)
    ]
    return model(
        f,
        id=id,
        hidden=s.hidden,
        layers=layers,
        tied=f.flag("tie_word_embeddings", tied),
        final_norm=per_norm,
        vocab=vocab,
        head_bias=head_bias,
    )


def _everywhere(f: Fields, name: str, default: bool = False) -> Bias:
    """One switch for the biases of all four attention projections."""
    value = f.flag(name, default)
    return (value, value, value)


def _per_head(s: Sizes) -> int:
    return 2 * s.head_dim


def _all_heads(s: Sizes) -> int:
    return (s.heads + s.kv_heads) * s.head_dim


def llama(f: Fields, id: str) -> ModelSpec:
    """Llama 1 to 3, CodeLlama, Yi, DeepSeek-LLM, TinyLlama and others in its format."""
    f.ignore("rope_mode", "max_sequence_length")
    return gated_decoder(f, id, bias=_everywhere(f, "attention_bias"), mlp_bias=f.flag("mlp_bias"))


def mistral(f: Fields, id: str) -> ModelSpec:
    """Mistral: all layers slide when a window is given."""
    f.expect("attention_bias", False)
    return gated_decoder(f, id, window=f.window(4096), slides=lambda index: True)


def qwen2(f: Fields, id: str) -> ModelSpec:
    """Qwen 1.5, 2 and 2.5: biases on query, key and value only."""
    f.expect("attention_bias", True)
    window, slides = _qwen_window(f)
    return gated_decoder(f, id, bias=QKV_BIAS, window=window, slides=slides)


def mimo(f: Fields, id: str) -> ModelSpec:
    """MiMo 7B: Qwen 2 with separate head size; its prediction layers are left out."""
    f.ignore("attention_bias")
    window, slides = _qwen_window(f)
    return gated_decoder(f, id, bias=QKV_BIAS, window=window, slides=slides)


def qwen3(f: Fields, id: str) -> ModelSpec:
    """Qwen 3: head size of its own (128 if absent), norms on queries and keys."""
    window, slides = _qwen_window(f)
    return gated_decoder(
        f,
        id,
        bias=_everywhere(f, "attention_bias"),
        qk_norm=_per_head,
        window=window,
        slides=slides,
        defaults={"head_dim": 128},
    )


def _qwen_window(f: Fields) -> tuple[int, Callable[[int], bool]]:
    """Layers from ``max_window_layers`` on slide, if ``use_sliding_window`` says so."""
    on = f.flag("use_sliding_window")
    window = f.window(4096) if on else 0
    f.ignore("sliding_window")
    first = f.size("max_window_layers", default=28)
    return window, lambda index: index >= first


def gemma(f: Fields, id: str) -> ModelSpec:
    """Gemma 1."""
    f.ignore("use_bidirectional_attention")
    return gated_decoder(
        f, id, bias=_everywhere(f, "attention_bias"), tied=True, defaults={"head_dim": 256}
    )


def gemma2(f: Fields, id: str) -> ModelSpec:
    """Gemma 2: four norms in a layer, every other layer slides."""
    f.ignore("use_bidirectional_attention", "cache_implementation")
    return gated_decoder(
        f,
        id,
        bias=_everywhere(f, "attention_bias"),
        norms=4,
        tied=True,
        window=f.window(4096),
        slides=lambda index: index % 2 == 0,
        defaults={"head_dim": 256},
    )


def gemma3(f: Fields, id: str) -> ModelSpec:
    """Gemma 3: as Gemma 2 with query/key norms and five sliding layers to a full one.

    The configurations of the multimodal sizes state only what differs from the class, hence the
    defaults.
    """
    f.ignore("use_bidirectional_attention", "cache_implementation")
    every = f.size("sliding_window_pattern", "_sliding_window_pattern", default=6, least=1)
    return gated_decoder(
        f,
        id,
        bias=_everywhere(f, "attention_bias"),
        norms=4,
        qk_norm=_per_head,
        tied=True,
        window=f.window(4096),
        slides=lambda index: (index + 1) % every != 0,
        defaults={"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4},
        vocab=f.size("vocab_size", default=262208, least=1),
    )


def phi3(f: Fields, id: str) -> ModelSpec:
    """Phi 3 and 4: fused matrices, the same sizes as Llama's."""
    f.expect("attention_bias", False)
    f.ignore("original_max_position_embeddings", "embd_pdrop")
    return gated_decoder(f, id, window=f.window(), slides=lambda index: True)


def olmo(f: Fields, id: str) -> ModelSpec:
    """OLMo 1: norms without parameters."""
    return gated_decoder(f, id, bias=_everywhere(f, "attention_bias"), norm_params=0)


def olmo2(f: Fields, id: str) -> ModelSpec:
    """OLMo 2 and 3: query/key norms over all heads; 3 slides in three layers of four."""
    return gated_decoder(
        f,
        id,
        bias=_everywhere(f, "attention_bias"),
        qk_norm=_all_heads,
        window=f.window(4096 if f.family == "olmo3" else 0),
        slides=lambda index: (index + 1) % 4 != 0,
    )


def glm(f: Fields, id: str) -> ModelSpec:
    """GLM-4 9B in the library's own format."""
    on = f.flag("attention_bias", True)
    return gated_decoder(f, id, bias=(on, on, False), defaults={"head_dim": 128})


def glm4(f: Fields, id: str) -> ModelSpec:
    """GLM-4-0414: four norms in a layer."""
    on = f.flag("attention_bias", True)
    return gated_decoder(f, id, bias=(on, on, False), norms=4, defaults={"head_dim": 128})


def internlm(f: Fields, id: str) -> ModelSpec:
    """InternLM 1 and 2: one switch for all attention biases."""
    f.ignore("rotary", "attn_implementation")
    default = f.family == "internlm"
    return gated_decoder(f, id, bias=_everywhere(f, "bias", default))


def baichuan(f: Fields, id: str) -> ModelSpec:
    """Baichuan 1 and 2: one fused projection, as many key/value heads as heads."""
    f.ignore("z_loss_weight", "gradient_checkpointing")
    context = f.size("model_max_length", default=0)
    spec = gated_decoder(f, id)
    return spec if spec.max_context else spec.model_copy(update={"max_context": context})


def cohere(f: Fields, id: str) -> ModelSpec:
    """Command R and R7B: one norm for both parallel blocks, scale only."""
    f.ignore(
        "use_embedding_sharing", "layer_switch", "use_gated_activation", "position_embedding_type"
    )
    f.expect("use_parallel_block", True)
    f.expect("use_parallel_embedding", False, True)
    on = f.flag("use_qk_norm")
    every = f.size("sliding_window_pattern", "_sliding_window_pattern", default=4, least=1)
    return gated_decoder(
        f,
        id,
        bias=_everywhere(f, "attention_bias"),
        norms=1,
        qk_norm=_all_heads if on else lambda s: 0,
        tied=True,
        window=f.window(4096 if f.family == "cohere2" else 0),
        slides=lambda index: (index + 1) % every != 0,
    )


def stablelm(f: Fields, id: str) -> ModelSpec:
    """StableLM: norms with shift; one norm only when the blocks are parallel."""
    s = sizes(f)
    on = f.flag("use_qkv_bias")
    qk_norm = (s.heads + s.kv_heads) * s.head_dim if f.flag("qk_layernorm") else 0
    return gated_decoder(
        f,
        id,
        bias=(on, on, False),
        norms=1 if f.flag("use_parallel_residual") else 2,
        norm_params=2 * s.hidden,
        qk_norm=lambda s: qk_norm,
    )


def starcoder2(f: Fields, id: str) -> ModelSpec:
    """StarCoder 2: biases throughout, two matrices in the feed-forward block."""
    on = f.flag("use_bias", True)
    hidden = f.size("hidden_size", least=1)
    f.expect("norm_type", "layer_norm")
    f.expect("mlp_type", "default")
    window = f.window()
    return gated_decoder(
        f,
        id,
        bias=(on, on, on),
        mlp_bias=on,
        norm_params=2 * hidden,
        tied=True,
        window=window,
        slides=lambda index: True,
        gated=False,
    )


def granite(f: Fields, id: str) -> ModelSpec:
    """Granite 3: Llama's sizes with scaled streams, tied embeddings in most releases."""
    f.ignore("embedding_multiplier", "logits_scaling", "residual_multiplier")
    f.ignore("attention_multiplier")
    return llama(f, id)


def smollm3(f: Fields, id: str) -> ModelSpec:
    """SmolLM 3: Llama's sizes; some layers without rotary positions."""
    f.ignore("no_rope_layers", "use_sliding_window", "max_window_layers", "layer_types")
    f.expect("sliding_window")
    bias = _everywhere(f, "attention_bias")
    return gated_decoder(f, id, bias=bias, mlp_bias=f.flag("mlp_bias"), tied=True)


def seed_oss(f: Fields, id: str) -> ModelSpec:
    """Seed-OSS: biases on query, key and value."""
    on, out = f.flag("attention_bias", True), f.flag("attention_out_bias")
    f.ignore("residual_dropout")
    return gated_decoder(
        f, id, bias=(on, on, out), mlp_bias=f.flag("mlp_bias"), defaults={"head_dim": 128}
    )


def ernie(f: Fields, id: str) -> ModelSpec:
    """ERNIE 4.5 dense: one switch for all biases, tied embeddings."""
    on = f.flag("use_bias")
    return gated_decoder(
        f, id, bias=(on, on, on), mlp_bias=on, tied=True, defaults={"head_dim": 128}
    )


def exaone4(f: Fields, id: str) -> ModelSpec:
    """EXAONE 4: norms behind the blocks and on queries and keys; one full layer in four."""
    every = f.size("sliding_window_pattern", default=4, least=1)
    return gated_decoder(
        f,
        id,
        qk_norm=_per_head,
        window=f.window(4096),
        slides=lambda index: (index + 1) % every != 0,
    )


def arcee(f: Fields, id: str) -> ModelSpec:
    """Arcee AFM: Llama with two feed-forward matrices."""
    bias = _everywhere(f, "attention_bias")
    return gated_decoder(f, id, bias=bias, mlp_bias=f.flag("mlp_bias"), gated=False)


def nemotron(f: Fields, id: str) -> ModelSpec:
    """Nemotron 3 and 4, Minitron: norms with shift, two feed-forward matrices."""
    hidden = f.size("hidden_size", least=1)
    bias = _everywhere(f, "attention_bias")
    mlp_bias = f.flag("mlp_bias")
    f.ignore("norm_eps")
    return gated_decoder(f, id, bias=bias, mlp_bias=mlp_bias, norm_params=2 * hidden, gated=False)


READERS: dict[str, Callable[[Fields, str], ModelSpec]] = {
    "llama": llama,
    "yi": llama,
    "Yi": llama,
    "smollm": llama,
    "aquila": llama,
    "mistral": mistral,
    "ministral": mistral,
    "ministral3": mistral,
    "qwen2": qwen2,
    "qwen2_vl_text": qwen2,
    "qwen2_5_vl_text": qwen2,
    "mimo": mimo,
    "qwen3": qwen3,
    "qwen3_vl_text": qwen3,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3,
    "phi3": phi3,
    "olmo": olmo,
    "olmo2": olmo2,
    "olmo3": olmo2,
    "glm": glm,
    "glm4": glm4,
    "internlm": internlm,
    "internlm2": internlm,
    "baichuan": baichuan,
    "cohere": cohere,
    "cohere2": cohere,
    "stablelm": stablelm,
    "starcoder2": starcoder2,
    "granite": granite,
    "smollm3": smollm3,
    "seed_oss": seed_oss,
    "ernie4_5": ernie,
    "exaone4": exaone4,
    "arcee": arcee,
    "helium": llama,
    "nemotron": nemotron,
}
