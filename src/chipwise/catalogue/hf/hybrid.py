"""Stacks that mix attention with linear or recurrent layers, or heads of several sizes."""

from __future__ import annotations

from collections.abc import Callable

from chipwise.catalogue.hf.fields import Fields
from chipwise.spec.model import ModelSpec

READERS: dict[str, Callable[[Fields, str], ModelSpec]] = {}
