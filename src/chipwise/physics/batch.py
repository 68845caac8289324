"""How many tokens one optimizer step may train on before more of them are wasted.

Published laws of pre-training from scratch, with Adam, on text; nothing is known of fine-tuning.
They agree to a factor of two or so.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity

_IRREDUCIBLE = 1.69
_PARAMS_TERM, _PARAMS_POWER = 406.4, 0.34
_TOKENS_TERM, _TOKENS_POWER = 410.7, 0.28
_CRITICAL_SCALE, _CRITICAL_POWER = 2.1e8, 1 / 0.21
_OPTIMAL_SCALE, _OPTIMAL_POWER = 0.2920, 0.3271


@quantity(unit="1", source="hoffmann2022", assumes="nats per token on the text of that paper")
def expected_loss(params_total: Array, tokens: Array) -> Array:
    """Loss after training so many parameters on so many tokens once. [nat]

    Notes:
        1.69 + 406.4/N^0.34 + 410.7/D^0.28, the parametric fit of the Chinchilla paper.
    """
    seen = np.maximum(tokens, 1.0)
    return (
        _IRREDUCIBLE
        + _PARAMS_TERM / np.power(params_total, _PARAMS_POWER)
        + _TOKENS_TERM / np.power(seen, _TOKENS_POWER)
    )


@quantity(unit="1", source="kaplan2020")
def critical_batch_tokens(expected_loss: Array) -> Array:
    """Tokens per step at which twice the tokens are needed for the same loss. [1]

    Notes:
        2.1e8 tokens / L^(1/0.21): the noise of the gradient falls as the loss does.
    """
    return _CRITICAL_SCALE / np.power(expected_loss, _CRITICAL_POWER)


@quantity(unit="1", source="deepseek-llm")
def optimal_batch_tokens(
    model_flop_per_token: Array, tokens: Array, flop_per_multiply_add: Array
) -> Array:
    """Tokens per step that gave the lowest loss for the operations of the run. [1]

    Notes:
        0.2920 · C^0.3271, fitted to runs of 1e17 to 2e19 operations and used for 7B and 67B;
        C in operations, of which a multiply-add is two.
    """
    operations = 2 * model_flop_per_token / flop_per_multiply_add * np.maximum(tokens, 1.0)
    return _OPTIMAL_SCALE * np.power(operations, _OPTIMAL_POWER)


@quantity(unit="1", source="arithmetic")
def advised_batch_tokens(critical_batch_tokens: Array, optimal_batch_tokens: Array) -> Array:
    """The best batch for the loss, where it is not beyond the critical one. [1]"""
    return np.minimum(critical_batch_tokens, optimal_batch_tokens)


@quantity(unit="1", source="kaplan2020")
def extra_tokens_share(step_tokens: Array, critical_batch_tokens: Array) -> Array:
    """Tokens beyond those that very small steps need for the same loss, over these. [1]

    Notes:
        E/E_min = 1 + B/B_crit [mccandlish2018].
    """
    return step_tokens / critical_batch_tokens
