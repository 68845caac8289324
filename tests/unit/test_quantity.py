"""The engine: order, overriding, dropping, explaining."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from chipwise.errors import UnknownNameError, UsageError
from chipwise.explanation import Explanation
from chipwise.quantity import Array, Columns, Given, Model, Quantity, quantity

INPUTS = {
    "flop": Given("FLOP", "work of one step", "kaplan2020", "assumed"),
    "rate": Given("FLOP/s", "rate of one device", "nvidia-h100", "datasheet"),
    "volume": Given("B", "bytes sent per step", "arithmetic", "assumed"),
    "bandwidth": Given("B/s", "one way, one device", "nvidia-h100", "datasheet"),
}
COLUMNS = {"flop": 12.0, "rate": 4.0, "volume": 10.0, "bandwidth": 5.0}


@quantity(unit="s", source="arithmetic")
def compute_time(flop: Array, rate: Array) -> Array:
    """Time to compute.

    Not the whole story.
    """
    return flop / rate


@quantity(unit="s", source="patarasuk2009", assumes="no congestion")
def comm_time(volume: Array, bandwidth: Array) -> Array:
    """Time to communicate."""
    sent = 2 * volume
    return sent / bandwidth


@quantity(unit="s", source="arithmetic", parts=True)
def step_time(compute_time: Array, comm_time: Array) -> Array:
    """Time of one step."""
    return compute_time + comm_time


@quantity(unit="1", source="arithmetic")
def compute_share(compute_time: Array, step_time: Array) -> Array:
    """Share of the step spent computing."""
    return compute_time / step_time


@quantity(unit="s", source="zero-bubble-2023")
def hidden_comm_time(volume: Array) -> Array:
    """A variant that hides nearly all communication."""
    return 0.0 * volume + 0.5


QUANTITIES = (compute_time, comm_time, step_time, compute_share)


def model_of(*functions: Callable[..., Array], name: str = "made_module") -> Model:
    module = ModuleType(name)
    for function in functions:
        function.__module__ = name
        setattr(module, function.__name__, function)
    return Model.of(module)


@pytest.fixture
def model() -> Model:
    return model_of(*reversed(QUANTITIES))


def marked(function: Callable[..., Array]) -> Quantity:
    found = vars(function)["__quantity__"]
    assert isinstance(found, Quantity)
    return found


# Marking


def test_a_quantity_is_named_and_wired_by_its_signature_and_still_callable() -> None:
    found = marked(comm_time)
    assert (found.name, found.unit, found.needs) == ("comm_time", "s", ("volume", "bandwidth"))
    assert (found.source, found.assumes, found.parts) == ("patarasuk2009", "no congestion", False)
    assert found.summary == "Time to communicate."
    assert comm_time(10.0, 5.0) == 4.0


def test_the_formula_is_the_body_of_the_function() -> None:
    assert marked(compute_time).formula == "flop / rate"
    assert marked(comm_time).formula == "sent = 2 * volume; sent / bandwidth"


def test_the_formula_keeps_choices_readable() -> None:
    @quantity(unit="1", source="arithmetic")
    def bubble(pp: Array, vpp: Array) -> Array:
        return np.where(pp > 1, (pp - 1) / vpp, 0.0)

    assert marked(bubble).formula == "np.where(pp > 1, (pp - 1) / vpp, 0.0)"
    assert marked(bubble).summary == ""


# Collecting


def test_a_model_holds_the_quantities_of_its_modules(model: Model) -> None:
    assert set(model) == {"compute_time", "comm_time", "step_time", "compute_share"}
    assert len(model) == 4
    assert model["step_time"] is marked(step_time)
    assert "flop" not in model


def test_a_name_that_stands_twice_is_refused() -> None:
    def other_module() -> ModuleType:
        @quantity(unit="s", source="arithmetic")
        def compute_time(flop: Array) -> Array:
            return flop

        module = ModuleType("other")
        compute_time.__module__ = "other"
        vars(module)["compute_time"] = compute_time
        return module

    first, second = other_module(), other_module()
    with pytest.raises(ValueError, match="compute_time is defined twice"):
        Model.of(first, second)


def test_what_a_module_imports_and_what_is_no_quantity_is_left_out() -> None:
    module = ModuleType("user")
    vars(module).update(step_time=step_time, np=np, answer=42)
    step_time.__module__ = "elsewhere"
    assert len(Model.of(module)) == 0


def test_a_second_name_for_one_quantity_is_no_second_quantity() -> None:
    module = ModuleType("twice")
    compute_time.__module__ = "twice"
    vars(module).update(compute_time=compute_time, old_name=compute_time)
    assert list(Model.of(module)) == ["compute_time"]


# Ordering


def test_each_quantity_comes_after_all_it_needs(model: Model) -> None:
    names = [step.name for step in model.order(["compute_share"], INPUTS)]
    assert sorted(names) == ["comm_time", "compute_share", "compute_time", "step_time"]
    assert names.index("compute_time") < names.index("step_time") < names.index("compute_share")
    assert names.index("comm_time") < names.index("step_time")


def test_only_what_the_targets_need_is_computed(model: Model) -> None:
    assert [step.name for step in model.order(["compute_time"], INPUTS)] == ["compute_time"]


def test_what_is_given_is_not_computed_nor_what_only_it_needed(model: Model) -> None:
    given = ["flop", "rate", "comm_time"]  # neither volume nor bandwidth
    names = [step.name for step in model.order(["step_time"], given)]
    assert names == ["compute_time", "step_time"]


def test_the_plan_depends_on_which_columns_are_given(model: Model) -> None:
    assert len(model.order(["step_time"], INPUTS)) == 3
    assert len(model.order(["step_time"], {**INPUTS, "comm_time": 1.0})) == 2
    assert len(model.order(["step_time"], INPUTS)) == 3


def test_a_circle_is_named_without_the_way_to_it() -> None:
    @quantity(unit="1", source="arithmetic")
    def entry(a: Array) -> Array:
        return a

    @quantity(unit="1", source="arithmetic")
    def a(b: Array) -> Array:
        return b

    @quantity(unit="1", source="arithmetic")
    def b(a: Array) -> Array:
        return a

    with pytest.raises(UsageError, match=r"in a circle: a → b → a$") as raised:
        model_of(entry, a, b).evaluate({}, ["entry"])
    assert raised.value.code == "circular-quantity"
    assert model_of(entry, a, b).evaluate({"b": 2.0}, ["entry"]) == {"entry": 2.0}


def test_a_missing_input_is_named_with_the_path_that_needs_it(model: Model) -> None:
    columns = {name: value for name, value in COLUMNS.items() if name != "volume"}
    with pytest.raises(UsageError) as raised:
        model.evaluate(columns, ["compute_share"])
    assert raised.value.code == "missing-input"
    assert raised.value.details == {
        "name": "volume",
        "path": ("compute_share", "step_time", "comm_time"),
    }
    assert "input 'volume' is missing" in str(raised.value)
    assert "compute_share → step_time → comm_time needs it" in str(raised.value)


def test_a_misspelt_input_is_offered_where_its_right_name_is_missing(model: Model) -> None:
    columns = {**COLUMNS, "bandwith": 5.0}
    del columns["bandwidth"]
    with pytest.raises(UsageError, match="did you mean 'bandwith'"):
        model.evaluate(columns, ["comm_time"])


def test_an_unknown_target_offers_the_nearest_quantity(model: Model) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'step_time'") as raised:
        model.evaluate(COLUMNS, ["step_tim"])
    assert raised.value.code == "unknown-quantity"


# Evaluating


def test_targets_and_nothing_else_come_back(model: Model) -> None:
    # compute 12/4 = 3 s, communication 2·10/5 = 4 s
    assert model.evaluate(COLUMNS, ["step_time"]) == {"step_time": 7.0}


def test_without_targets_every_quantity_comes_back(model: Model) -> None:
    found = model.evaluate(COLUMNS)
    assert found == {
        "compute_time": 3.0,
        "comm_time": 4.0,
        "step_time": 7.0,
        "compute_share": pytest.approx(3 / 7),
    }


def test_keep_all_returns_the_intermediates_but_not_the_inputs(model: Model) -> None:
    found = model.evaluate(COLUMNS, ["step_time"], keep_all=True)
    assert found == {"compute_time": 3.0, "comm_time": 4.0, "step_time": 7.0}


def test_a_column_wins_over_the_quantity_of_its_name(model: Model) -> None:
    measured = {**COLUMNS, "comm_time": 9.0}
    assert model.evaluate(measured, ["step_time"]) == {"step_time": 12.0}
    found = model.evaluate(measured, ["step_time", "comm_time"], keep_all=True)
    assert found == {"compute_time": 3.0, "step_time": 12.0, "comm_time": 9.0}


@pytest.mark.parametrize("keep_all", [False, True])
def test_a_target_that_is_a_column_comes_back_as_it_is(model: Model, keep_all: bool) -> None:
    volume = np.array([1.0, 2.0])
    columns: Columns = {**COLUMNS, "volume": volume}
    found = model.evaluate(columns, ["volume", "comm_time", "rate"], keep_all=keep_all)
    assert found["volume"] is volume
    assert found["rate"] == 4.0
    assert_array_equal(found["comm_time"], [0.4, 0.8])


def test_a_target_asked_for_twice_comes_back_once(model: Model) -> None:
    assert model.evaluate(COLUMNS, ["step_time", "step_time"]) == {"step_time": 7.0}
    assert model.evaluate(COLUMNS, []) == {}


def test_a_target_that_others_need_is_kept_and_the_columns_are_not_touched(model: Model) -> None:
    columns = dict(COLUMNS)
    found = model.evaluate(columns, ["compute_time", "compute_share"])
    assert found == {"compute_time": 3.0, "compute_share": pytest.approx(3 / 7)}
    assert columns == COLUMNS


def test_an_intermediate_is_dropped_once_its_last_user_has_it() -> None:
    class Tracked(np.ndarray):  # plain arrays can be weakly referenced too; this names them
        pass

    alive: list[tuple[str, bool]] = []
    held: dict[str, weakref.ref[Tracked]] = {}

    @quantity(unit="1", source="arithmetic")
    def early(start: Array) -> Array:
        made = np.ones(4).view(Tracked)
        held["early"] = weakref.ref(made)
        return made

    @quantity(unit="1", source="arithmetic")
    def middle(early: Array) -> Array:
        return np.asarray(early) * 2

    @quantity(unit="1", source="arithmetic")
    def late(middle: Array) -> Array:
        gc.collect()
        alive.append(("early", held["early"]() is not None))
        return middle * 2

    chain = model_of(early, middle, late)
    chain.evaluate({"start": 1.0}, ["late"])
    kept = chain.evaluate({"start": 1.0}, ["late"], keep_all=True)
    also_asked_for = chain.evaluate({"start": 1.0}, ["late", "early"])
    assert alive == [("early", False), ("early", True), ("early", True)]
    assert set(kept) == {"early", "middle", "late"}
    assert set(also_asked_for) == {"early", "late"}


def test_axes_as_shaped_columns_equal_loops(model: Model) -> None:
    flop, bandwidth, volume = [1.0, 2.0, 3.0], [4.0, 5.0], [6.0, 7.0, 8.0, 9.0]
    shaped: Columns = {
        "flop": np.array(flop)[:, None, None],
        "bandwidth": np.array(bandwidth)[:, None],
        "volume": np.array(volume),
        "rate": 4.0,
    }
    found = model.evaluate(shaped, ["step_time"], keep_all=True)
    assert np.shape(found["compute_time"]) == (3, 1, 1)  # on its own axis alone
    assert np.shape(found["comm_time"]) == (2, 4)
    looped = [
        [
            [
                model.evaluate(
                    {"flop": f, "bandwidth": b, "volume": v, "rate": 4.0}, ["step_time"]
                )["step_time"]
                for v in volume
            ]
            for b in bandwidth
        ]
        for f in flop
    ]
    assert_array_equal(found["step_time"], looped)


def test_floats_and_arrays_mix(model: Model) -> None:
    found = model.evaluate({**COLUMNS, "rate": np.array([4.0, 6.0])}, ["step_time"])
    assert_array_equal(found["step_time"], [7.0, 6.0])


def test_scalars_divide_by_zero_as_arrays_do(model: Model) -> None:
    with np.errstate(divide="ignore"):
        scalar = model.evaluate({"flop": 1.0, "rate": 0.0}, ["compute_time"])
        array = model.evaluate({"flop": np.ones(1), "rate": np.zeros(1)}, ["compute_time"])
    assert scalar["compute_time"] == math.inf
    assert_array_equal(array["compute_time"], [math.inf])


def test_large_whole_numbers_do_not_wrap_around() -> None:
    @quantity(unit="FLOP", source="arithmetic")
    def run_flop(params: Array, tokens: Array) -> Array:
        return 6 * params * tokens

    columns = {"params": np.array([405_000_000_000]), "tokens": np.array([15_000_000_000_000])}
    found = model_of(run_flop).evaluate(columns)
    assert_array_equal(found["run_flop"], [3.645e25])  # 6 · 405e9 · 15e12


def test_single_precision_and_truth_values_are_taken_as_doubles() -> None:
    @quantity(unit="1", source="arithmetic")
    def doubled(share: Array, flag: Array) -> Array:
        return np.where(flag > 0, 2 * share, share)

    columns: dict[str, Any] = {
        "share": np.array([0.5, 0.25], dtype=np.float32),
        "flag": np.array([True, False]),
    }
    found = model_of(doubled).evaluate(columns)
    assert np.asarray(found["doubled"]).dtype == np.float64
    assert_array_equal(found["doubled"], [1.0, 0.25])


def test_one_model_serves_many_threads(model: Model) -> None:
    def evaluate(i: int) -> Array:
        columns = {**COLUMNS, "flop": float(i)}
        if i % 2:
            columns["comm_time"] = 1.0
        return model.evaluate(columns, ["step_time"])["step_time"]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(evaluate, range(200)))
    assert found == [i / 4 + (1.0 if i % 2 else 4.0) for i in range(200)]


# Variants


@pytest.mark.parametrize("replacement", [hidden_comm_time, marked(hidden_comm_time)])
def test_a_variant_replaces_a_quantity_by_the_name_it_is_given(
    model: Model, replacement: Quantity
) -> None:
    variant = model | {"comm_time": replacement}
    assert variant.evaluate(COLUMNS, ["step_time"]) == {"step_time": 3.5}
    assert variant["comm_time"].name == "comm_time"
    assert variant["comm_time"].source == "zero-bubble-2023"
    assert model.evaluate(COLUMNS, ["step_time"]) == {"step_time": 7.0}


def test_a_variant_can_add_quantities_and_models_can_be_joined(model: Model) -> None:
    assert (model | {"hidden_comm_time": hidden_comm_time}).evaluate(
        {"volume": 1.0}, ["hidden_comm_time"]
    ) == {"hidden_comm_time": 0.5}
    other = Model({"hidden_comm_time": marked(hidden_comm_time)})
    assert len(model | other) == 5


# Explaining


def explained(model: Model, name: str, columns: dict[str, float]) -> Explanation:
    values = {**columns, **model.evaluate(columns, [name], keep_all=True)}
    return model.explain(name, values, INPUTS)


def flat(tree: Explanation) -> list[Explanation]:
    return [tree, *(node for need in tree.needs for node in flat(need))]


def test_the_explanation_is_the_calculation(model: Model) -> None:
    tree = explained(model, "compute_share", COLUMNS)
    evaluated = {**COLUMNS, **model.evaluate(COLUMNS)}
    assert {node.quantity: node.value for node in flat(tree)} == evaluated
    for node in flat(tree):
        if node.needs:
            again = model[node.quantity].function(*[need.value for need in node.needs])
            assert again == node.value


def test_an_explanation_tells_unit_formula_source_meaning_and_basis(model: Model) -> None:
    tree = explained(model, "comm_time", COLUMNS)
    assert (tree.quantity, tree.value, tree.unit) == ("comm_time", 4.0, "s")
    assert (tree.source, tree.basis) == ("patarasuk2009", "computed")
    assert tree.formula == "sent = 2 * volume; sent / bandwidth"
    assert tree.meaning == "Time to communicate."
    volume, bandwidth = tree.needs
    assert (volume.quantity, volume.value, volume.unit) == ("volume", 10.0, "B")
    assert (bandwidth.basis, bandwidth.source) == ("datasheet", "nvidia-h100")
    assert (bandwidth.formula, bandwidth.needs) == ("", ())


def test_depth_limits_how_far_an_explanation_unfolds(model: Model) -> None:
    values = {**COLUMNS, **model.evaluate(COLUMNS)}
    assert model.explain("step_time", values, INPUTS, depth=0).needs == ()
    one = model.explain("step_time", values, INPUTS, depth=1)
    assert [need.quantity for need in one.needs] == ["compute_time", "comm_time"]
    assert all(need.needs == () for need in one.needs)


def test_a_measured_value_is_not_explained_by_the_formula_it_replaced(model: Model) -> None:
    for columns in ({**COLUMNS, "comm_time": 9.0}, {"flop": 12.0, "rate": 4.0, "comm_time": 9.0}):
        comm = explained(model, "step_time", columns).needs[1]
        assert (comm.value, comm.formula, comm.needs) == (9.0, "", ())
        assert (comm.basis, comm.unit) == ("assumed", "s")


def test_what_is_known_of_a_measured_value_is_told(model: Model) -> None:
    columns = {**COLUMNS, "comm_time": 4.0}  # equal to what the formula would give
    values = {**columns, **model.evaluate(columns, ["step_time"], keep_all=True)}
    known = {**INPUTS, "comm_time": Given("s", "nccl-tests", "my-run", "measured")}
    comm = model.explain("step_time", values, known).needs[1]
    assert (comm.basis, comm.source, comm.meaning) == ("measured", "my-run", "nccl-tests")
    assert (comm.formula, comm.needs) == ("", ())


def test_an_input_nothing_is_known_of_is_assumed() -> None:
    tree = model_of(compute_time).explain(
        "compute_time", {"flop": 1.0, "rate": 2.0, "compute_time": 0.5}, {}
    )
    assert [(need.basis, need.source) for need in tree.needs] == [("assumed", ""), ("assumed", "")]


def test_values_that_are_not_finite_are_explained_too(model: Model) -> None:
    columns = {**COLUMNS, "flop": math.inf}
    tree = explained(model, "compute_time", columns)
    assert (tree.value, tree.basis) == (math.inf, "computed")
    columns = {**COLUMNS, "flop": math.nan}
    tree = explained(model, "compute_time", columns)
    assert math.isnan(tree.value)
    assert tree.basis == "computed"


def test_arrays_are_explained_by_their_first_element_even_where_an_axis_is_summed() -> None:
    @quantity(unit="1", source="arithmetic")
    def total(parts_per_layer: Array) -> Array:
        return np.asarray(np.sum(parts_per_layer, axis=-1))

    made = model_of(total)
    columns = {"parts_per_layer": np.array([[1.0, 2.0], [3.0, 4.0]])}
    tree = made.explain("total", {**columns, **made.evaluate(columns)}, {})
    assert (tree.value, tree.basis) == (3.0, "computed")


def test_a_graph_with_many_paths_is_explained_without_walking_each() -> None:
    def double(i: int) -> Quantity:
        left, right = (f"left_{i - 1}", f"right_{i - 1}") if i else ("start", "other")
        function = marked(compute_share).function
        return Quantity(f"left_{i}", "1", (left, right), function, "arithmetic")

    levels = 60  # 2**60 paths from the last pair to the first
    quantities = {}
    for i in range(levels):
        made = double(i)
        for name in (f"left_{i}", f"right_{i}"):
            quantities[name] = Quantity(name, "1", made.needs, made.function, made.source)
    deep = Model(quantities)
    columns = {"start": 2.0, "other": 2.0}
    values = {**columns, **deep.evaluate(columns)}
    tree = deep.explain(f"left_{levels - 1}", values, {})
    assert tree.needs[0].needs[0] is tree.needs[1].needs[0]


# Parts


def test_a_sum_declared_as_parts_is_the_sum_of_its_parameters(model: Model) -> None:
    columns: Columns = {**COLUMNS, "rate": np.array([1.0, 2.0, 4.0])}
    found = model.evaluate(columns)
    sums = [step for step in model.values() if step.parts]
    assert [step.name for step in sums] == ["step_time"]
    for step in sums:
        assert_array_equal(found[step.name], sum(found[need] for need in step.needs))
