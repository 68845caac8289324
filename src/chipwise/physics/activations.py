"""Activation memory: what the forward pass keeps for the backward pass, layer by layer.

Widths are sums over the layers of the whole model (values per token); a device holds the share
of its stage. Follows the operator ledger of Korthikanti et al. 2022, generalised to grouped and
latent attention, gated blocks and experts. [korthikanti2022]
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="1", source="arithmetic")
def passed_tokens(seq_len: Array, prompt_tokens: Array) -> Array:
    """Tokens of a sequence that pass the layers: its own and trained ones before them. [1]"""
    return seq_len + prompt_tokens


@quantity(unit="1", source="arithmetic")
def microbatch_tokens(
    micro_batch: Array, passed_tokens: Array, cp: Array, sequences_per_example: Array
) -> Array:
    """Tokens of one micro-batch on one device (context parallelism splits the sequence). [1]

    Notes:
        Preference losses run a chosen and a rejected sequence for each example, as one batch.
    """
    return micro_batch * sequences_per_example * passed_tokens / cp


@quantity(unit="1", source="arithmetic")
def num_microbatches(global_batch: Array, dp: Array, micro_batch: Array) -> Array:
    """Micro-batches per optimizer step and data-parallel rank. [1]"""
    return np.maximum(1.0, global_batch / (dp * micro_batch))


@quantity(unit="1", source="narayanan2021")
def in_flight_microbatches(
    pp: Array, vpp: Array, num_microbatches: Array, stage_is_first: Array, concurrent_stages: Array
) -> Array:
    """Micro-batches whose activations the stage keeps at its fullest moment. [1]

    Notes:
        1F1B: the first stage holds min(pp, m), the last one 1. Interleaving with v chunks holds
        (1 + (p - 1) / (p·v)) times as much. ``concurrent_stages`` is 0 when layers are merely
        spread over devices that work one after the other.
    """
    interleaved = np.where(vpp > 1, 1 + (pp - 1) / (pp * vpp), 1.0)
    first = np.minimum(pp * interleaved, num_microbatches * np.maximum(1.0, interleaved))
    return np.where((stage_is_first > 0) & (concurrent_stages > 0), first, 1.0)


@quantity(unit="B", source="korthikanti2022")
def norm_token_bytes(
    hidden: Array, layers: Array, dropout_bytes: Array, norm_input_bytes: Array
) -> Array:
    """Saved per token by all layers for two norms and two dropout masks each. [B]"""
    return layers * hidden * 2 * (norm_input_bytes + dropout_bytes)


@quantity(unit="B", source="korthikanti2022")
def linear_input_token_bytes(
    hidden: Array, layers: Array, linear_inputs_saved: Array, activation_bytes: Array
) -> Array:
    """Saved per token by all layers as inputs of the attention and feed-forward products. [B]

    Notes:
        Two per layer, kept only as far as weights behind them are trained.
    """
    return layers * hidden * 2 * linear_inputs_saved * activation_bytes


@quantity(unit="B", source="korthikanti2022")
def divided_token_bytes(
    attention_saved_width: Array,
    attention_output_width: Array,
    ffn_saved_width: Array,
    ffn_output_width: Array,
    linear_inputs_saved: Array,
    quantised_base: Array,
    quantised_copies: Array,
    activation_bytes: Array,
) -> Array:
    """Saved per token by all layers for queries, keys, values and FFN widths; tp divides it. [B]

    Notes:
        The attention output is kept by the flash kernel and again, as the same tensor, by the
        output projection. The input of the down projection is kept only if it is trained.
        Products with unpacked 4- and 8-bit weights keep copies of what they produce.
    """
    ffn = ffn_saved_width + linear_inputs_saved * ffn_output_width
    copies = quantised_base * quantised_copies * (attention_saved_width + ffn_saved_width)
    return activation_bytes * (attention_saved_width + attention_output_width + ffn + copies)


@quantity(unit="B", source="megablocks2022")
def expert_token_bytes(
    expert_saved_width: Array,
    routed_width: Array,
    expert_tp: Array,
    expert_imbalance: Array,
    activation_bytes: Array,
) -> Array:
    """Saved per token by all layers for routed tokens: permuted inputs and expert widths. [B]"""
    return activation_bytes * expert_imbalance * (routed_width + expert_saved_width / expert_tp)


@quantity(unit="B", source="korthikanti2022")
def score_token_bytes(
    score_heads: Array, seq_len: Array, tp: Array, scores_kept: Array, score_bytes: Array
) -> Array:
    """Saved per token by all layers for attention scores, when the kernel keeps them. [B]

    Notes:
        Eager attention keeps softmax output and, with dropout, its mask and output:
        ``score_bytes`` per head and key. Flash kernels keep none (``scores_kept`` = 0).
    """
    return scores_kept * score_bytes * score_heads * seq_len / tp


@quantity(unit="B", source="peft", assumes="kept in the compute dtype")
def adapter_token_bytes(adapter_saved_width: Array, activation_bytes: Array) -> Array:
    """Saved per token by all layers for what adapters multiply or norm. [B]"""
    return adapter_saved_width * activation_bytes


@quantity(unit="B", source="prefix2021", assumes="a copy for each sequence of the micro-batch")
def prefix_bytes(
    prefix_tokens: Array,
    micro_batch: Array,
    key_value_width: Array,
    layers: Array,
    activation_bytes: Array,
    tp: Array,
) -> Array:
    """Trained keys and values that one layer keeps before those of its sequences. [B]"""
    each = key_value_width / layers * activation_bytes / tp
    return prefix_tokens * micro_batch * each


@quantity(unit="B", source="korthikanti2022")
def layer_token_bytes(
    norm_token_bytes: Array,
    linear_input_token_bytes: Array,
    divided_token_bytes: Array,
    expert_token_bytes: Array,
    score_token_bytes: Array,
    adapter_token_bytes: Array,
    layers: Array,
    tp: Array,
    sequence_parallel: Array,
    gathered_input_share: Array,
    activation_overhead: Array,
) -> Array:
    """Saved per token by one layer on one device without recompute. [B]

    Notes:
        Sequence parallelism divides norms and linear inputs over tp. Stacks that do not gather
        the inputs again in the backward pass keep them whole (``gathered_input_share``).
    """
    split = np.where(sequence_parallel > 0, tp, 1.0)
    inputs = linear_input_token_bytes * (1 / split + gathered_input_share * (1 - 1 / split))
    divided = (divided_token_bytes + adapter_token_bytes) / tp
    kept = norm_token_bytes / split + inputs + divided + expert_token_bytes
    return (activation_overhead * kept + score_token_bytes) / layers


@quantity(unit="B", source="korthikanti2022")
def layer_input_token_bytes(
    hidden: Array,
    tp: Array,
    sequence_parallel: Array,
    activation_bytes: Array,
    checkpoint_copies: Array,
) -> Array:
    """Saved per token by one layer under full recompute: its input. [B]"""
    split = np.where(sequence_parallel > 0, tp, 1.0)
    return checkpoint_copies * activation_bytes * hidden / split


@quantity(unit="1", source="arithmetic")
def stage_layers(layers: Array, stage_share: Array) -> Array:
    """Layers of the fullest stage. [1]"""
    return layers * stage_share


@quantity(unit="1", source="arithmetic", assumes="the fullest stage holds the last layers")
def kept_layers(layers: Array, stage_layers: Array, reached_share: Array) -> Array:
    """Layers of the stage that keep activations: those that gradients reach. [1]

    Notes:
        Below the lowest trained weight nothing is kept, as no gradient is wanted there.
    """
    return np.minimum(stage_layers, layers * reached_share)


@quantity(unit="B", source="korthikanti2022")
def layer_kept_bytes(
    layer_token_bytes: Array,
    layer_input_token_bytes: Array,
    microbatch_tokens: Array,
    prefix_bytes: Array,
    recompute_share: Array,
) -> Array:
    """Activations of one micro-batch that a layer keeps for its backward pass, on average. [B]

    Notes:
        ``recompute_share`` is the share of layers that keep only their input (1 = full).
    """
    full = layer_token_bytes * (1 - recompute_share)
    kept = (full + layer_input_token_bytes * recompute_share) * microbatch_tokens
    return kept + prefix_bytes


@quantity(unit="B", source="korthikanti2022")
def kept_activation_bytes(
    layer_kept_bytes: Array,
    kept_layers: Array,
    in_flight_microbatches: Array,
    activations_on_device: Array,
) -> Array:
    """Activations kept on the device for the backward pass by all layers of the stage. [B]

    Notes:
        Offloaded activations (``activations_on_device`` = 0) keep one layer's on the way.
    """
    kept = activations_on_device * kept_layers + (1 - activations_on_device)
    return layer_kept_bytes * kept * in_flight_microbatches


@quantity(unit="B", source="arithmetic")
def offloaded_activation_bytes(
    layer_kept_bytes: Array,
    kept_layers: Array,
    in_flight_microbatches: Array,
    activations_on_device: Array,
) -> Array:
    """Activations of the stage kept on the host: all layers but the one on its way. [B]"""
    away = (1 - activations_on_device) * np.maximum(0.0, kept_layers - 1)
    return layer_kept_bytes * away * in_flight_microbatches


@quantity(unit="B", source="korthikanti2022")
def recomputed_layer_bytes(
    layer_token_bytes: Array, microbatch_tokens: Array, recompute_share: Array
) -> Array:
    """Working set of the one layer that is being recomputed. [B]"""
    return np.where(recompute_share > 0, layer_token_bytes * microbatch_tokens, 0.0)


@quantity(unit="B", source="arithmetic")
def working_bytes(
    hidden: Array,
    widest_ffn: Array,
    tp: Array,
    microbatch_tokens: Array,
    working_copies: Array,
    activation_bytes: Array,
) -> Array:
    """Temporaries of the running operator and its gradients. [B]"""
    return working_copies * activation_bytes * microbatch_tokens * (hidden + widest_ffn / tp)


@quantity(unit="B", source="liger2024")
def logits_bytes(
    vocab: Array,
    tp: Array,
    microbatch_tokens: Array,
    stage_is_last: Array,
    logits_copies: Array,
    activation_bytes: Array,
    loss_chunks: Array,
) -> Array:
    """Logits, their softmax and gradients at the loss. [B]

    Notes:
        ``logits_copies`` counts 16-bit copies per vocabulary entry (logits, fp32 copy, softmax,
        gradient); a chunked loss holds 1/``loss_chunks`` of them.
    """
    return (
        stage_is_last
        * logits_copies
        * activation_bytes
        * vocab
        / tp
        * microbatch_tokens
        / loss_chunks
    )


@quantity(unit="B", source="arithmetic", parts=True)
def activation_memory_bytes(
    kept_activation_bytes: Array, recomputed_layer_bytes: Array, working_bytes: Array
) -> Array:
    """Activations at the fullest moment: kept, recomputed and temporary. [B]"""
    return kept_activation_bytes + recomputed_layer_bytes + working_bytes
