"""Host memory that offloaded states take, and whether the node has it."""

from __future__ import annotations

from chipwise.app.evaluation import Evaluated
from chipwise.i18n import _
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import TrainingJob
from chipwise.units import show


def host_bytes(point: Evaluated) -> float | None:
    """What all devices of one node keep in host memory; None without offload.

    Notes:
        Counted as what leaves the devices. Pinned buffers of the transfer come on top.
    """
    away = point.job.workload.objective.reference == "offloaded"
    return point.memory["host_needed_bytes"] if point.strategy.offloads or away else None


def host_holds(cluster: Cluster, needed: float) -> bool:
    """Whether a node's host memory is enough; taken as enough where it is not known."""
    available = cluster.node.host_memory_bytes
    return not available or needed <= available


def host_warnings(job: TrainingJob, needed: float | None) -> list[str]:
    """A sentence where offloaded states are more than the node's host memory."""
    if needed is None or host_holds(job.cluster, needed):
        return []
    available = job.cluster.node.host_memory_bytes
    text = _("offloaded states take {needed} of host memory, but a {node} node has {available}")
    return [
        text.format(
            needed=show(needed, "B"), node=job.cluster.node.id, available=show(available, "B")
        )
    ]
