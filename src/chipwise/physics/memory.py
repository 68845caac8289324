"""Device memory at its peak: allocated, reserved and as the process shows it.

The peak is either at the loss (all activations and logits alive; gradients too if they persist
over micro-batches) or at the optimizer step (gradients and temporary copies alive).
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="B", source="arithmetic")
def loss_peak_bytes(
    activation_memory_bytes: Array,
    logits_bytes: Array,
    gathered_weights_bytes: Array,
    gathered_gradient_bytes: Array,
    dequantised_bytes: Array,
    adapter_temporary_bytes: Array,
    gradient_bytes: Array,
    gradients_persist: Array,
    frozen_logits_bytes: Array,
) -> Array:
    """Beside weights and optimizer states: what is alive when the backward pass starts. [B]

    Notes:
        Temporaries of adapters come and go before there are logits: the larger of the two counts.
    """
    logits = logits_bytes + frozen_logits_bytes
    late = np.maximum(logits, adapter_temporary_bytes)
    gradients = gradients_persist * gradient_bytes
    transient = gathered_weights_bytes + gathered_gradient_bytes + dequantised_bytes
    return activation_memory_bytes + late + transient + gradients


@quantity(unit="B", source="arithmetic")
def step_peak_bytes(
    gradient_bytes: Array,
    gradients_freed_early: Array,
    optimizer_step_bytes: Array,
    kept_activation_bytes: Array,
    stage_layers: Array,
) -> Array:
    """Beside weights and optimizer states: what is alive when the optimizer steps. [B]

    Notes:
        Gradients applied inside the backward pass are freed layer by layer; one layer's
        activations and gradients remain.
    """
    late = gradient_bytes + optimizer_step_bytes
    early = (gradient_bytes + optimizer_step_bytes) / stage_layers
    last_layer = kept_activation_bytes / stage_layers
    return last_layer + np.where(gradients_freed_early > 0, early, late)


@quantity(unit="B", source="arithmetic")
def dynamic_bytes(
    loss_peak_bytes: Array, step_peak_bytes: Array, companion_peak_bytes: Array
) -> Array:
    """The largest of the moments: the loss, the step, and when others than the policy work. [B]"""
    return np.maximum(np.maximum(loss_peak_bytes, step_peak_bytes), companion_peak_bytes)


@quantity(unit="B", source="arithmetic", parts=True)
def static_bytes(
    weights_resident_bytes: Array,
    adapter_bytes: Array,
    optimizer_state_bytes: Array,
    communication_buffer_bytes: Array,
    companion_bytes: Array,
) -> Array:
    """What stays from step to step. [B]"""
    return (
        weights_resident_bytes
        + adapter_bytes
        + optimizer_state_bytes
        + communication_buffer_bytes
        + companion_bytes
    )


@quantity(unit="B", source="zero2020")
def communication_buffer_bytes(
    bucket_params: Array, compute_bytes: Array, dp: Array, cp: Array
) -> Array:
    """Buckets for gradient and parameter communication. [B]"""
    return np.where(dp * cp > 1, bucket_params * compute_bytes, 0.0)


@quantity(unit="B", source="lightning-fsdp")
def load_peak_bytes(
    weights_resident_bytes: Array,
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    shard_weights: Array,
    loads_whole: Array,
    weight_bytes: Array,
) -> Array:
    """While a checkpoint is read: resident weights, and a whole copy where the stack makes one. [B]

    Notes:
        Stacks that shard only after loading hold the unsharded stage beside its shard.
    """
    stage = stage_dense_params + stage_outer_params + stage_expert_params
    return weights_resident_bytes + loads_whole * shard_weights * stage * weight_bytes


@quantity(unit="B", source="deepspeed-zero-init", assumes="built in the compute dtype")
def unpartitioned_load_bytes(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    compute_bytes: Array,
    communication_buffer_bytes: Array,
) -> Array:
    """A model built whole on each device before its weights are partitioned. [B]

    Notes:
        What happens without ``zero.Init`` or a meta device. A 7B model with ZeRO-3 and everything
        on the host held 14.3 GiB after that [deepspeed-4527]: 12.7 of weights, 1.9 of buckets.
    """
    stage = stage_dense_params + stage_outer_params + stage_expert_params
    return stage * compute_bytes + communication_buffer_bytes


@quantity(unit="B", source="llama-cookbook-332", assumes="the whole state gathered on one device")
def save_peak_bytes(
    static_bytes: Array,
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    shard_weights: Array,
    weight_divisor: Array,
    compute_bytes: Array,
) -> Array:
    """While a checkpoint is written as one full state: resident states and the gathered rest. [B]

    Notes:
        Sharded checkpoints, or gathering on the host, avoid the second term.
    """
    stage = stage_dense_params + stage_outer_params + stage_expert_params
    return static_bytes + shard_weights * (1 - 1 / weight_divisor) * stage * compute_bytes


@quantity(unit="B", source="arithmetic")
def training_peak_bytes(static_bytes: Array, dynamic_bytes: Array) -> Array:
    """Live tensors at the fullest moment of a step. [B]"""
    return static_bytes + dynamic_bytes


@quantity(unit="B", source="arithmetic")
def allocated_bytes(training_peak_bytes: Array, load_peak_bytes: Array) -> Array:
    """Peak of live tensors (max_memory_allocated) over the run. [B]"""
    return np.maximum(training_peak_bytes, load_peak_bytes)


@quantity(unit="B", source="pytorch-cuda-allocator")
def fragment_bytes(
    loss_peak_bytes: Array,
    step_peak_bytes: Array,
    dynamic_bytes: Array,
    logits_bytes: Array,
    kept_activation_bytes: Array,
    fragmentation: Array,
    logits_fragmentation: Array,
) -> Array:
    """Memory the caching allocator holds but cannot reuse. [B]

    Notes:
        Fragments arise where blocks come and go, so they grow with the dynamic part, not with
        the weights; the pool of an engine leaves none. At the loss, logits blocks of ever new
        sizes find no room in the cache unless freed activations leave it.
    """
    homeless = np.maximum(0.0 * logits_bytes, logits_bytes - kept_activation_bytes)
    at_loss = loss_peak_bytes * (1 + fragmentation) + logits_fragmentation * homeless
    trained = np.maximum(at_loss, step_peak_bytes * (1 + fragmentation))
    return np.maximum(trained, dynamic_bytes) - dynamic_bytes


@quantity(unit="B", source="pytorch-cuda-allocator")
def reserved_bytes(allocated_bytes: Array, fragment_bytes: Array, reserve_floor: Array) -> Array:
    """What the caching allocator takes from the device (max_memory_reserved). [B]"""
    return allocated_bytes + fragment_bytes + reserve_floor


@quantity(unit="B", source="nccl-docs")
def process_bytes(
    reserved_bytes: Array,
    context_bytes: Array,
    channel_bytes: Array,
    tp: Array,
    pp: Array,
    dp: Array,
    cp: Array,
    ep: Array,
) -> Array:
    """What the device shows for the process: reserved, context and communicators. [B]"""
    groups = (
        np.where(tp > 1, 1.0, 0.0)
        + np.where(pp > 1, 1.0, 0.0)
        + np.where(dp * cp > 1, 1.0, 0.0)
        + np.where(ep > 1, 1.0, 0.0)
    )
    return reserved_bytes + context_bytes + channel_bytes * groups


@quantity(unit="B", source="arithmetic")
def usable_bytes(visible_bytes: Array, context_bytes: Array, channel_bytes: Array) -> Array:
    """Device memory left for tensors once context and one communicator are up. [B]"""
    return visible_bytes - context_bytes - channel_bytes


@quantity(unit="B", source="arithmetic")
def needed_bytes(allocated_bytes: Array, fragment_bytes: Array, squeezable_share: Array) -> Array:
    """What must be there for the job to run: an allocator under pressure frees its cache. [B]"""
    return allocated_bytes + (1 - squeezable_share) * fragment_bytes


@quantity(unit="1", source="arithmetic")
def memory_share(needed_bytes: Array, usable_bytes: Array) -> Array:
    """Needed over usable memory: above 1 the job does not fit. [1]"""
    return needed_bytes / usable_bytes
