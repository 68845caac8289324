"""How a model is fine-tuned: the methods, what each of them takes, and what stays frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from chipwise.spec.model import Count, Frozen

Method = Literal[
    "full",
    "lisa",
    "lora",
    "rslora",
    "dora",
    "qlora",
    "adalora",
    "vera",
    "ia3",
    "ln-tuning",
    "prompt",
    "prefix",
    "adapter",
]
Outer = Literal["embeddings", "head"]
Option = Literal["rank", "targets", "virtual_tokens", "active_layers", "modules_to_save"]


@dataclass(frozen=True, slots=True)
class Trait:
    """What a method takes, and what a competent user states where nothing is said."""

    takes: frozenset[Option]
    base_trained: bool = False
    """The weights of the model itself are trained, not something beside them."""
    rank: int = 0
    """Usual rank, or width of a bottleneck."""
    targets: str = ""
    """Usual targets; empty: those of the architecture, or none."""
    virtual_tokens: int = 0


def _takes(*options: Option) -> frozenset[Option]:
    return frozenset(options)


_LOW_RANK = Trait(_takes("rank", "targets", "modules_to_save"), rank=16, targets="qv")

METHODS: Mapping[Method, Trait] = {
    "full": Trait(_takes(), base_trained=True),
    "lisa": Trait(_takes("active_layers"), base_trained=True),
    "lora": _LOW_RANK,
    "rslora": _LOW_RANK,
    "dora": _LOW_RANK,
    "qlora": _LOW_RANK,
    "adalora": Trait(_LOW_RANK.takes, rank=12, targets="qv"),
    "vera": Trait(_LOW_RANK.takes, rank=256, targets="qv"),
    "ia3": Trait(_takes("targets", "modules_to_save")),
    "ln-tuning": Trait(_takes("modules_to_save")),
    "prompt": Trait(_takes("virtual_tokens"), virtual_tokens=20),
    "prefix": Trait(_takes("virtual_tokens"), virtual_tokens=20),
    "adapter": Trait(_takes("rank", "modules_to_save"), rank=64),
}
"""Ranks are the defaults of peft's configurations where it has one (AdaLoRA 12, VeRA 256) and
16 for LoRA; 64 is the middle width tried for bottlenecks [houlsby2019]; 20 virtual tokens are those
of peft's examples [peft]. LISA keeps 2 layers active [lisa2024]."""
LISA_LAYERS = 2
PACKED = ("int8", "int4", "nf4", "nf4-dq", "fp4")
"""Formats of a base that is unpacked before it is multiplied."""
FOUR_BIT = PACKED[1:]


class Tuning(Frozen):
    """Beside rank and targets: what else is trained, or not; all empty by default."""

    virtual_tokens: Count | None = None
    """Tokens that exist only as trained vectors (prompt and prefix tuning)."""
    modules_to_save: tuple[Outer, ...] = ()
    """Parts trained whole beside an adapter, each as a copy of its own."""
    train_last: Count | None = None
    """Only the last so many layers are trained, with what follows them; None: all."""
    freeze: tuple[Outer, ...] = ()
    """Parts that full training leaves as they are."""
    active_layers: Count | None = None
    """Layers that LISA trains at a time."""
    optimizer_rank: Count | None = None
    """Rank of projected gradients (GaLore)."""


def adapts(method: Method) -> bool:
    """Whether the base is frozen and something beside it is trained."""
    return not METHODS[method].base_trained
