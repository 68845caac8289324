"""One optimizer step: micro-batches through the pipeline, synchronisation, update; and rates."""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="s", source="arithmetic", assumes="gradients stream through device memory")
def accumulation_time(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    weight_divisor: Array,
    expert_weight_divisor: Array,
    trained_share: Array,
    grad_bytes: Array,
    compute_bytes: Array,
    bandwidth: Array,
    fused_accumulation: Array,
    fused_accumulation_share: Array,
) -> Array:
    """Adding one micro-batch's gradients to the accumulated ones. [s]

    Notes:
        The new gradient is read once, the accumulated one read and written. A weight-gradient
        product that adds to the kept gradient itself does so while it multiplies: a share stays
        exposed. Grouped products of experts have few operations per gradient to hide behind.
    """
    exposed = np.where(fused_accumulation > 0, fused_accumulation_share, 1.0)
    dense = exposed * (stage_dense_params + stage_outer_params) / weight_divisor
    params = dense + stage_expert_params / expert_weight_divisor
    return trained_share * params * (2 * grad_bytes + compute_bytes) / bandwidth


@quantity(unit="s", source="arithmetic", parts=True)
def layer_exposed_time(
    tp_exposed_time: Array, ep_exposed_time: Array, cp_exposed_time: Array
) -> Array:
    """Communication of one layer for one micro-batch that computing does not hide. [s]"""
    return tp_exposed_time + ep_exposed_time + cp_exposed_time


@quantity(unit="s", source="arithmetic")
def stage_compute_time(layer_time: Array, stage_layers: Array) -> Array:
    """Layers of the fullest stage for one micro-batch, without communication. [s]"""
    return layer_time * stage_layers


@quantity(unit="s", source="fsdp2023")
def shard_exposed_time(
    shard_microbatch_time: Array, stage_compute_time: Array, dp_hidden_share: Array
) -> Array:
    """Weight gathers of one micro-batch that computing does not hide. [s]"""
    hidden = dp_hidden_share * np.minimum(shard_microbatch_time, stage_compute_time)
    return shard_microbatch_time - hidden


@quantity(unit="s", source="narayanan2021")
def head_stage_time(
    head_time: Array, pp: Array, head_exposed_share: Array, balances_head: Array
) -> Array:
    """What the head adds to the slowest stage: all of it alone, most of it on a last stage. [s]

    Notes:
        Stacks that balance stages by cost give the last stage fewer layers instead.
    """
    return head_time * np.where(pp > 1, head_exposed_share * (1 - balances_head), 1.0)


@quantity(unit="s", source="narayanan2021")
def stage_send_time(
    pp: Array,
    vpp: Array,
    microbatch_tokens: Array,
    hidden: Array,
    tp: Array,
    sequence_parallel: Array,
    hand_over_split: Array,
    communication_bytes: Array,
    pp_bandwidth: Array,
    network_latency: Array,
    pp_exposed_share: Array,
) -> Array:
    """Handing activations and gradients to the neighbouring stages, one micro-batch. [s]

    Notes:
        Stacks that scatter them over the tensor-parallel ranks (and gather them behind the fast
        link) send 1/tp each.
    """
    volume = microbatch_tokens * hidden * communication_bytes
    divided = volume / np.where(hand_over_split + sequence_parallel > 0, tp, 1.0)
    each = divided / pp_bandwidth + network_latency
    return np.where(pp > 1, 2 * vpp * pp_exposed_share * each, 0.0)


@quantity(unit="s", source="zero-infinity2021", assumes="nothing of the fetch is hidden")
def fetch_time(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    weight_divisor: Array,
    weights_on_device: Array,
    gather_bytes: Array,
    host_bandwidth: Array,
) -> Array:
    """Fetching weights that live on the host, forward and backward, one micro-batch. [s]"""
    stage = stage_dense_params + stage_outer_params + stage_expert_params
    shard = stage / weight_divisor * gather_bytes
    return (1 - weights_on_device) * 2 * shard / host_bandwidth


@quantity(unit="s", source="zero-infinity2021", assumes="both directions of the host link at once")
def activation_fetch_time(
    layer_kept_bytes: Array,
    stage_layers: Array,
    activations_on_device: Array,
    host_bandwidth: Array,
    stage_compute_time: Array,
    offload_hidden_share: Array,
) -> Array:
    """Moving offloaded activations to the host and back that computing does not hide. [s]"""
    moved = 2 * (1 - activations_on_device) * (stage_layers - 1) * layer_kept_bytes
    time = moved / host_bandwidth
    return time - offload_hidden_share * np.minimum(time, stage_compute_time)


@quantity(unit="s", source="arithmetic", parts=True)
def microbatch_time(
    stage_compute_time: Array,
    stage_exposed_time: Array,
    shard_exposed_time: Array,
    fetch_time: Array,
    activation_fetch_time: Array,
    head_stage_time: Array,
    stage_send_time: Array,
    accumulation_time: Array,
    microbatch_host_time: Array,
) -> Array:
    """One micro-batch through the slowest stage, forward and backward. [s]"""
    return (
        stage_compute_time
        + stage_exposed_time
        + shard_exposed_time
        + fetch_time
        + activation_fetch_time
        + head_stage_time
        + stage_send_time
        + accumulation_time
        + microbatch_host_time
    )


@quantity(unit="s", source="arithmetic")
def stage_exposed_time(layer_exposed_time: Array, stage_layers: Array) -> Array:
    """Exposed communication of all layers of the stage, one micro-batch. [s]"""
    return layer_exposed_time * stage_layers


@quantity(unit="s", source="assumed")
def microbatch_host_time(microbatch_fixed_time: Array, host_factor: Array) -> Array:
    """Host work per micro-batch that no layer explains. [s]"""
    return microbatch_fixed_time * host_factor


@quantity(unit="1", source="narayanan2021")
def bubble_microbatches(
    pp: Array,
    vpp: Array,
    bubble_share: Array,
    schedule_bubble: Array,
    concurrent_stages: Array,
    num_microbatches: Array,
) -> Array:
    """Idle time of a stage per step, in micro-batches. [1]

    Notes:
        1F1B leaves p - 1 of them, interleaving with v chunks (p - 1)/v. Schedules that put weight
        gradients into the gaps leave about a third of that (``schedule_bubble``) [qi2023]. Layers
        merely spread over devices leave all others idle: (p - 1) per micro-batch.
    """
    pipelined = bubble_share * schedule_bubble * (pp - 1) / vpp
    spread = (pp - 1) * num_microbatches
    return np.where(concurrent_stages > 0, pipelined, spread)


@quantity(unit="s", source="arithmetic")
def busy_time(microbatch_time: Array, num_microbatches: Array) -> Array:
    """All micro-batches of a step through the slowest stage. [s]"""
    return microbatch_time * num_microbatches


@quantity(unit="s", source="narayanan2021")
def bubble_time(
    microbatch_time: Array, head_stage_time: Array, bubble_microbatches: Array
) -> Array:
    """Pipeline bubble of one step. [s]

    Notes:
        The slowest stage waits for one micro-batch to pass the other stages, which have no head.
    """
    return (microbatch_time - head_stage_time) * bubble_microbatches


@quantity(unit="s", source="zero2020")
def sync_exposed_time(
    gradient_sync_time: Array, stage_compute_time: Array, dp_hidden_share: Array
) -> Array:
    """Gradient synchronisation that the last micro-batch does not hide. [s]"""
    hidden = dp_hidden_share * np.minimum(gradient_sync_time, stage_compute_time)
    return gradient_sync_time - hidden


@quantity(unit="s", source="deepspeed-pr7474")
def host_update_time(
    optimizer_params: Array,
    optimizer_on_device: Array,
    grad_bytes: Array,
    weight_bytes: Array,
    host_bandwidth: Array,
    host_update_rate: Array,
) -> Array:
    """An update on the host: gradients go there, weights come back, the processors do it. [s]"""
    link = (grad_bytes + weight_bytes) / host_bandwidth
    return (1 - optimizer_on_device) * optimizer_params * (link + 1 / host_update_rate)


@quantity(unit="s", source="arithmetic")
def optimizer_time(
    optimizer_params: Array,
    optimizer_bytes: Array,
    master_bytes: Array,
    grad_bytes: Array,
    weight_bytes: Array,
    optimizer_on_device: Array,
    bandwidth: Array,
    optimizer_passes: Array,
    host_update_time: Array,
) -> Array:
    """Reading and writing all states of the update once, on the device or on the host. [s]"""
    each = 2 * (optimizer_bytes + master_bytes) + grad_bytes + weight_bytes
    moved = optimizer_params * each * optimizer_passes
    return optimizer_on_device * moved / bandwidth + host_update_time


@quantity(unit="s", source="assumed")
def step_host_time(step_fixed_time: Array, host_factor: Array) -> Array:
    """Host work per step: logging, clipping, scheduler, data. [s]"""
    return step_fixed_time * host_factor


@quantity(unit="s", source="assumed")
def straggler_time(
    busy_time: Array,
    bubble_time: Array,
    sync_exposed_time: Array,
    num_nodes: Array,
    straggle: Array,
) -> Array:
    """Waiting for the slowest of many nodes. [s]"""
    return straggle * np.log2(num_nodes) * (busy_time + bubble_time + sync_exposed_time)


@quantity(unit="s", source="arithmetic", parts=True)
def step_time(
    busy_time: Array,
    bubble_time: Array,
    sync_exposed_time: Array,
    optimizer_time: Array,
    step_host_time: Array,
    straggler_time: Array,
    companion_time: Array,
) -> Array:
    """Time of one optimizer step. [s]"""
    return (
        busy_time
        + bubble_time
        + sync_exposed_time
        + optimizer_time
        + step_host_time
        + straggler_time
        + companion_time
    )


@quantity(unit="1", source="arithmetic")
def step_tokens(global_batch: Array, seq_len: Array, sequences_per_example: Array) -> Array:
    """Tokens of one optimizer step. [1]"""
    return global_batch * sequences_per_example * seq_len


@quantity(unit="1/s", source="arithmetic")
def tokens_per_s(step_tokens: Array, step_time: Array) -> Array:
    """Tokens trained per second by all devices. [1/s]"""
    return step_tokens / step_time


@quantity(unit="1/s", source="arithmetic")
def tokens_per_s_per_device(tokens_per_s: Array, num_devices: Array) -> Array:
    """Tokens trained per second and device. [1/s]"""
    return tokens_per_s / num_devices


@quantity(unit="FLOP/s", source="chowdhery2022")
def model_flops_per_device(tokens_per_s_per_device: Array, model_flop_per_token: Array) -> Array:
    """Model FLOPs per second and device, recompute not counted. [FLOP/s]"""
    return tokens_per_s_per_device * model_flop_per_token


@quantity(unit="1", source="chowdhery2022")
def mfu(model_flops_per_device: Array, peak_matmul: Array) -> Array:
    """Model FLOPs utilization against the dense peak of the training dtype. [1]"""
    return model_flops_per_device / peak_matmul


@quantity(unit="1", source="chowdhery2022")
def hfu(
    tokens_per_s_per_device: Array, hardware_flop_per_token: Array, peak_matmul: Array
) -> Array:
    """Hardware FLOPs utilization: recompute counted. [1]"""
    return tokens_per_s_per_device * hardware_flop_per_token / peak_matmul


@quantity(unit="s", source="arithmetic")
def device_time(duration: Array, num_devices: Array) -> Array:
    """Device-seconds of the whole run. [s]"""
    return duration * num_devices
