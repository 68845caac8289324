"""What a run costs and what it draws: rent, power, energy."""

from __future__ import annotations

from chipwise.quantity import Array, quantity


@quantity(unit="s", source="arithmetic", assumes="idle devices are paid for like busy ones")
def paid_device_time(paid_devices: Array, duration: Array) -> Array:
    """Time of all devices that are paid for; over 3600 these are device-hours. [s]"""
    return paid_devices * duration


@quantity(unit="USD", source="arithmetic", assumes="the price holds for the whole run")
def cost(paid_device_time: Array, device_rent: Array) -> Array:
    """Rent of the run: the time of the devices times their price. [USD]

    Notes:
        Left out: storage, traffic, and what a commitment costs beyond the run.
    """
    return paid_device_time * device_rent


@quantity(unit="1", source="arithmetic")
def stepping_share(stepping_time: Array, duration: Array) -> Array:
    """Share of the run in which devices compute; else they compile, save or wait. [1]"""
    return stepping_time / duration


@quantity(unit="W", source="morrison2025", assumes="power in a step does not depend on the job")
def device_power(
    board_power: Array, load_power_share: Array, idle_power_share: Array, stepping_share: Array
) -> Array:
    """Average draw of one device over the run: that under load, and that of waiting. [W]

    Notes:
        Whole runs on H100 draw 85 % of the rating while they train and fall to 15 % while they
        write checkpoints [morrison2025].
    """
    working = load_power_share * stepping_share
    return board_power * (working + idle_power_share * (1 - stepping_share))


@quantity(unit="W", source="latif2024", assumes="the rest of a node draws in step with its devices")
def machine_power(device_power: Array, host_power_share: Array) -> Array:
    """Average draw of one device with its share of processors, memory, fans and network. [W]

    Notes:
        8 H100 of 700 W in a node that drew 8.4 kW leave (8.4 - 5.6)/5.6 = 0.5 for the rest.
    """
    return device_power * (1 + host_power_share)


@quantity(unit="1", source="arithmetic", assumes="devices that generate draw what others draw")
def powered_devices(num_devices: Array, rollout_devices: Array) -> Array:
    """Devices that train, and those set apart to generate. [1]"""
    return num_devices + rollout_devices


@quantity(unit="J", source="arithmetic")
def energy(powered_devices: Array, machine_power: Array, pue: Array, duration: Array) -> Array:
    """Electricity of the run as the site draws it, cooling and losses included. [J]"""
    return powered_devices * machine_power * pue * duration
