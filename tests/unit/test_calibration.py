"""Constants: how a job picks its own, what is fitted, and that the fit is honest."""

from __future__ import annotations

import numpy as np
import pytest

from chipwise.calibration import COMMON, Calibration, Constant, shipped
from chipwise.validation.fit import fit_constants, source_weights


def constant(name: str, group: str = COMMON, value: float = 1.0, by: str = "") -> Constant:
    return Constant(
        name=name,
        group=group,
        by=by,
        unit="1",
        meaning="",
        value=value,
        prior=value,
        prior_spread=0.5,
        spread=0.5,
        fit="speed",
        source="assumed",
    )


def test_an_unknown_group_takes_the_common_value() -> None:
    two = Calibration(
        (constant("rate", COMMON, 1.0, "family"), constant("rate", "new", 3.0, "family"))
    )
    assert two.columns({"family": "new"}) == {"rate": 3.0}
    assert two.columns({"family": "never seen"}) == {"rate": 1.0}
    chosen = two.columns({"family": np.array(["new", "x"])})["rate"]
    assert np.array_equal(chosen, [3.0, 1.0])


def test_at_most_sixty_constants_are_fitted_and_each_says_to_what() -> None:
    fitted = [one for one in shipped().constants if one.fit]
    assert len(fitted) <= 60
    assert all(one.fitted_to and one.spread > 0 for one in fitted)


def test_fitted_values_stay_near_their_physical_priors() -> None:
    moved = {
        one.label: abs(np.log(one.value / one.prior)) / one.prior_spread
        for one in shipped().constants
        if one.fit
    }
    # Gaudi runs far below the share of peak its maker gives; the accuracy page says so.
    assert {label for label, spreads in moved.items() if spreads > 4} <= {"stack_factor.gaudi"}


def test_a_fit_finds_the_value_that_made_the_data() -> None:
    start = Calibration((constant("rate", value=1.0),))
    x = np.linspace(1, 5, 200)

    def predict(constants: object) -> np.ndarray:
        return np.asarray(constants["rate"] * x)  # type: ignore[index]

    keys = {"family": np.array(["a"] * 200)}
    fit = fit_constants(predict, keys, 1.7 * x, np.ones(200), start, "speed", weight=5.0)
    assert fit.calibration.values[0] == pytest.approx(1.7, rel=0.01)
    assert 0 < fit.spread["rate"] < 0.1


def test_a_few_odd_rows_pull_little() -> None:
    start = Calibration((constant("rate", value=1.0),))
    x = np.ones(100)
    measured = np.where(np.arange(100) < 10, 20.0, 1.2)

    def predict(constants: object) -> np.ndarray:
        return np.asarray(constants["rate"] * x)  # type: ignore[index]

    keys = {"family": np.array(["a"] * 100)}
    fit = fit_constants(predict, keys, measured, np.ones(100), start, "speed", weight=5.0)
    assert fit.calibration.values[0] == pytest.approx(1.2, rel=0.03)


def test_a_long_source_counts_with_the_root_of_its_length() -> None:
    weights = source_weights(np.array(["long"] * 100 + ["short"] * 4))
    assert weights.mean() == pytest.approx(1.0)
    assert weights[:100].sum() / weights[100:].sum() == pytest.approx(5.0)
