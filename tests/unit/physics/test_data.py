from __future__ import annotations

import numpy as np
import pytest

from chipwise.physics import data

THREE = np.array([100.0, 200.0, 600.0])
EVEN = np.array([1 / 3, 2 / 3, 1.0])
"""One third of the sequences each: mean 300."""


def test_the_longest_of_one_is_the_mean() -> None:
    assert data.expected_longest(THREE, EVEN, 1) == pytest.approx(300)


def test_the_longest_of_two_by_hand() -> None:
    # of 9 equal pairs one is at most 100, three more at most 200, five hold a 600:
    # (1·100 + 3·200 + 5·600) / 9 = 3700/9
    assert data.expected_longest(THREE, EVEN, 2) == pytest.approx(3700 / 9)


def test_the_longest_of_very_many_is_the_longest_there_is() -> None:
    assert data.expected_longest(THREE, EVEN, 10_000) == pytest.approx(600)


def test_counts_may_be_an_array() -> None:
    found = data.expected_longest(THREE, EVEN, np.array([[1, 2], [2, 1]]))
    assert np.shape(found) == (2, 2)
    assert found[0, 1] == pytest.approx(3700 / 9)


def test_the_longest_agrees_with_drawing_many_batches() -> None:
    draws = np.random.default_rng(1).choice(THREE, (200_000, 4))
    found = data.expected_longest(THREE, EVEN, 4)
    assert found == pytest.approx(draws.max(axis=1).mean(), rel=0.005)


def test_sorted_pools_pad_hardly_at_all_by_hand() -> None:
    # 6 sequences in order of length: 600 600 | 200 200 | 100 100. In pairs nothing is padded, so
    # the mean of 300 is what is computed; in threes 600 600 200 | 200 100 100 become 3·600 + 3·200
    assert data.grouped_longest(THREE, EVEN, 2, 6) == pytest.approx(300)
    assert data.grouped_longest(THREE, EVEN, 3, 6) == pytest.approx(400)


def test_sorted_pools_agree_with_sorting_drawn_pools() -> None:
    random = np.random.default_rng(2)
    lengths = np.sort(np.round(random.lognormal(6, 0.8, 400)))
    shares = np.arange(1, 401) / 400
    pools = -np.sort(-random.choice(lengths, (4000, 96)), axis=1)
    drawn = pools.reshape(4000, 24, 4).max(axis=2).mean()
    assert data.grouped_longest(lengths, shares, 4, 96) == pytest.approx(drawn, rel=0.02)


def test_a_lone_rank_waits_for_nobody() -> None:
    assert data.paced_length(1000.0, 0.4, 0.4, 4.0, 0.0) == pytest.approx(400)


def test_ranks_that_meet_once_a_step_wait_less_the_more_they_do_in_it() -> None:
    # 400 on average, 700 in the slowest rank: over 9 micro-batches a third of the 300 is left
    assert data.paced_length(1000.0, 0.4, 0.7, 9.0, 0.0) == pytest.approx(500)


def test_ranks_that_gather_weights_wait_at_every_micro_batch() -> None:
    assert data.paced_length(1000.0, 0.4, 0.7, 9.0, 1.0) == pytest.approx(700)


def test_the_pace_agrees_with_drawing_many_steps() -> None:
    # 4 ranks, 4 micro-batches of 2 sequences each; the slowest rank of each step counts
    random = np.random.default_rng(3)
    lengths = np.sort(random.lognormal(6, 0.8, 500))
    shares = np.arange(1, 501) / 500
    drawn = random.choice(lengths, (20_000, 4, 4, 2)).max(axis=3).mean(axis=2).max(axis=1).mean()
    top = lengths[-1]
    mean, slowest = (float(data.expected_longest(lengths, shares, n)) / top for n in (2, 8))
    found = data.paced_length(top, mean, slowest, 4.0, 0.0)
    assert found == pytest.approx(drawn, rel=0.05)


def test_packing_by_hand() -> None:
    # 10 sequences of 300 tokens are 3000 tokens: three sequences of 1024, the last one not full
    assert data.packed_sequences(3000.0, 1024.0) == 3
    assert data.packed_sequences(3072.0, 1024.0) == 3
    assert data.packed_sequences(3073.0, 1024.0) == 4


def test_computed_tokens_over_useful_ones() -> None:
    assert data.computed_per_useful(400.0, 300.0) == pytest.approx(4 / 3)
