"""The smallest cluster of the same devices that can do what a smaller one cannot."""

from __future__ import annotations

from collections.abc import Callable

from chipwise.catalogue.clusters import make_cluster
from chipwise.errors import UsageError
from chipwise.spec.hardware import Cluster

_BETWEEN = 8
"""Counts tried between the last doubling that was too few and the first that was enough."""


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
    too_few = cluster.num_devices
    while 2 * too_few <= most:
        enough = _usable(cluster, 2 * too_few, holds)
        if enough is None:
            too_few *= 2
            continue
        each = enough.devices_per_node if enough.num_nodes > 1 else 1
        step = max(each, (enough.num_devices - too_few) // _BETWEEN)
        fewer = range(too_few + step - too_few % step, enough.num_devices, step)
        found = (_usable(cluster, count, holds) for count in fewer)
        return next((one for one in found if one is not None), enough)
    return None


def _usable(cluster: Cluster, count: int, holds: Callable[[Cluster], bool]) -> Cluster | None:
    """The cluster of that count, if it can be had and holds the job."""
    try:
        grown = make_cluster(cluster.accelerator.id, (count,))
        return grown if holds(grown) else None
    except UsageError:
        return None
