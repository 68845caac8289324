"""Parameters held by one device: how tensor, pipeline and expert parallelism divide a model.

The stage in question is an input: ``stage_is_first`` (it has the embedding and keeps the most
micro-batches in flight) and ``stage_is_last`` (it has the head and the logits). Without pipeline
parallelism both are 1. The fullest device is found by evaluating the first and the last stage.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="1", source="arithmetic", parts=True)
def params_total(
    attention_params: Array,
    dense_ffn_params: Array,
    expert_params: Array,
    router_params: Array,
    norm_params: Array,
    embedding_params: Array,
    head_params: Array,
    other_params: Array,
) -> Array:
    """All parameters of the model, every matrix, norm and bias once. [1]"""
    return (
        attention_params
        + dense_ffn_params
        + expert_params
        + router_params
        + norm_params
        + embedding_params
        + head_params
        + other_params
    )


@quantity(unit="1", source="arithmetic")
def params_active(params_total: Array, expert_params: Array, active_expert_share: Array) -> Array:
    """Parameters one token passes through: all but the experts it is not routed to. [1]"""
    return params_total - expert_params * (1 - active_expert_share)


@quantity(unit="1", source="arithmetic")
def head_layers(
    vocab: Array,
    hidden: Array,
    layers: Array,
    attention_params: Array,
    dense_ffn_params: Array,
    balances_head: Array,
) -> Array:
    """Layers the output head is worth, for stacks that balance stages by cost. [1]"""
    layer_params = (attention_params + dense_ffn_params) / layers
    return balances_head * vocab * hidden / np.maximum(layer_params, 1.0)


@quantity(unit="1", source="arithmetic")
def stage_share(layers: Array, pp: Array, head_layers: Array, stage_is_first: Array) -> Array:
    """Share of the layers that the pipeline stage holds. [1]

    Notes:
        A stage holds whole layers: ceil(layers / pp) on the fullest one, at least one. Stacks
        that count the head as work give its stage fewer layers and the others more.
    """
    fullest = np.ceil((layers + np.where(pp > 1, head_layers, 0.0)) / pp)
    last = np.maximum(1.0, fullest - np.where(pp > 1, np.floor(head_layers), 0.0))
    return np.minimum(layers, np.where(stage_is_first > 0, fullest, last)) / layers


@quantity(unit="1", source="arithmetic")
def stage_dense_params(
    attention_params: Array,
    dense_ffn_params: Array,
    router_params: Array,
    norm_params: Array,
    tp: Array,
    stage_share: Array,
) -> Array:
    """Non-expert layer parameters on one device; routers and norms are copied over tp. [1]"""
    return stage_share * ((attention_params + dense_ffn_params) / tp + router_params + norm_params)


@quantity(unit="1", source="arithmetic")
def expert_stage_share(
    layers: Array, pp: Array, stage_share: Array, stage_is_first: Array, leading_dense_layers: Array
) -> Array:
    """Share of all routed experts that the pipeline stage holds. [1]

    Notes:
        Leading dense layers lie on the first stage; the others then hold more experts.
    """
    held = layers * stage_share
    dense = stage_is_first * np.minimum(leading_dense_layers, held)
    share = (held - dense) / np.maximum(1.0, layers - leading_dense_layers)
    return np.where(pp > 1, np.minimum(1.0, share), 1.0)


@quantity(unit="1", source="arithmetic")
def stage_expert_params(
    expert_params: Array, ep: Array, expert_tp: Array, expert_stage_share: Array
) -> Array:
    """Routed-expert parameters on one device. [1]"""
    return expert_stage_share * expert_params / (ep * expert_tp)


@quantity(unit="1", source="arithmetic", assumes="a tied embedding is copied to the last stage")
def stage_outer_params(
    embedding_params: Array,
    head_params: Array,
    other_params: Array,
    tied_embeddings: Array,
    stage_is_first: Array,
    stage_is_last: Array,
    tp: Array,
) -> Array:
    """Embedding and head parameters on one device of the stage, divided over tp. [1]"""
    head_copy = head_params + tied_embeddings * embedding_params * (1 - stage_is_first)
    return (stage_is_first * (embedding_params + other_params) + stage_is_last * head_copy) / tp


@quantity(unit="1", source="arithmetic")
def state_shards(dp: Array, cp: Array, shard_group: Array) -> Array:
    """Devices over which dense model states are divided: dp·cp, or the stated smaller group. [1]"""
    return np.minimum(dp * cp, shard_group)


@quantity(unit="1", source="arithmetic", assumes="expert groups lie across the dp·cp·tp devices")
def expert_state_shards(
    dp: Array, cp: Array, tp: Array, ep: Array, expert_tp: Array, shard_group: Array
) -> Array:
    """Devices that hold the same experts and divide their states. [1]"""
    return np.maximum(1.0, np.minimum(dp * cp * tp / (ep * expert_tp), shard_group))
