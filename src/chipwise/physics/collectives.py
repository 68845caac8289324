"""Communication: which link each group uses, how long its collectives take, what stays exposed.

Ranks are laid out tensor-parallel innermost, then context, then data (experts span tensor and
data), pipeline outermost. A ring over a group with r members in a node drives r network cards,
so its bandwidth is the smaller of the fast link and r times the card. [patarasuk2009]
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="B/s", source="nccl-tests")
def link_bandwidth(intra_bandwidth: Array, link_efficiency: Array) -> Array:
    """Achieved bandwidth of the fast link, one way per device. [B/s]"""
    return intra_bandwidth * link_efficiency


@quantity(unit="B/s", source="nccl-tests")
def card_bandwidth(network_bandwidth: Array, network_efficiency: Array) -> Array:
    """Achieved bandwidth between nodes, one way per device. [B/s]"""
    return network_bandwidth * network_efficiency


@quantity(unit="1", source="arithmetic")
def num_nodes(num_devices: Array, devices_per_node: Array) -> Array:
    """Fast-link domains the job spans. [1]"""
    return np.ceil(num_devices / devices_per_node)


@quantity(unit="B/s", source="patarasuk2009")
def tp_bandwidth(
    tp: Array, devices_per_node: Array, link_bandwidth: Array, card_bandwidth: Array
) -> Array:
    """Bandwidth of the tensor-parallel group per device. [B/s]"""
    across = np.minimum(link_bandwidth, devices_per_node * card_bandwidth)
    return np.where(tp <= devices_per_node, link_bandwidth, across)


@quantity(unit="B/s", source="patarasuk2009")
def cp_bandwidth(
    tp: Array, cp: Array, devices_per_node: Array, link_bandwidth: Array, card_bandwidth: Array
) -> Array:
    """Bandwidth of the context-parallel group per device. [B/s]"""
    inside = np.maximum(1.0, devices_per_node / tp)
    across = np.minimum(link_bandwidth, inside * card_bandwidth)
    return np.where(tp * cp <= devices_per_node, link_bandwidth, across)


@quantity(unit="B/s", source="patarasuk2009")
def dp_bandwidth(
    tp: Array,
    cp: Array,
    dp: Array,
    devices_per_node: Array,
    link_bandwidth: Array,
    card_bandwidth: Array,
) -> Array:
    """Bandwidth of the data-parallel group (with its context-parallel ranks) per device. [B/s]"""
    inside = np.minimum(cp * dp, np.maximum(1.0, devices_per_node / tp))
    across = np.minimum(link_bandwidth, inside * card_bandwidth)
    return np.where(tp * cp * dp <= devices_per_node, link_bandwidth, across)


@quantity(unit="B/s", source="patarasuk2009")
def pp_bandwidth(
    tp: Array,
    cp: Array,
    dp: Array,
    devices_per_node: Array,
    link_bandwidth: Array,
    card_bandwidth: Array,
) -> Array:
    """Bandwidth between neighbouring pipeline stages per device. [B/s]"""
    return np.where(tp * cp * dp < devices_per_node, link_bandwidth, card_bandwidth)


@quantity(unit="s", source="patarasuk2009")
def tp_collective_latency(
    tp: Array,
    devices_per_node: Array,
    link_latency: Array,
    network_latency: Array,
    tp_network_latency: Array,
) -> Array:
    """Fixed time of one tensor-parallel collective. [s]"""
    nodes = np.maximum(1.0, tp / devices_per_node)
    return link_latency + np.log2(nodes) * (network_latency + tp_network_latency)


@quantity(unit="s", source="korthikanti2022")
def tp_layer_time(
    tp: Array,
    microbatch_tokens: Array,
    hidden: Array,
    communication_bytes: Array,
    tp_bandwidth: Array,
    tp_collective_latency: Array,
    recompute_time_share: Array,
    tp_blocks_per_layer: Array,
) -> Array:
    """Tensor-parallel communication of one layer for one micro-batch. [s]

    Notes:
        One all-reduce per block (attention, feed-forward) and direction, or the equal volume of
        reduce-scatter and all-gather; full recompute repeats the forward ones.
    """
    collectives = tp_blocks_per_layer * (2 + recompute_time_share)
    volume = 2 * (tp - 1) / tp * microbatch_tokens * hidden * communication_bytes
    one = volume / tp_bandwidth + 2 * tp_collective_latency
    return np.where(tp > 1, collectives * one, 0.0)


@quantity(unit="s", source="arithmetic")
def tp_exposed_time(tp_layer_time: Array, tp_exposed_share: Array) -> Array:
    """Tensor-parallel communication of one layer that computing does not hide. [s]"""
    return tp_layer_time * tp_exposed_share


@quantity(unit="s", source="megablocks2022")
def ep_layer_time(
    ep: Array,
    tp: Array,
    routed_width: Array,
    layers: Array,
    microbatch_tokens: Array,
    communication_bytes: Array,
    expert_imbalance: Array,
    devices_per_node: Array,
    link_bandwidth: Array,
    card_bandwidth: Array,
    link_latency: Array,
    network_latency: Array,
    recompute_time_share: Array,
    moe_layer_share: Array,
) -> Array:
    """Expert all-to-all of one layer for one micro-batch: dispatch and combine, both ways. [s]

    Notes:
        Of the routed tokens a share (ep - r)/ep leaves the node over this device's own card,
        the rest stays on the fast link; the two go at once.
    """
    sent = routed_width / (layers * tp) * microbatch_tokens * communication_bytes * expert_imbalance
    outside = np.maximum(0.0, 1 - devices_per_node / ep)
    inside = 1 - outside - 1 / ep
    one = np.maximum(sent * inside / link_bandwidth, sent * outside / card_bandwidth)
    latency = link_latency + np.where(outside > 0, network_latency, 0.0 * network_latency)
    passes = 2 * (2 + recompute_time_share)
    return np.where(ep > 1, passes * (one + moe_layer_share * latency), 0.0)


@quantity(unit="s", source="arithmetic")
def ep_exposed_time(
    ep_layer_time: Array,
    ep: Array,
    devices_per_node: Array,
    ep_exposed_inside: Array,
    ep_exposed_across: Array,
) -> Array:
    """Expert communication of one layer that computing does not hide. [s]"""
    share = np.where(ep <= devices_per_node, ep_exposed_inside, ep_exposed_across)
    return ep_layer_time * share


@quantity(unit="s", source="liu2023ring")
def cp_exposed_time(
    cp: Array,
    key_value_width: Array,
    layers: Array,
    tp: Array,
    microbatch_tokens: Array,
    communication_bytes: Array,
    cp_bandwidth: Array,
    link_latency: Array,
    attention_core_time: Array,
    cp_exposed_share: Array,
) -> Array:
    """Ring exchange of keys and values of one layer that attention does not hide. [s]

    Notes:
        Forward passes keys and values once around the ring, backward twice that; it hides
        behind the attention of the chunk in hand.
    """
    volume = 3 * key_value_width / (layers * tp) * microbatch_tokens * communication_bytes
    ring = (cp - 1) * (volume / cp_bandwidth + 3 * link_latency)
    behind = np.maximum(0.0 * ring, ring - 3 * attention_core_time)
    return np.where(cp > 1, behind + cp_exposed_share * ring, 0.0)


@quantity(unit="s", source="zero2020")
def gradient_sync_time(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    state_shards: Array,
    dp: Array,
    cp: Array,
    expert_state_shards: Array,
    trained_share: Array,
    grad_communication_bytes: Array,
    shard_weights: Array,
    shard_optimizer: Array,
    reduces_whole: Array,
    pp: Array,
    compute_bytes: Array,
    dp_bandwidth: Array,
    network_latency: Array,
    num_nodes: Array,
    replica_sync_time: Array,
) -> Array:
    """Once per step: reduce gradients and hand out updated weights, nothing hidden. [s]

    Notes:
        A reduce-scatter of gradients and an all-gather of weights, each (n-1)/n of the bytes;
        an all-reduce moves the same. With sharded weights see ``shard_microbatch_time``; then
        only copies of hybrid sharding are left to be reduced. DeepSpeed's pipeline engine
        all-reduces bf16 runs' gradients whole, though each rank updates a shard
        (``reduces_whole``) [deepspeed-pipeline].
    """
    dense = (stage_dense_params + stage_outer_params) * (1 - 1 / (dp * cp))
    experts = stage_expert_params * (1 - 1 / expert_state_shards)
    gather_bytes = np.where(shard_optimizer > 0, compute_bytes, grad_communication_bytes)
    again = np.where(pp > 1, reduces_whole * shard_optimizer * grad_communication_bytes, 0.0)
    each = grad_communication_bytes + gather_bytes + again
    moved = (dense + experts) * trained_share * each / dp_bandwidth
    once = np.where(dp * cp > 1, moved + 2 * np.log2(num_nodes) * network_latency, 0.0)
    return once * (1 - shard_weights) + shard_weights * replica_sync_time


@quantity(unit="B/s", source="patarasuk2009")
def shard_bandwidth(
    tp: Array,
    cp: Array,
    dp: Array,
    state_shards: Array,
    devices_per_node: Array,
    link_bandwidth: Array,
    dp_bandwidth: Array,
) -> Array:
    """Bandwidth per device among the ranks that share one copy of the states. [B/s]

    Notes:
        A part of the data-parallel ranks (hybrid sharding) that fits in a node gathers over the
        fast link alone.
    """
    inside = (state_shards < dp * cp) & (tp * state_shards <= devices_per_node)
    return np.where(inside, link_bandwidth, dp_bandwidth)


@quantity(unit="1", source="arithmetic")
def shard_nodes(
    tp: Array, cp: Array, dp: Array, state_shards: Array, devices_per_node: Array, num_nodes: Array
) -> Array:
    """Nodes over which one copy of the states is spread; all where there is one copy. [1]"""
    own = np.maximum(1.0, tp * state_shards / devices_per_node)
    return np.where(state_shards < dp * cp, np.minimum(own, num_nodes), num_nodes)


@quantity(unit="s", source="fsdp2023", assumes="copies are reduced once per step")
def replica_sync_time(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    state_shards: Array,
    expert_state_shards: Array,
    dp: Array,
    cp: Array,
    trained_share: Array,
    grad_communication_bytes: Array,
    dp_bandwidth: Array,
) -> Array:
    """All-reduce of sharded gradients between the copies of hybrid sharding, once per step. [s]"""
    copies = dp * cp / state_shards
    held = (stage_dense_params + stage_outer_params) / state_shards
    held = held + stage_expert_params / expert_state_shards
    moved = 2 * (1 - 1 / copies) * held * trained_share * grad_communication_bytes
    return moved / dp_bandwidth


@quantity(unit="s", source="fsdp2023")
def shard_microbatch_time(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    state_shards: Array,
    expert_state_shards: Array,
    trained_share: Array,
    grad_communication_bytes: Array,
    gather_bytes: Array,
    shard_weights: Array,
    shard_bandwidth: Array,
    link_latency: Array,
    network_latency: Array,
    shard_nodes: Array,
    stage_layers: Array,
) -> Array:
    """Per micro-batch: gather sharded weights forward and backward, scatter gradients. [s]"""
    dense = (stage_dense_params + stage_outer_params) * (1 - 1 / state_shards)
    experts = stage_expert_params * (1 - 1 / expert_state_shards)
    each = 2 * gather_bytes + trained_share * grad_communication_bytes
    latency = 3 * stage_layers * (link_latency + np.log2(shard_nodes) * network_latency)
    moving = (dense + experts) * each / shard_bandwidth
    return shard_weights * np.where(state_shards > 1, moving + latency, 0.0)
