"""Tools people train with: which stack each runs on and what it does when told nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

from chipwise.catalogue.load import DATA
from chipwise.spec.job import Framework
from chipwise.spec.model import Frozen


class Tool(Frozen):
    """One tool."""

    title: str
    framework: Framework
    trains: bool = True
    """False for launchers and engines, whose files say how and not what."""
    defaults: Mapping[str, Any] = {}
    """Fields of a training request that hold where nothing is said."""
    adapter_defaults: Mapping[str, Any] = {}
    """The same, for adapter methods only."""
    harmless: tuple[str, ...] = ()
    """Patterns of keys without effect on memory and time."""
    source: str
    retrieved: str


@cache
def tools() -> Mapping[str, Tool]:
    """All tools by id."""
    tables = tomllib.loads((DATA / "tools.toml").read_text(encoding="utf-8"))
    return {name: Tool.model_validate(table) for name, table in tables.items() if name != "keys"}


@cache
def harmless_keys(tool: str) -> tuple[str, ...]:
    """Patterns of keys without effect on memory and time: the tool's and those all tools share."""
    tables = tomllib.loads((DATA / "tools.toml").read_text(encoding="utf-8"))
    return (*tables["keys"]["harmless"], *tools()[tool].harmless)
