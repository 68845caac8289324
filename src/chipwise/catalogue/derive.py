"""Peaks worked out from the parts of a chip, beside what its maker states.

Rates: units × operations per clock × clock, or for systolic arrays arrays × rows × columns × 2 ×
clock. Bandwidth: memory bus width × data rate per pin. Nothing here feeds an estimate: the stated
values do; these trees explain them, and the catalogue check compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chipwise.catalogue.hardware import accelerator_file, accelerator_provenance, load_accelerator
from chipwise.catalogue.sources import Sourced, number
from chipwise.errors import UnknownNameError
from chipwise.explanation import Explanation
from chipwise.i18n import _

TOLERANCE = 0.02
"""Share by which a derived value may differ from the stated one without being explained."""


def explain_peak(accelerator: str, dtype: str) -> Explanation:
    """The stated dense peak of a dtype, with its derivation where the parts are known.

    Args:
        accelerator: accelerator id.
        dtype: as in ``peak_flops``: ``bf16``, ``fp8``, ``fp16_acc16`` …

    Raises:
        UnknownNameError: the accelerator has no peak for that dtype.
    """
    peaks = load_accelerator(accelerator).peak_flops
    if dtype not in peaks:
        listing = f"chipwise catalogue show {accelerator}"
        raise UnknownNameError("dtype", dtype, peaks, listing)
    values = accelerator_provenance(accelerator)
    stated = values.get(f"peak.{dtype}")
    if stated is None:
        stated = values[f"peak_narrow_accumulate.{dtype.partition('_acc')[0]}"]
    derived = derived_peak(accelerator, dtype)
    return _stated(accelerator, f"peak_flops_{dtype}", peaks[dtype], "FLOP/s", stated, derived)


def explain_bandwidth(accelerator: str) -> Explanation:
    """The stated memory bandwidth, with bus width × data rate where they are known."""
    stated = accelerator_provenance(accelerator)["bandwidth"]
    value = load_accelerator(accelerator).peak_bandwidth
    derived = derived_bandwidth(accelerator)
    return _stated(accelerator, "peak_bandwidth", value, "B/s", stated, derived)


def _stated(
    accelerator: str,
    name: str,
    value: float,
    unit: str,
    stated: Sourced,
    derived: Explanation | None,
) -> Explanation:
    key = name.removeprefix("peak_flops_").removeprefix("peak_")
    meaning = "; ".join(filter(None, (stated.note, differences(accelerator).get(key, ""))))
    needs = (derived,) if derived else ()
    return Explanation(name, value, unit, "", stated.source, stated.basis, meaning, needs)


def differences(accelerator: str) -> Mapping[str, str]:
    """Known differences of more than 2 % between stated and derived values, and why."""
    _path, table = accelerator_file(accelerator)
    stated: Mapping[str, str] = table.get("derivation", {}).get("differs", {})
    return stated


def derived_peak(accelerator: str, dtype: str) -> Explanation | None:
    """The peak that follows from the parts; None where they are not published."""
    parts = _Parts(accelerator)
    if rate := parts.get(f"rate.{dtype}", "1", "rate", _("against one pass of the arrays")):
        needs = [parts.get(key, "1", key) for key in ("arrays", "rows", "columns")]
        return _product(
            "derived_peak_flops",
            "FLOP/s",
            "arrays × rows × columns × 2 × clock × rate",
            (*needs, parts.clock(dtype), rate),
            factor=2.0,
        )
    operations = parts.get(
        f"operations_per_clock.{dtype}", "1", "operations_per_clock", _("of one unit")
    )
    if operations is None:
        return None
    return _product(
        "derived_peak_flops",
        "FLOP/s",
        "units × operations_per_clock × clock",
        (parts.get("units", "1", "units"), operations, parts.clock(dtype)),
    )


def derived_bandwidth(accelerator: str) -> Explanation | None:
    """Bus width × data rate; None where they are not published."""
    parts = _Parts(accelerator)
    bus = parts.get("memory_bus", "1", "memory_bus_bits")
    rate = parts.get("memory_rate", "B/s", "memory_rate_per_pin")
    if bus is None or rate is None:
        return None
    formula = "memory_bus_bits × memory_rate_per_pin"
    return _product("derived_bandwidth", "B/s", formula, (bus, rate))


class _Parts:
    """The derivation inputs of one accelerator, as leaves of the tree."""

    def __init__(self, accelerator: str) -> None:
        self.path: Path = accelerator_file(accelerator)[0]
        self.values = accelerator_provenance(accelerator)

    def __contains__(self, key: str) -> bool:
        return f"derivation.{key}" in self.values

    def get(self, key: str, unit: str, name: str, meaning: str = "") -> Explanation | None:
        """The leaf for a field, or None where the file does not state it."""
        stated = self.values.get(f"derivation.{key}")
        if stated is None:
            return None
        value = number(self.path, f"derivation.{key}", stated, unit)
        meaning = "; ".join(filter(None, (meaning, stated.note)))
        return Explanation(name, value, unit, "", stated.source, stated.basis, meaning)

    def clock(self, dtype: str) -> Explanation | None:
        """The clock the dtype's figure uses: its own where stated, else the common one."""
        return self.get(f"{dtype}_clock", "Hz", "clock") or self.get("clock", "Hz", "clock")


def _product(
    name: str, unit: str, formula: str, needs: tuple[Explanation | None, ...], factor: float = 1.0
) -> Explanation | None:
    known = tuple(need for need in needs if need is not None)
    if len(known) < len(needs):
        return None
    value = factor
    for need in known:
        value *= need.value
    return Explanation(name, value, unit, formula, "arithmetic", "computed", "", known)
