"""How fields of requests are read: numbers with units, shares, lists and words from any source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from chipwise.errors import UnitError, shortened
from chipwise.i18n import _

LARGEST_COUNT = 10**9
"""Beyond any sequence, batch or count of devices there is."""
LARGEST_RUN = 1e18
"""Tokens, ten thousand times the longest published run."""
DTYPE_WORDS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8": "fp8",
}


def _number_in(unit: str) -> Callable[[Any], Any]:
    """A validator that reads text with a unit as a float in that SI unit."""

    def read(value: Any) -> Any:
        from chipwise.units import parse

        if not isinstance(value, str):
            return value
        try:
            return parse(value, unit)
        except UnitError as error:
            raise PydanticCustomError(
                "unit", "{reason}", {"reason": error.message, "code": error.code}
            ) from None

    return read


def _whole(value: Any) -> Any:
    """Counts may be written ``4k`` or ``2e3``; what is no whole number stays as it is."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "a count is no yes or no")
    number = _number_in("1")(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _share(value: Any) -> Any:
    """``10%`` is 0.1; a plain number is the share itself."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = nan
    if not isfinite(number):
        reason = _("'{text}' is no share; write it like 10% or 0.1").format(text=shortened(text))
        raise PydanticCustomError("not-a-number", "{reason}", {"reason": reason})
    return number / 100 if percent else number


def _systems(value: Any) -> Any:
    """Several texts are one list with commas."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return value


def words(value: Any) -> Any:
    """Text with commas is a list; a list's items may have commas too."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(word.strip() for item in value for word in item.split(",") if word.strip())
    return value


def variants(value: Any) -> Any:
    """``["precision=bf16,fp8"]`` as a mapping of names to the values to try."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, Mapping):
        return {name: tuple(map(str, some)) if isinstance(some, (list, tuple)) else (str(some),)
                for name, some in value.items()}  # fmt: skip
    if not isinstance(value, (list, tuple)):
        return value
    found = {}
    for item in value:
        name, _equals, text = str(item).partition("=")
        choices = tuple(word.strip() for word in text.split(",") if word.strip())
        if not choices:
            reason = _("'{text}' varies nothing; write it like precision=bf16,fp8")
            raise PydanticCustomError(
                "not-a-variant", "{reason}", {"reason": reason.format(text=shortened(str(item)))}
            )
        found[name.strip().replace("-", "_")] = choices
    return found


def overrides(value: Any) -> Any:
    """``["step_time=1.2s"]`` as a mapping; a mapping stays, its values become text."""
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, (list, tuple)):
        pairs = [str(item).partition("=") for item in value]
        broken = [name for name, equals, text in pairs if not (name.strip() and text.strip())]
        if broken:
            raise PydanticCustomError(
                "override", "{reason}", {"reason": _("write QUANTITY=VALUE"), "text": broken[0]}
            )
        return {name.strip(): text.strip() for name, equals, text in pairs}
    if isinstance(value, Mapping):
        return {str(name): str(number) for name, number in value.items()}
    return value


def _texts(value: Any) -> Any:
    """One text or several, as a tuple; commas stay, since values and file names have them."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)):
        return tuple(str(item) for item in value)
    if isinstance(value, Mapping):
        return tuple(f"{name}={number}" for name, number in value.items())
    return value


def _folded(value: Any) -> Any:
    """Choices are compared in lower case; common long names of number formats are known."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower().removeprefix("torch.")
    return DTYPE_WORDS.get(word, word)


Whole = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=LARGEST_COUNT)]
Tokens = Annotated[float, BeforeValidator(_number_in("1")), Field(gt=0, le=LARGEST_RUN)]
Duration = Annotated[float, BeforeValidator(_number_in("s")), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_share), Field(ge=0, lt=1, allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_share), Field(gt=0, le=1, allow_inf_nan=False)]
Rate = Annotated[float, BeforeValidator(_number_in("B/s")), Field(ge=1, allow_inf_nan=False)]
Power = Annotated[float, BeforeValidator(_number_in("W")), Field(ge=1, allow_inf_nan=False)]
Bytes = Annotated[float, BeforeValidator(_number_in("B")), Field(ge=1, allow_inf_nan=False)]
Money = Annotated[float, BeforeValidator(_number_in("USD")), Field(gt=0, allow_inf_nan=False)]
Observed = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Sources = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Systems = Annotated[str, BeforeValidator(_systems)]
Fold = BeforeValidator(_folded)
