"""The linear modules of a model under their public names, with their sizes: what adapters adapt.

Made from the same ledger that parameters are counted with (``spec.tensors``), so that the two
cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from chipwise.spec.model import ModelSpec
from chipwise.spec.module_names import Names, names_of
from chipwise.spec.tensors import Part, Tensor, tensors


@dataclass(frozen=True, slots=True)
class Module:
    """``count`` equal linear modules, or stacked parameters, of one group of layers."""

    path: str
    """Within a layer, such as ``self_attn.q_proj``."""
    group: int
    """Place of the group among the model's layers."""
    inputs: int
    outputs: int
    count: int
    part: Part
    matrices: tuple[str, ...]
    """Our names of the matrices that are fused in it."""
    kind: Literal["linear", "stacked", "router"] = "linear"
    """``stacked``: the parameter of all experts of a layer; ``router``: no linear module."""
    experts: int = 1
    """Experts in one stacked parameter."""

    @property
    def leaf(self) -> str:
        """The last part of the path, as target lists name it."""
        return self.path.rpartition(".")[2]

    def ends(self, target: str) -> bool:
        """Whether a target names this module: the path or its last parts."""
        return self.path == target or self.path.endswith(f".{target}")

    def low_rank(self, rank: int) -> int:
        """Parameters of a low-rank pair on each: rank · (inputs + outputs)."""
        return self.count * self.experts * rank * (self.inputs + self.outputs)


@lru_cache(maxsize=1024)
def modules(model: ModelSpec) -> tuple[Module, ...]:
    """The linear modules and stacked expert parameters of all layers, in ledger order."""
    names = names_of(model.architecture)
    found: dict[tuple[int, str], list[Tensor]] = {}
    for tensor in tensors(model):
        group, own = _place(tensor.name)
        if group is None or len(tensor.shape) != 2:
            continue
        found.setdefault((group, names.paths.get(own, own.removeprefix("attention."))), []).append(
            tensor
        )
    return tuple(
        _module(names, path, group, parts, model.layers[group].count)
        for (group, path), parts in found.items()
    )


def _place(name: str) -> tuple[int | None, str]:
    """Group of layers and our name of a ledger entry; no group outside the layers."""
    if not name.startswith("layers."):
        return None, name
    _layers, group, own = name.split(".", 2)
    return int(group), own


def _module(names: Names, path: str, group: int, parts: list[Tensor], layers: int) -> Module:
    first = parts[0]
    each = first.count // layers
    stacked = first.part == "expert" and names.experts == "stacked"
    router = first.part == "router" and not names.router_linear
    grouped = 1 if first.part == "expert" else each
    return Module(
        path=path,
        group=group,
        inputs=first.shape[1],
        outputs=sum(part.shape[0] for part in parts) * grouped,
        count=layers if stacked else first.count // grouped,
        part=first.part,
        matrices=tuple(_place(part.name)[1] for part in parts),
        kind="stacked" if stacked else "router" if router else "linear",
        experts=each if stacked else 1,
    )


def module_names(model: ModelSpec) -> tuple[str, ...]:
    """What a target list may name in this model, each once."""
    return tuple(dict.fromkeys(_nameable(model)))


def _nameable(model: ModelSpec) -> Iterator[str]:
    names = names_of(model.architecture)
    for module in modules(model):
        if module.kind == "linear":
            yield module.leaf
        elif module.kind == "stacked":
            yield ".".join(module.path.split(".")[-2:])
    if any(module.kind == "stacked" for module in modules(model)):
        yield from names.rewritten
