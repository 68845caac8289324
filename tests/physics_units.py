"""A check that equations hold in their units, by calling them with arrays that carry units.

Bytes, FLOP, seconds, watts and USD are base units that nothing converts into each other; tokens,
sequences, parameters and devices are counts, which have no unit.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pint

from chipwise.quantity import Given, Model, Quantity

_DEFINITIONS = (
    "byte = [information] = B",
    "FLOP = [operations]",
    "second = [time] = s",
    "watt = [power] = W",
    "USD = [money]",
    "gram = [mass] = g",
    "hour = 3600 * second",
    "joule = watt * second = J",
    "kWh = 3600000 * joule",
    "Hz = 1 / second",
)
_DRAW = np.random.default_rng(20)


def registry() -> pint.UnitRegistry[Any]:
    """A registry of our units alone."""
    units: pint.UnitRegistry[Any] = pint.UnitRegistry(None)
    for definition in _DEFINITIONS:
        units.define(definition)
    return units


def assert_units(model: Model, inputs: Mapping[str, Given]) -> None:
    """Call every quantity with what it needs, in the declared units; compare the result's unit.

    Equations that add, compare or choose between unlike units fail, and so do results that are in
    another unit than the one declared, even of the same dimension (joule for kWh).

    Args:
        model: the quantities to check.
        inputs: units of the columns that are no quantities.

    Raises:
        AssertionError: lists every quantity whose units do not hold, and every need that is
            neither a quantity nor an input.
    """
    units = registry()
    declared = {name: given.unit for name, given in inputs.items()}
    declared |= {name: step.unit for name, step in model.items()}
    wrong = {name: _fault(step, declared, units) for name, step in model.items()}
    faults = [f"{name} [{model[name].unit}]: {fault}" for name, fault in wrong.items() if fault]
    assert not faults, "\n".join(["units do not hold:", *faults])


def _fault(step: Quantity, declared: Mapping[str, str], units: pint.UnitRegistry[Any]) -> str:
    """What is wrong with the units of one quantity; nothing when they hold."""
    if missing := [need for need in step.needs if need not in declared]:
        return f"needs {', '.join(missing)}: neither quantity nor input"
    try:
        needs = [_column(units, declared[need]) for need in step.needs]
        wanted = units.Unit(_spelled(step.unit))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # random values may divide by zero
            warnings.simplefilter("error", pint.UnitStrippedWarning)
            result = step.function(*needs)
    except (pint.PintError, pint.UnitStrippedWarning, ValueError, TypeError) as error:
        carried = ", ".join(f"{need} [{declared[need]}]" for need in step.needs)
        return f"{type(error).__name__}: {error}; formula {step.formula}; from {carried}"
    found = getattr(result, "units", units.Unit("dimensionless"))
    if found.dimensionality != wanted.dimensionality:
        return f"gives {found}"
    factor = units.Quantity(1.0, found).to(wanted).magnitude
    return "" if abs(factor - 1) < 1e-12 else f"gives {found}, {factor:g} of the declared unit"


def _column(units: pint.UnitRegistry[Any], unit: str) -> Any:
    """A few random positive values on both sides of one."""
    return units.Quantity(_DRAW.uniform(0.5, 4.0, 5), _spelled(unit))


def _spelled(unit: str) -> str:
    return "dimensionless" if unit == "1" else unit
