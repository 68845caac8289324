"""Rent, power and energy, worked by hand."""

from __future__ import annotations

import pytest

from chipwise.physics.cost import (
    cost,
    device_power,
    energy,
    machine_power,
    paid_device_time,
    stepping_share,
)


def test_cost_is_device_hours_times_the_price() -> None:
    # 8 devices for 10 hours at 2.95 USD per hour: 236 USD
    assert cost(paid_device_time(8, 36000.0), 2.95 / 3600) == pytest.approx(236.0)


def test_a_device_that_never_waits_draws_its_load() -> None:
    assert device_power(700.0, 0.85, 0.15, 1.0) == pytest.approx(595.0)


def test_waiting_counts_with_the_idle_draw() -> None:
    # a quarter of the run waits: 700 x (0.85 x 0.75 + 0.15 x 0.25) = 472.5 W
    assert stepping_share(27.0, 36.0) == 0.75
    assert device_power(700.0, 0.85, 0.15, 0.75) == pytest.approx(472.5)


def test_energy_is_power_of_all_machines_over_the_run() -> None:
    # 595 W and half of it for the rest of the node: 892.5 W; 8 of them for 10 h at PUE 1.2:
    # 8 x 892.5 x 10 x 1.2 = 85.68 kWh
    watts = machine_power(595.0, 0.5)
    assert watts == 892.5
    assert energy(8, watts, 1.2, 36000.0) / 3.6e6 == pytest.approx(85.68)
