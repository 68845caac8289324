"""Which modules a target list adapts: short words, names as peft takes them, ``all-linear``.

Lists follow peft [peft]: a name stands for every linear module whose path ends in it. On models
whose experts became stacked parameters, peft takes the older names of their matrices for those
parameters, with the ranks of fused matrices added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chipwise.errors import UsageError, nearest_names, shortened
from chipwise.i18n import _
from chipwise.spec.model import ModelSpec
from chipwise.spec.module_names import names_of
from chipwise.spec.modules import Module, module_names, modules

_QV = frozenset(
    {"attention.query", "attention.query_up", "attention.value", "attention.key_value_up"}
)
_QKV = _QV | {"attention.query_down", "attention.key", "attention.key_value_down"}
_OUTPUT = frozenset({"attention.output", "attention.output_down", "attention.output_up"})
_FFN = ("dense_ffn", "shared_expert", "expert")
ALL = "all-linear"
WITH_HEAD = "all-linear+head"
WORDS = ("qv", "qkv", "attention", "mlp", "qkv+mlp", ALL, WITH_HEAD)
"""Short words beside names of modules."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """A module that is adapted; fused matrices that were named one by one add their ranks."""

    module: Module
    rank_factor: int = 1

    def low_rank(self, rank: int) -> int:
        """Parameters of its low-rank pairs."""
        return self.module.low_rank(rank * self.rank_factor)


def adapted(model: ModelSpec, targets: str) -> tuple[Adapted, ...]:
    """The modules of the layers that a target word or comma list names.

    Args:
        model: the architecture.
        targets: one of ``WORDS``, or names of modules with commas between them.

    Raises:
        UsageError: a name that no module of this model has, with the nearest ones; or one of two
            matrices that are stacked together.
    """
    if targets in (ALL, WITH_HEAD):
        return tuple(_all_linear(model))
    if targets in WORDS:
        return tuple(_by_word(model, targets))
    return tuple(_by_name(model, [name.strip() for name in targets.split(",") if name.strip()]))


def _by_word(model: ModelSpec, word: str) -> Iterator[Adapted]:
    rewritten = names_of(model.architecture).rewritten
    for module in modules(model):
        if _has(module, word):
            fused = module.kind == "stacked" and bool(rewritten)
            yield Adapted(module, len(module.matrices) if fused else 1)


def _has(module: Module, word: str) -> bool:
    own = frozenset(module.matrices)
    ffn = module.part in _FFN and "shared_expert.switch" not in own
    if word == "mlp":
        return ffn
    if word == "attention":
        return bool(own & (_QKV | _OUTPUT))
    wanted = _QV if word == "qv" else _QKV
    return bool(own & wanted) or (word == "qkv+mlp" and ffn)


def _all_linear(model: ModelSpec) -> Iterator[Adapted]:
    """All linear modules; where peft rewrites names, those names mean the experts alone."""
    rewritten = names_of(model.architecture).rewritten
    stacked = any(module.kind == "stacked" for module in modules(model))
    taken = rewritten if stacked else {}
    for module in modules(model):
        if module.kind == "linear" and module.leaf not in taken:
            yield Adapted(module)
    if stacked and rewritten:
        yield from _rewritten(model, set(rewritten), rewritten)


def _by_name(model: ModelSpec, targets: list[str]) -> Iterator[Adapted]:
    if not targets:
        raise UsageError("no-targets", _("name at least one target module"))
    rewritten = names_of(model.architecture).rewritten
    if not any(module.kind == "stacked" for module in modules(model)):
        rewritten = {}
    old = {last for target in targets if (last := target.rpartition(".")[2]) in rewritten}
    old -= {t.rpartition(".")[2] for t in targets if _names_stack(model, t)}
    plain = [t for t in targets if t.rpartition(".")[2] not in old]
    for target in plain:
        if not any(_takes(module, target) for module in modules(model)):
            raise unknown_target(model, target)
    for module in modules(model):
        if any(_takes(module, target) for target in plain):
            yield Adapted(module)
    yield from _rewritten(model, old, rewritten)


def _names_stack(model: ModelSpec, target: str) -> bool:
    """Whether a target with a dot names a stacked parameter itself."""
    stacks = (module for module in modules(model) if module.kind == "stacked")
    return "." in target and any(module.ends(target) for module in stacks)


def _takes(module: Module, target: str) -> bool:
    """Parameters are named with the module that holds them, linear modules by any ending."""
    if module.kind == "router" or (module.kind == "stacked" and "." not in target):
        return False
    return module.ends(target)


def _rewritten(model: ModelSpec, old: set[str], table: Mapping[str, str]) -> Iterator[Adapted]:
    for path in dict.fromkeys(table.values()):
        needed = [name for name, new in table.items() if new == path]
        given = [name for name in needed if name in old]
        if not given:
            continue
        if len(given) < len(needed):
            text = _(
                "the experts of {model} keep {names} in one parameter: target both, or neither"
            ).format(model=model.id, names=_(" and ").join(f"'{name}'" for name in needed))
            raise UsageError("fused-target", text, targets=given, nearest=needed)
        for module in modules(model):
            if module.ends(path) and module.kind != "linear":
                yield Adapted(module, len(needed))


def unknown_target(model: ModelSpec, target: str) -> UsageError:
    """That a model has no module of that name, with the nearest names it has."""
    known = module_names(model)
    near = nearest_names(target, (*known, *WORDS)) or list(known)
    text = _("{model} has no module '{target}' to adapt; it has {names}").format(
        model=model.id, target=shortened(target), names=", ".join(near)
    )
    return UsageError("unknown-target", text, target=target, nearest=near)
