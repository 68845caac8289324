"""Device memory of serving: weights, one forward pass, and what is left for the KV cache.

One copy of the model is spread over tp × pp devices; all numbers are those of the fullest device
unless they say "whole model". Keys and values of a sequence are divided over the pipeline stages
by layer and over the tensor-parallel group by head, as far as there are heads.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="B", source="arithmetic", parts=True)
def layer_weights_bytes(
    attention_weights_bytes: Array, block_weights_bytes: Array, small_weights_bytes: Array
) -> Array:
    """Weights of all layers of the whole model, with norms, biases and routers. [B]"""
    return attention_weights_bytes + block_weights_bytes + small_weights_bytes


@quantity(unit="B", source="arithmetic")
def attention_weights_bytes(
    attention_split_params: Array,
    attention_kv_params: Array,
    attention_whole_params: Array,
    attention_bytes: Array,
) -> Array:
    """Attention matrices of the whole model as stored. [B]"""
    params = attention_split_params + attention_kv_params + attention_whole_params
    return params * attention_bytes


@quantity(unit="B", source="arithmetic")
def block_weights_bytes(block_params: Array, block_bytes: Array) -> Array:
    """Feed-forward and expert matrices of the whole model: all experts are resident. [B]"""
    return block_params * block_bytes


@quantity(unit="B", source="arithmetic")
def small_weights_bytes(small_params: Array, small_bytes: Array) -> Array:
    """Norms, biases, routers and learned positions of the whole model. [B]"""
    return small_params * small_bytes


@quantity(unit="B", source="arithmetic")
def head_table_bytes(table_params: Array, head_bytes: Array) -> Array:
    """The output head as stored; with tied embeddings it is the one shared matrix. [B]"""
    return table_params * head_bytes


@quantity(unit="B", source="arithmetic")
def input_table_bytes(
    table_params: Array, table_bytes: Array, head_bytes: Array, tied_embeddings: Array
) -> Array:
    """The input embedding as stored. [B]"""
    return table_params * np.where(tied_embeddings > 0, head_bytes, table_bytes)


@quantity(unit="B", source="arithmetic")
def weights_bytes(
    layer_weights_bytes: Array,
    input_table_bytes: Array,
    head_table_bytes: Array,
    tied_embeddings: Array,
) -> Array:
    """All weights of one copy of the model, each tied matrix once. [B]"""
    return layer_weights_bytes + input_table_bytes + (1 - tied_embeddings) * head_table_bytes


@quantity(unit="1", source="pagedattention2023")
def kv_shards(tp: Array, kv_heads: Array) -> Array:
    """Devices among which keys and values of a layer are divided; beyond that they repeat. [1]"""
    return np.minimum(tp, kv_heads)


@quantity(unit="B", source="arithmetic", assumes="small and low-rank matrices repeat on each rank")
def rank_layer_bytes(
    attention_split_params: Array,
    attention_kv_params: Array,
    attention_whole_params: Array,
    attention_bytes: Array,
    block_weights_bytes: Array,
    small_weights_bytes: Array,
    expert_params: Array,
    block_bytes: Array,
    expert_shards: Array,
    tp: Array,
    kv_shards: Array,
) -> Array:
    """Weights of all layers on one rank of the tensor-parallel group, before pipelining. [B]"""
    attention = attention_split_params / tp + attention_kv_params / kv_shards
    held = (attention + attention_whole_params) * attention_bytes
    experts = expert_params * block_bytes
    return (
        held + (block_weights_bytes - experts) / tp + experts / expert_shards + small_weights_bytes
    )


@quantity(unit="B", source="arithmetic")
def rank_outer_bytes(
    input_table_bytes: Array,
    head_table_bytes: Array,
    tied_embeddings: Array,
    table_on_device: Array,
    tp: Array,
    pp: Array,
) -> Array:
    """Embedding and head on one rank; in a pipeline they are at opposite ends. [B]"""
    table = table_on_device * input_table_bytes
    together = table + head_table_bytes * (1 - tied_embeddings * table_on_device)
    return np.where(pp > 1, np.maximum(table, head_table_bytes), together) / tp


@quantity(unit="B", source="arithmetic", assumes="stages with embedding or head get no odd layer")
def device_weights_bytes(
    rank_layer_bytes: Array, rank_outer_bytes: Array, layers: Array, pp: Array
) -> Array:
    """Weights on the fullest device. [B]"""
    inner = rank_layer_bytes * np.ceil(layers / pp) / layers
    outer = rank_layer_bytes * np.floor(layers / pp) / layers + rank_outer_bytes
    return np.maximum(inner, outer)


# -- keys and values --------------------------------------------------------------------------


@quantity(unit="1", source="arithmetic")
def fullest_stage_share(layers: Array, pp: Array) -> Array:
    """Share of the layers the fullest pipeline stage holds: whole layers only. [1]"""
    return np.ceil(layers / pp) / layers


@quantity(unit="B", source="arithmetic")
def kv_bytes_per_token(
    kv_full_width: Array, kv_window_width: Array, kv_value_bytes: Array
) -> Array:
    """Keys and values that one more token adds, all layers of the whole model. [B]

    Notes:
        Grouped heads: 2 × kv heads × head width for each layer; latent attention: the compressed
        vector and the rotary part. Sliding-window layers stop growing at their window.
    """
    return (kv_full_width + kv_window_width) * kv_value_bytes


@quantity(unit="B", source="arithmetic", assumes="window layers keep their window only")
def sequence_kv_bytes(
    kv_full_width: Array,
    kv_window_width: Array,
    window: Array,
    context: Array,
    kv_value_bytes: Array,
    sequence_state_bytes: Array,
) -> Array:
    """Keys, values and recurrent state of one sequence at the context asked for. [B]"""
    values = kv_full_width * context + kv_window_width * np.minimum(context, window)
    return values * kv_value_bytes + sequence_state_bytes


@quantity(unit="1", source="arithmetic")
def device_kv_share(fullest_stage_share: Array, kv_shards: Array) -> Array:
    """Share of a sequence's keys and values on the fullest device. [1]"""
    return fullest_stage_share / kv_shards


@quantity(unit="B", source="arithmetic")
def device_sequence_bytes(sequence_kv_bytes: Array, device_kv_share: Array) -> Array:
    """Keys and values of one sequence on the fullest device. [B]"""
    return sequence_kv_bytes * device_kv_share


@quantity(unit="B", source="arithmetic")
def wanted_kv_bytes(device_sequence_bytes: Array, concurrency: Array) -> Array:
    """Keys and values of all sequences asked for, on the fullest device. [B]"""
    return device_sequence_bytes * concurrency


# -- working memory ---------------------------------------------------------------------------


@quantity(unit="B", source="vllm-engine")
def block_activation_bytes(
    batched_tokens: Array,
    hidden: Array,
    ffn_activation_width: Array,
    attention_activation_width: Array,
    top_k: Array,
    expert_width: Array,
    tp: Array,
    compute_bytes: Array,
) -> Array:
    """Widest moment of a layer in one forward pass of the most tokens allowed. [B]

    Notes:
        Three copies of the hidden state (input, residual, output) beside gate, up and product of
        a dense block, or beside the rows of the routed experts. Grows with the batched tokens:
        27 × 4096 values a token on an 8B Llama, as its profiling runs show.
    """
    routed = top_k * (np.maximum(2 * expert_width / tp, hidden) + expert_width / tp)
    dense = np.maximum(ffn_activation_width, attention_activation_width) / tp
    return batched_tokens * compute_bytes * (3 * hidden + np.maximum(dense, routed * (top_k > 0)))


@quantity(unit="B", source="vllm-engine")
def sampling_bytes(logit_rows: Array, vocab: Array, logit_bytes: Array) -> Array:
    """Logits of the widest sampling step. [B]"""
    return logit_rows * vocab * logit_bytes


@quantity(unit="B", source="arithmetic")
def score_memory_bytes(prefill_scores: Array, score_bytes: Array, tp: Array) -> Array:
    """Attention scores that an engine without a fused kernel writes to memory. [B]"""
    return prefill_scores * score_bytes / tp


@quantity(unit="B", source="vllm-engine")
def forward_peak_bytes(
    block_activation_bytes: Array, sampling_bytes: Array, score_memory_bytes: Array
) -> Array:
    """Working memory of one forward pass at its widest, as a profiling run sees it. [B]"""
    return np.maximum(block_activation_bytes + score_memory_bytes, sampling_bytes)


@quantity(unit="B", source="assumed")
def graph_bytes(graph_layer_bytes: Array, layers: Array, fullest_stage_share: Array) -> Array:
    """CUDA graphs of the decode steps. [B]"""
    return graph_layer_bytes * layers * fullest_stage_share


@quantity(unit="B", source="vllm-engine")
def runtime_bytes(context_bytes: Array, channel_bytes: Array, tp: Array, pp: Array) -> Array:
    """Context, libraries, workspaces and communicators: memory no tensor owns. [B]"""
    return context_bytes + np.where(tp * pp > 1, channel_bytes, 0.0 * channel_bytes)


# -- room for keys and values -----------------------------------------------------------------


@quantity(unit="B", source="vllm-engine")
def planned_bytes(visible_bytes: Array, utilization: Array, free_share: Array) -> Array:
    """Device memory the engine plans with. [B]"""
    return visible_bytes * utilization * free_share


@quantity(unit="B", source="vllm-engine")
def kv_room_bytes(
    planned_bytes: Array,
    device_weights_bytes: Array,
    runtime_bytes: Array,
    forward_peak_bytes: Array,
    graph_bytes: Array,
    plans_activations: Array,
    plans_graphs: Array,
    pool_share: Array,
) -> Array:
    """What is left for keys and values on the fullest device; negative when nothing is. [B]"""
    working = plans_activations * forward_peak_bytes + plans_graphs * graph_bytes
    return pool_share * (planned_bytes - device_weights_bytes - runtime_bytes - working)


@quantity(unit="1", source="arithmetic")
def sequences_held(kv_room_bytes: Array, device_sequence_bytes: Array) -> Array:
    """Sequences of the context asked for that fit at once, fractions included. [1]"""
    return np.maximum(kv_room_bytes / device_sequence_bytes, 0.0)


@quantity(unit="1", source="arithmetic")
def kv_tokens(sequences_held: Array, context: Array) -> Array:
    """Tokens the KV cache holds in sequences of the context asked for. [1]"""
    return sequences_held * context


@quantity(unit="1", source="arithmetic")
def longest_sequence(
    kv_room_bytes: Array,
    device_kv_share: Array,
    kv_full_width: Array,
    kv_window_width: Array,
    window: Array,
    kv_value_bytes: Array,
    sequence_state_bytes: Array,
) -> Array:
    """Longest context that one sequence alone can have; infinite without growing layers. [1]"""
    values = (kv_room_bytes / device_kv_share - sequence_state_bytes) / kv_value_bytes
    inside = values / np.maximum(kv_full_width + kv_window_width, 1e-12)
    beyond = (values - kv_window_width * window) / np.maximum(kv_full_width, 1e-12)
    return np.maximum(np.where(values <= (kv_full_width + kv_window_width) * window,
                               inside, beyond), 0.0)  # fmt: skip


@quantity(unit="B", source="arithmetic", parts=True)
def serving_peak_bytes(
    device_weights_bytes: Array,
    wanted_kv_bytes: Array,
    forward_peak_bytes: Array,
    graph_bytes: Array,
    runtime_bytes: Array,
) -> Array:
    """What the sequences asked for need on the fullest device. [B]"""
    return device_weights_bytes + wanted_kv_bytes + forward_peak_bytes + graph_bytes + runtime_bytes


@quantity(unit="B", source="vllm-engine")
def held_bytes(
    serving_peak_bytes: Array, wanted_kv_bytes: Array, kv_room_bytes: Array, allocates_pool: Array
) -> Array:
    """What the device shows while serving: engines with a pool fill their room at once. [B]"""
    room = np.maximum(kv_room_bytes, 0.0 * kv_room_bytes)
    pool = np.where(allocates_pool > 0, room, wanted_kv_bytes)
    return serving_peak_bytes - wanted_kv_bytes + pool


@quantity(unit="1", source="arithmetic")
def planned_share(
    kv_room_bytes: Array, wanted_kv_bytes: Array, pool_share: Array, planned_bytes: Array
) -> Array:
    """Share of the planned memory in use with the sequences asked for. [1]"""
    return 1 - (kv_room_bytes - wanted_kv_bytes) / (pool_share * planned_bytes)


@quantity(unit="1", source="arithmetic")
def device_share(serving_peak_bytes: Array, visible_bytes: Array, free_share: Array) -> Array:
    """The same against all that the device can give. [1]"""
    return serving_peak_bytes / (visible_bytes * free_share)


@quantity(unit="1", source="arithmetic")
def serving_share(planned_share: Array, device_share: Array) -> Array:
    """The tighter of the two limits: above 1 the job does not fit. [1]"""
    return np.maximum(planned_share, device_share)
