"""Matrix products of one layer on one device: achieved rates, shape efficiency, times.

Each product is a soft roofline: its operations at the achieved rate plus the part of its bytes at
the achieved bandwidth that it does not hide. Times are forward, per micro-batch and device,
averaged over the layers of the model.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="1", source="assumed")
def power_factor(power_cap: Array, tdp: Array) -> Array:
    """Slow-down of a board whose power is capped below its rating. [1]

    Notes:
        Dynamic power grows with about f·V², so at fixed work f falls with the root of the cap.
    """
    return np.sqrt(np.minimum(1.0, power_cap / tdp))


@quantity(unit="B/s", source="babelstream2018")
def bandwidth(peak_bandwidth: Array, bandwidth_efficiency: Array) -> Array:
    """Device-memory bandwidth that streaming kernels reach. [B/s]"""
    return peak_bandwidth * bandwidth_efficiency


@quantity(unit="1", source="mamf2024")
def matmul_fraction(matmul_fraction_16bit: Array, low_precision_ratio: Array) -> Array:
    """Share of its peak a large product reaches in the training dtype. [1]

    Notes:
        8- and 4-bit products are known relative to 16 bit: some chips hold their clock better
        in the narrow formats, others lose time to scaling.
    """
    return matmul_fraction_16bit * low_precision_ratio


@quantity(unit="FLOP/s", source="mamf2024")
def matmul_rate(
    peak_matmul: Array,
    matmul_fraction: Array,
    matmul_derate: Array,
    stack_factor: Array,
    family_factor: Array,
    power_factor: Array,
) -> Array:
    """Rate of large matrix products in the training dtype. [FLOP/s]

    Notes:
        Best measured share of the dense peak, derated for sustained training clocks and for the
        software stack.
    """
    measured = peak_matmul * matmul_fraction
    return measured * matmul_derate * stack_factor * family_factor * power_factor


@quantity(unit="FLOP/s", source="mamf2024")
def matmul_rate_16bit(
    peak_16bit: Array,
    matmul_fraction_16bit: Array,
    matmul_derate: Array,
    stack_factor: Array,
    family_factor: Array,
    power_factor: Array,
) -> Array:
    """Rate of large 16-bit matrix products: attention and the head stay in 16 bit. [FLOP/s]"""
    measured = peak_16bit * matmul_fraction_16bit
    return measured * matmul_derate * stack_factor * family_factor * power_factor


@quantity(unit="1", source="nvidia-matmul-guide", assumes="the model width decides")
def alignment_slowdown(hidden: Array, tp: Array, misaligned_width_slowdown: Array) -> Array:
    """Slow-down of dense products whose sharded width is no multiple of 64. [1]

    Notes:
        Tiles and 128-byte memory segments are then cut; multiples of 64 16-bit values run best.
    """
    return np.where(np.mod(hidden, 64 * tp) > 0, misaligned_width_slowdown, 1.0)


@quantity(unit="1", source="assumed", assumes="one tile-quantisation constant for all dimensions")
def attention_shape_efficiency(
    microbatch_tokens: Array, hidden: Array, query_width: Array, tp: Array, half_size: Array
) -> Array:
    """Efficiency of the attention projections from their shape. [1]

    Notes:
        Each dimension d of a product costs (1 + half_size/d): tiles that are not full, waves
        that do not fill the device, and prologues.
    """
    tokens = 1 + half_size / microbatch_tokens
    return 1 / (tokens * (1 + half_size / hidden) * (1 + half_size * tp / query_width))


@quantity(unit="1", source="assumed")
def ffn_shape_efficiency(
    microbatch_tokens: Array, hidden: Array, ffn_width: Array, tp: Array, half_size: Array
) -> Array:
    """Efficiency of the dense feed-forward products from their shape. [1]"""
    tokens = 1 + half_size / microbatch_tokens
    return 1 / (tokens * (1 + half_size / hidden) * (1 + half_size * tp / ffn_width))


@quantity(unit="1", source="assumed")
def expert_shape_efficiency(
    expert_batch_tokens: Array,
    hidden: Array,
    expert_width: Array,
    expert_tp: Array,
    half_size: Array,
) -> Array:
    """Efficiency of one expert's products from their shape. [1]"""
    tokens = 1 + half_size / expert_batch_tokens
    return 1 / (tokens * (1 + half_size / hidden) * (1 + half_size * expert_tp / expert_width))


@quantity(unit="1", source="arithmetic")
def expert_batch_tokens(
    microbatch_tokens: Array,
    tp: Array,
    expert_tp: Array,
    top_k: Array,
    num_experts: Array,
    ep: Array,
) -> Array:
    """Tokens one expert sees per micro-batch, gathered from its expert-parallel group. [1]"""
    gathered = microbatch_tokens * ep * expert_tp / tp
    return np.maximum(1.0, gathered * top_k / np.maximum(num_experts, 1.0))


@quantity(unit="s", source="williams2009")
def attention_linear_time(
    attention_params: Array,
    layers: Array,
    tp: Array,
    microbatch_tokens: Array,
    matmul_rate: Array,
    attention_shape_efficiency: Array,
    alignment_slowdown: Array,
    operand_time_factor: Array,
    weight_pass_bytes: Array,
    hidden: Array,
    bandwidth: Array,
    flop_per_multiply_add: Array,
    compute_bytes: Array,
) -> Array:
    """Forward time of the query, key, value and output projections of one layer. [s]"""
    params = attention_params / (layers * tp)
    work = flop_per_multiply_add * params * microbatch_tokens
    moved = params * weight_pass_bytes + 4 * microbatch_tokens * hidden * compute_bytes
    return (
        work * alignment_slowdown / (matmul_rate * attention_shape_efficiency)
        + operand_time_factor * moved / bandwidth
    )


@quantity(unit="s", source="williams2009")
def ffn_linear_time(
    dense_ffn_params: Array,
    layers: Array,
    tp: Array,
    microbatch_tokens: Array,
    matmul_rate: Array,
    ffn_shape_efficiency: Array,
    alignment_slowdown: Array,
    operand_time_factor: Array,
    weight_pass_bytes: Array,
    ffn_saved_width: Array,
    hidden: Array,
    bandwidth: Array,
    flop_per_multiply_add: Array,
    compute_bytes: Array,
) -> Array:
    """Forward time of the dense feed-forward products of one layer. [s]"""
    params = dense_ffn_params / (layers * tp)
    work = flop_per_multiply_add * params * microbatch_tokens
    width = ffn_saved_width / (layers * tp) + 2 * hidden
    moved = params * weight_pass_bytes + microbatch_tokens * width * compute_bytes
    return (
        work * alignment_slowdown / (matmul_rate * ffn_shape_efficiency)
        + operand_time_factor * moved / bandwidth
    )


@quantity(unit="s", source="megablocks2022")
def expert_time(
    expert_params: Array,
    active_expert_share: Array,
    expert_imbalance: Array,
    layers: Array,
    tp: Array,
    expert_tp: Array,
    ep: Array,
    microbatch_tokens: Array,
    matmul_rate: Array,
    grouped_efficiency: Array,
    expert_shape_efficiency: Array,
    operand_time_factor: Array,
    weight_pass_bytes: Array,
    bandwidth: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """Forward time of the routed experts of one layer. [s]

    Notes:
        Tokens of the tp group are shared out before routing, so each device works on 1/tp of
        them; the fullest device gets ``expert_imbalance`` times the mean.
    """
    work = flop_per_multiply_add * expert_params * active_expert_share / layers
    tokens = microbatch_tokens / tp * expert_imbalance
    local = expert_params / (layers * ep * expert_tp)
    rate = matmul_rate * grouped_efficiency * expert_shape_efficiency
    return work * tokens / rate + operand_time_factor * local * weight_pass_bytes / bandwidth
