"""Named physical constants: priors, fitted values, and how a job picks its own.

A constant may differ by group: ``host_factor`` by software stack, ``family_factor`` by
accelerator family. A job carries one group name per axis (its *keys*); an unknown group takes the
common prior, so that hardware and software never seen still get an estimate.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipwise.intervals import Widths
from chipwise.quantity import Array, Given

_DATA = Path(__file__).parent / "catalogue" / "data" / "calibration"
Keys = Mapping[str, str | NDArray[np.str_]]
COMMON = "*"


@dataclass(frozen=True)
class Constant:
    """One value: the base name, its group (``*`` for the common one) and what is known of it."""

    name: str
    group: str
    by: str
    unit: str
    meaning: str
    value: float
    prior: float
    prior_spread: float
    """Standard deviation of the logarithm of the prior."""
    spread: float
    """The same for the value: of the fit once fitted, else of the prior."""
    fit: str
    """``memory`` or ``speed``: which measurements may move it; empty for a fixed value."""
    source: str
    fitted_to: str = ""

    @property
    def label(self) -> str:
        """``name`` or ``name.group``."""
        return self.name if self.group == COMMON else f"{self.name}.{self.group}"

    @property
    def basis(self) -> str:
        """Where the value comes from, in the words every estimate uses."""
        if self.fitted_to:
            return "calibrated"
        return "assumed" if self.source == "assumed" else "datasheet"


@dataclass(frozen=True)
class Calibration:
    """All constants, in a fixed order, so that their values form one vector."""

    constants: tuple[Constant, ...]

    @property
    def values(self) -> NDArray[np.float64]:
        """Values in order. Shape (constants,)."""
        return np.array([constant.value for constant in self.constants])

    def with_values(self, values: Sequence[float] | NDArray[np.float64]) -> Calibration:
        """The same constants with other values."""
        pairs = zip(self.constants, values, strict=True)
        return Calibration(tuple(replace(c, value=float(value)) for c, value in pairs))

    def binding(self, keys: Keys) -> dict[str, int | NDArray[np.intp]]:
        """For each constant name, which entry of the vector a job (or each of many) uses.

        Args:
            keys: group name per axis, one string or one array of strings (jobs,).
        """
        places: dict[str, dict[str, int]] = {}
        axes: dict[str, str] = {}
        for place, constant in enumerate(self.constants):
            places.setdefault(constant.name, {})[constant.group] = place
            axes[constant.name] = constant.by
        return {name: _place(groups, keys.get(axes[name])) for name, groups in places.items()}

    def columns(self, keys: Keys) -> dict[str, Array]:
        """Constant columns for jobs with these keys."""
        values = self.values
        return {name: values[place] for name, place in self.binding(keys).items()}

    def given(self, keys: Mapping[str, str]) -> dict[str, Given]:
        """Unit, meaning, source and basis of the constants one job uses."""
        return {
            name: Given(chosen.unit, chosen.meaning, chosen.source, chosen.basis)
            for name, place in self.binding(keys).items()
            for chosen in [self.constants[int(place)]]
        }


def _place(groups: Mapping[str, int], key: str | NDArray[np.str_] | None) -> int | NDArray[np.intp]:
    common = groups[COMMON]
    if key is None or len(groups) == 1:
        return common
    if isinstance(key, str):
        return groups.get(key, common)
    return np.array([groups.get(str(one), common) for one in key], dtype=np.intp)


@cache
def shipped() -> Calibration:
    """The calibration that comes with this version: priors, moved where measurements moved them."""
    described = _read("constants.toml")
    fitted = _read("fitted.toml") if (_DATA / "fitted.toml").exists() else {}
    return Calibration(
        tuple(
            constant
            for name, about in described.items()
            for constant in _constants(name, about, fitted)
        )
    )


@cache
def shipped_serving() -> Calibration:
    """The constants of serving speed that come with this version."""
    described = _read("serving.toml")
    fitted = _read("serving_fitted.toml") if (_DATA / "serving_fitted.toml").exists() else {}
    return Calibration(
        tuple(
            constant
            for name, about in described.items()
            for constant in _constants(name, about, fitted)
        )
    )


@cache
def shipped_serving_widths() -> Mapping[str, float]:
    """Half-widths of serving speed by class of metric, from left-out sources."""
    return {name: float(value) for name, value in _read("serving_intervals.toml").items()}


@cache
def shipped_widths() -> Widths:
    """Interval half-widths that come with this version, from left-out sources."""
    return Widths(**_read("intervals.toml"))


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_DATA / name).read_text(encoding="utf-8"))


def _constants(name: str, about: dict[str, Any], fitted: dict[str, Any]) -> list[Constant]:
    groups = {COMMON: about["prior"], **about.get("groups", {})}
    found = [
        Constant(
            name=name,
            group=group,
            by=about.get("by", ""),
            unit=about["unit"],
            meaning=about["meaning"],
            value=prior,
            prior=prior,
            prior_spread=about.get("spread", 0.0),
            spread=about.get("spread", 0.0),
            fit="" if group in about.get("fixed", ()) else about.get("fit", ""),
            source=about["source"],
        )
        for group, prior in groups.items()
    ]
    return [_moved(constant, fitted) for constant in found]


def _moved(constant: Constant, fitted: dict[str, Any]) -> Constant:
    entry = fitted.get(constant.label)
    if entry is None:
        return constant
    return replace(
        constant, value=entry["value"], spread=entry["spread"], fitted_to=entry["fitted_to"]
    )
