"""A whole run: all steps, compilation, checkpoints, waiting for data."""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="1", source="arithmetic")
def num_steps(tokens: Array, step_tokens: Array) -> Array:
    """Optimizer steps of the whole run; a last, smaller step counts for its share. [1]"""
    return tokens / step_tokens


@quantity(unit="s", source="arithmetic")
def stepping_time(tokens: Array, tokens_per_s: Array) -> Array:
    """All optimizer steps, one after the other. [s]

    Notes:
        Tokens over throughput is steps × step time, since both have the tokens of one step.
    """
    return tokens / tokens_per_s


@quantity(unit="B", source="zero2020", assumes="weights, master weights and optimizer states")
def checkpoint_bytes(
    params_total: Array,
    base_trained: Array,
    trained_share: Array,
    weight_bytes: Array,
    master_bytes: Array,
    optimizer_bytes: Array,
    adapter_params: Array,
    adapter_state_bytes: Array,
) -> Array:
    """One checkpoint of the whole job from which training can go on. [B]

    Notes:
        Frozen base weights are not saved again; adapters are saved with all their
        states. Of weights that are not trained no states are saved.
        BLOOM's 176e9 parameters take 14 bytes each: 2.47e12 bytes, published as 2.3 TB
        (binary) [bloom2022].
    """
    each = weight_bytes + trained_share * (master_bytes + optimizer_bytes)
    return base_trained * params_total * each + adapter_params * adapter_state_bytes


@quantity(unit="s", source="arithmetic", assumes="training waits while a checkpoint is written")
def checkpoint_time(checkpoint_bytes: Array, storage_bandwidth: Array) -> Array:
    """Writing one checkpoint; nothing is computed meanwhile. [s]

    Notes:
        Asynchronous writers stall only for the copy to host memory: this is their upper bound.
    """
    return checkpoint_bytes / storage_bandwidth


@quantity(unit="s", source="arithmetic")
def checkpoint_stall_time(
    num_steps: Array, checkpoints_per_step: Array, checkpoint_time: Array
) -> Array:
    """All checkpoints of the run. [s]"""
    return num_steps * checkpoints_per_step * checkpoint_time


@quantity(unit="s", source="arithmetic")
def data_read_time(tokens: Array, token_bytes: Array, data_bandwidth: Array) -> Array:
    """Reading the tokens of the whole run from storage. [s]"""
    return tokens * token_bytes / data_bandwidth


@quantity(unit="s", source="arithmetic", assumes="reading runs ahead of the steps")
def data_stall_time(data_read_time: Array, stepping_time: Array, data_stall_share: Array) -> Array:
    """Waiting for data: the stated share of the steps, and what reading takes beyond them. [s]"""
    behind = np.maximum(data_read_time, stepping_time) - stepping_time
    return data_stall_share * stepping_time + behind


@quantity(unit="s", source="arithmetic", parts=True)
def duration(
    stepping_time: Array, compile_time: Array, checkpoint_stall_time: Array, data_stall_time: Array
) -> Array:
    """Time of the whole run: steps, compilation, checkpoints, waiting for data. [s]"""
    return stepping_time + compile_time + checkpoint_stall_time + data_stall_time
