"""Software stacks in ten families, read from ``data/frameworks.toml``.

Free text such as ``NeMo 24.07 / Megatron-Core`` is recognised by what stands in it; versions,
letter case and everything else are ignored.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal, cast

from chipwise.spec.job import AttentionKernel, Dtype, Framework, Shard
from chipwise.spec.model import Frozen, Size

_FILE = Path(__file__).parent / "data" / "frameworks.toml"


class Stack(Frozen):
    """What a family of training software keeps in memory and does by default."""

    match: tuple[str, ...]
    title: str
    storage: Literal["fp32-master", "fp32", "16bit"]
    grad_bytes: Size
    step_copies: Size
    shard: Literal["none", "zero1", "zero2", "zero3"]
    patience: float
    recompute: Literal["none", "if-needed", "full"]
    pipelines: bool
    interleaves: bool
    balances_head: bool
    splits_hand_over: bool
    fuses_accumulation: bool
    records_experts: bool
    host_driven_pipeline: bool
    loads_whole: bool
    loads_on_host: bool
    norm_input_bytes: Size
    gated_saved: Size
    dropout: bool
    persistent_gradients: bool
    loss: Literal["full", "parallel", "compiled", "fused"]
    fusion: Literal["eager", "fused"]
    launch: str
    precision: dict[str, Dtype]
    shards: tuple[Shard, ...]
    pipeline_shards: tuple[Shard, ...]
    hybrid_shard: bool
    kernels: tuple[AttentionKernel, ...]
    losses: tuple[Literal["no", "yes", "fused"], ...]
    compiled: tuple[bool, ...]
    recompute_every: tuple[int, ...]
    offloads: tuple[str, ...]
    sequence_parallel: Literal["free", "tied", "never"]
    source: str
    retrieved: str


@cache
def stacks() -> dict[Framework, Stack]:
    """All families by name, in the order in which their patterns are tried."""
    read = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {cast(Framework, name): Stack.model_validate(about) for name, about in read.items()}


@cache
def normalise_framework(text: str) -> Framework:
    """The family a free-text name of training software belongs to; ``other`` when none fits."""
    lowered = text.strip().lower()
    for name in stacks():
        if name == lowered:
            return name
    for name, stack in stacks().items():
        if any(re.search(pattern, lowered) for pattern in stack.match):
            return name
    return "other"
