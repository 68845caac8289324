"""Serving engines and what they do with device memory, read from ``data/engines.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field

from chipwise.spec.hardware import Accelerator
from chipwise.spec.model import Count, Frozen
from chipwise.units import parse

_FILE = Path(__file__).parent / "data" / "engines.toml"
_BIG_DEVICE = 70 * 2**30
EngineName = Literal["vllm", "sglang", "trt-llm", "llama.cpp", "pooled", "eager"]


def _bytes(value: Any) -> float:
    return parse(value, "B")


Bytes = Annotated[float, BeforeValidator(_bytes), Field(ge=0)]
Part = Annotated[float, Field(gt=0, le=1)]


class Engine(Frozen):
    """What a serving engine plans with, allocates and calls its own flags."""

    name: str
    title: str
    match: tuple[str, ...]
    utilization: Part
    pool_share: Part
    plans_activations: bool
    plans_graphs: bool
    pool: bool
    """The KV pool is allocated at the start, whatever is asked for."""
    table_on_device: bool
    offered: bool = True
    """A person can ask for it; others only occur in measurements."""
    block: Count
    runtime: Bytes
    channel: Bytes
    graph_layer: Bytes
    logit_bytes: Count
    tokens: Count
    sequences: Count
    big_tokens: Count
    big_sequences: Count
    command: str
    flags: Mapping[str, str]
    kv_words: Mapping[str, str]
    source: str
    retrieved: str
    note: str = ""

    def tokens_on(self, device: Accelerator) -> int:
        """Most tokens of one forward pass when nothing is said."""
        return self.big_tokens if _is_big(device) else self.tokens

    def sequences_on(self, device: Accelerator) -> int:
        """Most sequences of one forward pass when nothing is said."""
        return self.big_sequences if _is_big(device) else self.sequences


def _is_big(device: Accelerator) -> bool:
    """70 GiB and more, A100 excepted: the engines name it [vllm-engine]."""
    return device.memory_bytes >= _BIG_DEVICE and not device.id.startswith("a100")


@cache
def engines() -> dict[EngineName, Engine]:
    """All engines by name, in the order in which their patterns are tried."""
    read = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {
        cast(EngineName, name): Engine.model_validate({"name": name, **about})
        for name, about in read.items()
    }


def recognise_engine(text: str) -> Engine:
    """The engine that free text such as ``vLLM (ROCm)`` names; the eager one when none fits."""
    lowered = text.strip().lower()
    found = (
        engine
        for engine in engines().values()
        if any(re.search(pattern, lowered) for pattern in engine.match)
    )
    return next(found)
