"""A value with the way it came about: the shape of every explanation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """A value with the formula, source and explained needs that produced it."""

    quantity: str
    value: float
    unit: str
    formula: str
    source: str
    basis: str
    meaning: str = ""
    needs: tuple[Explanation, ...] = ()
