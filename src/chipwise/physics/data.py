"""What a data set makes of a sequence length: padding, packing, and waiting for the longest.

How long its sequences are is a distribution: ascending ``lengths`` in tokens, and for each the
share of the sequences that are no longer (``shares``, rising to 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipwise.quantity import Array, quantity

Vector = NDArray[np.float64]


def expected_longest(lengths: Vector, shares: Vector, count: ArrayLike) -> Vector:
    """Expected length of the longest of some sequences drawn at random: what all are padded to.

    Args:
        lengths: ascending. Shape (lengths,). [1]
        shares: of the sequences no longer than each. Shape (lengths,). [1]
        count: sequences drawn, ≥ 1; any shape. [1]

    Returns:
        In the shape of ``count``. [1]

    Notes:
        All n draws are at most x with probability F(x)^n, exactly, so the longest one is x with
        F(x)^n - F(x-)^n: the expectation of the highest order statistic.
    """
    drawn = np.asarray(count, dtype=np.float64)[..., None]
    below = np.concatenate([[0.0], shares[:-1]])
    return np.asarray(((shares**drawn - below**drawn) * lengths).sum(axis=-1))


def grouped_longest(lengths: Vector, shares: Vector, count: int, pool: int) -> float:
    """Mean padded length where pools of sequences are sorted before they are cut into batches.

    Args:
        lengths: ascending. Shape (lengths,). [1]
        shares: of the sequences no longer than each. Shape (lengths,). [1]
        count: sequences of a batch, padded to its longest. [1]
        pool: sequences sorted together. [1]

    Notes:
        Batch c starts with the sequence of rank c·count from the top of the pool; the expected
        share below rank k of n is (k - 1/2)/n, up to a term of 1/n² (``group_by_length``
        [transformers-length-grouped]). Never less than the mean.
    """
    places = np.arange(pool)
    tops = pool - (places - places % count)
    rows = np.searchsorted(shares, (tops - 0.5) / pool)
    mean = float(expected_longest(lengths, shares, 1))
    return max(mean, float(lengths[np.minimum(rows, len(lengths) - 1)].mean()))


def packed_sequences(useful_tokens: Array, seq_len: Array) -> Array:
    """Sequences that all tokens of a data set fill one after the other, the last one in part. [1]

    Notes:
        Best-fit packing, which cuts no example, leaves a few per cent more unfilled.
    """
    return np.ceil(useful_tokens / seq_len)


def computed_per_useful(padded_length: Array, useful_length: Array) -> Array:
    """Tokens computed for each token that is trained on: 1 without any padding. [1]"""
    return padded_length / useful_length


@quantity(unit="1", source="arithmetic")
def padded_length(seq_len: Array, padded_share: Array) -> Array:
    """Tokens computed per sequence on average, padding included. [1]

    Notes:
        ``seq_len`` is the longest sequence there is: what memory has to hold.
    """
    return seq_len * padded_share


@quantity(
    unit="1", source="arithmetic", assumes="what is beyond the mean averages out over micro-batches"
)
def paced_length(
    seq_len: Array,
    padded_share: Array,
    slowest_share: Array,
    num_microbatches: Array,
    shard_weights: Array,
) -> Array:
    """Tokens per sequence of the rank that all others wait for. [1]

    Notes:
        Ranks draw sequences of their own and wait for the slowest: at every micro-batch where they
        gather each other's weights, else once a step, when the deviation of n micro-batches has
        become 1/√n of one's. Exact for one rank and for one micro-batch.
    """
    meetings = np.where(shard_weights > 0, 1.0, num_microbatches)
    beyond = (slowest_share - padded_share) / np.sqrt(meetings)
    return seq_len * (padded_share + beyond)
