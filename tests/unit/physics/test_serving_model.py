"""The serving model: units hold, sums add up, every source is named."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import numpy as np
import pytest

from chipwise.physics.serving_model import SERVING, SERVING_INPUTS
from tests.physics_units import assert_units

SOURCES = tomllib.loads(
    (files("chipwise") / "catalogue" / "data" / "sources.toml").read_text(encoding="utf-8")
)


def test_every_equation_holds_in_its_units() -> None:
    assert_units(SERVING, SERVING_INPUTS)


def test_a_name_is_either_an_input_or_a_quantity() -> None:
    assert sorted(set(SERVING) & set(SERVING_INPUTS)) == []


def test_every_input_is_needed() -> None:
    needed = {need for step in SERVING.values() for need in step.needs}
    assert sorted(set(SERVING_INPUTS) - needed) == []


@pytest.mark.parametrize("name", sorted(name for name, step in SERVING.items() if step.parts))
def test_a_quantity_declared_as_parts_is_the_plain_sum_of_its_parameters(name: str) -> None:
    needs = np.random.default_rng(7).uniform(0.1, 10.0, (len(SERVING[name].needs), 50))
    np.testing.assert_allclose(SERVING[name].function(*needs), needs.sum(axis=0), rtol=1e-12)


def test_every_source_is_in_the_list_of_sources() -> None:
    named = {step.source for step in SERVING.values()} - {"arithmetic", "assumed"}
    assert named <= set(SOURCES)
