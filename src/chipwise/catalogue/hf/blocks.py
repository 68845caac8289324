"""Building blocks shared by the readers: layers that are alike are counted together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from chipwise.catalogue.hf.fields import Fields
from chipwise.spec.model import AttentionSpec, FeedForwardSpec, LayerGroup, ModelSpec, Projection

FULL, SLIDING = "full_attention", "sliding_attention"


class Layer(NamedTuple):
    """One layer before counting."""

    attention: AttentionSpec | None
    feed_forward: FeedForwardSpec | None
    norm_params: int
    extra_params: int = 0


def grouped(layers: Iterable[Layer]) -> tuple[LayerGroup, ...]:
    """Equal layers as groups with a count, in the order in which each kind first appears."""
    kinds = Counter(layers)
    return tuple(
        LayerGroup(
            count=count,
            attention=layer.attention,
            feed_forward=layer.feed_forward,
            norm_params=layer.norm_params,
            extra_params=layer.extra_params,
        )
        for layer, count in kinds.items()
    )


def attention(
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    bias: tuple[bool, bool, bool] = (False, False, False),
    window: int = 0,
    qk_norm: int = 0,
    extra: int = 0,
    gate: bool = False,
    value_dim: int = 0,
    shared_kv: bool = False,
    projections: tuple[Projection, ...] = (),
) -> AttentionSpec:
    """Attention with plain query, key, value heads; ``bias`` is for query, key/value, output."""
    return AttentionSpec(
        kind="mha" if kv_heads == heads else "gqa",
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_head_dim=value_dim if value_dim != head_dim else 0,
        window=window,
        q_bias=bias[0],
        kv_bias=bias[1],
        output_bias=bias[2],
        qk_norm_params=qk_norm,
        output_gate=gate,
        shared_kv=shared_kv,
        projections=projections,
        extra_params=extra,
    )


def projection(name: str, outputs: int, inputs: int) -> Projection:
    """A linear module of its own, by its path within a layer."""
    return Projection(name=name, outputs=outputs, inputs=inputs)


class Sizes(NamedTuple):
    """The sizes nearly every configuration of the Llama lineage states under the same names."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int


def sizes(f: Fields, *, layers: int = 0, **defaults: int) -> Sizes:
    """Width, depth and heads under their usual names.

    Args:
        f: the configuration.
        layers: depth where the configuration states it in another way.
        defaults: what the family's own class assumes for absent fields, by field name.
    """
    hidden = f.size("hidden_size", default=defaults.get("hidden_size"), least=1)
    layers = layers or f.layers("num_hidden_layers")
    heads = f.size("num_attention_heads", default=defaults.get("num_attention_heads"), least=1)
    kv_heads = f.size(
        "num_key_value_heads", default=defaults.get("num_key_value_heads", heads), least=1
    )
    head_dim = f.size(
        "head_dim", default=defaults.get("head_dim", max(1, hidden // heads)), least=1
    )
    return Sizes(hidden, layers, heads, kv_heads, head_dim)


def windows(
    f: Fields,
    layers: int,
    window: int,
    default: Callable[[int], bool] = lambda index: False,
) -> list[int]:
    """The sliding window of each layer, 0 where attention is full.

    Args:
        f: the configuration; ``layer_types`` wins where it is present.
        layers: number of layers.
        window: length of a window in tokens.
        default: whether layer ``index`` slides when ``layer_types`` is absent.
    """
    kinds = f.per_layer("layer_types", layers)
    if not kinds:
        return [window if default(index) else 0 for index in range(layers)]
    for kind in kinds:
        if kind not in (FULL, SLIDING):
            raise f.not_one_of("layer_types", kind, (FULL, SLIDING))
    return [window if kind == SLIDING else 0 for kind in kinds]


def model(
    f: Fields,
    *,
    id: str,
    hidden: int,
    layers: Iterable[Layer],
    tied: bool,
    final_norm: int,
    vocab: int | None = None,
    context: int | None = None,
    position: int = 0,
    head_bias: bool = False,
    extra: int = 0,
) -> ModelSpec:
    """The finished model; refuses fields that nobody read."""
    if vocab is None:
        vocab = f.size("vocab_size", least=1)
    if context is None:
        context = f.size("max_position_embeddings", default=0)
    f.finish()
    return ModelSpec(
        id=id,
        family=f.family,
        architecture=f.family,
        hidden=hidden,
        vocab=vocab,
        layers=grouped(layers),
        tied_embeddings=tied,
        head_bias=head_bias,
        final_norm_params=final_norm,
        position_params=position,
        extra_params=extra,
        max_context=context,
    )
