"""What holds for every data set: packing, padding and the order of sequences."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from chipwise.physics import data

LENGTHS = some.lists(some.integers(1, 8192), min_size=1, max_size=60).map(
    lambda found: np.array(sorted(found), dtype=np.float64)
)
COUNTS = some.integers(1, 64)


def shares(lengths: np.ndarray) -> np.ndarray:
    return np.arange(1, len(lengths) + 1) / len(lengths)


@given(LENGTHS, COUNTS, COUNTS)
def test_a_larger_batch_never_pads_less(lengths: np.ndarray, one: int, other: int) -> None:
    small, large = (
        data.expected_longest(lengths, shares(lengths), n) for n in sorted((one, other))
    )
    assert small <= large * (1 + 1e-12)


@given(LENGTHS, COUNTS)
def test_padding_lies_between_the_mean_and_the_longest(lengths: np.ndarray, count: int) -> None:
    found = data.expected_longest(lengths, shares(lengths), count)
    assert lengths.mean() * (1 - 1e-12) <= found <= lengths[-1] * (1 + 1e-12)
    assert data.computed_per_useful(found, lengths.mean()) >= 1 - 1e-12


@given(LENGTHS, some.integers(0, 5), some.integers(0, 5))
def test_sorting_never_pads_more_with_smaller_batches(
    lengths: np.ndarray, one: int, other: int
) -> None:
    small, large = (
        data.grouped_longest(lengths, shares(lengths), 2**n, 256) for n in sorted((one, other))
    )
    assert lengths.mean() * (1 - 1e-12) <= small <= large <= lengths[-1]


@given(LENGTHS, some.integers(0, 4096))
def test_packing_never_computes_more_than_padding_all_to_the_longest(
    lengths: np.ndarray, spare: int
) -> None:
    seq = float(lengths[-1] + spare)
    packed = data.packed_sequences(lengths.sum(), seq)
    assert packed <= len(lengths)
    assert packed * seq >= lengths.sum()


@given(LENGTHS, COUNTS, COUNTS, some.booleans())
def test_the_pace_is_never_faster_than_the_average(
    lengths: np.ndarray, count: int, ranks: int, sharded: bool
) -> None:
    top = float(lengths[-1])
    mean = float(data.expected_longest(lengths, shares(lengths), count))
    slowest = float(data.expected_longest(lengths, shares(lengths), count * ranks))
    found = data.paced_length(top, mean / top, slowest / top, 4.0, float(sharded))
    assert mean * (1 - 1e-12) <= found <= slowest * (1 + 1e-12)
