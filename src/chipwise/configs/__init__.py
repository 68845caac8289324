"""Configurations people already have, read into the fields of a training request."""

from __future__ import annotations

from chipwise.configs.joining import Joined, join, unresolved
from chipwise.configs.kinds import read_source

__all__ = ["Joined", "join", "read_source", "unresolved"]
