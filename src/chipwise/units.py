"""Values with units at the edges: text in, SI floats inside, text out.

``parse("3.35 TB/s", "B/s")`` gives 3.35e12; ``show(3.35e12, "B/s")`` gives ``3.35 TB/s``.
GB is 1e9 bytes and GiB is 2**30; bits (``Gb/s``) are converted on the way in and never shown.
"""

from __future__ import annotations

import math
import re

from chipwise.errors import UnitError
from chipwise.i18n import _

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_TIME = {
    **{"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0},
    **{"h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31557600.0},
}
_COUNT = {**_DECIMAL, "b": 1e9, "B": 1e9, "m": 1e6, "t": 1e12, "万": 1e4, "亿": 1e8}
_NUMBER = re.compile(r"^\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")


def _prefixed(symbol: str, factor: float = 1.0) -> dict[str, float]:
    prefixes = {**_DECIMAL, **(_BINARY if symbol in ("B", "b", "B/s") else {})}
    return {f"{prefix}{symbol}": scale * factor for prefix, scale in prefixes.items()}


_UNITS: dict[str, dict[str, float]] = {
    "B": _prefixed("B") | _prefixed("b", 0.125),
    "B/s": _prefixed("B/s") | _prefixed("b/s", 0.125) | _prefixed("bit/s", 0.125),
    "FLOP/s": _prefixed("FLOP/s") | _prefixed("FLOPS", 1.0) | _prefixed("OP/s"),
    "FLOP": _prefixed("FLOP"),
    "Hz": _prefixed("Hz"),
    "W": _prefixed("W"),
    "s": _TIME,
    "kWh": {"Wh": 1e-3, "kWh": 1.0, "MWh": 1e3},
    "USD": {"USD": 1.0, "$": 1.0, "kUSD": 1e3, "MUSD": 1e6},
    "1": _COUNT,
}


def parse(text: str | float, unit: str) -> float:
    """The value of ``text`` in the SI unit asked for.

    Args:
        text: a number with a unit (``80 GiB``, ``400 Gb/s``, ``14d``, ``2B`` for a count); a bare
            number is taken only for counts (unit ``1``) and for numbers that are no text.
        unit: ``B``, ``B/s``, ``FLOP/s``, ``FLOP``, ``Hz``, ``W``, ``s``, ``kWh``, ``USD`` or ``1``.

    Raises:
        UnitError: no number, an unknown unit, or a unit of another kind.
    """
    if isinstance(text, (int, float)):
        return float(text)
    match = _NUMBER.match(text)
    known = _UNITS[unit]
    if not match:
        raise UnitError(
            "not-a-number", _("'{text}' does not start with a number").format(text=text), text=text
        )
    number = float(match[1].replace("_", "").replace(",", ""))
    suffix = match[2]
    if suffix in known:
        return number * known[suffix]
    shown = ", ".join(sorted((name for name in known if name), key=len)[:8])
    raise UnitError(
        "unknown-unit",
        _("'{text}': unit '{suffix}' is not one of {shown} …").format(
            text=text, suffix=suffix, shown=shown
        ),
        text=text,
        unit=suffix,
    )


def show(value: float, unit: str, digits: int = 3) -> str:
    """The value for people, with a prefix that keeps one to three digits before the point.

    Bytes are shown in GiB/MiB (memory); rates, FLOP and counts with decimal prefixes; seconds as
    ms, s, min, h or d. A value that is not finite is shown as ``unknown``.
    """
    if not math.isfinite(value):
        return _("unknown")
    if unit == "s":
        return _show_seconds(value, digits)
    if unit == "B":
        return _scaled(value, _BINARY, "B", digits, floor="Mi")
    if unit in ("1", ""):
        return _scaled(value, _DECIMAL, "", digits).rstrip()
    if unit in ("USD", "kWh"):
        return f"{value:,.2f} {unit}" if abs(value) < 1000 else f"{value:,.0f} {unit}"
    return _scaled(value, _DECIMAL, unit, digits)


def _scaled(
    value: float, prefixes: dict[str, float], symbol: str, digits: int, floor: str = ""
) -> str:
    chosen = floor
    for prefix, scale in prefixes.items():
        if prefix != "K" and abs(value) >= scale and scale >= prefixes[floor]:
            chosen = prefix
    number = value / prefixes[chosen]
    return f"{_significant(number, digits)} {chosen}{symbol}"


def _show_seconds(value: float, digits: int) -> str:
    for name, scale in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= scale * (2 if name in ("d", "h", "min") else 1):
            return f"{_significant(value / scale, digits)} {name}"
    return f"{_significant(value / 1e-6, digits)} µs"


def _significant(number: float, digits: int) -> str:
    if number == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    return f"{number:.{min(places, digits)}f}"
