"""What optimizers keep for each trained parameter, read from ``data/optimizers.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, cast

from pydantic import Field

from chipwise.spec.job import Optimizer
from chipwise.spec.model import Frozen

_FILE = Path(__file__).parent / "data" / "optimizers.toml"
SMALLEST_PAGED = 100_000
"""Values from which bitsandbytes pages the state of a tensor; smaller ones stay resident."""
USUAL_RANK = 128
"""Rank of GaLore's projection where none is stated: the default of the trainers."""


class OptimizerFacts(Frozen):
    """State of one optimizer."""

    state_bytes: Annotated[float, Field(ge=0)]
    """Per trained parameter, beside fp32 weights. [B]"""
    halved: bool = False
    """States have the format of the weights."""
    paged: bool = False
    """States lie in unified memory and leave the device when it is full."""
    projected: bool = False
    """States are kept for gradients projected to a low rank."""
    source: str
    retrieved: str
    note: str = ""


@cache
def optimizers() -> Mapping[Optimizer, OptimizerFacts]:
    """All optimizers by name."""
    read = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {cast(Optimizer, name): OptimizerFacts.model_validate(one) for name, one in read.items()}
