"""Laws of the batch size, against figures worked by hand and published runs."""

from __future__ import annotations

import pytest

from chipwise.physics import batch


def test_the_loss_of_chinchilla_itself() -> None:
    # 70e9 parameters, 1.4e12 tokens: 1.69 + 406.4/4856 + 410.7/2523.9 = 1.69 + 0.0837 + 0.1627
    assert batch.expected_loss(70e9, 1.4e12) == pytest.approx(1.936, abs=2e-3)


def test_the_critical_batch_at_a_loss_of_two() -> None:
    # 2.1e8 / 2^4.762 = 2.1e8 / 27.1
    assert batch.critical_batch_tokens(2.0) == pytest.approx(7.74e6, rel=5e-3)


def test_the_optimal_batch_of_deepseek_llm_7b_is_near_the_published_one() -> None:
    # 2e12 tokens, about 4.3e10 FLOP each; trained with 2,304 sequences of 4,096: 9.4e6 tokens
    assert batch.optimal_batch_tokens(4.3e10, 2e12, 2.0) == pytest.approx(9.4e6, rel=0.15)


def test_the_advice_is_never_beyond_the_critical_batch() -> None:
    assert batch.advised_batch_tokens(4e6, 3e6) == 3e6
    assert batch.advised_batch_tokens(4e6, 5e6) == 4e6


def test_the_critical_batch_doubles_the_tokens() -> None:
    assert batch.extra_tokens_share(4e6, 4e6) == 1
