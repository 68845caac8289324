"""Model states: weights, gradients, master weights and optimizer states on one device.

Bytes per parameter come from the job (precision, optimizer, what the framework keeps); what is
divided over the data-parallel group comes from the sharding stage.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="1", source="zero2020")
def weight_divisor(shard_weights: Array, state_shards: Array) -> Array:
    """By how much sharding divides dense weights: 1 unless weights are sharded. [1]"""
    return 1 + shard_weights * (state_shards - 1)


@quantity(unit="1", source="zero2020")
def gradient_divisor(shard_gradients: Array, state_shards: Array) -> Array:
    """By how much sharding divides dense gradients. [1]"""
    return 1 + shard_gradients * (state_shards - 1)


@quantity(unit="1", source="zero2020")
def optimizer_divisor(shard_optimizer: Array, state_shards: Array) -> Array:
    """By how much sharding divides dense optimizer states and master weights. [1]"""
    return 1 + shard_optimizer * (state_shards - 1)


@quantity(unit="1", source="zero2020")
def expert_weight_divisor(shard_weights: Array, expert_state_shards: Array) -> Array:
    """By how much sharding divides expert weights. [1]"""
    return 1 + shard_weights * (expert_state_shards - 1)


@quantity(unit="1", source="zero2020")
def expert_gradient_divisor(shard_gradients: Array, expert_state_shards: Array) -> Array:
    """By how much sharding divides expert gradients. [1]"""
    return 1 + shard_gradients * (expert_state_shards - 1)


@quantity(unit="1", source="zero2020")
def expert_optimizer_divisor(shard_optimizer: Array, expert_state_shards: Array) -> Array:
    """By how much sharding divides expert optimizer states. [1]"""
    return 1 + shard_optimizer * (expert_state_shards - 1)


@quantity(unit="B", source="arithmetic")
def kept_weights_bytes(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    weight_divisor: Array,
    expert_weight_divisor: Array,
    weight_bytes: Array,
    outer_weight_bytes: Array,
    weight_copies: Array,
) -> Array:
    """Weights kept for one device between steps, on it or on its host. [B]

    Notes:
        A quantised base keeps its embedding and head in 16 bit: ``outer_weight_bytes``. A schedule
        that feeds the pipeline from both ends keeps two stages (``weight_copies`` = 2).
    """
    dense = stage_dense_params * weight_bytes + stage_outer_params * outer_weight_bytes
    experts = stage_expert_params * weight_bytes
    return weight_copies * (dense / weight_divisor + experts / expert_weight_divisor)


@quantity(unit="B", source="arithmetic")
def weights_resident_bytes(kept_weights_bytes: Array, weights_on_device: Array) -> Array:
    """Weights kept on one device between steps. [B]"""
    return kept_weights_bytes * weights_on_device


@quantity(unit="B", source="lora2021", assumes="adapters follow the split of the base weights")
def adapter_bytes(
    adapter_params: Array,
    adapter_state_bytes: Array,
    adapter_paged_bytes: Array,
    stage_share: Array,
    tp: Array,
    weight_divisor: Array,
) -> Array:
    """Adapter weights with their gradients and optimizer states on one device, pages apart. [B]"""
    each = adapter_state_bytes - adapter_paged_bytes
    return adapter_params * each * stage_share / (tp * weight_divisor)


@quantity(unit="B", source="arithmetic")
def kept_gradient_bytes(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    gradient_divisor: Array,
    expert_gradient_divisor: Array,
    trained_dense_share: Array,
    trained_outer_share: Array,
    trained_expert_share: Array,
    grad_bytes: Array,
) -> Array:
    """Gradients of the base weights kept for one device, on it or on its host. [B]"""
    dense = trained_dense_share * stage_dense_params + trained_outer_share * stage_outer_params
    experts = trained_expert_share * stage_expert_params
    return grad_bytes * (dense / gradient_divisor + experts / expert_gradient_divisor)


@quantity(unit="B", source="arithmetic")
def gradient_bytes(kept_gradient_bytes: Array, weights_on_device: Array) -> Array:
    """Gradients of the base weights on one device; they go to the host with the weights. [B]"""
    return kept_gradient_bytes * weights_on_device


@quantity(unit="1", source="arithmetic")
def optimizer_params(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    optimizer_divisor: Array,
    expert_optimizer_divisor: Array,
    trained_dense_share: Array,
    trained_outer_share: Array,
    trained_expert_share: Array,
) -> Array:
    """Parameters whose optimizer states one device keeps. [1]"""
    dense = trained_dense_share * stage_dense_params + trained_outer_share * stage_outer_params
    experts = trained_expert_share * stage_expert_params
    return dense / optimizer_divisor + experts / expert_optimizer_divisor


@quantity(unit="B", source="arithmetic")
def kept_optimizer_bytes(
    optimizer_params: Array,
    optimizer_bytes: Array,
    optimizer_state_share: Array,
    projection_bytes: Array,
    master_bytes: Array,
) -> Array:
    """Optimizer states and master weights kept for one device, on it or on its host. [B]

    Notes:
        Projected gradients keep a share of the states, and their projections [galore2024].
    """
    states = optimizer_bytes * optimizer_state_share + projection_bytes
    return optimizer_params * (states + master_bytes)


@quantity(unit="B", source="arithmetic")
def optimizer_state_bytes(
    kept_optimizer_bytes: Array, optimizer_on_device: Array, paged_base_bytes: Array
) -> Array:
    """Optimizer states and master weights on one device, without those in pages. [B]"""
    return kept_optimizer_bytes * optimizer_on_device - paged_base_bytes


@quantity(unit="B", source="torchtune-pr389", assumes="one temporary copy of the updated shard")
def optimizer_step_bytes(
    optimizer_params: Array, step_copy_bytes: Array, optimizer_on_device: Array
) -> Array:
    """Temporary copies made by a multi-tensor (foreach) optimizer step. [B]"""
    return optimizer_params * step_copy_bytes * optimizer_on_device


@quantity(unit="1", source="fsdp2023")
def weights_absent(shard_weights: Array, weights_on_device: Array, weight_divisor: Array) -> Array:
    """Share of the weights a device has to fetch before use: sharded away or on the host. [1]"""
    return 1 - weights_on_device * (1 - shard_weights * (1 - 1 / weight_divisor))


@quantity(unit="1", source="torchtitan2024", assumes="a pipeline keeps its stage gathered")
def units_gathered(gathered_units: Array, layers: Array, stage_share: Array, pp: Array) -> Array:
    """Layers whose gathered weights are alive at once. [1]

    Notes:
        A stage that serves many micro-batches per step is gathered once and kept.
    """
    return np.where(pp > 1, layers * stage_share, np.minimum(gathered_units, layers))


@quantity(unit="B", source="fsdp2023")
def gathered_weights_bytes(
    stage_dense_params: Array,
    stage_expert_params: Array,
    stage_outer_params: Array,
    layers: Array,
    stage_share: Array,
    units_gathered: Array,
    weights_absent: Array,
    gather_bytes: Array,
    compute_bytes: Array,
) -> Array:
    """Gathered weights of the layers alive at once, and of the embedding. [B]"""
    unit = (stage_dense_params + stage_expert_params) / (layers * stage_share)
    return weights_absent * (
        gather_bytes * units_gathered * unit + compute_bytes * stage_outer_params
    )


@quantity(unit="B", source="torchtitan2024", assumes="gradients are scattered once per step")
def gathered_gradient_bytes(
    stage_dense_params: Array,
    stage_expert_params: Array,
    shard_weights: Array,
    weight_divisor: Array,
    trained_dense_share: Array,
    trained_expert_share: Array,
    pp: Array,
    grad_bytes: Array,
) -> Array:
    """Unsharded gradients a pipeline stage accumulates before it scatters them. [B]"""
    dense = trained_dense_share * stage_dense_params
    stage = grad_bytes * (dense + trained_expert_share * stage_expert_params)
    return np.where(pp > 1, shard_weights * (1 - 1 / weight_divisor) * stage, 0.0)


@quantity(unit="B", source="qlora2023")
def dequantised_bytes(
    largest_matrix_params: Array, tp: Array, quantised_base: Array, compute_bytes: Array
) -> Array:
    """The largest quantised matrix, unpacked to the compute dtype while it is multiplied. [B]"""
    return quantised_base * largest_matrix_params / tp * compute_bytes


@quantity(unit="B", source="arithmetic", parts=True)
def model_state_bytes(
    weights_resident_bytes: Array,
    adapter_bytes: Array,
    gradient_bytes: Array,
    optimizer_state_bytes: Array,
) -> Array:
    """Weights, adapters, gradients and optimizer states together. [B]"""
    return weights_resident_bytes + adapter_bytes + gradient_bytes + optimizer_state_bytes


@quantity(unit="B", source="arithmetic", assumes="pinned transfer buffers left out")
def host_bytes(
    kept_weights_bytes: Array,
    kept_gradient_bytes: Array,
    kept_optimizer_bytes: Array,
    offloaded_activation_bytes: Array,
    weights_on_device: Array,
    optimizer_on_device: Array,
    paged_out_bytes: Array,
) -> Array:
    """What one device keeps in host memory. [B]"""
    states = (1 - weights_on_device) * (kept_weights_bytes + kept_gradient_bytes)
    optimizer = (1 - optimizer_on_device) * kept_optimizer_bytes
    return states + optimizer + offloaded_activation_bytes + paged_out_bytes


@quantity(unit="B", source="accelerate-fsdp", assumes="a checkpoint of 16-bit weights")
def host_load_bytes(
    loads_on_host: Array, shard_weights: Array, params_total: Array, compute_bytes: Array
) -> Array:
    """The whole checkpoint in host memory, while weights that will be sharded are read. [B]

    Notes:
        One process of the node reads it and hands out shards; quantised bases are packed after.
    """
    return loads_on_host * shard_weights * params_total * compute_bytes


@quantity(unit="B", source="arithmetic")
def host_needed_bytes(
    host_bytes: Array,
    devices_per_node: Array,
    companion_host_bytes: Array,
    host_load_bytes: Array,
) -> Array:
    """Host memory of one node: what its devices keep there, or the checkpoint being read. [B]"""
    kept = (host_bytes + companion_host_bytes) * devices_per_node
    return np.maximum(kept, host_load_bytes)
