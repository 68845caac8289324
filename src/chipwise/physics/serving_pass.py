"""Time of one forward pass of a serving engine: weights, products, attention, links, launches.

A pass carries ``pass_tokens`` tokens through all layers on one tensor-parallel group: one token of
each decoding sequence, or the prompts that are read. Weights are streamed once for all tokens and
overlap with the products; keys and values of the decoding sequences are read besides.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="B/s", source="babelstream2018")
def stream_rate(
    peak_bandwidth: Array, weight_stream_share: Array, format_stream_share: Array
) -> Array:
    """Device memory that weights are streamed from, as kernels of this format reach. [B/s]"""
    return peak_bandwidth * weight_stream_share * format_stream_share


@quantity(unit="FLOP/s", source="mamf2024")
def product_rate(
    peak_matmul: Array,
    matmul_fraction: Array,
    matmul_share: Array,
    format_matmul_share: Array,
    engine_matmul_share: Array,
) -> Array:
    """Matrix products of this format in this engine. [FLOP/s]"""
    best = peak_matmul * matmul_fraction
    return best * matmul_share * format_matmul_share * engine_matmul_share


@quantity(unit="FLOP/s", source="mamf2024")
def attention_rate(
    peak_16bit: Array, matmul_fraction: Array, matmul_share: Array, engine_matmul_share: Array
) -> Array:
    """Attention over a prompt: 16-bit products at a share of what large ones reach. [FLOP/s]"""
    return 0.6 * peak_16bit * matmul_fraction * matmul_share * engine_matmul_share


# -- weights and products -----------------------------------------------------------------------


@quantity(unit="1", source="arithmetic")
def shared_params(
    attention_split_params: Array,
    attention_kv_params: Array,
    attention_whole_params: Array,
    block_params: Array,
    expert_params: Array,
) -> Array:
    """Parameters that every token uses, tables left out. [1]"""
    attention = attention_split_params + attention_kv_params + attention_whole_params
    return attention + block_params - expert_params


@quantity(unit="1", source="arithmetic")
def expert_sharers(expert_shards: Array, tp: Array) -> Array:
    """Tensor-parallel groups whose tokens meet at one set of experts. [1]"""
    return expert_shards / tp


@quantity(unit="1", source="arithmetic", assumes="experts are chosen evenly and independently")
def expert_coverage(
    pass_tokens: Array, num_experts: Array, top_k: Array, expert_sharers: Array
) -> Array:
    """Share of the experts that some token of a pass chooses. [1]"""
    left_out = 1 - top_k / np.maximum(num_experts, 1.0)
    chosen = 1 - np.maximum(left_out, 0.0) ** (pass_tokens * expert_sharers)
    return np.where(num_experts > 0, chosen, 0.0)


@quantity(unit="s", source="arithmetic")
def weight_stream_time(
    attention_weights_bytes: Array,
    small_weights_bytes: Array,
    block_params: Array,
    expert_params: Array,
    block_bytes: Array,
    head_table_bytes: Array,
    tp: Array,
    stream_rate: Array,
) -> Array:
    """Streaming the weights that every token uses. [s]"""
    blocks = (block_params - expert_params) * block_bytes
    held = attention_weights_bytes + small_weights_bytes + blocks + head_table_bytes
    return held / tp / stream_rate


@quantity(unit="s", source="arithmetic")
def expert_stream_time(
    expert_params: Array,
    block_bytes: Array,
    expert_coverage: Array,
    expert_shards: Array,
    stream_rate: Array,
    expert_stream_share: Array,
) -> Array:
    """Streaming the experts that are chosen. [s]"""
    held = expert_params * block_bytes * expert_coverage
    return held / expert_shards / (stream_rate * expert_stream_share)


@quantity(unit="s", source="williams2009")
def shared_product_time(
    shared_params: Array,
    table_params: Array,
    pass_tokens: Array,
    pass_logit_rows: Array,
    tp: Array,
    product_rate: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """Products of the layers that every token uses, and of the head. [s]"""
    work = flop_per_multiply_add * (shared_params * pass_tokens + table_params * pass_logit_rows)
    return work / tp / product_rate


@quantity(unit="s", source="williams2009")
def expert_product_time(
    expert_params: Array,
    top_k: Array,
    num_experts: Array,
    pass_tokens: Array,
    expert_sharers: Array,
    expert_shards: Array,
    product_rate: Array,
    expert_matmul_share: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """Products of the chosen experts. [s]"""
    used = expert_params * top_k / np.maximum(num_experts, 1.0)
    work = flop_per_multiply_add * used * pass_tokens * expert_sharers
    return work / expert_shards / (product_rate * expert_matmul_share)


@quantity(unit="s", source="assumed", assumes="streaming and computing overlap but for a rest")
def layers_time(
    weight_stream_time: Array,
    shared_product_time: Array,
    expert_stream_time: Array,
    expert_product_time: Array,
) -> Array:
    """Weights and products of all layers: whichever takes longer, more when they are equal. [s]"""
    shared = (weight_stream_time**2.5 + shared_product_time**2.5) ** 0.4
    return shared + (expert_stream_time**2.5 + expert_product_time**2.5) ** 0.4


# -- attention ----------------------------------------------------------------------------------


@quantity(unit="s", source="arithmetic", assumes="window layers read their window only")
def cache_read_time(
    pass_sequences: Array,
    pass_context: Array,
    kv_full_width: Array,
    kv_window_width: Array,
    window: Array,
    kv_value_bytes: Array,
    kv_shards: Array,
    peak_bandwidth: Array,
    weight_stream_share: Array,
    cache_read_share: Array,
) -> Array:
    """Reading the keys and values of the decoding sequences. [s]"""
    seen = np.where(window > 0, np.minimum(pass_context, window), pass_context)
    values = kv_full_width * pass_context + kv_window_width * seen
    read = values * kv_value_bytes * pass_sequences / kv_shards
    return read / (peak_bandwidth * weight_stream_share * cache_read_share)


@quantity(unit="s", source="flashattention2022", assumes="causal: half of the square")
def prompt_attention_time(
    pass_prompts: Array,
    prompt_tokens: Array,
    score_width: Array,
    tp: Array,
    attention_rate: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """Attention of the prompts among themselves. [s]"""
    pairs = pass_prompts * prompt_tokens**2 / 2
    return flop_per_multiply_add * pairs * score_width / tp / attention_rate


# -- links and launches -------------------------------------------------------------------------


@quantity(unit="s", source="patarasuk2009", assumes="two all-reduces a layer")
def reduce_time(
    pass_tokens: Array,
    layers: Array,
    hidden: Array,
    tp: Array,
    devices_per_node: Array,
    intra_bandwidth: Array,
    network_bandwidth: Array,
    reduce_latency: Array,
    reduce_share: Array,
    compute_bytes: Array,
) -> Array:
    """All-reduces of a tensor-parallel group over 16-bit activations. [s]"""
    link = np.where(tp > devices_per_node, network_bandwidth, intra_bandwidth)
    moved = pass_tokens * hidden * compute_bytes * (tp - 1) / tp / (link * reduce_share)
    each = reduce_latency * (1 + 0.15 * np.log2(tp)) + moved
    return np.where(tp > 1, 2 * layers * each, 0.0)


@quantity(unit="s", source="deepep", assumes="half the bytes out, all back")
def expert_exchange_time(
    pass_tokens: Array,
    moe_layers: Array,
    hidden: Array,
    top_k: Array,
    expert_shards: Array,
    expert_sharers: Array,
    devices_per_node: Array,
    intra_bandwidth: Array,
    network_bandwidth: Array,
    reduce_latency: Array,
    exchange_share: Array,
    compute_bytes: Array,
) -> Array:
    """Sending tokens to the experts of other groups and back. [s]"""
    link = np.where(expert_shards > devices_per_node, network_bandwidth, intra_bandwidth)
    copies = np.minimum(top_k, expert_shards) * (1 - 1 / expert_shards)
    moved = 1.5 * compute_bytes * pass_tokens * hidden * copies / (link * exchange_share)
    return np.where(expert_sharers > 1, moe_layers * (2 * reduce_latency + moved), 0.0)


@quantity(unit="s", source="assumed")
def launch_time(
    layers: Array, graphed: Array, step_launch_time: Array, prompt_launch_time: Array
) -> Array:
    """Launching the kernels of all layers; decode steps are recorded where engines do. [s]"""
    return layers * np.where(graphed > 0, step_launch_time, prompt_launch_time)


@quantity(unit="s", source="arithmetic")
def pass_time(
    layers_time: Array,
    cache_read_time: Array,
    prompt_attention_time: Array,
    reduce_time: Array,
    expert_exchange_time: Array,
    launch_time: Array,
    stack_share: Array,
    expert_sharers: Array,
    num_experts: Array,
    rank_imbalance: Array,
) -> Array:
    """One pass through all layers. [s]

    Notes:
        Groups that share experts wait for the slowest of them in every layer.
    """
    sums = layers_time + cache_read_time + prompt_attention_time
    links = reduce_time + expert_exchange_time + launch_time
    together = np.where((expert_sharers > 1) & (num_experts > 0), rank_imbalance, 1.0)
    return (sums + links) * together / stack_share
