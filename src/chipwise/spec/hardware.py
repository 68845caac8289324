"""What a machine is: an accelerator, the node it sits in, and how many of them.

SI values only: bytes, FLOP/s, B/s, watts, seconds. Bandwidths are one direction, per device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from chipwise.spec.model import Count, Frozen, Size

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]


class Accelerator(Frozen):
    """One schedulable device (a GPU board, a TPU chip, an NPU), as its sources state it."""

    id: str
    name: str
    vendor: str
    kind: Literal["gpu", "tpu", "lpu", "npu", "asic", "wafer", "rdu", "apu"]
    architecture: str
    family: str
    """Calibration family, such as ``nvidia-ampere``, ``nvidia-geforce``, ``tpu``, ``gaudi``."""
    peak_flops: Mapping[str, Positive]
    """Dense peak by dtype (fp32 tf32 fp16 bf16 fp8 int8 fp4), FLOP/s, fp32 accumulate."""
    memory_bytes: NonNegative
    """Device memory as the device reports it before any software runs."""
    visible_bytes: NonNegative
    """Memory a program can allocate: what is left after firmware, ECC and driver."""
    peak_bandwidth: NonNegative
    """Device-memory bandwidth, B/s."""
    onchip_bytes: NonNegative = 0.0
    scaleup_bandwidth: NonNegative = 0.0
    """Fast link to peers, B/s one way per device; 0 when only the host link joins them."""
    scaleup_link: str = ""
    scaleup_domain: Size = 0
    """Most devices one fast-link domain joins."""
    host_bandwidth: NonNegative = 0.0
    peer_to_peer: bool = True
    """Peers can copy without passing through host memory."""
    matmul_tile: Count = 64
    """Rows and columns to which matmul dimensions are padded (128 or 256 on systolic arrays)."""
    tdp_watts: NonNegative = 0.0
    matmul_fraction: NonNegative = 0.0
    """Best measured dense 16-bit matmul rate as a share of peak; 0 when nobody published one."""
    software: tuple[str, ...] = ()
    purchasable: bool | None = None
    memory_type: str = ""
    """Kind of device memory, such as ``HBM3`` or ``GDDR6X``."""
    visible_dies: Count = 1
    """Dies of one package that programs see as devices of their own."""
    cores_per_device: Count = 1
    """Cores a program or a slice name may count instead of devices."""
    announced: bool = False


class Node(Frozen):
    """One host with its devices and its way out."""

    id: str
    accelerator: str
    devices: Count
    """Devices that share the fast link (a TPU slice or an NVL72 rack counts as one domain)."""
    intra_bandwidth: NonNegative
    """Between devices of the domain, B/s one way per device."""
    network_bandwidth: NonNegative
    """Between domains, B/s one way per device."""
    network: str = ""
    topology: Literal["switch", "mesh", "ring", "torus2d", "torus3d", "host", "single"] = "switch"
    host_memory_bytes: NonNegative = 0.0
    host_bandwidth: NonNegative = 0.0
    purchasable_counts: tuple[int, ...] = ()
    """Device counts one node can be had with; empty means any up to ``devices``."""


class Cluster(Frozen):
    """``num_devices`` devices of one kind in ``num_nodes`` nodes: what a job runs on."""

    name: str
    """As written by the user, normalised: ``h100-sxm:8x4``, ``tpu-v5p:16``."""
    accelerator: Accelerator
    node: Node
    num_devices: Count
    num_nodes: Count
    torus: tuple[int, ...] = ()
    """Slice shape of a torus machine, such as (2, 2, 4)."""
    understood: str = ""
    """How an ambiguous name was read; empty when it was not ambiguous."""

    @property
    def devices_per_node(self) -> int:
        """Devices of this job in one fast-link domain."""
        return min(self.num_devices, self.node.devices)
