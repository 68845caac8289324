"""Sequences of unlike length as columns: what is computed of each, over what memory must hold."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipwise.physics.data import expected_longest, grouped_longest
from chipwise.spec.job import Lengths, TrainingWorkload

_MOST_RANKS = 1 << 20
Vector = NDArray[np.float64]


def length_columns(
    workload: TrainingWorkload, micro_batch: ArrayLike, dp: ArrayLike
) -> dict[str, Vector]:
    """Shares of the longest sequence that are computed on average and by the slowest rank.

    Args:
        workload: with its longest sequence as ``seq_len``.
        micro_batch: sequences of a micro-batch; any shape.
        dp: data-parallel ranks, in the same shape.

    Returns:
        Both in that shape; 1 where all sequences are equally long.
    """
    count, ranks = np.broadcast_arrays(
        np.asarray(micro_batch, dtype=np.float64), np.asarray(dp, dtype=np.float64)
    )
    code = count.ravel() * _MOST_RANKS + ranks.ravel()
    codes, place = np.unique(code, return_inverse=True)
    pairs = [divmod(int(one), _MOST_RANKS) for one in codes]
    each = [length_shares(workload, micro, several) for micro, several in pairs]
    return {
        name: np.array([one[name] for one in each])[place].reshape(count.shape)
        for name in ("padded_share", "slowest_share")
    }


def length_shares(workload: TrainingWorkload, micro_batch: int, dp: int) -> dict[str, float]:
    """The same for one layout."""
    lengths = workload.lengths
    if lengths is None:
        return {"padded_share": 1.0, "slowest_share": 1.0}
    mean, slowest = _padded(lengths, micro_batch, dp)
    longest = float(workload.seq_len or lengths.tokens[-1])
    return {"padded_share": mean / longest, "slowest_share": slowest / longest}


@lru_cache(maxsize=4096)
def _padded(lengths: Lengths, micro_batch: int, dp: int) -> tuple[float, float]:
    """Tokens computed per sequence: on average, and by the slowest rank in one micro-batch."""
    tokens, shares = np.array(lengths.tokens), np.array(lengths.shares)
    if lengths.padding == "grouped":
        return (
            grouped_longest(tokens, shares, micro_batch, lengths.pool),
            grouped_longest(tokens, shares, micro_batch * dp, lengths.pool),
        )
    if lengths.padding == "longest":
        mean, slowest = expected_longest(tokens, shares, [micro_batch, micro_batch * dp])
        return float(mean), float(slowest)
    mean, slowest = expected_longest(tokens, shares, [1, dp])
    return float(mean), float(mean + (slowest - mean) / np.sqrt(micro_batch))
