"""How checkpoints store weights, read from ``data/weight_formats.toml``: bits of each matrix."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from chipwise.errors import UnknownNameError
from chipwise.i18n import _
from chipwise.spec.model import Frozen

_FILE = Path(__file__).parent / "data" / "weight_formats.toml"
Bits = Annotated[float, Field(gt=0, le=64)]


class WeightFormat(Frozen):
    """Bits per parameter, block scales and zero points included."""

    name: str
    layers: Bits
    attention: Bits | None = None
    """Of attention matrices; None means as the other layer matrices."""
    table: Bits
    head: Bits
    small: Bits
    gguf: bool = False
    names: tuple[str, ...] = ()
    source: str
    retrieved: str
    note: str = ""

    @property
    def attention_bits(self) -> float:
        """Bits of an attention weight."""
        return self.layers if self.attention is None else self.attention


@cache
def weight_formats() -> dict[str, WeightFormat]:
    """All formats by name, in the order of the file."""
    read = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {name: WeightFormat.model_validate({"name": name, **about})
            for name, about in read.items()}  # fmt: skip


def find_weight_format(text: str) -> WeightFormat:
    """The format of a name such as ``fp8``, ``AWQ-int4-g128`` or ``Q4_K_M``.

    Raises:
        UnknownNameError: no such format.
    """
    found = _spellings().get(_plain(text))
    if found is None:
        known = weight_formats()
        raise UnknownNameError(_("weight format"), text, known, "chipwise fit --help")
    return known_format(found)


def known_format(name: str) -> WeightFormat:
    """The format of exactly this name."""
    return weight_formats()[name]


@cache
def _spellings() -> dict[str, str]:
    return {
        _plain(spelling): name
        for name, about in weight_formats().items()
        for spelling in (name, *about.names)
    }


def _plain(text: str) -> str:
    return re.sub(r"[\s_.-]+", "", text.strip().lower().removeprefix("torch."))
