"""Time of one layer on one device: attention, memory-bound work, the host, and their sum.

A layer takes the longer of what the device needs and what the host needs to launch it. Times are
per micro-batch and device, averaged over the layers of the model.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="1", source="korthikanti2022")
def recompute_time_share(recompute_forward_share: Array, recompute_repeat: Array) -> Array:
    """Share of the forward pass that is executed again in the backward pass. [1]"""
    return recompute_forward_share * recompute_repeat


@quantity(unit="s", source="dao2023")
def attention_core_time(
    attention_flop_per_token: Array,
    layers: Array,
    tp: Array,
    microbatch_tokens: Array,
    peak_16bit: Array,
    matmul_fraction_16bit: Array,
    power_factor: Array,
    attention_forward_efficiency: Array,
    attention_kernel_factor: Array,
    eager_attention: Array,
    misaligned_heads: Array,
    misaligned_slowdown: Array,
    causal_share: Array,
) -> Array:
    """Forward time of scores, softmax and value products of one layer. [s]

    Notes:
        Eager kernels compute the masked half as well: 1/causal_share times the work; where the
        head width is no multiple of 8 their 16-bit products miss the tensor cores. Attention
        kernels are limited by softmax and data movement, not by the power that throttles dense
        products, so neither the derate nor the family factor of those applies.
    """
    masked = 1 + eager_attention * (1 / causal_share - 1)
    masked = masked * (1 + eager_attention * misaligned_heads * (misaligned_slowdown - 1))
    work = attention_flop_per_token * masked * microbatch_tokens / (layers * tp)
    rate = peak_16bit * matmul_fraction_16bit * power_factor
    return work / (rate * attention_forward_efficiency * attention_kernel_factor)


@quantity(unit="s", source="assumed")
def score_traffic_time(
    score_heads: Array,
    layers: Array,
    tp: Array,
    seq_len: Array,
    microbatch_tokens: Array,
    eager_attention: Array,
    score_passes: Array,
    compute_bytes: Array,
    bandwidth: Array,
) -> Array:
    """Forward time of moving attention scores, when the kernel writes them out. [s]"""
    scores = score_heads / (layers * tp) * seq_len * microbatch_tokens
    return eager_attention * score_passes * compute_bytes * scores / bandwidth


@quantity(unit="s", source="ivanov2021")
def elementwise_time(
    hidden: Array,
    ffn_saved_width: Array,
    expert_saved_width: Array,
    layers: Array,
    tp: Array,
    sequence_parallel: Array,
    microbatch_tokens: Array,
    model_width_passes: Array,
    ffn_width_passes: Array,
    fusion_factor: Array,
    compute_bytes: Array,
    bandwidth: Array,
) -> Array:
    """Forward time of norms, activations, dropout, residuals and casts of one layer. [s]

    Notes:
        Bytes moved: passes over the model width (not divided by tp without sequence parallel)
        and over the feed-forward widths.
    """
    model_width = hidden * model_width_passes / np.where(sequence_parallel > 0, tp, 1.0)
    ffn_width = (ffn_saved_width + expert_saved_width) * ffn_width_passes / (layers * tp)
    moved = microbatch_tokens * compute_bytes * (model_width + ffn_width)
    return fusion_factor * moved / bandwidth


@quantity(unit="s", source="megablocks2022")
def permutation_time(
    routed_width: Array,
    layers: Array,
    tp: Array,
    microbatch_tokens: Array,
    permutation_passes: Array,
    compute_bytes: Array,
    bandwidth: Array,
) -> Array:
    """Forward time of sorting tokens to experts and back. [s]"""
    moved = routed_width / (layers * tp) * microbatch_tokens * compute_bytes
    return permutation_passes * moved / bandwidth


@quantity(unit="s", source="micikevicius2022")
def cast_time(
    hidden: Array,
    query_width: Array,
    ffn_width: Array,
    tp: Array,
    microbatch_tokens: Array,
    low_precision: Array,
    cast_passes: Array,
    compute_bytes: Array,
    bandwidth: Array,
) -> Array:
    """Forward time of scaling and casting matmul inputs to 8 or 4 bits. [s]"""
    width = 2 * hidden + (query_width + ffn_width) / tp
    return low_precision * cast_passes * microbatch_tokens * compute_bytes * width / bandwidth


@quantity(unit="s", source="arithmetic", parts=True)
def layer_linear_time(
    attention_linear_time: Array, ffn_linear_time: Array, expert_time: Array
) -> Array:
    """Forward time of all matrix products with weights, one layer. [s]"""
    return attention_linear_time + ffn_linear_time + expert_time


@quantity(unit="s", source="arithmetic", parts=True)
def layer_moving_time(
    elementwise_time: Array, permutation_time: Array, cast_time: Array, score_traffic_time: Array
) -> Array:
    """Forward time of all memory-bound work of one layer. [s]"""
    return elementwise_time + permutation_time + cast_time + score_traffic_time


@quantity(unit="s", source="arithmetic", parts=True)
def layer_forward_time(
    layer_linear_time: Array, attention_core_time: Array, layer_moving_time: Array
) -> Array:
    """Device time of one layer, forward. [s]"""
    return layer_linear_time + attention_core_time + layer_moving_time


@quantity(unit="s", source="dao2023")
def layer_backward_time(
    layer_linear_time: Array,
    attention_core_time: Array,
    layer_moving_time: Array,
    backward_passes: Array,
    reached_share: Array,
    attention_backward_ratio: Array,
    moving_backward_ratio: Array,
) -> Array:
    """Device time of one layer, backward. [s]

    Notes:
        Matrix products: once for inputs and once for weights. Layers below the lowest trained
        weight have no backward pass (``reached_share``). Flash attention recomputes the
        scores: 2.5 times the forward work, at a lower rate.
    """
    return (
        backward_passes * layer_linear_time
        + reached_share * attention_backward_ratio * attention_core_time
        + reached_share * moving_backward_ratio * layer_moving_time
    )


@quantity(unit="s", source="korthikanti2022")
def layer_recompute_time(
    layer_forward_time: Array,
    attention_core_time: Array,
    score_traffic_time: Array,
    recompute_time_share: Array,
    scores_recomputed: Array,
) -> Array:
    """Device time of repeating the forward pass of one layer. [s]"""
    scores = attention_core_time + score_traffic_time
    repeated = (1 - recompute_time_share) * scores_recomputed * scores
    return recompute_time_share * layer_forward_time + repeated


@quantity(unit="s", source="arithmetic", parts=True)
def layer_device_time(
    layer_forward_time: Array, layer_backward_time: Array, layer_recompute_time: Array
) -> Array:
    """Device time of one layer for one micro-batch, forward to backward. [s]"""
    return layer_forward_time + layer_backward_time + layer_recompute_time


@quantity(unit="1", source="assumed")
def layer_passes(
    backward_passes: Array,
    reached_share: Array,
    recompute_time_share: Array,
    shard_weights: Array,
    shard_passes: Array,
) -> Array:
    """Passes the host has to launch for one layer and micro-batch. [1]

    Notes:
        Forward 1, backward about 2 (1 for input gradients, 1 for weight gradients), recompute 1;
        sharded weights add their gathers and scatters to each.
    """
    passes = 1 + np.maximum(reached_share, backward_passes) + recompute_time_share
    return passes * (1 + shard_weights * shard_passes)


@quantity(unit="s", source="assumed", assumes="only stacks with blocking stage hand-over pay it")
def stage_wait_time(
    tp: Array, pp: Array, num_devices: Array, devices_per_node: Array, stage_sync_time: Array
) -> Array:
    """Host time per layer that ranks of a stage wait for each other when stages span nodes. [s]"""
    waits = (tp > 1) & (pp > 1) & (num_devices > devices_per_node)
    return np.where(waits, stage_sync_time * tp, 0.0)


@quantity(unit="s", source="assumed")
def layer_host_time(
    layer_passes: Array,
    host_pass_time: Array,
    host_factor: Array,
    host_cpu_factor: Array,
    tp: Array,
    tp_host_share: Array,
    has_experts: Array,
    expert_host_share: Array,
    moe_layer_share: Array,
    stage_wait_time: Array,
) -> Array:
    """Time the host needs to launch all kernels of one layer for one micro-batch. [s]"""
    parallel = 1 + tp_host_share * np.maximum(0.0, tp - 4)
    experts = 1 + has_experts * moe_layer_share * expert_host_share
    one = host_pass_time * host_factor * host_cpu_factor
    return layer_passes * one * parallel * experts + stage_wait_time


@quantity(unit="s", source="assumed", assumes="device and host work overlap: nearly a hard maximum")
def layer_time(
    layer_device_time: Array, layer_exposed_time: Array, layer_host_time: Array, time_scale: Array
) -> Array:
    """Time of one layer for one micro-batch, beside its exposed communication. [s]

    Notes:
        The device computes and communicates while the host launches ahead. Fourth-power norm of
        the two: whichever is longer, a little more when equal. A device that waits for its host
        loses nothing to communication.
    """
    device = (layer_device_time + layer_exposed_time) / time_scale
    host = layer_host_time / time_scale
    device_square, host_square = device * device, host * host
    longer = np.sqrt(np.sqrt(device_square * device_square + host_square * host_square))
    return time_scale * longer - layer_exposed_time


@quantity(unit="s", source="arithmetic")
def head_time(
    vocab: Array,
    hidden: Array,
    tp: Array,
    microbatch_tokens: Array,
    matmul_rate_16bit: Array,
    head_efficiency: Array,
    backward_passes: Array,
    loss_passes: Array,
    head_recompute: Array,
    compute_bytes: Array,
    bandwidth: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """Time of the output head and the cross entropy of one micro-batch, both directions. [s]"""
    logits = vocab / tp * microbatch_tokens
    products = flop_per_multiply_add * logits * hidden / (matmul_rate_16bit * head_efficiency)
    traffic = loss_passes * compute_bytes * logits / bandwidth
    return products * (1 + np.maximum(1.0, backward_passes) + head_recompute) + traffic
