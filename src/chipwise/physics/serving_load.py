"""What users of a serving engine see under load, from the times of its passes.

Closed loop: ``concurrency`` users, each sends its next prompt when its answer is complete. In a
cycle each resident sequence is answered once: its output tokens are decoded, and the prompts of all
others are read in between.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="1", source="arithmetic")
def group_concurrency(concurrency: Array, replicas: Array) -> Array:
    """Users of one replica. [1]"""
    return np.maximum(concurrency / replicas, 1.0)


@quantity(unit="1", source="vllm-engine", assumes="seven tenths of the answer are held on average")
def sequence_limit(
    kv_room_bytes: Array,
    visible_bytes: Array,
    kv_full_width: Array,
    kv_window_width: Array,
    window: Array,
    kv_value_bytes: Array,
    device_kv_share: Array,
    prompt_tokens: Array,
    output_tokens: Array,
    cache_fill: Array,
    sequence_cap: Array,
) -> Array:
    """Sequences resident at most: room for keys and values, or the engine's own cap. [1]"""
    held = prompt_tokens + 0.7 * output_tokens
    seen = np.where(window > 0, np.minimum(held, window), held)
    each = (kv_full_width * held + kv_window_width * seen) * kv_value_bytes * device_kv_share
    room = np.maximum(kv_room_bytes, 0.01 * visible_bytes)
    return np.maximum(
        1.0, np.minimum(cache_fill * room / np.maximum(each, kv_value_bytes), sequence_cap)
    )


@quantity(unit="1", source="arithmetic")
def resident_sequences(
    group_concurrency: Array, sequence_limit: Array, static_batch: Array
) -> Array:
    """Sequences of a replica decoded at once; a static batch is as large as it is. [1]"""
    return np.where(
        static_batch > 0, group_concurrency, np.minimum(group_concurrency, sequence_limit)
    )


@quantity(unit="1", source="arithmetic")
def step_sequences(resident_sequences: Array, pp: Array, layer_split: Array) -> Array:
    """Sequences of one decode pass: pipeline stages work on groups of their own. [1]"""
    groups = np.where(layer_split > 0, 1.0, pp)
    return np.maximum(1.0, resident_sequences / groups)


@quantity(unit="1", source="vllm-engine", assumes="8,192 tokens of prompts in a pass")
def prompts_per_pass(resident_sequences: Array, prompt_tokens: Array) -> Array:
    """Prompts that are read together. [1]"""
    room = np.maximum(1.0, 8192.0 / prompt_tokens)
    return np.maximum(1.0, np.minimum(resident_sequences, room))


@quantity(unit="1", source="llama-cpp-server", assumes="pieces of 512 tokens follow one another")
def prompt_overlap(prompt_tokens: Array, pp: Array, pipelined_prompts: Array) -> Array:
    """How much faster a prompt is read where its pieces run through devices like a pipeline. [1]"""
    pieces = np.maximum(1.0, np.ceil(prompt_tokens / 512.0))
    return np.where(pipelined_prompts > 0, pp * pieces / (pieces + pp - 1), 1.0)


@quantity(unit="s", source="arithmetic")
def prompt_time(prompts_pass_time: Array, prompts_per_pass: Array, prompt_overlap: Array) -> Array:
    """Reading one prompt, several at a time. [s]"""
    return prompts_pass_time / prompts_per_pass / prompt_overlap


@quantity(unit="s", source="arithmetic")
def single_prompt_time(prompt_pass_time: Array, prompt_overlap: Array) -> Array:
    """Reading one prompt alone. [s]"""
    return prompt_pass_time / prompt_overlap


@quantity(unit="s", source="arithmetic")
def step_time(
    decode_pass_time: Array, step_sequences: Array, step_host_time: Array, sequence_host_time: Array
) -> Array:
    """One decode step with the host's own work. [s]"""
    return decode_pass_time + step_host_time + sequence_host_time * step_sequences


@quantity(unit="1", source="arithmetic")
def decode_steps(output_tokens: Array) -> Array:
    """Tokens behind the first. [1]"""
    return np.maximum(output_tokens - 1, 1.0)


@quantity(unit="s", source="arithmetic")
def cycle_time(
    decode_steps: Array,
    step_time: Array,
    step_sequences: Array,
    prompt_time: Array,
    mixed_share: Array,
    step_host_time: Array,
    static_batch: Array,
) -> Array:
    """From one answer of a user to the next, while all others are served too. [s]

    Notes:
        Prompts that are read in a decode step share its pass over the weights.
    """
    mixed = decode_steps * step_time + step_sequences * prompt_time * mixed_share
    static = decode_steps * step_time + step_sequences * prompt_time + step_host_time
    return np.where(static_batch > 0, static, mixed)


@quantity(unit="s", source="arithmetic")
def time_per_output_token(
    decode_steps: Array,
    step_time: Array,
    step_sequences: Array,
    prompt_time: Array,
    mixed_share: Array,
    static_batch: Array,
) -> Array:
    """Mean time of a token behind the first, with the prompts of others in between. [s]"""
    others = np.maximum(step_sequences - 1, 0.0) * prompt_time * mixed_share
    return step_time + np.where(static_batch > 0, 0.0, others / decode_steps)


@quantity(unit="1/s", source="arithmetic")
def output_rate(
    replicas: Array,
    resident_sequences: Array,
    output_tokens: Array,
    cycle_time: Array,
    num_prompts: Array,
    at_once: Array,
) -> Array:
    """Output tokens per second of all replicas. [1/s]

    Notes:
        Where all prompts come at once, the last answers run in a batch that empties.
    """
    waves = resident_sequences * replicas / np.maximum(num_prompts, 1.0)
    tail = np.where(at_once > 0, 1 + 0.5 * np.minimum(1.0, waves), 1.0)
    return replicas * resident_sequences * output_tokens / cycle_time / tail


@quantity(unit="s", source="schweitzer1979")
def prompt_wait_time(
    step_sequences: Array,
    decode_steps: Array,
    output_tokens: Array,
    step_time: Array,
    prompt_time: Array,
    lockstep: Array,
    static_batch: Array,
) -> Array:
    """From a prompt's arrival at a resident slot to its first token, its own reading left out. [s]

    Notes:
        Prompts queue for the one place where they are read, and then are thought about for the
        length of an answer: a closed network of two stations, solved approximately. Answers of
        like length keep their users in step, so that a share of them arrive together.
    """
    thinking = np.where(output_tokens > 1, decode_steps * step_time, 0.0)
    users = np.where(static_batch > 0, 1.0, step_sequences)
    ahead = prompt_time * users - thinking
    queued = (ahead + np.sqrt(ahead**2 + 4 * prompt_time * thinking)) / 2
    share = np.minimum(lockstep, 0.9)
    waiting = (1 - share) * queued + share * (users + 1) / 2 * prompt_time - prompt_time
    batch = np.maximum(step_sequences - 1, 0.0) * prompt_time
    return np.where(static_batch > 0, batch, 0.5 * step_time + waiting)


@quantity(unit="s", source="arithmetic")
def slot_wait_time(
    group_concurrency: Array,
    resident_sequences: Array,
    cycle_time: Array,
    replicas: Array,
    num_prompts: Array,
    at_once: Array,
    disaggregated: Array,
    slot_wait_share: Array,
) -> Array:
    """Waiting for a place among the resident sequences. [s]"""
    over = np.maximum(group_concurrency - resident_sequences, 0.0) / resident_sequences
    closed = np.where(disaggregated > 0, 0.0, over * cycle_time * slot_wait_share)
    left = np.maximum(num_prompts - resident_sequences * replicas, 0.0)
    drained = left / 2 * cycle_time / (replicas * resident_sequences)
    return np.where(at_once > 0, drained, closed)


@quantity(unit="1/s", source="arithmetic")
def prompt_rate(
    prompt_tokens: Array,
    replicas: Array,
    group_concurrency: Array,
    prompt_time: Array,
    single_prompt_time: Array,
    front_time: Array,
    static_batch: Array,
) -> Array:
    """Prompt tokens read per second by all replicas. [1/s]"""
    alone = front_time * np.where(static_batch > 0, 0.2, 1.0) + single_prompt_time
    return prompt_tokens * replicas / np.where(group_concurrency > 1, prompt_time, alone)


@quantity(unit="s", source="arithmetic")
def time_to_first_token(
    single_prompt_time: Array,
    prompt_wait_time: Array,
    slot_wait_time: Array,
    front_time: Array,
    static_batch: Array,
) -> Array:
    """Mean time from a request to its first token. [s]

    Notes:
        A static batch is timed inside the engine: nearly nothing lies in front of it.
    """
    front = front_time * np.where(static_batch > 0, 0.2, 1.0)
    return front + single_prompt_time + prompt_wait_time + slot_wait_time
