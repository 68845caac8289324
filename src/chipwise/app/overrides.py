"""Values set by hand (``--set``): read in the unit of their quantity, and refused where absurd."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from chipwise.calibration import shipped
from chipwise.errors import UnitError, UnknownNameError, UsageError
from chipwise.i18n import _
from chipwise.physics import MODEL
from chipwise.physics.inputs import INPUTS
from chipwise.physics.serving_model import SERVING, SERVING_INPUTS
from chipwise.units import parse

_NEVER_ZERO = ("step_time", "tokens_per_s", "allocated_bytes", "serving_peak_bytes")


def read_overrides(given: Mapping[str, str]) -> dict[str, float]:
    """The values set for a training job.

    Raises:
        UnknownNameError: no quantity, input or constant has that name.
        UnitError: the value has another unit.
        UsageError: the value is negative.
    """
    if not given:
        return {}
    units = {name: about.unit for name, about in INPUTS.items()}
    units |= {constant.name: constant.unit for constant in shipped().constants}
    units |= {name: step.unit for name, step in MODEL.items()}
    return {name: _override(name, text, units) for name, text in given.items()}


def read_serving_overrides(given: Mapping[str, str]) -> dict[str, float]:
    """The values set for a model that is served; errors as for training."""
    units = {name: about.unit for name, about in SERVING_INPUTS.items()}
    units |= {name: step.unit for name, step in SERVING.items()}
    return {name: _override(name, text, units) for name, text in given.items()}


def _override(name: str, text: str, units: Mapping[str, str]) -> float:
    unit = _unit_of(name, units)
    try:
        value = parse(text, unit)
    except UnitError as error:
        message = f"--set {name}: {error.message}"
        raise UnitError(error.code, message, field=name, **error.details) from None
    if value < 0:
        message = _("--set {name} = {text}: a quantity is never negative")
        raise UsageError("negative", message.format(name=name, text=text), field=name, value=text)
    return value


def require_sound(values: Mapping[str, float], overrides: Mapping[str, float] | None) -> None:
    """Refuse measured values with which the model has no answer.

    Raises:
        UsageError: with these overrides a result is infinite, negative, or no number at all; or
            a step takes no time or no memory.
    """
    broken = [name for name, value in values.items() if not 0 <= value < inf]
    broken += [name for name in _NEVER_ZERO if values.get(name) == 0]
    if overrides and broken:
        given = ", ".join(f"{name} = {value:g}" for name, value in overrides.items())
        message = _("--set {given}: with that, {name} has no sensible value")
        raise UsageError("impossible-override", message.format(given=given, name=broken[0]))


def _unit_of(name: str, units: Mapping[str, str]) -> str:
    if name not in units:
        raise UnknownNameError(_("quantity"), name, units, "chipwise explain --list")
    return "1" if units[name] == "1/s" else units[name]
