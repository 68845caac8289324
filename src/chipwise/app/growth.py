"""The smallest cluster that can do what a smaller one, or one of smaller devices, cannot."""

from __future__ import annotations

from collections.abc import Callable

from chipwise.catalogue.clusters import make_cluster
from chipwise.catalogue.hardware import accelerator_ids, load_accelerator
from chipwise.errors import UsageError
from chipwise.spec.hardware import Cluster

_BETWEEN = 8
"""Counts tried between the last doubling that was too few and the first that was enough."""

_LEANER = 0.6
"""Share of the memory that the same job may need with another device's software."""


def smallest_cluster(
    cluster: Cluster, most: int, holds: Callable[[Cluster], bool]
) -> Cluster | None:
    """Doubles the devices until the cluster holds the job, then looks for a count in between.

    Args:
        cluster: what is too small.
        most: devices at most.
        holds: whether a cluster is large enough; may raise UsageError where it cannot be used.

    Returns:
        The cluster, of whole nodes where one node is not enough; None when none holds the job.
    """
    name, too_few = cluster.accelerator.id, cluster.num_devices
    while 2 * too_few <= most:
        enough = _usable(name, 2 * too_few, holds)
        if enough is None:
            too_few *= 2
            continue
        each = enough.devices_per_node if enough.num_nodes > 1 else 1
        step = max(each, (enough.num_devices - too_few) // _BETWEEN)
        fewer = range(too_few + step - too_few % step, enough.num_devices, step)
        found = (_usable(name, count, holds) for count in fewer)
        return next((one for one in found if one is not None), enough)
    return None


def smallest_larger_device(
    cluster: Cluster, needed: float, holds: Callable[[Cluster], bool]
) -> Cluster | None:
    """As many of the devices with the least memory, but more than here, that hold the job.

    Args:
        cluster: what is too small, in any count.
        needed: bytes that the leanest layout needs per device; other software may need less.
        holds: whether a cluster is large enough; may raise UsageError where it cannot be used.

    Returns:
        The cluster, None when no device that can be had holds the job in that count.
    """
    own = cluster.accelerator
    least = max(own.memory_bytes, _LEANER * needed)
    larger = sorted(
        (device.software != own.software, device.memory_bytes, device.id)
        for device in map(load_accelerator, accelerator_ids())
        if device.memory_bytes > least and not device.announced
    )
    for _foreign, _size, name in larger:
        if found := _usable(name, cluster.num_devices, holds):
            return found
    return None


def _usable(accelerator: str, count: int, holds: Callable[[Cluster], bool]) -> Cluster | None:
    """The cluster of that count, if it can be had and holds the job."""
    try:
        grown = make_cluster(accelerator, (count,))
        return grown if holds(grown) else None
    except UsageError:
        return None
