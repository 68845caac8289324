"""Clusters from an accelerator and counts: whole nodes, shares of racks, torus slices."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from chipwise.catalogue.hardware import (
    System,
    default_system,
    load_accelerator,
    load_node,
    systems_of,
)
from chipwise.catalogue.slices import near_cube, slice_shape, slice_sizes
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.hardware import Cluster

_LARGEST_COUNT = 10**7


def make_cluster(
    accelerator: str,
    factors: tuple[int, ...] = (),
    system: System | None = None,
    understood: str = "",
) -> Cluster:
    """The cluster of an accelerator in counts as a person wrote them.

    Args:
        accelerator: accelerator id.
        factors: () for the smallest, (N,) for N devices, (N, M) for M nodes of N (a slice shape
            on torus machines where it is one), (A, B, C) for a slice shape.
        system: the node template; the accelerator's usual one when None.
        understood: what is to be said about how the name was read.

    Raises:
        UsageError: the count cannot be had; names the nearest that can.
    """
    template = system or default_system(accelerator)
    if any(factor < 1 for factor in factors) or prod(factors) > _LARGEST_COUNT:
        raise UsageError(
            "bad-count",
            _("'{name}:{count}': counts run from 1 to {most} devices").format(
                name=accelerator, count="x".join(map(str, factors)), most=_LARGEST_COUNT
            ),
            name=accelerator,
        )
    if template.shapes:
        return _slices(accelerator, factors, template, understood)
    if len(factors) > 2:
        raise UsageError(
            "no-torus",
            _("'{name}' is no torus machine: write devices x nodes, such as '{name}:{n}x2'").format(
                name=accelerator, n=template.devices
            ),
        )
    if len(factors) == 2:
        per_node, nodes = factors
        if per_node > template.devices:
            raise _bad_count(accelerator, (per_node,), [template.devices])
    else:
        per_node, nodes = _split(accelerator, factors[0] if factors else 1, template)
    mark = f"@{system.id}" if system is not None else ""
    count = "" if per_node * nodes == 1 else f":{per_node}" + (f"x{nodes}" if nodes > 1 else "")
    return _cluster(
        f"{accelerator}{mark}{count}", accelerator, template, per_node, nodes, (), understood
    )


def cluster_as_run(
    accelerator: str,
    num_devices: int,
    devices_per_node: int | None = None,
    network_bandwidth: float | None = None,
) -> Cluster:
    """The cluster a published run used, taken as stated even where no such node is sold.

    Args:
        accelerator: accelerator id.
        num_devices: devices of the run.
        devices_per_node: devices in one fast-link domain; the usual system's when None.
        network_bandwidth: between domains, B/s one way per device; the usual one when None.

    Returns:
        A cluster whose last node may be partly used; torus machines get the most cube-like slice.
    """
    system = default_system(accelerator)
    per_node = min(devices_per_node or system.devices, num_devices)
    if system.shapes:
        per_node = min(num_devices, system.devices)
    for other in systems_of(accelerator) if devices_per_node else ():
        if other.devices == devices_per_node and system.devices < devices_per_node:
            system = other
    node = load_node(accelerator, None if system.id == "single" else system.id, per_node)
    if network_bandwidth is not None:
        node = node.model_copy(update={"network_bandwidth": network_bandwidth})
    torus: tuple[int, ...] = ()
    if system.topology in ("torus2d", "torus3d") and system.shapes:
        torus = slice_shape(system, per_node) or near_cube(
            per_node, 2 if system.topology == "torus2d" else 3
        )
    return Cluster(
        name=f"{accelerator}:{num_devices}",
        accelerator=load_accelerator(accelerator),
        node=node,
        num_devices=num_devices,
        num_nodes=-(-num_devices // per_node),
        torus=torus,
    )


def _split(accelerator: str, count: int, system: System) -> tuple[int, int]:
    """Devices per node and nodes for a count; whole nodes, or equal shares of racks."""
    if count <= system.devices:
        return count, 1
    nodes = -(-count // system.devices)
    if count % system.devices == 0:
        return system.devices, nodes
    if system.increment and count % nodes == 0 and count // nodes % system.increment == 0:
        return count // nodes, nodes
    step = system.devices
    below = count // step * step
    raise _bad_count(accelerator, (count,), [below, below + step])


def _slices(accelerator: str, factors: tuple[int, ...], system: System, understood: str) -> Cluster:
    dimensions = 2 if system.topology == "torus2d" else 3
    slices = 1
    shape: tuple[int, ...] = ()
    if len(factors) == dimensions:
        shape = tuple(sorted(factors))
        if slice_shape(system, prod(shape), shape):
            said = _("{text} read as a slice of {chips} chips").format(
                text="x".join(map(str, factors)), chips=prod(shape)
            )
            understood = f"{understood}; {said}" if understood else said
        elif dimensions == 2:
            shape = ()
        else:
            raise _bad_shape(accelerator, factors, system)
    elif len(factors) == 3:
        raise _bad_shape(accelerator, factors, system)
    if not shape:
        chips, slices = (*factors, 1)[:2] if factors else (slice_sizes(system)[0], 1)
        if not factors and chips > 1:
            said = _("the smallest slice of {id} is {chips} chips").format(
                id=accelerator, chips=chips
            )
            understood = f"{understood}; {said}" if understood else said
        largest = system.max_slice or system.devices
        if len(factors) == 1 and chips > largest and chips % largest == 0:
            chips, slices = largest, chips // largest
        shape = slice_shape(system, chips)
        if not shape:
            raise _bad_count(accelerator, (chips,), _around(chips, slice_sizes(system)))
    chips = prod(shape)
    name = f"{accelerator}:{chips}" + (f"x{slices}" if slices > 1 else "")
    return _cluster(name, accelerator, system, chips, slices, shape, understood)


def _cluster(
    name: str,
    accelerator: str,
    system: System,
    per_node: int,
    nodes: int,
    torus: tuple[int, ...],
    understood: str,
) -> Cluster:
    partial = nodes == 1 and not torus and not system.host_memory_per_device
    if partial and not system.increment:
        node = load_node(accelerator, system.id if system.id != "single" else None)
    else:
        node = load_node(accelerator, system.id if system.id != "single" else None, per_node)
    return Cluster(
        name=name,
        accelerator=load_accelerator(accelerator),
        node=node,
        num_devices=per_node * nodes,
        num_nodes=nodes,
        torus=torus,
        understood=understood,
    )


def _around(count: int, valid: Iterable[int]) -> list[int]:
    """The valid counts next below and above."""
    sizes = sorted(valid)
    below = [size for size in sizes if size < count][-1:]
    above = [size for size in sizes if size > count][:1]
    return below + above


def _bad_count(accelerator: str, factors: tuple[int, ...], nearest: list[int]) -> UsageError:
    shown = "x".join(map(str, factors))
    valid = [count for count in nearest if count > 0]
    return UsageError(
        "bad-count",
        _("'{name}:{count}' cannot be had: nodes are handed out whole; nearest: {valid}").format(
            name=accelerator,
            count=shown,
            valid=_(" or ").join(f"'{accelerator}:{count}'" for count in valid),
        ),
        name=accelerator,
        count=shown,
        nearest=valid,
    )


def _bad_shape(accelerator: str, factors: tuple[int, ...], system: System) -> UsageError:
    chips = prod(factors)
    sizes = [chips] if slice_shape(system, chips) else _around(chips, slice_sizes(system))
    shapes = ["x".join(map(str, slice_shape(system, size))) for size in sizes]
    return UsageError(
        "bad-shape",
        _("'{name}' has no slice of shape {shape}; nearest: {valid}").format(
            name=accelerator,
            shape="x".join(map(str, factors)),
            valid=_(" or ").join(shapes),
        ),
        name=accelerator,
        nearest=shapes,
    )
