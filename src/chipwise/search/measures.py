"""What a stack can be told beside degrees: sharding, recompute, kernels, losses, offload.

Every combination is one complete strategy of degree 1, a *template*. What templates say is the
same on every accelerator, so their columns are made once for each stack and workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chipwise.catalogue.frameworks import Stack, stacks
from chipwise.columns import stack_columns, strategy_columns
from chipwise.quantity import Array
from chipwise.spec.job import AttentionKernel, Recompute, Shard, Strategy, TrainingWorkload

_OFFLOADS = ("optimizer", "params", "activations")
_FROM_REPRESENTATIVE = ("dropout_bytes",)
"""Columns of a strategy that depend on the model as well."""
Loss = Literal["no", "yes", "fused"]


@dataclass(frozen=True)
class Measures:
    """The templates of one stack, with the columns that they decide."""

    strategies: tuple[Strategy, ...]
    columns: dict[str, Array]
    """A number where all templates agree, else shape (templates,)."""
    representatives: tuple[int, ...]
    """One template for each choice that other columns or calibration groups depend on."""
    group: NDArray[np.intp]
    """Which representative speaks for a template. Shape (templates,)."""
    choice: NDArray[np.intp]
    """Number of what a template shards, repeats and offloads, whatever its kernels. (templates,)"""
    every: NDArray[np.float64]
    """Layers from one repeated layer to the next, 1 where that means nothing. (templates,)"""
    offloads_activations: NDArray[np.bool_]
    """Shape (templates,)."""

    def __len__(self) -> int:
        return len(self.strategies)


@lru_cache(maxsize=256)
def measures(
    base: Strategy, pinned: Strategy, workload: TrainingWorkload, several: bool
) -> Measures:
    """All templates of a stack.

    Args:
        base: a complete strategy of degree 1 in that stack.
        pinned: the strategy as stated; what it states is not varied.
        workload: complete.
        several: whether there are data-parallel ranks to shard over.
    """
    stack = stacks()[base.framework or "other"]
    found = tuple(
        base.model_copy(update=dict(updates)) for updates in _choices(base, pinned, stack, several)
    )
    rows = [(strategy_columns(one, workload, stack), {"": ""}) for one in found]
    stacked, _keys = stack_columns(rows)
    columns = {name: agreed(value) for name, value in stacked.items()}
    for name in _FROM_REPRESENTATIVE:
        del columns[name]
    places: dict[object, int] = {}
    group = [places.setdefault((one.chunked_loss, one.compiled), n) for n, one in enumerate(found)]
    order = {place: n for n, place in enumerate(places.values())}
    return Measures(
        found,
        columns,
        tuple(places.values()),
        np.array([order[place] for place in group]),
        _numbered([_without_kernels(one) for one in found]),
        np.array([float(one.recompute_every or 1) for one in found]),
        np.array([bool(one.offload_activations) for one in found]),
    )


def _without_kernels(one: Strategy) -> Strategy:
    return one.model_copy(update={"attention": None, "chunked_loss": None, "compiled": None})


def _numbered(items: Sequence[Strategy]) -> NDArray[np.intp]:
    """Equal ones have the same number."""
    places: dict[Strategy, int] = {}
    return np.array([places.setdefault(one, len(places)) for one in items])


def agreed(value: Array) -> Array:
    """One number where all have the same."""
    every = np.asarray(value, dtype=np.float64).reshape(-1)
    return float(every[0]) if bool((every == every[0]).all()) else every


def shards_of(stack: Stack, stated: Shard | None, several: bool) -> tuple[Shard, ...]:
    """How states can be divided; nothing is without data-parallel ranks."""
    if not several:
        return ("none",)
    if stated is not None:
        return ("zero3",) if stated == "fsdp" else (stated,)
    return stack.shards


def _choices(
    base: Strategy, pinned: Strategy, stack: Stack, several: bool
) -> Iterator[dict[str, object]]:
    kernels: tuple[AttentionKernel | None, ...] = (base.attention,)
    if pinned.attention is None:
        kernels = tuple(dict.fromkeys((base.attention, *stack.kernels)))
    losses: tuple[Loss | None, ...] = (base.chunked_loss,)
    if pinned.chunked_loss is None:
        losses = tuple(dict.fromkeys((base.chunked_loss, *stack.losses)))
    compiled: tuple[bool | None, ...] = (base.compiled,)
    if pinned.compiled is None:
        compiled = tuple(dict.fromkeys((base.compiled, *stack.compiled)))
    for shard, kernel, loss, built in product(
        shards_of(stack, pinned.shard, several), kernels, losses, compiled
    ):
        kind = {"shard": shard, "attention": kernel, "chunked_loss": loss, "compiled": built}
        for repeat, away in product(
            _recomputes(pinned, stack), _offloads(base, pinned, stack, shard, several)
        ):
            yield kind | repeat | away


def _recomputes(pinned: Strategy, stack: Stack) -> Iterator[dict[str, object]]:
    modes: tuple[Recompute, ...] = ("none", "selective", "full")
    for mode in modes if pinned.recompute is None else (pinned.recompute,):
        steps = stack.recompute_every if pinned.recompute_every is None else ()
        for every in (steps or (pinned.recompute_every or 1,)) if mode == "full" else (1,):
            yield {"recompute": mode, "recompute_every": every}


def _offloads(
    base: Strategy, pinned: Strategy, stack: Stack, shard: Shard, several: bool
) -> Iterator[dict[str, object]]:
    """What goes to the host; weights only where no rank keeps them whole beside others."""
    if any(getattr(pinned, f"offload_{name}") is not None for name in _OFFLOADS):
        yield {f"offload_{name}": getattr(base, f"offload_{name}") for name in _OFFLOADS}
        return
    for words in stack.offloads:
        away = set(words.split())
        if "params" in away and several and shard != "zero3":
            continue
        yield {f"offload_{name}": name in away for name in _OFFLOADS}
