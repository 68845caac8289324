"""Paged optimizer states: in unified memory, on the device while it has room, else on the host.

They are not taken from the allocator's memory, so they never make a job fail; what they need
beside it decides how much of them has to travel at every step, which is not timed here.
"""

from __future__ import annotations

import numpy as np

from chipwise.quantity import Array, quantity


@quantity(unit="B", source="bitsandbytes")
def paged_base_bytes(
    optimizer_params: Array,
    optimizer_bytes: Array,
    optimizer_paged: Array,
    optimizer_on_device: Array,
) -> Array:
    """Optimizer states of the base weights that lie in pages. [B]"""
    return optimizer_paged * optimizer_on_device * optimizer_params * optimizer_bytes


@quantity(unit="B", source="bitsandbytes")
def paged_adapter_bytes(
    adapter_params: Array,
    adapter_paged_bytes: Array,
    stage_share: Array,
    tp: Array,
    weight_divisor: Array,
) -> Array:
    """Optimizer states of adapters that lie in pages; states of small tensors do not. [B]"""
    return adapter_params * adapter_paged_bytes * stage_share / (tp * weight_divisor)


@quantity(unit="B", source="arithmetic", parts=True)
def paged_bytes(paged_base_bytes: Array, paged_adapter_bytes: Array) -> Array:
    """All paged optimizer states of one device. [B]"""
    return paged_base_bytes + paged_adapter_bytes


@quantity(unit="B", source="bitsandbytes", assumes="pages leave only when the device is full")
def paged_resident_bytes(paged_bytes: Array, usable_bytes: Array, needed_bytes: Array) -> Array:
    """Paged states that stay on the device at its fullest moment. [B]"""
    room = np.maximum(0.0 * paged_bytes, usable_bytes - needed_bytes)
    return np.minimum(paged_bytes, room)


@quantity(unit="B", source="arithmetic")
def paged_out_bytes(paged_bytes: Array, paged_resident_bytes: Array) -> Array:
    """Paged states that move to host memory at the fullest moment, and back at the step. [B]"""
    return paged_bytes - paged_resident_bytes
