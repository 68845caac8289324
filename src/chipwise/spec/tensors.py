"""Every tensor a model is made of, so that parameter counts are exact and can be read line by line.

A ledger, not an estimate: each weight matrix, bias and norm stands with its shape and how often
it occurs, and the parameter count is the sum. Names are our own and equal for all families
(``attention.query``, ``expert.down``), because frameworks fuse and split the same matrices
differently without changing their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Literal, get_args

from chipwise.spec.model import AttentionSpec, FeedForwardSpec, LayerGroup, ModelSpec

Part = Literal[
    "embedding",
    "position",
    "attention",
    "dense_ffn",
    "shared_expert",
    "expert",
    "router",
    "norm",
    "head",
    "other",
]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, slots=True)
class Tensor:
    """``count`` equal tensors of one ``shape``, and the share of them one token uses."""

    name: str
    part: Part
    shape: tuple[int, ...]
    count: int = 1
    active: float = 1.0
    """``top_k / num_experts`` for routed experts, 1 for everything else."""

    @property
    def params(self) -> int:
        """Parameters of all ``count`` tensors together."""
        return prod(self.shape) * self.count


@lru_cache(maxsize=1024)
def tensors(model: ModelSpec) -> tuple[Tensor, ...]:
    """The ledger of a model: embeddings, each group of layers, final norm and head.

    Returns:
        Tensors in the order of a forward pass; empty ones are left out. With tied embeddings the
        head has no tensor of its own.
    """
    ledger = [
        Tensor("embedding", "embedding", (model.vocab, model.hidden)),
        Tensor("position", "position", (model.position_params,)),
        Tensor("outside_layers", "other", (model.extra_params,)),
    ]
    for index, group in enumerate(model.layers):
        ledger += _group_tensors(f"layers.{index}", group, model.hidden)
    ledger.append(Tensor("final_norm", "norm", (model.final_norm_params,)))
    if not model.tied_embeddings:
        ledger.append(Tensor("head", "head", (model.vocab, model.hidden)))
    if model.head_bias:
        ledger.append(Tensor("head.bias", "head", (model.vocab,)))
    return tuple(tensor for tensor in ledger if tensor.params)


def params_by_part(model: ModelSpec) -> Mapping[Part, int]:
    """Parameters of each part of the model; every part is present, absent ones with 0."""
    sums: dict[Part, int] = dict.fromkeys(PARTS, 0)
    for tensor in tensors(model):
        sums[tensor.part] += tensor.params
    return sums


def params_total(model: ModelSpec) -> int:
    """All parameters, each tied matrix once."""
    return sum(tensor.params for tensor in tensors(model))


def params_active(model: ModelSpec, *, embedding: bool = True) -> int:
    """Parameters one token uses: of the routed experts only the ``top_k`` chosen ones.

    Publishers count this in two ways. With ``embedding`` (the default) the whole input table is
    counted, so that a dense model's active and total numbers are equal (Mixtral's 12.9 B, Qwen3's
    22 B). Without it the input table, of which a token reads one row, and the learned positions
    are left out unless the table also serves as the head (DeepSeek-V3's 37 B, gpt-oss's 3.6 B).
    """
    skipped = () if embedding else ("position",) if model.tied_embeddings else _LOOKED_UP
    return round(sum(t.params * t.active for t in tensors(model) if t.part not in skipped))


_LOOKED_UP: tuple[Part, ...] = ("embedding", "position")


def _group_tensors(prefix: str, group: LayerGroup, hidden: int) -> Iterator[Tensor]:
    for block, attention in (
        ("attention", group.attention),
        ("cross_attention", group.cross_attention),
    ):
        if attention is not None:
            for tensor in _attention_tensors(attention, hidden):
                yield _repeated(tensor, f"{prefix}.{block}", group.count)
    if group.feed_forward is not None:
        for tensor in _feed_forward_tensors(group.feed_forward, hidden):
            yield _repeated(tensor, prefix, group.count)
    yield Tensor(f"{prefix}.norms", "norm", (group.norm_params,), group.count)
    yield Tensor(f"{prefix}.other", "other", (group.extra_params,), group.count)


def _repeated(tensor: Tensor, prefix: str, times: int) -> Tensor:
    return replace(tensor, name=f"{prefix}.{tensor.name}", count=tensor.count * times)


def _attention_tensors(spec: AttentionSpec, hidden: int) -> Iterator[Tensor]:
    if spec.kind == "mla":
        yield from _latent_projections(spec, hidden)
    elif spec.kind != "linear":
        yield from _head_projections(spec, hidden)
    if spec.kind != "linear":
        yield from _output_projection(spec, hidden)
        if spec.output_bias:
            yield Tensor("output.bias", "attention", (hidden,))
    yield Tensor("qk_norm", "norm", (spec.qk_norm_params,))
    for module in spec.projections:
        yield Tensor(module.name, "attention", (module.outputs, module.inputs))
    yield Tensor("extra", "attention", (spec.extra_params,))


def _output_projection(spec: AttentionSpec, hidden: int) -> Iterator[Tensor]:
    width = spec.heads * spec.v_dim
    if not spec.o_lora_rank:
        yield Tensor("output", "attention", (hidden, width))
        return
    yield Tensor(
        "output_down", "attention", (spec.o_lora_rank, width // spec.o_groups), spec.o_groups
    )
    yield Tensor("output_up", "attention", (hidden, spec.o_groups * spec.o_lora_rank))


def _query_projection(spec: AttentionSpec, hidden: int, width: int) -> Iterator[Tensor]:
    if spec.q_lora_rank:
        yield Tensor("query_down", "attention", (spec.q_lora_rank, hidden))
        yield Tensor("query_up", "attention", (width, spec.q_lora_rank))
    else:
        yield Tensor("query", "attention", (width, hidden))
    if spec.q_bias:
        yield Tensor("query.bias", "attention", (spec.q_lora_rank or width,))


def _head_projections(spec: AttentionSpec, hidden: int) -> Iterator[Tensor]:
    gate = spec.heads * spec.v_dim if spec.output_gate else 0
    yield from _query_projection(spec, hidden, spec.heads * spec.head_dim + gate)
    key, value = spec.kv_heads * spec.head_dim, spec.kv_heads * spec.v_dim
    for name, width in (("key", key), ("value", 0 if spec.shared_kv else value)):
        yield Tensor(name, "attention", (width, hidden))
        if spec.kv_bias:
            yield Tensor(f"{name}.bias", "attention", (width,))


def _latent_projections(spec: AttentionSpec, hidden: int) -> Iterator[Tensor]:
    """Multi-head latent attention: queries and keys/values pass through low-rank latents."""
    query_width = spec.heads * (spec.head_dim + spec.qk_rope_dim)
    yield from _query_projection(spec, hidden, query_width)
    latent = spec.kv_lora_rank + spec.qk_rope_dim
    yield Tensor("key_value_down", "attention", (latent, hidden))
    key_value_width = spec.heads * (spec.head_dim + spec.v_dim)
    yield Tensor("key_value_up", "attention", (key_value_width, spec.kv_lora_rank))
    if spec.kv_bias:
        yield Tensor("key_value_down.bias", "attention", (latent,))


def _feed_forward_tensors(spec: FeedForwardSpec, hidden: int) -> Iterator[Tensor]:
    if spec.hidden:
        yield from _mlp("ffn", "dense_ffn", hidden, spec.hidden, spec.gated, spec.bias)
    if spec.num_experts:
        yield Tensor("router", "router", (spec.num_experts, hidden))
        if spec.router_bias:
            yield Tensor("router.bias", "router", (spec.num_experts,))
        share = spec.top_k / spec.num_experts
        width = spec.latent_hidden or hidden
        if spec.latent_hidden:
            yield Tensor("latent_down", "other", (width, hidden))
            yield Tensor("latent_up", "other", (hidden, width))
        for tensor in _mlp(
            "expert", "expert", width, spec.expert_hidden, spec.gated, spec.expert_bias
        ):
            yield replace(tensor, count=spec.num_experts, active=share)
    if spec.shared_expert_hidden:
        yield from _mlp(
            "shared_expert", "shared_expert", hidden, spec.shared_expert_hidden, spec.gated, False
        )
        if spec.shared_expert_gate:
            yield Tensor("shared_expert.switch", "shared_expert", (1, hidden))
    yield Tensor("ffn.extra", "other", (spec.extra_params,))


def _mlp(
    name: str, part: Part, hidden: int, width: int, gated: bool, bias: bool
) -> Iterator[Tensor]:
    for matrix in ("gate", "up") if gated else ("up",):
        yield Tensor(f"{name}.{matrix}", part, (width, hidden))
        if bias:
            yield Tensor(f"{name}.{matrix}.bias", part, (width,))
    yield Tensor(f"{name}.down", part, (hidden, width))
    if bias:
        yield Tensor(f"{name}.down.bias", part, (hidden,))
