"""What holds for the engine whatever the graph and the columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from chipwise.explanation import Explanation
from chipwise.quantity import Array, Model, Quantity

INPUTS = ("a", "b", "c")


def mix(left: Array, right: Array) -> Array:
    """Neither symmetric nor constant, and never out of range for positive values."""
    return np.maximum(left, right) / (1.0 + right)


@st.composite
def graphs(draw: st.DrawFn) -> Model:
    """A random graph over three inputs, its quantities in random order."""
    names = list(INPUTS)
    made = []
    for i in range(draw(st.integers(1, 12))):
        needs = (draw(st.sampled_from(names)), draw(st.sampled_from(names)))
        made.append(Quantity(f"q{i}", "1", needs, mix, "arithmetic"))
        names.append(f"q{i}")
    return Model({step.name: step for step in draw(st.permutations(made))})


rows = st.integers(1, 5)
values = st.floats(1e-3, 1e3)


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Array]:
    size = draw(rows)
    return {name: np.array(draw(st.lists(values, min_size=size, max_size=size))) for name in INPUTS}


def by_hand(model: Model, name: str, given: Mapping[str, Array]) -> Array:
    """The plain recursive meaning of the graph."""
    if name in given:
        return given[name]
    step = model[name]
    return step.function(*[by_hand(model, need, given) for need in step.needs])


@given(model=graphs(), given_columns=columns())
def test_the_engine_gives_what_plain_recursion_gives(
    model: Model, given_columns: dict[str, Array]
) -> None:
    found = model.evaluate(given_columns)
    assert set(found) == set(model)
    for name, value in found.items():
        assert_array_equal(value, by_hand(model, name, given_columns))


@given(model=graphs(), given_columns=columns(), data=st.data())
def test_dropping_and_keeping_intermediates_give_the_same(
    model: Model, given_columns: dict[str, Array], data: st.DataObject
) -> None:
    targets = data.draw(st.lists(st.sampled_from(sorted(model)), min_size=1, max_size=4))
    dropped = model.evaluate(given_columns, targets)
    kept = model.evaluate(given_columns, targets, keep_all=True)
    assert set(dropped) == set(targets) <= set(kept)
    for name in targets:
        assert_array_equal(dropped[name], kept[name])


@given(model=graphs(), given_columns=columns())
def test_each_row_of_a_vector_is_its_scalar(model: Model, given_columns: dict[str, Array]) -> None:
    vector = model.evaluate(given_columns)
    for i in range(np.size(given_columns["a"])):
        row = {name: float(np.asarray(column)[i]) for name, column in given_columns.items()}
        for name, value in model.evaluate(row).items():
            assert value == np.asarray(vector[name])[i]


@given(model=graphs(), given_columns=columns(), data=st.data())
def test_a_value_given_in_place_of_a_quantity_reaches_all_that_need_it(
    model: Model, given_columns: dict[str, Array], data: st.DataObject
) -> None:
    replaced = data.draw(st.sampled_from(sorted(model)))
    measured = {**given_columns, replaced: data.draw(values)}
    for name, value in model.evaluate(measured).items():
        assert_array_equal(value, by_hand(model, name, measured))


@given(model=graphs(), given_columns=columns())
def test_a_computed_value_given_back_changes_nothing(
    model: Model, given_columns: dict[str, Array]
) -> None:
    found = model.evaluate(given_columns)
    again = model.evaluate({**given_columns, **found})
    assert all(again[name] is found[name] for name in model)


@given(model=graphs())
def test_every_order_puts_needs_first_and_none_twice(model: Model) -> None:
    names = [step.name for step in model.order(tuple(model), INPUTS)]
    assert sorted(names) == sorted(model)
    for place, name in enumerate(names):
        assert all(need in INPUTS or need in names[:place] for need in model[name].needs)


def leaves_of(tree: Explanation) -> set[str]:
    return set().union(*map(leaves_of, tree.needs)) if tree.needs else {tree.quantity}


@given(model=graphs(), row=st.fixed_dictionaries(dict.fromkeys(INPUTS, values)))
def test_an_explanation_ends_at_inputs_and_repeats_the_calculation(
    model: Model, row: dict[str, float]
) -> None:
    evaluated = {**row, **model.evaluate(row)}
    for name in model:
        tree = model.explain(name, evaluated, {})
        assert leaves_of(tree) <= set(INPUTS)
        assert tree.value == evaluated[name]
        assert tree.value == pytest.approx(float(mix(*[need.value for need in tree.needs])))
