"""Time of an objective beside training the policy: generation, scoring, the critic.

Generation is a bound, not a forecast: every step of decoding reads the weights once and the keys
and values of all sequences in flight, at the bandwidth that streaming kernels reach, or computes
their products, whichever is longer. Schedulers, sampling and answers that end early are left out.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity

# -- generation -------------------------------------------------------------------------------


@quantity(unit="1", source="pagedattention2023")
def sequences_in_flight(
    engine_cache_bytes: Array, sequence_cache_bytes: Array, wanted_sequences: Array
) -> Array:
    """Sequences one engine decodes at once: all it has, as far as its cache holds them. [1]"""
    room = np.maximum(1.0, engine_cache_bytes / sequence_cache_bytes)
    return np.minimum(room, wanted_sequences)


@quantity(unit="B", source="pope2022")
def decode_step_bytes(
    engine_weights_bytes: Array,
    expert_params: Array,
    params_total: Array,
    active_expert_share: Array,
    engine_token_bytes: Array,
    prompt_len: Array,
    completion_len: Array,
    sequences_in_flight: Array,
) -> Array:
    """Bytes one device of an engine reads to add a token to each sequence in flight. [B]

    Notes:
        Weights once, of experts those that some sequence uses; keys and values of all sequences,
        half of their completion on average.
    """
    used = np.minimum(1.0, active_expert_share * sequences_in_flight)
    weights = engine_weights_bytes * (1 - expert_params / params_total * (1 - used))
    context = prompt_len + completion_len / 2
    return weights + sequences_in_flight * context * engine_token_bytes


@quantity(unit="s", source="pope2022", assumes="no time between steps")
def decode_step_time(
    decode_step_bytes: Array,
    bandwidth: Array,
    params_active: Array,
    sequences_in_flight: Array,
    rollout_tp: Array,
    matmul_rate_16bit: Array,
    flop_per_multiply_add: Array,
    layers: Array,
    link_latency: Array,
) -> Array:
    """One token for each sequence in flight, at best. [s]

    Notes:
        Reading or computing, whichever takes longer, and two all-reduces a layer of an engine on
        several devices.
    """
    work = flop_per_multiply_add * params_active * sequences_in_flight / rollout_tp
    reduce = np.where(rollout_tp > 1, 2 * layers * link_latency, 0.0)
    return np.maximum(decode_step_bytes / bandwidth, work / matmul_rate_16bit) + reduce


@quantity(unit="s", source="pope2022", assumes="every answer has the longest length")
def decode_time(
    decode_step_time: Array,
    completion_len: Array,
    engine_sequences: Array,
    sequences_in_flight: Array,
) -> Array:
    """Decoding all sequences of one rollout, those waiting for room after the first ones. [s]"""
    return decode_step_time * completion_len * engine_sequences / sequences_in_flight


@quantity(unit="s", source="pope2022", assumes="the prompt of a group is computed once")
def prefill_time(
    params_active: Array,
    prompt_len: Array,
    group_size: Array,
    engine_sequences: Array,
    rollout_tp: Array,
    matmul_rate_16bit: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """Reading the prompts of one rollout: matrix products at the best rate. [s]"""
    tokens = prompt_len * engine_sequences / group_size
    work = flop_per_multiply_add * params_active * tokens
    return work / (rollout_tp * matmul_rate_16bit)


@quantity(unit="s", source="sheng2024")
def engine_update_time(
    engine_weights_bytes: Array,
    rollout_shared: Array,
    link_bandwidth: Array,
    card_bandwidth: Array,
) -> Array:
    """Handing the trained weights to the engine, once a rollout. [s]"""
    return engine_weights_bytes / np.where(rollout_shared > 0, link_bandwidth, card_bandwidth)


@quantity(unit="1", source="schulman2017")
def steps_per_rollout(rollout_sequences: Array, global_batch: Array, ppo_epochs: Array) -> Array:
    """Optimizer steps that train on one rollout. [1]"""
    return ppo_epochs * rollout_sequences / global_batch


@quantity(unit="s", source="arithmetic")
def rollout_time(
    decode_time: Array,
    prefill_time: Array,
    engine_update_time: Array,
    steps_per_rollout: Array,
    generates: Array,
) -> Array:
    """Generation, for one optimizer step: training waits for it. [s]"""
    return generates * (decode_time + prefill_time + engine_update_time) / steps_per_rollout


# -- scoring ----------------------------------------------------------------------------------


@quantity(unit="1", source="arithmetic", parts=True)
def scoring_passes(
    reference_passes: Array,
    policy_passes: Array,
    critic_ratio: Array,
    reward_ratio: Array,
    teacher_ratio: Array,
) -> Array:
    """Forward passes over each trained sequence without gradients, in passes of the policy. [1]"""
    return reference_passes + policy_passes + critic_ratio + reward_ratio + teacher_ratio


@quantity(unit="s", source="arithmetic")
def scoring_layer_time(
    layer_forward_time: Array,
    tp_exposed_time: Array,
    ep_exposed_time: Array,
    recompute_time_share: Array,
    host_pass_time: Array,
    host_factor: Array,
    host_cpu_factor: Array,
) -> Array:
    """One layer forward for one micro-batch, without gradients. [s]

    Notes:
        Of the communication of a training layer (forward, backward, repeated forward) the forward
        part.
    """
    communication = (tp_exposed_time + ep_exposed_time) / (2 + recompute_time_share)
    host = host_pass_time * host_factor * host_cpu_factor
    return np.maximum(layer_forward_time + communication, host)


@quantity(unit="s", source="arithmetic")
def scoring_head_time(
    vocab: Array,
    hidden: Array,
    tp: Array,
    microbatch_tokens: Array,
    matmul_rate_16bit: Array,
    head_efficiency: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """The output head forward for one micro-batch. [s]"""
    products = flop_per_multiply_add * vocab / tp * microbatch_tokens * hidden
    return products / (matmul_rate_16bit * head_efficiency)


@quantity(unit="s", source="fsdp2023", assumes="a third of a training pass's gathers, hidden alike")
def scoring_gather_time(shard_microbatch_time: Array, dp_hidden_share: Array) -> Array:
    """Gathering sharded weights for one forward pass of one micro-batch. [s]"""
    return (1 - dp_hidden_share) * shard_microbatch_time / 3


@quantity(unit="s", source="arithmetic")
def scoring_fetch_time(
    frozen_copy_bytes: Array,
    reference_copies: Array,
    reference_on_device: Array,
    host_bandwidth: Array,
    fetch_time: Array,
    policy_passes: Array,
    reference_passes: Array,
) -> Array:
    """Fetching weights that live on the host, for scoring one micro-batch. [s]"""
    reference = reference_copies * (1 - reference_on_device) * frozen_copy_bytes
    own = policy_passes + reference_passes * (1 - reference_copies)
    return reference / host_bandwidth + own * fetch_time / 2


@quantity(unit="s", source="arithmetic")
def scoring_time(
    scoring_passes: Array,
    reference_passes: Array,
    policy_passes: Array,
    teacher_ratio: Array,
    stage_layers: Array,
    scoring_layer_time: Array,
    scoring_head_time: Array,
    scoring_gather_time: Array,
    scoring_fetch_time: Array,
    num_microbatches: Array,
    pp: Array,
    vpp: Array,
    ppo_epochs: Array,
) -> Array:
    """Forward passes of frozen models, critic and policy, for one optimizer step. [s]

    Notes:
        The pipeline fills once. What scores a rollout is shared out among the times it is trained
        on. Critic and reward model have no output head.
    """
    layers = scoring_passes * (stage_layers * scoring_layer_time + scoring_gather_time)
    heads = (reference_passes + policy_passes + teacher_ratio) * scoring_head_time
    filled = num_microbatches + (pp - 1) / vpp
    return (layers + heads + scoring_fetch_time) * filled / ppo_epochs


# -- the critic, and all together -------------------------------------------------------------


@quantity(unit="s", source="arithmetic", assumes="a critic of the policy's proportions")
def critic_time(
    microbatch_time: Array,
    head_stage_time: Array,
    num_microbatches: Array,
    bubble_time: Array,
    sync_exposed_time: Array,
    optimizer_time: Array,
    critic_ratio: Array,
) -> Array:
    """Training the critic as the policy is trained, without an output head. [s]"""
    busy = (microbatch_time - head_stage_time) * num_microbatches
    return critic_ratio * (busy + bubble_time + sync_exposed_time + optimizer_time)


@quantity(unit="s", source="arithmetic", parts=True)
def companion_time(rollout_time: Array, scoring_time: Array, critic_time: Array) -> Array:
    """What one optimizer step takes beside training the policy. [s]"""
    return rollout_time + scoring_time + critic_time
