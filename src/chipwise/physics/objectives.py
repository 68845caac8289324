"""What a training objective needs beside the policy: frozen models, a critic, generation.

Next-token training needs none of it: there ``companion_bytes``, ``companion_host_bytes``,
``companion_peak_bytes``, ``frozen_logits_bytes`` and ``companion_time`` are given as zero, and
nothing below them is computed.

Frozen models lie as the policy's weights do (tensor, pipeline and expert parallel, sharded where
those are). Models of another size are taken as so many times the policy (``…_ratio``). The rollout
engine holds its own copy of the weights, spread over ``rollout_tp`` devices.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity

# -- models beside the policy -----------------------------------------------------------------


@quantity(unit="B", source="trl-dpo", assumes="frozen models are split and sharded as the policy")
def frozen_copy_bytes(
    stage_dense_params: Array,
    stage_outer_params: Array,
    stage_expert_params: Array,
    weight_divisor: Array,
    expert_weight_divisor: Array,
    frozen_bytes: Array,
) -> Array:
    """One frozen model of the policy's size on one device. [B]"""
    dense = (stage_dense_params + stage_outer_params) / weight_divisor
    return frozen_bytes * (dense + stage_expert_params / expert_weight_divisor)


@quantity(unit="B", source="rafailov2023")
def reference_bytes(
    frozen_copy_bytes: Array, reference_copies: Array, reference_on_device: Array
) -> Array:
    """Weights of the frozen reference on one device. [B]

    Notes:
        None where adapters are switched off instead, or where its scores were computed before.
    """
    return reference_copies * reference_on_device * frozen_copy_bytes


@quantity(unit="B", source="ouyang2022")
def reward_model_bytes(frozen_copy_bytes: Array, reward_ratio: Array) -> Array:
    """Weights of the frozen reward model on one device. [B]"""
    return reward_ratio * frozen_copy_bytes


@quantity(unit="B", source="agarwal2023")
def teacher_bytes(frozen_copy_bytes: Array, teacher_ratio: Array) -> Array:
    """Weights of the frozen teacher on one device. [B]"""
    return teacher_ratio * frozen_copy_bytes


@quantity(unit="B", source="ouyang2022", assumes="the critic is trained as the policy is")
def critic_states_bytes(
    weights_resident_bytes: Array,
    adapter_bytes: Array,
    optimizer_state_bytes: Array,
    gradient_bytes: Array,
    gradients_persist: Array,
    critic_ratio: Array,
) -> Array:
    """Weights, adapters and optimizer states of the critic on one device. [B]

    Notes:
        Policy and critic are trained one after the other, so the gradients of only one are alive,
        unless the software keeps them from step to step.
    """
    states = weights_resident_bytes + adapter_bytes + optimizer_state_bytes
    return critic_ratio * (states + gradients_persist * gradient_bytes)


# -- the rollout engine -----------------------------------------------------------------------


@quantity(unit="1", source="arithmetic")
def completion_len(seq_len: Array, prompt_len: Array) -> Array:
    """Tokens generated for one sequence, at most; at least one. [1]"""
    return np.maximum(1.0, seq_len - prompt_len)


@quantity(unit="1", source="arithmetic")
def rollout_sequences(rollout_batch: Array, global_batch: Array) -> Array:
    """Sequences generated before they are trained on: at least one optimizer step's. [1]"""
    return np.maximum(rollout_batch, global_batch)


@quantity(unit="1", source="arithmetic")
def generating_devices(num_devices: Array, rollout_shared: Array, rollout_devices: Array) -> Array:
    """Devices that generate: those that train, or those set apart. [1]"""
    return np.where(rollout_shared > 0, num_devices, np.maximum(1.0, rollout_devices))


@quantity(unit="1", source="arithmetic")
def engine_sequences(
    rollout_sequences: Array, generating_devices: Array, rollout_tp: Array
) -> Array:
    """Sequences that one engine generates for one rollout. [1]"""
    return np.maximum(1.0, rollout_sequences * rollout_tp / generating_devices)


@quantity(unit="B", source="arithmetic")
def engine_weights_bytes(
    params_total: Array, engine_weight_bytes: Array, rollout_tp: Array
) -> Array:
    """The engine's copy of the policy on one of its devices. [B]"""
    return params_total * engine_weight_bytes / rollout_tp


@quantity(unit="B", source="pagedattention2023", assumes="a window layer keeps the whole sequence")
def engine_token_bytes(
    cache_width: Array, cache_value_bytes: Array, rollout_tp: Array, cache_heads: Array
) -> Array:
    """Keys and values of one token on one device of an engine. [B]

    Notes:
        Heads are shared out as far as there are any; beyond that they repeat.
    """
    return cache_width * cache_value_bytes / np.minimum(rollout_tp, cache_heads)


@quantity(unit="B", source="pagedattention2023", assumes="the prompt of a group is kept once")
def sequence_cache_bytes(
    engine_token_bytes: Array, prompt_len: Array, completion_len: Array, group_size: Array
) -> Array:
    """Keys and values of one whole sequence on one device of an engine. [B]"""
    return engine_token_bytes * (completion_len + prompt_len / group_size)


@quantity(unit="1", source="verl-config")
def wanted_sequences(engine_sequences: Array, most_sequences: Array) -> Array:
    """Sequences an engine would have in flight with room for all. [1]"""
    return np.minimum(engine_sequences, most_sequences)


@quantity(unit="B", source="verl-config")
def engine_cache_bytes(
    visible_bytes: Array,
    rollout_memory_share: Array,
    engine_weights_bytes: Array,
    sequence_cache_bytes: Array,
    wanted_sequences: Array,
    rollout_memory_taken: Array,
) -> Array:
    """The engine's cache of keys and values on one device. [B]

    Notes:
        Engines fill their share of the memory (``rollout_memory_taken`` = 1, where the share is
        stated); else no more is taken than the sequences in flight need, and a large model gets a
        quarter of its weights at least. At least one sequence has room.
    """
    room = rollout_memory_share * visible_bytes - engine_weights_bytes
    most = np.maximum(room, engine_weights_bytes / 4)
    needed = np.minimum(most, wanted_sequences * sequence_cache_bytes)
    return np.maximum(sequence_cache_bytes, np.where(rollout_memory_taken > 0, room, needed))


@quantity(unit="B", source="sheng2024")
def rollout_weights_bytes(engine_weights_bytes: Array, rollout_shared: Array) -> Array:
    """The engine's weights on a device that also trains. [B]"""
    return rollout_shared * engine_weights_bytes


@quantity(unit="B", source="sheng2024")
def rollout_cache_bytes(engine_cache_bytes: Array, rollout_shared: Array) -> Array:
    """The engine's keys and values on a device that also trains. [B]"""
    return rollout_shared * engine_cache_bytes


@quantity(unit="B", source="sheng2024")
def rollout_resident_bytes(
    rollout_weights_bytes: Array, rollout_cache_bytes: Array, rollout_asleep: Array
) -> Array:
    """What the engine keeps while the policy is trained: nothing if it sleeps. [B]"""
    return (1 - rollout_asleep) * (rollout_weights_bytes + rollout_cache_bytes)


# -- sums for the memory bill -----------------------------------------------------------------


@quantity(unit="B", source="arithmetic", parts=True)
def companion_bytes(
    reference_bytes: Array,
    reward_model_bytes: Array,
    teacher_bytes: Array,
    critic_states_bytes: Array,
    rollout_resident_bytes: Array,
) -> Array:
    """Models beside the policy that stay on the device from step to step. [B]"""
    return (
        reference_bytes
        + reward_model_bytes
        + teacher_bytes
        + critic_states_bytes
        + rollout_resident_bytes
    )


@quantity(unit="B", source="arithmetic")
def companion_host_bytes(
    frozen_copy_bytes: Array,
    reference_copies: Array,
    reference_on_device: Array,
    critic_ratio: Array,
    kept_weights_bytes: Array,
    kept_optimizer_bytes: Array,
    weights_on_device: Array,
    optimizer_on_device: Array,
) -> Array:
    """Models beside the policy that one device keeps in host memory. [B]"""
    reference = reference_copies * (1 - reference_on_device) * frozen_copy_bytes
    weights = (1 - weights_on_device) * kept_weights_bytes
    return reference + critic_ratio * (weights + (1 - optimizer_on_device) * kept_optimizer_bytes)


@quantity(unit="B", source="agarwal2023")
def frozen_logits_bytes(
    vocab: Array,
    tp: Array,
    microbatch_tokens: Array,
    stage_is_last: Array,
    teacher_logits_copies: Array,
    activation_bytes: Array,
    loss_chunks: Array,
) -> Array:
    """The teacher's logits, which a distillation loss holds beside the student's. [B]"""
    logits = vocab / tp * microbatch_tokens / loss_chunks
    return stage_is_last * teacher_logits_copies * activation_bytes * logits


@quantity(unit="B", source="sheng2024")
def rollout_peak_bytes(
    rollout_weights_bytes: Array,
    rollout_cache_bytes: Array,
    rollout_asleep: Array,
    gradient_bytes: Array,
    gradients_persist: Array,
) -> Array:
    """Beside all that stays: what is alive while a sleeping engine is awake to generate. [B]"""
    engine = rollout_asleep * (rollout_weights_bytes + rollout_cache_bytes)
    return engine + gradients_persist * gradient_bytes


@quantity(unit="B", source="arithmetic", assumes="a critic of the policy's proportions")
def critic_peak_bytes(
    activation_memory_bytes: Array,
    gathered_weights_bytes: Array,
    gathered_gradient_bytes: Array,
    step_peak_bytes: Array,
    critic_ratio: Array,
) -> Array:
    """Beside all that stays: what is alive while the critic is trained; it has no logits. [B]"""
    transient = gathered_weights_bytes + gathered_gradient_bytes
    return critic_ratio * np.maximum(activation_memory_bytes + transient, step_peak_bytes)


@quantity(unit="B", source="arithmetic")
def companion_peak_bytes(rollout_peak_bytes: Array, critic_peak_bytes: Array) -> Array:
    """The larger of those two moments. [B]"""
    return np.maximum(rollout_peak_bytes, critic_peak_bytes)
