"""The counts in which a search tries an accelerator: shares of a node, whole nodes, slices."""

from __future__ import annotations

from chipwise.catalogue.clusters import make_cluster
from chipwise.catalogue.hardware import default_system
from chipwise.catalogue.names import is_selector, parse_system, resolve_accelerator
from chipwise.catalogue.slices import slice_sizes
from chipwise.errors import UsageError
from chipwise.spec.hardware import Cluster

MOST_SELECTED = 64
"""Devices at most of a selector (``any``, ``24GB+``) where nothing was said."""


def choices_of(text: str, most: int | None) -> list[list[Cluster]]:
    """Systems to choose from: what is written with a count as it is, the rest in all counts.

    Args:
        text: names as for ``parse_system``.
        most: devices at most; without it a plain name means one device, and a selector
            ``MOST_SELECTED`` at most.

    Returns:
        One list for each name with a count, one for each accelerator without.

    Raises:
        UsageError: as ``parse_system``.
    """
    found: dict[str, list[Cluster]] = {}
    names = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    for name in names or [text]:
        free = is_selector(name) or (most is not None and _is_accelerator(name))
        for first in parse_system(name):
            own = first.accelerator.id
            sizes = sizes_of(own, most or MOST_SELECTED, first.understood) if free else []
            found.setdefault(own if sizes else first.name, sizes or [first])
    return list(found.values())


def _is_accelerator(name: str) -> bool:
    try:
        resolve_accelerator(name)
    except UsageError:
        return False
    return True


def sizes_of(accelerator: str, most: int, understood: str = "") -> list[Cluster]:
    """Clusters of an accelerator, the smallest first.

    Args:
        accelerator: accelerator id.
        most: devices at most.
        understood: what is to be said about how the name was read.

    Returns:
        Torus machines in every slice there is. Others as powers of two within a node, as 2^k and
        3·2^k whole nodes, and as the most whole nodes there may be.
    """
    system = default_system(accelerator)
    if system.shapes:
        counts = {(size,) for size in slice_sizes(system) if size <= most}
    else:
        each, limit = system.devices, most // system.devices
        inside = {2**k for k in range(each.bit_length()) if 2**k <= min(each, most)}
        nodes = {n for k in range(limit.bit_length()) for n in (2**k, 3 * 2**k) if n <= limit}
        counts = {(count,) for count in inside} | {(n * each,) for n in (nodes | {limit}) if n}
    found = []
    for count in sorted(counts):
        try:
            found.append(make_cluster(accelerator, count, None, understood))
        except UsageError:
            continue
    return found
