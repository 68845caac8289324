"""Values with units at the edges: text in, SI floats inside, text out.

``parse("3.35 TB/s", "B/s")`` gives 3.35e12; ``show(3.35e12, "B/s")`` gives ``3.35 TB/s``.
GB is 1e9 bytes and GiB is 2**30; bits (``Gb/s``) are converted on the way in and never shown.
The letter case of a unit counts (``Mb`` is not ``mb``). A lone ``m`` is minutes where a time is
asked for and millions where a count is; nowhere is it milli.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches

from chipwise.errors import UnitError
from chipwise.i18n import _

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_TIME = {
    **{"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0},
    **{"h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31557600.0},
    **{"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0},
    **{"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0, "weeks": 604800.0},
}
_COUNT = {**_DECIMAL, "b": 1e9, "B": 1e9, "m": 1e6, "t": 1e12, "万": 1e4, "亿": 1e8, "万亿": 1e12}
_NUMBER = re.compile(
    r"([+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"(?![\d.,_])\s*(.*)",
    re.DOTALL,
)
_LONGEST = 64


def _prefixed(symbol: str, factor: float = 1.0) -> dict[str, float]:
    prefixes = {**_DECIMAL, **(_BINARY if symbol in ("B", "b", "B/s") else {})}
    return {f"{prefix}{symbol}": scale * factor for prefix, scale in prefixes.items()}


_UNITS: dict[str, dict[str, float]] = {
    "B": _prefixed("B") | _prefixed("b", 0.125),
    "B/s": {
        **{**_prefixed("B/s"), **_prefixed("b/s", 0.125), **_prefixed("bit/s", 0.125)},
        **{**_prefixed("Bps"), **_prefixed("bps", 0.125)},
    },
    "FLOP/s": {
        **{**_prefixed("FLOP/s"), **_prefixed("FLOPS")},
        **{**_prefixed("OP/s"), **_prefixed("OPS")},
    },
    "FLOP": _prefixed("FLOP"),
    "Hz": _prefixed("Hz"),
    "W": _prefixed("W"),
    "s": _TIME,
    "J": {**_prefixed("J"), "Wh": 3.6e3, "kWh": 3.6e6, "MWh": 3.6e9},
    "kWh": {"Wh": 1e-3, "kWh": 1.0, "MWh": 1e3},
    "USD": {"USD": 1.0, "$": 1.0, "kUSD": 1e3, "MUSD": 1e6},
    "USD/s": {"USD/s": 1.0, "USD/h": 1 / 3600, "$/h": 1 / 3600},
    "1": _COUNT,
}
_EXAMPLES: dict[str, tuple[str, ...]] = {
    **{"B": ("80GB", "80GiB"), "B/s": ("900GB/s", "400Gb/s"), "FLOP/s": ("989TFLOP/s",)},
    **{"FLOP": ("3.8e25FLOP",), "Hz": ("1.98GHz",), "W": ("700W",), "s": ("90min", "14d")},
    **{"kWh": ("1.5MWh",), "USD": ("25000USD",), "1": ("4096", "128k", "7B")},
    **{"J": ("1.5MWh", "3.6MJ"), "USD/s": ("2.50USD/h",)},
}


def parse(text: str | float, unit: str) -> float:
    """The value of ``text`` in the SI unit asked for.

    Args:
        text: a number with a unit (``80 GiB``, ``400 Gb/s``, ``14d``, ``2B`` for a count); a bare
            number is taken only for counts (unit ``1``) and for numbers that are no text.
        unit: ``B``, ``B/s``, ``FLOP/s``, ``FLOP``, ``Hz``, ``W``, ``s``, ``J``, ``kWh``, ``USD``,
            ``USD/s`` or ``1``.

    Raises:
        UnitError: no number, one that is not finite, an unknown unit, or a unit of another kind.
    """
    if isinstance(text, str):
        number, suffix = _split(text, unit)
        if suffix not in _UNITS[unit]:
            raise _wrong_unit(text.strip(), suffix, unit)
        value = number * _UNITS[unit][suffix]
    else:
        value = _plain(text, unit)
    if not math.isfinite(value):
        raise _no_number(str(text), unit)
    return value


def _plain(number: float, unit: str) -> float:
    """The number itself; what a data file may hold in its place (true, a list) is refused."""
    try:
        if not isinstance(number, bool):
            return float(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise _no_number(str(number), unit)


def _split(text: str, unit: str) -> tuple[float, str]:
    """Number and unit of a text such as ``1,000 GB`` or ``$25``."""
    stripped = text.strip()
    if unit == "USD" and stripped.startswith("$"):
        stripped = stripped[1:] + "$"
    match = _NUMBER.fullmatch(stripped) if len(stripped) <= _LONGEST else None
    if match is None:
        raise _no_number(stripped, unit)
    return float(match[1].replace("_", "").replace(",", "")), match[2]


def _no_number(text: str, unit: str) -> UnitError:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    message = _("'{text}' has no finite number in front; write it like {examples}").format(
        text=shown, examples=_any_of(_EXAMPLES[unit])
    )
    return UnitError("not-a-number", message, text=shown)


def _wrong_unit(text: str, suffix: str, unit: str) -> UnitError:
    """What is wrong with the unit, with the nearest ones that would be right."""
    number = text.removesuffix(suffix).rstrip()
    near = [f"{number}{name}" for name in _nearest_units(suffix, unit)]
    elsewhere = [kind for kind, names in _UNITS.items() if kind != "1" and suffix in names]
    if not suffix:
        message = _("'{text}' has no unit; did you mean {near}?").format(
            text=text, near=_any_of(near)
        )
    elif elsewhere:
        message = _("'{text}' is in {found}, but {wanted} is asked for, such as {examples}").format(
            text=text,
            found=elsewhere[0],
            wanted=_("a plain number") if unit == "1" else unit,
            examples=_any_of(_EXAMPLES[unit]),
        )
    elif near:
        message = _("'{text}': unknown unit '{suffix}'; did you mean {near}?").format(
            text=text, suffix=suffix, near=_any_of(near)
        )
    else:
        message = _("'{text}': unknown unit '{suffix}'; write it like {examples}").format(
            text=text, suffix=suffix, examples=_any_of(_EXAMPLES[unit])
        )
    code = "unknown-unit" if suffix else "missing-unit"
    return UnitError(code, message, text=text, unit=suffix, nearest=near)


def _nearest_units(suffix: str, unit: str) -> list[str]:
    """Units written alike: other letter case first, then longer ones, then similar ones."""
    if not suffix:
        return [_split(example, unit)[1] for example in _EXAMPLES[unit]]
    known, folded = [name for name in _UNITS[unit] if name], suffix.casefold()
    alike = [name for name in known if name.casefold() == folded]
    longer = [name for name in known if name.casefold().startswith(folded)]
    return (alike or longer or get_close_matches(suffix, known, cutoff=0.7))[:2]


def _any_of(examples: Iterable[str]) -> str:
    return _(" or ").join(examples)


def show(value: float, unit: str, digits: int = 3) -> str:
    """The value for people, with a prefix that keeps one to three digits before the point.

    Bytes are shown with binary prefixes (up to 1023 GiB, then TiB); rates, FLOP and counts with
    decimal ones; seconds as ns, µs, ms, s, min, h or d. What no prefix reaches is shown with an
    exponent. A value that is not finite is shown as ``unknown``.
    """
    if not math.isfinite(value):
        return _("unknown")
    if unit == "s":
        return _show_seconds(value, digits)
    if unit == "B":
        return _scaled(value, {"": 1.0, **_BINARY}, "B", digits)
    if unit in ("1", ""):
        return _scaled(value, _DECIMAL, "", digits).rstrip()
    if unit in ("USD", "kWh"):
        if 0 < abs(value) < 0.1:
            return f"{_significant(value, digits)} {unit}"
        return f"{value:,.2f} {unit}" if abs(value) < 1000 else f"{value:,.0f} {unit}"
    return _scaled(value, _DECIMAL, unit, digits)


def _scaled(value: float, prefixes: dict[str, float], symbol: str, digits: int) -> str:
    """With the first prefix under which the rounded number stays below the next one."""
    step = prefixes.get("Ki", 1e3)
    for prefix, scale in prefixes.items():
        number = _significant(value / scale, digits)
        if prefix != "K" and abs(float(number)) < step:
            return f"{number} {prefix}{symbol}"
    return f"{_significant(value, digits)} {symbol}"


def _show_seconds(value: float, digits: int) -> str:
    """In the largest unit that has at least two of it (days to minutes) or one (below)."""
    for name in ("d", "h", "min", "s", "ms", "µs", "ns"):
        number = _significant(value / _TIME[name], digits)
        if abs(float(number)) >= (2 if name in ("d", "h", "min") else 1):
            return f"{number} {name}"
    return f"{_significant(value, digits)} s"


def _significant(number: float, digits: int) -> str:
    """The number with ``digits`` significant digits, as few places as that takes."""
    if number == 0:
        return "0"
    rounded = f"{number:.{digits - 1}e}"
    magnitude = int(rounded.partition("e")[2])
    if not -5 < magnitude < 6:
        return rounded
    return f"{number:.{max(0, digits - 1 - magnitude)}f}"
