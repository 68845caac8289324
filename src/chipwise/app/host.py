"""Host memory that offloaded states take, and whether the node has it."""

from __future__ import annotations

from collections.abc import Mapping

from chipwise.app.evaluation import evaluate
from chipwise.i18n import _
from chipwise.spec.job import Strategy, TrainingJob
from chipwise.units import show

_OFFLOADED = ("offload_optimizer", "offload_params", "offload_activations")
_MOVED = (
    *("weights_resident_bytes", "gradient_bytes"),
    *("optimizer_state_bytes", "kept_activation_bytes"),
)


def host_bytes(
    job: TrainingJob, strategy: Strategy, overrides: Mapping[str, float]
) -> float | None:
    """What all devices of one node keep in host memory; None without offload.

    Notes:
        Counted as what leaves the devices. Pinned buffers of the transfer come on top.
    """
    if not any(getattr(strategy, name) for name in _OFFLOADED):
        return None
    on_device = strategy.model_copy(update=dict.fromkeys(_OFFLOADED, False))
    before = evaluate(job, on_device, overrides).memory
    after = evaluate(job, strategy, overrides).memory
    return sum(before[name] - after[name] for name in _MOVED) * job.cluster.devices_per_node


def host_holds(job: TrainingJob, strategy: Strategy, overrides: Mapping[str, float]) -> bool:
    """Whether a node's host memory is enough; taken as enough where it is not known."""
    needed, available = host_bytes(job, strategy, overrides), job.cluster.node.host_memory_bytes
    return needed is None or not available or needed <= available


def host_warnings(job: TrainingJob, needed: float | None) -> list[str]:
    """A sentence where offloaded states are more than the node's host memory."""
    available = job.cluster.node.host_memory_bytes
    if needed is None or not available or needed <= available:
        return []
    text = _("offloaded states take {needed} of host memory, but a {node} node has {available}")
    return [
        text.format(
            needed=show(needed, "B"), node=job.cluster.node.id, available=show(available, "B")
        )
    ]
