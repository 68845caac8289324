"""What a model is made of: embeddings, groups of equal layers, and a head.

A ``ModelSpec`` is architecture only. Layers that are alike form one ``LayerGroup`` with a count,
so that mixed stacks (dense first layers, sliding windows, hybrid attention) stay a short list.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=0)]


class Frozen(BaseModel):
    """Immutable, closed value object: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Projection(Frozen):
    """One linear module that no other field describes, under its public name."""

    name: str
    """Path within a layer, such as ``linear_attn.out_proj``."""
    outputs: Count
    inputs: Count


class AttentionSpec(Frozen):
    """One attention block; ``mla`` uses the latent ranks, the others the head widths.

    ``linear`` stands for recurrent or linear attention (gated delta net, Mamba-like): its matrices
    are listed as ``projections``, the rest of its weights counted as ``extra_params``. It keeps a
    state of fixed size, not a KV cache: ``heads`` matrices of ``head_dim`` × ``value_head_dim``
    for each sequence.
    """

    kind: Literal["mha", "gqa", "mla", "linear"]
    heads: Count
    kv_heads: Count
    head_dim: Count
    """Width of one query/key head (MLA: the no-position part, ``qk_nope_dim``)."""
    value_head_dim: Size = 0
    """Width of one value head; 0 means equal to ``head_dim``."""
    window: Size = 0
    """Sliding-window length in tokens; 0 means full attention."""
    q_bias: bool = False
    kv_bias: bool = False
    output_bias: bool = False
    qk_norm_params: Size = 0
    """Parameters of query/key norms of one layer, both together."""
    q_lora_rank: Size = 0
    kv_lora_rank: Size = 0
    qk_rope_dim: Size = 0
    shared_kv: bool = False
    """Keys serve as values too: there is no value projection."""
    o_lora_rank: Size = 0
    """Low-rank output projection: rank of each of ``o_groups`` groups of heads; 0: one matrix."""
    o_groups: Count = 1
    output_gate: bool = False
    """The query projection carries an equally wide output gate."""
    projections: tuple[Projection, ...] = ()
    """Further linear modules: those of recurrent layers, indexers, head gates."""
    extra_params: Size = 0
    """Parameters of this block that the fields above do not describe (sinks, conv, decay …)."""

    @property
    def v_dim(self) -> int:
        """Width of one value head."""
        return self.value_head_dim or self.head_dim

    @model_validator(mode="after")
    def _query_heads_are_a_multiple_of_kv_heads(self) -> AttentionSpec:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        return self


class FeedForwardSpec(Frozen):
    """One feed-forward block: dense, or a mixture of experts when ``num_experts`` > 0."""

    hidden: Size
    """Width of the dense block; 0 when there is none (pure mixture of experts)."""
    gated: bool = True
    """Three matrices (gate, up, down) instead of two."""
    bias: bool = False
    num_experts: Size = 0
    top_k: Size = 0
    expert_hidden: Size = 0
    shared_expert_hidden: Size = 0
    """Total width of the experts every token uses."""
    latent_hidden: Size = 0
    """Width to which tokens are projected for the routed experts, and back; 0: not projected."""
    router_bias: bool = False
    shared_expert_gate: bool = False
    expert_bias: bool = False
    extra_params: Size = 0

    @model_validator(mode="after")
    def _experts_are_complete(self) -> FeedForwardSpec:
        if self.num_experts and not (0 < self.top_k <= self.num_experts and self.expert_hidden):
            raise ValueError("a mixture of experts needs 1 ≤ top_k ≤ num_experts and expert_hidden")
        return self


class LayerGroup(Frozen):
    """``count`` equal layers. ``stack`` leaves room for encoders, towers and cross attention."""

    count: Count
    attention: AttentionSpec | None
    feed_forward: FeedForwardSpec | None
    cross_attention: AttentionSpec | None = None
    norm_params: Size
    """Parameters of the block norms of one layer (weights and biases, without qk norms)."""
    extra_params: Size = 0
    stack: Literal["decoder", "encoder", "vision"] = "decoder"
    causal: bool = True


class ModelSpec(Frozen):
    """A transformer: embeddings, layer groups, final norm and head."""

    id: str
    family: str
    architecture: str = ""
    """``model_type`` of the public configuration, which decides how modules are called; empty
    where there is none."""
    hidden: Count
    vocab: Size
    layers: Annotated[tuple[LayerGroup, ...], Field(min_length=1)]
    tied_embeddings: bool = False
    head_bias: bool = False
    final_norm_params: Size = 0
    position_params: Size = 0
    """Learned position (and token-type) embedding parameters."""
    extra_params: Size = 0
    """Parameters outside layers that no other field describes (embedding norms, projections)."""
    max_context: Size = 0
    """Longest sequence the published configuration allows; 0 means unknown."""
    stated_params: Size = 0
    """Exact count read from a checkpoint beside the configuration; 0 means none was there."""
    stated_active_params: Size = 0

    @property
    def num_layers(self) -> int:
        """All layers of all groups."""
        return sum(group.count for group in self.layers)
