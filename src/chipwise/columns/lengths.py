"""Sequences of unlike length as columns: what is computed of each, over what memory must hold."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipwise.physics.data import expected_longest, grouped_longest
from chipwise.spec.job import Lengths, TrainingWorkload

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
    lengths = workload.lengths
    if lengths is None:
        return {"padded_share": np.ones(count.shape), "slowest_share": np.ones(count.shape)}
    pairs, place = np.unique(np.stack([count.ravel(), ranks.ravel()]), axis=1, return_inverse=True)
    found = np.array([_padded(lengths, int(one), int(other)) for one, other in pairs.T])
    shares = found[place.reshape(-1)] / float(workload.seq_len or lengths.tokens[-1])
    return {
        "padded_share": shares[:, 0].reshape(count.shape),
        "slowest_share": shares[:, 1].reshape(count.shape),
    }


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
