"""The least that holds a job: the smallest device in the same count, the fewest of the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chipwise import rules
from chipwise.app.documents import Smallest
from chipwise.app.evaluation import compare
from chipwise.app.jobs import Complete
from chipwise.app.remedies import TRAINS, fits, moved, smallest_count
from chipwise.catalogue.clusters import make_cluster
from chipwise.catalogue.hardware import accelerator_ids, load_accelerator
from chipwise.errors import UsageError
from chipwise.spec.hardware import Accelerator, Cluster

_LEANER = 0.6
"""Share of the memory that the same job may need with another device's software."""


def smallest_of(
    one: Complete, fewest: Complete | None, limit: float, overrides: Mapping[str, float]
) -> Smallest:
    """The smallest device and the smallest count that hold the job.

    Args:
        one: the job, whether it fits or not.
        fewest: the job on the fewest devices that hold it.
        limit: share of the usable memory that may be used.
        overrides: values that replace computed ones.
    """
    needed = float(compare([(one.job, one.strategy)], overrides).needed[0])
    card = _card(one, needed / limit, limit, overrides)
    return Smallest(
        card=card.accelerator.id if card else None,
        card_memory_bytes=card.accelerator.memory_bytes if card else None,
        devices=fewest.job.cluster.num_devices if fewest else None,
    )


def fewest_devices(one: Complete, limit: float, overrides: Mapping[str, float]) -> Complete | None:
    """The job on fewer of the same devices where they hold it, else on these, else on more."""
    for cluster in _fewer(one.job.cluster):
        found = moved(one, cluster, overrides)
        if found and fits(found, limit, overrides):
            return found
    return one if fits(one, limit, overrides) else smallest_count(one, limit, overrides)


def _card(
    one: Complete, needed: float, limit: float, overrides: Mapping[str, float]
) -> Cluster | None:
    """As many of the devices with the least memory; the job's own software where possible."""
    for device in _by_memory(one, needed):
        try:
            cluster = make_cluster(device.id, (one.job.cluster.num_devices,))
        except UsageError:
            continue
        if cluster.num_nodes > one.job.cluster.num_nodes:
            continue
        found = moved(one, cluster, overrides)
        if found and fits(found, limit, overrides):
            return found.job.cluster
    return None


def _by_memory(one: Complete, needed: float) -> list[Accelerator]:
    own = one.job.cluster.accelerator
    able = (
        device
        for device in map(load_accelerator, accelerator_ids())
        if set(device.software) & set(own.software) & set(TRAINS) and not device.announced
    )
    large = [device for device in able if device.memory_bytes >= _LEANER * needed]
    return sorted(large, key=lambda device: (device.memory_bytes, -device.peak_bandwidth))


def _fewer(cluster: Cluster) -> Iterator[Cluster]:
    for count in rules.divisors(cluster.num_devices)[:-1]:
        try:
            yield make_cluster(cluster.accelerator.id, (count,))
        except UsageError:
            continue
