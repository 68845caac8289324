"""The smallest cluster that holds a job."""

from __future__ import annotations

import pytest

from chipwise.app.growth import smallest_cluster, smallest_larger_device
from chipwise.catalogue.names import parse_system
from chipwise.errors import UsageError
from chipwise.spec.hardware import Cluster


@pytest.mark.parametrize(
    ("start", "needed", "found"),
    [
        ("rtx-4090", 3, "rtx-4090:3"),  # any count within one node
        ("h100-sxm:8", 9, "h100-sxm:8x2"),
        ("h100-sxm:8", 40, "h100-sxm:8x5"),  # whole nodes beyond one
        ("tpu-v5p:16", 20, "tpu-v5p:32"),  # slices that exist
    ],
)
def test_the_smallest_count_that_can_be_had(start: str, needed: int, found: str) -> None:
    def is_enough(cluster: Cluster) -> bool:
        return cluster.num_devices >= needed

    cluster = smallest_cluster(parse_system(start)[0], 1024, is_enough)
    assert cluster is not None and cluster.name == found


def test_nothing_is_found_beyond_the_most_devices() -> None:
    cluster = parse_system("h100-sxm:8")[0]
    assert smallest_cluster(cluster, 64, lambda one: one.num_devices > 64) is None


def test_a_cluster_that_cannot_be_used_is_passed_over() -> None:
    def is_enough(cluster: Cluster) -> bool:
        if cluster.num_devices == 16:
            raise UsageError("no-layout", "none")
        return True

    found = smallest_cluster(parse_system("h100-sxm:8")[0], 1024, is_enough)
    assert found is not None and found.num_devices == 24


def test_a_larger_device_holds_what_no_count_of_smaller_ones_does() -> None:
    cluster = parse_system("h100-sxm:8")[0]

    def is_enough(one: Cluster) -> bool:
        return one.accelerator.memory_bytes > 150e9

    found = smallest_larger_device(cluster, 100e9, is_enough)
    assert found is not None and found.num_devices == 8
    assert found.accelerator.memory_bytes > 150e9
    assert smallest_larger_device(cluster, 1e15, is_enough) is None
