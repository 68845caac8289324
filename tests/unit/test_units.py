"""Text with units in, SI floats inside, text out."""

from __future__ import annotations

import math

import pytest

from chipwise.errors import UnitError
from chipwise.units import parse, show


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("80 GB", "B", 80e9),
        ("80GiB", "B", 85_899_345_920.0),  # 80 · 2**30
        ("  80 GB ", "B", 80e9),
        ("640 KiB", "B", 655_360.0),
        (".5GB", "B", 5e8),
        ("8 Gb", "B", 1e9),  # eight bits a byte
        ("3.35 TB/s", "B/s", 3.35e12),
        ("400Gb/s", "B/s", 50e9),
        ("400 Gbps", "B/s", 50e9),
        ("400 GBps", "B/s", 400e9),
        ("989 TFLOP/s", "FLOP/s", 989e12),
        ("1979 TOPS", "FLOP/s", 1979e12),
        ("3.8e25 FLOP", "FLOP", 3.8e25),
        ("1.98 GHz", "Hz", 1.98e9),
        ("0.7kW", "W", 700.0),
        ("14d", "s", 1_209_600.0),  # 14 · 86,400
        ("2 weeks", "s", 1_209_600.0),
        ("250ms", "s", 0.25),
        ("5 µs", "s", 5e-6),
        ("1.5MWh", "kWh", 1500.0),
        ("$25,000.50", "USD", 25000.5),
        ("25 kUSD", "USD", 25000.0),
        ("2B", "1", 2e9),
        ("1.5T", "1", 1.5e12),
        ("128k", "1", 128e3),
        ("350m", "1", 350e6),
        ("5亿", "1", 5e8),
        ("1.5万亿", "1", 1.5e12),
        ("1e9", "1", 1e9),
        ("4096", "1", 4096.0),
        ("1,000,000", "1", 1e6),
        ("1_000_000", "1", 1e6),
        ("-3", "1", -3.0),
        ("-2.5 GB/s", "B/s", -2.5e9),
    ],
)
def test_a_number_with_its_unit_becomes_an_si_float(text: str, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-15)


def test_decimal_and_binary_bytes_differ() -> None:
    assert parse("80GiB", "B") - parse("80GB", "B") == 5_899_345_920.0


def test_m_is_minutes_for_a_time_and_millions_for_a_count_and_capital_m_is_no_time() -> None:
    assert parse("5m", "s") == 300.0
    assert parse("5m", "1") == parse("5M", "1") == 5e6
    with pytest.raises(UnitError, match=r"'5M': unknown unit 'M'; did you mean 5m\?"):
        parse("5M", "s")


@pytest.mark.parametrize("value", [80, 80.0, 0, -1.5])
def test_a_number_that_is_no_text_is_taken_as_si(value: float) -> None:
    assert parse(value, "B") == value


@pytest.mark.parametrize(
    ("unit", "said"),
    [("B", "80GB or 80GiB"), ("B/s", "80GB/s or 80Gb/s"), ("W", "80W"), ("s", "80min or 80d")],
)
def test_a_bare_number_as_text_is_refused_where_a_unit_is_needed(unit: str, said: str) -> None:
    with pytest.raises(UnitError, match=f"'80' has no unit; did you mean {said}") as raised:
        parse("80", unit)
    assert raised.value.code == "missing-unit"


@pytest.mark.parametrize(
    ("text", "unit", "said"),
    [
        ("80 gb", "B", "did you mean 80GB or 80Gb?"),
        ("80 gib", "B", "did you mean 80GiB or 80Gib?"),
        ("80G", "B", "did you mean 80GB or 80GiB?"),
        ("80 GBs", "B", "did you mean 80GB"),
        ("3 TFLOPs", "FLOP/s", "did you mean 3TFLOPS?"),
        ("90 mins", "s", "did you mean 90min"),
        ("700 watt", "W", "write it like 700W"),
        ("3 months", "s", "write it like 90min or 14d"),
        ("7 billion", "1", "write it like 4096 or 128k or 7B"),
        ("5%", "1", "unknown unit '%'"),
    ],
)
def test_an_unknown_unit_is_refused_with_the_nearest_or_an_example(
    text: str, unit: str, said: str
) -> None:
    with pytest.raises(UnitError) as raised:
        parse(text, unit)
    assert said in str(raised.value)
    assert raised.value.code == "unknown-unit"
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "unit", "said"),
    [
        ("900 GB/s", "B", "'900 GB/s' is in B/s, but B is asked for, such as 80GB or 80GiB"),
        ("80GB", "1", "'80GB' is in B, but a plain number is asked for, such as 4096"),
        ("3 kW", "kWh", "'3 kW' is in W, but kWh is asked for, such as 1.5MWh"),
        ("14d", "B", "'14d' is in s, but B is asked for"),
    ],
)
def test_a_unit_of_another_kind_is_named(text: str, unit: str, said: str) -> None:
    with pytest.raises(UnitError) as raised:
        parse(text, unit)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "GB", "nan", "inf", "-inf", "NaN GB", "∞", "1e400 GB", "--5 GB"),
        *("1,5 GB", "12,34 GB", "1.2.3 GB", "1__0 GB", "1.000,5 GB", "9" * 100_000),
    ],
)
def test_what_is_not_one_finite_number_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UnitError, match="write it like 80GB or 80GiB") as raised:
        parse(text, "B")
    assert raised.value.code == "not-a-number"
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, None, [80], 10**400])
def test_values_of_a_data_file_that_are_no_finite_number_are_refused(value: float) -> None:
    with pytest.raises(UnitError):
        parse(value, "B")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.35e12, "B/s", "3.35 TB/s"),
        (85_899_345_920.0, "B", "80.0 GiB"),
        (85e9, "B", "79.2 GiB"),  # 85e9 / 2**30 = 79.16
        (131_072.0, "B", "128 KiB"),
        (1.0, "B", "1.00 B"),
        (0.0, "B", "0 B"),
        (1023.0 * 2**30, "B", "1023 GiB"),
        (1023.99 * 2**30, "B", "1.00 TiB"),
        (999.9e9, "B/s", "1.00 TB/s"),
        (989e12, "FLOP/s", "989 TFLOP/s"),
        (3.8e25, "FLOP", "3.80e+25 FLOP"),
        (700.0, "W", "700 W"),
        (7.0e9, "1", "7.00 G"),
        (-5e9, "1", "-5.00 G"),
        (0.05, "1", "0.0500"),
        (1e-9, "1", "1.00e-09"),
        (0.0, "s", "0 s"),
        (1e-9, "s", "1.00 ns"),
        (0.9999, "s", "1.00 s"),
        (90.0, "s", "90.0 s"),
        (3600.0, "s", "60.0 min"),
        (7200.0, "s", "2.00 h"),
        (1_209_600.0, "s", "14.0 d"),
        (0.0025, "USD", "0.00250 USD"),
        (2.5, "USD", "2.50 USD"),
        (1_234_567.0, "USD", "1,234,567 USD"),
        (math.nan, "B", "unknown"),
        (math.inf, "s", "unknown"),
    ],
)
def test_a_value_is_shown_with_the_prefix_that_suits_it(value: float, unit: str, text: str) -> None:
    assert show(value, unit) == text


def test_more_digits_can_be_asked_for() -> None:
    assert show(1.23456e12, "B/s", digits=5) == "1.2346 TB/s"
