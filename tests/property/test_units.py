"""What holds for every value and every text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.errors import UnitError
from chipwise.units import parse, show

UNITS = ["B", "B/s", "FLOP/s", "FLOP", "Hz", "W", "s", "kWh", "USD", "1"]
PREFIXES = {"": 1e0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
magnitudes = st.floats(1e-12, 1e28) | st.floats(-1e28, -1e-12) | st.just(0.0)


def half_of_last_digit(text: str) -> str:
    """The text with its number replaced by half a unit in the last digit it shows."""
    found = re.match(r"(-?)([\d,]+)(?:\.(\d+))?(e[+-]\d+)?", text)
    assert found
    places = len(found[3] or "")
    return f"{0.5 * 10.0**-places:.15f}{found[4] or ''}{text[found.end() :]}"


@pytest.mark.parametrize("unit", UNITS)
@given(value=magnitudes, digits=st.integers(2, 8))
def test_what_is_shown_reads_back_within_the_digits_shown(
    unit: str, value: float, digits: int
) -> None:
    text = show(value, unit, digits)
    slack = parse(half_of_last_digit(text), unit) + 1e-12 * abs(value)
    assert abs(parse(text, unit) - value) <= slack


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit not in ("USD", "kWh")])
@given(value=magnitudes)
def test_three_digits_are_shown_whatever_the_size(unit: str, value: float) -> None:
    assert parse(show(value, unit), unit) == pytest.approx(value, rel=0.00501, abs=0)


@pytest.mark.parametrize("symbol", ["B", "B/s", "FLOP/s", "FLOP", "Hz", "W"])
@given(number=st.integers(-(10**6), 10**6), prefix=st.sampled_from(sorted(PREFIXES)))
def test_prefixes_scale(symbol: str, number: int, prefix: str) -> None:
    assert parse(f"{number}{prefix}{symbol}", symbol) == number * PREFIXES[prefix]


@given(number=st.integers(1, 10**6), prefix=st.sampled_from(["k", "M", "G", "T"]))
def test_binary_bytes_are_more_and_bits_are_an_eighth(number: int, prefix: str) -> None:
    decimal = parse(f"{number}{prefix}B", "B")
    assert parse(f"{number}{prefix.upper()}iB", "B") > decimal
    assert parse(f"{number}{prefix}b", "B") * 8 == decimal


@given(number=st.integers(-(10**15), 10**15))
def test_thousands_separators_change_nothing(number: int) -> None:
    assert parse(f"{number:,}", "1") == parse(f"{number:_}", "1") == float(number)


@given(text=st.text(max_size=80), unit=st.sampled_from(UNITS))
def test_any_text_is_a_finite_value_or_a_unit_error(text: str, unit: str) -> None:
    try:
        assert abs(parse(text, unit)) < float("inf")
    except UnitError as error:
        assert error.code in ("not-a-number", "missing-unit", "unknown-unit")
        assert str(error)


@given(value=st.floats(), unit=st.sampled_from(UNITS), digits=st.integers(1, 12))
def test_any_float_can_be_shown(value: float, unit: str, digits: int) -> None:
    assert show(value, unit, digits)
