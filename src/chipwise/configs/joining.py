"""Several configurations as one job, filled up with what their tool does by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chipwise.catalogue.tools import Tool, tools
from chipwise.configs.reading import Reading, Taken, contradiction
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
