"""The whole model: units hold, sums add up, every source is named."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib.resources import files

import numpy as np
import pytest

from chipwise.calibration import shipped
from chipwise.physics import MODEL
from chipwise.physics.inputs import INPUTS
from chipwise.quantity import Array, Given, Model, quantity
from tests.physics_units import assert_units

GIVEN = {**INPUTS, **shipped().given({})}
SOURCES = tomllib.loads(
    (files("chipwise") / "catalogue" / "data" / "sources.toml").read_text(encoding="utf-8")
)
UNSOURCED = ("arithmetic", "assumed")
"""Exact definitions, and what is said to be our assumption; all else names its source."""


def test_every_equation_holds_in_its_units() -> None:
    assert_units(MODEL, GIVEN)


def test_a_name_is_either_an_input_or_a_quantity() -> None:
    assert sorted(set(MODEL) & set(GIVEN)) == []
    assert sorted(set(INPUTS) & set(shipped().given({}))) == []


def test_the_model_can_be_ordered_from_its_inputs() -> None:
    assert {step.name for step in MODEL.order(tuple(MODEL), GIVEN)} == set(MODEL)


@pytest.mark.parametrize("name", sorted(name for name, step in MODEL.items() if step.parts))
def test_a_quantity_declared_as_parts_is_the_plain_sum_of_its_parameters(name: str) -> None:
    needs = np.random.default_rng(7).uniform(0.1, 10.0, (len(MODEL[name].needs), 50))
    np.testing.assert_allclose(MODEL[name].function(*needs), needs.sum(axis=0), rtol=1e-12)


def test_every_source_is_in_the_list_of_sources() -> None:
    unknown = {
        name: step.source
        for name, step in MODEL.items()
        if step.source not in UNSOURCED and step.source not in SOURCES
    }
    assert unknown == {}


def test_every_quantity_says_what_it_is() -> None:
    assert [name for name, step in MODEL.items() if not step.summary] == []


# The check itself


def model_of(function: Callable[..., Array]) -> Model:
    return Model({function.__name__: vars(function)["__quantity__"]})


KNOWN = {
    "sent": Given("B"),
    "bandwidth": Given("B/s"),
    "flop": Given("FLOP"),
    "rate": Given("FLOP/s"),
    "energy": Given("J"),
    "ranks": Given("1"),
}


@quantity(unit="s", source="arithmetic")
def ring_time(sent: Array, bandwidth: Array, ranks: Array) -> Array:
    """Right in every way an equation can be written."""
    steps = np.ceil(ranks) - 1 + np.sqrt(np.floor(ranks)) + np.log2(np.maximum(1.0, ranks))
    one = np.minimum(sent, 2 * sent) / bandwidth
    return np.where(ranks > 1, steps * one, 0.0) + np.maximum(0.0, one)


@quantity(unit="1", source="arithmetic")
def constant_share(ranks: Array) -> Array:
    """A result that carries no unit at all is a number."""
    return np.where(ranks > 1, 0.5, 1.0)


@quantity(unit="s", source="arithmetic")
def upside_down(sent: Array, bandwidth: Array) -> Array:
    """Gives 1/s."""
    return bandwidth / sent


@quantity(unit="s", source="arithmetic")
def bytes_as_flop(sent: Array, rate: Array) -> Array:
    """Divides bytes by FLOP/s."""
    return sent / rate


@quantity(unit="B", source="arithmetic")
def adds_unlike(sent: Array, flop: Array) -> Array:
    """Adds FLOP to bytes."""
    return sent + flop


@quantity(unit="B", source="arithmetic")
def hidden_constant(sent: Array) -> Array:
    """Hides a number of bytes."""
    return np.maximum(sent, 512.0)


@quantity(unit="B", source="arithmetic")
def chooses_unlike(ranks: Array, sent: Array, flop: Array) -> Array:
    """Chooses between bytes and FLOP."""
    return np.where(ranks > 1, sent, flop)


@quantity(unit="1", source="arithmetic")
def logarithm_of_bytes(sent: Array) -> Array:
    """Takes a logarithm of bytes."""
    return np.log2(sent)


@quantity(unit="kWh", source="arithmetic")
def joule_for_kwh(energy: Array) -> Array:
    """The right dimension in the wrong unit."""
    return 1.0 * energy


@quantity(unit="B", source="arithmetic")
def unknown_need(nowhere: Array) -> Array:
    """Needs what nobody gives."""
    return nowhere


@pytest.mark.parametrize("function", [ring_time, constant_share])
def test_the_check_passes_what_is_right(function: Callable[..., Array]) -> None:
    assert_units(model_of(function), KNOWN)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (upside_down, r"upside_down \[s\]: gives 1 / second"),
        (bytes_as_flop, r"bytes_as_flop \[s\]: gives byte"),
        (adds_unlike, "adds_unlike.*DimensionalityError"),
        (hidden_constant, "hidden_constant.*DimensionalityError"),
        (chooses_unlike, "chooses_unlike.*DimensionalityError"),
        (logarithm_of_bytes, "logarithm_of_bytes.*DimensionalityError"),
        (joule_for_kwh, "joule_for_kwh.*of the declared unit"),
        (unknown_need, "unknown_need.*needs nowhere: neither quantity nor input"),
    ],
)
def test_the_check_finds_what_is_wrong(function: Callable[..., Array], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        assert_units(model_of(function), KNOWN)
