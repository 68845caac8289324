"""Laws of cost and energy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chipwise.physics.cost import cost, device_power, energy, machine_power, paid_device_time
from chipwise.spec.price import Money

amounts = st.floats(0.01, 1e6)
shares = st.floats(0, 1)


@given(amounts, amounts, amounts, st.floats(1, 100))
def test_cost_is_linear_in_devices_and_in_time(
    devices: float, time: float, rent: float, more: float
) -> None:
    once = cost(paid_device_time(devices, time), rent)
    assert np.isclose(cost(paid_device_time(more * devices, time), rent), more * once)
    assert np.isclose(cost(paid_device_time(devices, more * time), rent), more * once)


@given(amounts, shares, shares, shares, shares, st.floats(1, 3), st.floats(1, 100))
def test_more_power_never_takes_less_energy(
    watts: float, load: float, idle: float, steps: float, host: float, pue: float, more: float
) -> None:
    def joules(watts: float, load: float, idle: float) -> float:
        power = machine_power(device_power(watts, load, idle, steps), host)
        return float(energy(8.0, power, pue, 3600.0))

    base = joules(watts, load, idle)
    assert joules(watts * more, load, idle) >= base
    assert joules(watts, load * more, idle) >= base
    assert joules(watts, load, idle * more) >= base


@given(st.lists(amounts, min_size=1, max_size=8))
def test_money_of_one_currency_adds_like_its_amounts(values: list[float]) -> None:
    total = Money(amount=0, currency="USD")
    for value in values:
        total += Money(amount=value, currency="USD")
    assert np.isclose(total.amount, sum(values))
