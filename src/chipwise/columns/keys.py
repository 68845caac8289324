"""Which group of each calibrated constant a job belongs to."""

from __future__ import annotations

from chipwise.catalogue.frameworks import Stack, stacks
from chipwise.defaults import PEAK_OF
from chipwise.spec.job import Strategy, TrainingJob

_COHERENT_LINK = 200e9
"""Host links above this rate (B/s) belong to superchips whose CPU shares memory coherently."""


def calibration_keys(job: TrainingJob, strategy: Strategy) -> dict[str, str]:
    """The group a job belongs to on each calibration axis."""
    framework = strategy.framework or "other"
    stack = stacks()[framework]
    device = job.cluster.accelerator
    compiled = bool(strategy.compiled)
    precision = job.workload.precision or "bf16"
    usual = {"xla": "xla", "megatron-core": "tuned"}.get(framework, "default")
    overlap = {True: "yes", False: "no", None: usual}
    return {
        "framework": framework,
        "family": device.family,
        "loss": _loss_key(strategy, stack),
        "fusion": "compiled" if compiled else stack.fusion,
        "host": "coherent" if device.host_bandwidth > _COHERENT_LINK else "pcie",
        "lengths": "variable" if job.workload.packing is False else "fixed",
        "launch": _launch_key(strategy, stack, framework),
        "recording": "recorded" if strategy.recorded else "launched",
        "low_precision_class": _low_precision_key(precision, device.family, strategy),
        "attention_pairing": _pairing(framework, device.family),
        "tp_overlap": overlap[strategy.tp_overlap],
        "dp_overlap": "no" if strategy.dp_overlap is False else framework,
        "recompute_stack": "xla" if framework == "xla" else "eager",
    }


def _launch_key(strategy: Strategy, stack: Stack, framework: str) -> str:
    if strategy.recorded:
        return "recorded"
    return "compiled" if strategy.compiled and framework != "xla" else stack.launch


def _loss_key(strategy: Strategy, stack: Stack) -> str:
    if strategy.chunked_loss == "fused":
        return "fused"
    if strategy.compiled:
        return "compiled"
    return "full" if stack.loss == "fused" else stack.loss


def _low_precision_key(precision: str, family: str, strategy: Strategy) -> str:
    peak = PEAK_OF[precision]
    if peak == "fp4":
        return "fp4"
    if peak != "fp8":
        return "16bit"
    if strategy.fp8_recipe == "rowwise":
        return "fp8-rowwise"
    if family != "nvidia-blackwell":
        return "fp8"
    return "mxfp8" if "mxfp8" in (precision, strategy.fp8_recipe) else "fp8-blackwell"


def _pairing(framework: str, family: str) -> str:
    """FlashAttention-2 level kernels on Hopper and later run at about half of their best.

    Megatron stacks that run on these devices use the vendor's own attention kernels.
    """
    tuned = framework in ("megatron-core", "megatron", "xla", "gaudi", "ascend", "other")
    newer = family in ("nvidia-hopper", "nvidia-blackwell")
    if not newer:
        return "matched"
    return "newest" if tuned else "older"
