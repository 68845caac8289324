"""Specs to columns for the speed of serving: a setup, its traffic, and the groups of its stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from chipwise.catalogue.weight_formats import WeightFormat
from chipwise.quantity import Array
from chipwise.serving_columns import Scalars, ServingSetup, serving_columns
from chipwise.spec.hardware import Accelerator
from chipwise.spec.model import ModelSpec

RECORDED = ("vllm", "sglang", "trt-llm", "lmdeploy", "tgi", "mlc", "other")
"""Engines that record their decode steps as graphs."""
_USUAL_FRACTION = {
    **{"nvidia-geforce": 1.05, "nvidia-ampere": 0.87, "nvidia-hopper": 0.82, "nvidia-ada": 0.75},
    **{"nvidia-blackwell": 0.77, "amd-cdna": 0.62, "tpu": 0.85, "gaudi": 0.85, "apple": 0.9},
}
"""Of devices that nobody measured: the median of their family, as far as there is one."""
_SLOW_LINK = 100e9
"""Below this rate (B/s) devices talk over the host."""


@dataclass(frozen=True)
class Traffic:
    """What a serving engine is asked for."""

    prompt_tokens: float
    output_tokens: float
    concurrency: float | None = None
    """Users at once; None for as many as the engine takes."""
    static_batch: bool = False
    """A batch is read and answered together, without a scheduler."""
    at_once: bool = False
    """All ``num_prompts`` requests come at the start."""
    num_prompts: float = 0.0
    sequence_cap: float = inf
    """Most sequences the engine decodes at once."""
    disaggregated: bool = False


@dataclass(frozen=True)
class Deployment:
    """A setup in so many copies, and how its stack works."""

    setup: ServingSetup
    replicas: int
    engine: str
    """Family of the engine, as the constants are grouped: ``vllm``, ``llama.cpp``, ``neuron`` …"""
    layer_split: bool = False
    """Devices hold layers and work one after the other."""


def speed_columns(deployment: Deployment, traffic: Traffic) -> Scalars:
    """All input columns of the speed of serving, those of its memory among them.

    Args:
        deployment: complete.
        traffic: what it is asked for.
    """
    setup, device = deployment.setup, deployment.setup.cluster.accelerator
    node, dies = setup.cluster.node, device.visible_dies
    kind = format_class(setup.weights, deployment.engine, device)
    columns = serving_columns(setup)
    return columns | _experts(setup.model) | {
        "visible_bytes": columns["visible_bytes"] / dies,
        "peak_matmul": _peak(kind, device) / dies,
        "peak_16bit": _half(device) / dies,
        "flop_per_multiply_add": 2.0,
        "matmul_fraction": device.matmul_fraction or _USUAL_FRACTION.get(device.family, 0.8),
        "peak_bandwidth": device.peak_bandwidth / dies,
        "intra_bandwidth": max(node.intra_bandwidth, 1e9),
        "network_bandwidth": max(node.network_bandwidth, 1e9),
        "devices_per_node": float(node.devices),
        "replicas": float(deployment.replicas),
        "layer_split": float(deployment.layer_split),
        "pipelined_prompts": float(deployment.layer_split and deployment.engine == "llama.cpp"),
        "prompt_tokens": float(traffic.prompt_tokens),
        "output_tokens": float(traffic.output_tokens),
        "concurrency": inf if traffic.concurrency is None else float(traffic.concurrency),
        "num_prompts": float(traffic.num_prompts),
        "sequence_cap": float(traffic.sequence_cap),
        "static_batch": float(traffic.static_batch),
        "at_once": float(traffic.at_once),
        "disaggregated": float(traffic.disaggregated),
    }  # fmt: skip


def _experts(model: ModelSpec) -> Scalars:
    experts = top_k = layers = width = 0
    for group in model.layers:
        if spec := group.attention:
            width += group.count * spec.heads * (spec.head_dim + spec.qk_rope_dim + spec.v_dim)
        if (block := group.feed_forward) and block.num_experts:
            experts, top_k = block.num_experts, block.top_k
            layers += group.count
    return {
        "num_experts": float(experts),
        "top_k": float(top_k),
        "moe_layers": float(layers),
        "score_width": float(width),
    }


# -- number formats -----------------------------------------------------------------------------


def format_class(stored: WeightFormat, engine: str, device: Accelerator) -> str:
    """How weights of a format are multiplied, as the constants are grouped."""
    if engine == "llama.cpp" and stored.layers < 16:
        return "kquant" if "int8" in device.peak_flops else "kquant16"
    if stored.name == "fp8" and "fp8" not in device.peak_flops:
        return "w8a16"
    plain = {"fp32": "fp32", "int8": "int8", "nvfp4": "fp4", "mxfp4": "mxfp4", "fp8": "fp8"}
    if stored.name in plain:
        return plain[stored.name]
    return "w4a16" if stored.layers < 7 else "16bit"


def _half(device: Accelerator) -> float:
    peaks = device.peak_flops
    return peaks.get("bf16") or peaks.get("fp16") or max(peaks.values())


def _peak(kind: str, device: Accelerator) -> float:
    """Peak of the units that multiply a format: packed weights are unpacked to 16 bit."""
    peaks, half = device.peak_flops, _half(device)
    if kind == "fp32":
        return peaks.get("tf32") or peaks.get("fp32") or half
    if kind == "fp8":
        return peaks.get("fp8", half)
    if kind == "fp4":
        return peaks.get("fp4") or peaks.get("fp8", half)
    if kind == "mxfp4":
        return peaks.get("fp8", half) if "fp4" in peaks else half
    return peaks["int8"] if kind == "kquant" else half


# -- groups of constants ------------------------------------------------------------------------


def speed_keys(deployment: Deployment) -> dict[str, str]:
    """The group a deployment belongs to on each calibration axis."""
    setup, engine = deployment.setup, deployment.engine
    device = setup.cluster.accelerator
    kind = format_class(setup.weights, engine, device)
    return {
        "chip": chip_family(device),
        "format": kind,
        "engine": engine,
        "launch": _launch(engine, kind, device),
        "stack": _stack(engine, device),
        "link": _link(setup),
    }


def chip_family(device: Accelerator) -> str:
    """Family of a chip by its memory: graphics memory streams nearer to its rating than stacks."""
    graphics = "GDDR" in device.memory_type.upper()
    if device.family == "nvidia-blackwell" and graphics:
        return "blackwell-rtx"
    if device.family == "nvidia-ampere" and graphics:
        return "nvidia-geforce"
    if device.architecture.startswith("ada"):
        return "nvidia-ada"
    return device.family


def _launch(engine: str, kind: str, device: Accelerator) -> str:
    if engine == "eager" and kind == "int8":
        return "bnb-int8"
    if engine == "llama.cpp" and device.family == "amd-cdna":
        return "llama.cpp-rocm"
    return "graphed" if engine in RECORDED else engine


def _stack(engine: str, device: Accelerator) -> str:
    if engine == "neuron":
        return "neuron"
    if device.family == "intel-gpu":
        return "llama.cpp-sycl" if engine == "llama.cpp" else "xpu"
    if engine != "llama.cpp":
        return "usual"
    if device.family in ("amd-cdna", "amd-rdna"):
        return "llama.cpp-rocm" if device.family == "amd-cdna" else "llama.cpp-rdna"
    stacked = "HBM" in device.memory_type.upper()
    return "llama.cpp-hbm" if stacked else "usual"


def _link(setup: ServingSetup) -> str:
    node, device = setup.cluster.node, setup.cluster.accelerator
    if node.topology.startswith("torus") or device.family in ("tpu", "trainium"):
        return "ici"
    slow = node.topology == "host" or node.intra_bandwidth < _SLOW_LINK
    return "pcie" if slow else "nvlink"


def stack_speed(
    rows: Sequence[tuple[Scalars, Mapping[str, str]]],
) -> tuple[dict[str, Array], dict[str, NDArray[np.str_]]]:
    """Columns and groups of several deployments as arrays. Each has shape (deployments,)."""
    columns: dict[str, Array] = {
        name: np.array([row[name] for row, _keys in rows]) for name in rows[0][0]
    }
    keys = {axis: np.array([keys[axis] for _row, keys in rows]) for axis in rows[0][1]}
    return columns, keys
