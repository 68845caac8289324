"""Bounds that rule out candidates without looking at them one by one, and without loss.

Templates of one sharding differ in columns that time and memory are monotone in. A *bound* is a
template that need not exist: the most favourable value of each such column. Nothing in the group
is faster than its fast bound, nothing needs less memory than its lean bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chipwise.search.space import Index, Vector
from chipwise.search.table import Table

SLOWER: dict[str, int] = {
    **{"recompute_forward_share": 1, "scores_recomputed": 1, "eager_attention": 1},
    **{"fusion_factor": 1, "host_factor": 1, "ffn_saved_width": 1, "grad_bytes": 1},
    **{"optimizer_on_device": -1, "weights_on_device": -1, "activations_on_device": -1},
    **{"recompute_share": -1, "scores_kept": 0, "loss_chunks": 0, "logits_copies": 0},
    **{"norm_input_bytes": 0, "bucket_params": 0, "dropout_bytes": 0, "loss_passes": 1},
}
"""Whether a larger value of a column makes a step slower (1), faster (-1) or neither (0)."""
FATTER: dict[str, int] = {
    **{"scores_recomputed": 1, "scores_kept": 1, "eager_attention": 0, "logits_copies": 1},
    **{"loss_chunks": -1, "ffn_saved_width": 1, "norm_input_bytes": 1, "bucket_params": 1},
    **{"grad_bytes": 1, "dropout_bytes": 1, "optimizer_on_device": 1, "weights_on_device": 1},
    **{"activations_on_device": 1, "fusion_factor": 0, "host_factor": 0, "loss_passes": 0},
    **{"recompute_forward_share": 0},
}
"""Whether a larger value needs more memory (1), less (-1) or neither (0).

``recompute_share`` is not among them: repeating layers needs the room of one, which is more than
it saves where a stage has one layer. Memory falls with the share above 0, so the smaller of its
two ends is the bound.
"""
_ENDS = "recompute_share"


@dataclass(frozen=True)
class Bounds:
    """Bounds of groups of templates."""

    group: NDArray[np.intp]
    """Group of each template. Shape (templates,)."""
    fast: dict[str, Vector]
    """Columns of the fastest template a group could have. Shape (groups,)."""
    lean: tuple[dict[str, Vector], ...]
    """Columns of the leanest ones; the smaller need of them is the bound. Shape (groups,)."""

    @property
    def num_groups(self) -> int:
        """Groups of templates."""
        return int(self.group.max()) + 1


def bounds_of(table: Table) -> Bounds:
    """The bounds of a space: of templates that share all columns without a known direction."""
    columns = table.by_template
    apart = [value for name, value in columns.items() if name not in SLOWER]
    rows = np.stack([*apart, np.zeros(len(table.space.templates))], axis=1)
    _unique, group = np.unique(rows, axis=0, return_inverse=True)
    group = group.reshape(-1)
    ends = (-1, 1) if _ENDS in columns else (0,)
    lean = tuple(_best(columns, group, FATTER | {_ENDS: end}) for end in ends)
    return Bounds(group, _best(columns, group, SLOWER), lean)


def undominated(table: Table, group: Index) -> NDArray[np.bool_]:
    """Templates that no other of their group equals or beats in time and memory alike. (templates,)

    Of templates that are equal in all columns the first one stays.
    """
    columns = table.by_template
    never_slower = [(value, SLOWER[name]) for name, value in columns.items() if name in SLOWER]
    never_fatter = [
        (value, -1 if name == _ENDS else FATTER[name])
        for name, value in columns.items()
        if name in SLOWER
    ]
    repeats = (columns[_ENDS] > 0) * 1.0 if _ENDS in columns else np.zeros(len(group))
    worse = [value * direction for value, direction in (*never_slower, *never_fatter)]
    allowed = table.space.allowed
    rows = np.stack([group, repeats, *worse], axis=1)
    return _front(rows.tobytes(), rows.shape, allowed.tobytes(), allowed.shape)


@lru_cache(maxsize=256)
def _front(
    rows: bytes, shape: tuple[int, ...], allowed: bytes, allowed_shape: tuple[int, ...]
) -> NDArray[np.bool_]:
    """The undominated ones; many accelerators share them. Shape (templates,)."""
    table = np.frombuffer(rows).reshape(shape)
    goes = np.frombuffer(allowed, dtype=bool).reshape(allowed_shape)
    no_worse = (goes[:, None] | ~goes[None]).all(axis=2)
    for column in table.T[:2]:
        no_worse &= column[:, None] == column[None, :]
    for column in table.T[2:]:
        no_worse &= column[:, None] <= column[None, :]
    earlier = np.arange(len(table))[:, None] < np.arange(len(table))[None, :]
    kept: NDArray[np.bool_] = ~(no_worse & (~no_worse.T | earlier)).any(axis=0)
    return kept


def _best(
    columns: Mapping[str, Vector], group: Index, directions: Mapping[str, int]
) -> dict[str, Vector]:
    """The most favourable value of each column in each group."""
    groups = range(int(group.max()) + 1)
    return {
        name: np.array([_end(value[group == one], directions.get(name, 0)) for one in groups])
        for name, value in columns.items()
    }


def _end(values: Vector, direction: int) -> float:
    return float(values.max() if direction < 0 else values.min())
