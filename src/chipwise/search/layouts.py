"""Degrees that a job can have on so many devices: every combination that obeys the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chipwise import rules
from chipwise.catalogue.frameworks import stacks
from chipwise.spec.job import Framework, TrainingJob

AXES = ("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "sequence_parallel", "shard_group")
_LEAST_TOKENS_PER_CP_RANK = 1024
"""Shorter pieces of a sequence are not worth a ring."""
Split = tuple[int, int, int, int, int, int, int, int, int]
"""The axes in order, the micro-batch still 0."""


@dataclass(frozen=True)
class Room:
    """All that decides which degrees there are; the same on many machines."""

    devices: int
    domain: int
    """Devices that a fast link joins."""
    global_batch: int
    seq_len: int
    heads: int
    num_layers: int
    num_experts: int
    framework: Framework
    pinned: tuple[int | None, ...]
    """Stated values of the axes, in order; None where free."""

    @classmethod
    def of(cls, job: TrainingJob, framework: Framework) -> Room:
        """The room of a job whose sequence length and global batch are stated."""
        stated = job.strategy
        parallel = stated.sequence_parallel
        return cls(
            devices=job.cluster.num_devices,
            domain=job.cluster.devices_per_node,
            global_batch=job.workload.global_batch or 1,
            seq_len=job.workload.seq_len or 1,
            heads=rules.attention_heads(job.model),
            num_layers=job.model.num_layers,
            num_experts=rules.num_experts(job.model),
            framework=framework,
            pinned=(
                *(stated.tp, stated.pp, stated.dp, stated.cp, stated.ep, stated.vpp),
                *(stated.micro_batch, None if parallel is None else int(parallel)),
                stated.shard_group,
            ),
        )

    def stated(self, axis: str) -> int | None:
        """What an axis is pinned to."""
        return self.pinned[AXES.index(axis)]

    def choices(self, axis: str, free: list[int]) -> list[int]:
        """What an axis can be."""
        stated = self.stated(axis)
        return free if stated is None else [stated]


@lru_cache(maxsize=4096)
def layouts(room: Room) -> NDArray[np.float64]:
    """All layouts. Shape (layouts, axes); micro-batches rise within the same other degrees."""
    splits = np.array(list(_splits(room)), dtype=np.float64).reshape(-1, len(AXES))
    sizes = [
        _micro_batches(room, int(dp), int(pp), int(vpp))
        for dp, pp, vpp in splits[:, [AXES.index(name) for name in ("dp", "pp", "vpp")]]
    ]
    table = np.repeat(splits, [len(some) for some in sizes], axis=0)
    if len(table):
        table[:, AXES.index("micro_batch")] = np.concatenate(sizes)
    return table


def _splits(room: Room) -> Iterator[Split]:
    """Degrees that fill the devices."""
    stack = stacks()[room.framework]
    divides = stack.pipelines
    for tp in room.choices("tp", _tensor_degrees(room) if divides else [1]):
        for pp in room.choices("pp", _stages(room, room.devices // tp) if divides else [1]):
            rest = room.devices // (tp * pp)
            for cp in room.choices("cp", _context_degrees(room, rest) if divides else [1]):
                dp = room.devices // (tp * pp * cp)
                if room.devices % (tp * pp * cp) or room.global_batch % dp:
                    continue
                if room.stated("dp") in (None, dp):
                    yield from _inner(room, tp, pp, dp, cp, divides)


def _inner(room: Room, tp: int, pp: int, dp: int, cp: int, divides: bool) -> Iterator[Split]:
    """What is free once the devices are divided."""
    stack = stacks()[room.framework]
    chunks = _chunks(room.num_layers, pp) if stack.interleaves else [1]
    experts = _expert_degrees(room.num_experts, dp * cp * tp) if divides else [1]
    parallel = {"free": [0, 1], "tied": [1], "never": [0]}[stack.sequence_parallel]
    groups = _shard_groups(dp * cp, max(1, room.domain // tp))
    for ep in room.choices("ep", experts):
        for vpp in room.choices("vpp", chunks):
            for along in room.choices("sequence_parallel", parallel if tp > 1 else [0]):
                for group in room.choices(
                    "shard_group", groups if stack.hybrid_shard else groups[-1:]
                ):
                    yield tp, pp, dp, cp, ep, vpp, 0, along, group


def _shard_groups(ranks: int, inside: int) -> list[int]:
    """Ranks that share one copy of the states: those of a node at least, which its link joins."""
    return [group for group in rules.divisors(ranks) if group >= min(inside, ranks)]


def _tensor_degrees(room: Room) -> list[int]:
    """Within the fast-link domain; a stated degree may go beyond it."""
    return [
        degree
        for degree in rules.divisors(room.devices)
        if degree <= room.domain and (not room.heads or room.heads % degree == 0)
    ]


def _stages(room: Room, devices: int) -> list[int]:
    return [degree for degree in rules.divisors(devices) if degree <= room.num_layers]


def _context_degrees(room: Room, devices: int) -> list[int]:
    """Powers of two; each rank holds two equal pieces, so that causal work is even."""
    found, degree = [1], 2
    while devices % degree == 0 and room.seq_len // degree >= _LEAST_TOKENS_PER_CP_RANK:
        if room.seq_len % (2 * degree) == 0:
            found.append(degree)
        degree *= 2
    return found


def _expert_degrees(experts: int, ranks: int) -> list[int]:
    return [ep for ep in rules.divisors(experts) if ranks % ep == 0] if experts else [1]


def _chunks(num_layers: int, pp: int) -> list[int]:
    """Virtual stages that cut the layers evenly."""
    return [1] if pp == 1 or num_layers % pp else rules.divisors(num_layers // pp)


def _micro_batches(room: Room, dp: int, pp: int, vpp: int) -> NDArray[np.float64]:
    """Sizes the batch of one rank can be cut into; interleaving needs whole rounds of stages."""
    return _sizes(room.global_batch // dp, pp if vpp > 1 else 1, room.stated("micro_batch"))


@lru_cache(maxsize=4096)
def _sizes(per_rank: int, rounds: int, stated: int | None) -> NDArray[np.float64]:
    sizes = rules.divisors(per_rank) if stated is None else [stated]
    return np.array(
        [n for n in sizes if per_rank % n == 0 and per_rank // n % rounds == 0], dtype=np.float64
    )
