"""Operation counts: what the model needs (model FLOPs) and what the hardware executes.

One multiply-add is 2 FLOP. Counts are per token of one sequence, forward pass, whole model;
the backward pass costs twice the forward one (once if the weights are frozen).
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="1", source="arithmetic")
def attended_tokens(passed_tokens: Array, prefix_tokens: Array, causal_share: Array) -> Array:
    """Keys a query sees on average under full attention: half of the sequence if causal. [1]

    Notes:
        Trained keys before the sequence are seen by every query.
    """
    return passed_tokens * causal_share + prefix_tokens


@quantity(unit="1", source="arithmetic")
def attended_window_tokens(seq_len: Array, window: Array, causal_share: Array) -> Array:
    """Keys a query sees on average in sliding-window layers. [1]

    Notes:
        With window w < s a causal query sees w - w²/(2s) keys on average.
    """
    reach = np.minimum(window, seq_len)
    return reach * (1 - (1 - causal_share) * reach / seq_len)


@quantity(unit="FLOP", source="kaplan2020")
def attention_flop_per_token(
    attention_full_width: Array,
    attention_window_width: Array,
    attended_tokens: Array,
    attended_window_tokens: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """Score and value products of all layers, forward, per token. [FLOP]

    Notes:
        Widths are sums over layers of heads · (query/key width + value width).
    """
    full = attention_full_width * attended_tokens
    return flop_per_multiply_add * (full + attention_window_width * attended_window_tokens)


@quantity(unit="FLOP", source="kaplan2020")
def linear_flop_per_token(
    params_active: Array,
    embedding_params: Array,
    tied_embeddings: Array,
    flop_per_multiply_add: Array,
) -> Array:
    """Matrix products of all layers and the head, forward, per token. [FLOP]

    Notes:
        The embedding is a look-up; a tied one is multiplied once, as the head.
    """
    multiplied = params_active - embedding_params * (1 - tied_embeddings)
    return flop_per_multiply_add * multiplied


@quantity(unit="FLOP", source="chowdhery2022")
def model_flop_per_token(
    linear_flop_per_token: Array, attention_flop_per_token: Array, backward_passes: Array
) -> Array:
    """Forward and backward operations the model needs per trained token, without recompute. [FLOP]

    Notes:
        ``backward_passes`` is 2 when all weights are trained, about 1 for frozen ones. Attention
        is counted as it is needed: causally halved.
    """
    return linear_flop_per_token * (1 + backward_passes) + 3 * attention_flop_per_token


@quantity(unit="FLOP", source="arithmetic")
def hardware_flop_per_token(
    model_flop_per_token: Array,
    linear_flop_per_token: Array,
    attention_flop_per_token: Array,
    recompute_share: Array,
    scores_recomputed: Array,
) -> Array:
    """Operations the hardware executes per trained token, recompute included. [FLOP]"""
    again = recompute_share * (linear_flop_per_token + attention_flop_per_token)
    scores_again = (1 - recompute_share) * scores_recomputed * attention_flop_per_token
    return model_flop_per_token + again + scores_again
