"""Several configurations as one job, filled up with what their tool does by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chipwise.catalogue.tools import Tool, tools
from chipwise.configs.reading import Reading, Taken, contradiction
from chipwise.errors import UsageError
from chipwise.i18n import _


@dataclass(frozen=True)
class Joined:
    """The fields of all configurations together."""

    fields: Mapping[str, Any]
    """Fields of a training request, ``devices`` left out."""
    taken: tuple[Taken, ...]
    defaults: Mapping[str, Any]
    """Of ``fields``, those that are the tool's own defaults."""
    tool: str | None
    devices: int | None
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


def join(readings: Sequence[Reading], tool: str | None = None) -> Joined:
    """Join configurations; one thing said twice must be said alike.

    Args:
        readings: the configurations in the order given.
        tool: the tool that runs them, where it is said; else the first that knows one.

    Raises:
        UsageError: two files that contradict one another; names both places.
    """
    taken: dict[str, Taken] = {}
    for reading in readings:
        for name, one in reading.taken.items():
            before = taken.get(name)
            if before is None or before.hint:
                taken[name] = one
            elif before.value != one.value and not one.hint:
                raise contradiction(before, one, _("they say different things"))
    chosen = tool or _tool_of(readings)
    known = tools()[chosen] if chosen else None
    _sixteen_bit(taken)
    stated = {name: one.value for name, one in taken.items()}
    devices = stated.pop("devices", None)
    defaults = _defaults(known, stated)
    return Joined(
        fields={**defaults, **stated},
        taken=tuple(taken.values()),
        defaults=defaults,
        tool=chosen,
        devices=devices,
        unknown=tuple(key for reading in readings for key in reading.unknown),
        notes=tuple(note for reading in readings for note in reading.notes),
    )


def _sixteen_bit(taken: dict[str, Taken]) -> None:
    """Weights read in 16 bit stay there only without an engine that keeps fp32 of its own.

    AdamW's moments then have their format too.
    """
    weights = taken.get("master_weights")
    if weights is None or not weights.hint:
        return
    engine = taken.get("shard")
    if engine is not None and engine.value != "none":
        del taken["master_weights"]
        taken.pop("grad_dtype", None)
        return
    optimizer = taken.get("optimizer")
    if optimizer is None or optimizer.value == "adamw":
        taken["optimizer"] = replace(optimizer or weights, field="optimizer", value="adamw-bf16")


def unresolved(
    readings: Sequence[Reading], joined: Joined, stated: Collection[str]
) -> UsageError | None:
    """What a file leaves open with ``auto`` and nothing else says; None where all is said.

    HF Trainer puts its own arguments in the place of ``auto`` [transformers-deepspeed]; those of
    a trainer that is known have defaults, and accumulation steps are 1 without one.

    Args:
        readings: the configurations.
        joined: what they say together.
        stated: fields stated beside them.
    """
    said = {*joined.fields, *stated}
    if "precision" not in said and joined.tool and tools()[joined.tool].trains:
        said.add("precision")
    if "micro_batch" in said or "global_batch" in said:
        said |= {"global_batch", "accumulation"}
    for reading in readings:
        for name, key in reading.autos.items():
            if name not in said and name in _WANTED:
                text = _(
                    "{file}:{line}: {key} is 'auto', which the Trainer fills in, and nothing here "
                    "says it: give {flag}, or the Trainer's own arguments with another --job"
                )
                return UsageError(
                    "unresolved-auto",
                    text.format(
                        file=reading.marked.name,
                        line=reading.marked.line(key),
                        key=key,
                        flag=_WANTED[name],
                    ),
                )
    return None


_WANTED = {"micro_batch": "--micro-batch 1", "precision": "--precision bf16"}


def _tool_of(readings: Sequence[Reading]) -> str | None:
    """The most telling tool: a launcher's or an engine's file says less than a trainer's."""
    order = [reading.tool for reading in readings]
    trainers = [name for name in order if tools()[name].trains]
    return next(iter((*trainers, *order)), None)


def _defaults(tool: Tool | None, stated: Mapping[str, Any]) -> dict[str, Any]:
    if tool is None:
        return {}
    adapters = {**tool.defaults, **stated}.get("method", "full") != "full"
    own = {**tool.defaults, **(tool.adapter_defaults if adapters else {})}
    return {
        name: value
        for name, value in own.items()
        if name not in stated and not (name == "accumulation" and "global_batch" in stated)
    }
