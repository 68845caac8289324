"""Host memory that offloaded states and loading take, and whether the node has it."""

from __future__ import annotations

from chipwise.app.evaluation import Evaluated
from chipwise.i18n import _
from chipwise.spec.job import TrainingJob
from chipwise.units import show


def host_bytes(point: Evaluated) -> float | None:
    """Host memory of one node: what offload keeps there, or the checkpoint while it is read.

    None where the job needs neither. Pinned buffers of the transfer come on top.
    """
    return point.memory["host_needed_bytes"] or None


def paging_warnings(point: Evaluated) -> list[str]:
    """A sentence where paged optimizer states do not all stay on the device."""
    away = point.memory["paged_out_bytes"]
    if away <= 0:
        return []
    text = _(
        "{away} of the {all} of paged optimizer states move to host memory and back at every step; "
        "the time of that is not counted"
    )
    return [text.format(away=show(away, "B"), all=show(point.memory["paged_bytes"], "B"))]


def host_holds(job: TrainingJob, needed: float) -> bool:
    """Whether a node's host memory is enough; taken as enough where it is not known."""
    available = job.node_memory_bytes
    return not available or needed <= available


def host_fits(point: Evaluated) -> bool:
    """Whether the node's host memory is enough for the job."""
    return host_holds(point.job, host_bytes(point) or 0.0)


def host_warnings(point: Evaluated) -> list[str]:
    """A sentence where host memory is what lacks, and what it looks like when it happens."""
    if host_fits(point):
        return []
    values, node = point.memory, point.job.cluster.node
    loading = values["host_load_bytes"] >= values["host_bytes"] * values["devices_per_node"]
    text = (
        _("reading the checkpoint takes {needed} of host memory, but a {node} node has {available}")
        if loading
        else _("offloaded states take {needed} of host memory, but a {node} node has {available}")
    ).format(
        needed=show(values["host_needed_bytes"], "B"),
        node=node.id,
        available=show(point.job.node_memory_bytes, "B"),
    )
    return [text + _(": the system kills such a process (exit code -9 or 137)")]
