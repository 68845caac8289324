"""What would make a serving setup fit: changes computed one by one, cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import floor

from chipwise.app.documents import Remedy
from chipwise.app.serve_setup import usual_tp
from chipwise.catalogue.names import parse_system
from chipwise.catalogue.weight_formats import known_format
from chipwise.errors import ChipwiseError
from chipwise.i18n import _
from chipwise.serving_columns import ServingSetup

Evaluate = Callable[[ServingSetup], Mapping[str, float]]
_CHUNK = 2048
"""Tokens per forward pass that keep a device busy; vLLM's default on most devices."""
_HIGHEST_SHARE = 0.95
_MOST_DEVICES = 64
_WORTH = 64 * 2**20
"""Savings below this many bytes are not offered."""


def remedies_for(setup: ServingSetup, evaluate: Evaluate) -> tuple[Remedy, ...]:
    """Single changes that save memory, in the order in which people would accept them.

    Args:
        setup: a setup that does not fit.
        evaluate: every quantity of a setup.
    """
    before = evaluate(setup)
    found = []
    for change, flags, other in _changes(setup, before):
        after = evaluate(other)
        saved = before["serving_peak_bytes"] - after["serving_peak_bytes"]
        saved += after["planned_bytes"] - before["planned_bytes"]
        if saved > _WORTH:
            fits = after["serving_share"] <= 1
            found.append(Remedy(change=change, flags=flags, saves_bytes=saved, fits_after=fits))
            if fits and other.cluster != setup.cluster:
                break
    return tuple(found)


def _changes(
    setup: ServingSetup, before: Mapping[str, float]
) -> Iterator[tuple[str, str, ServingSetup]]:
    if setup.batched_tokens > _CHUNK:
        text = _("prefill in chunks of {n:,} tokens").format(n=_CHUNK)
        yield text, f"--max-num-batched-tokens {_CHUNK}", replace(setup, batched_tokens=_CHUNK)
    if setup.engine.pool and setup.utilization < _HIGHEST_SHARE:
        text = _("let the engine plan with {share} of the memory").format(share=_HIGHEST_SHARE)
        other = replace(setup, utilization=_HIGHEST_SHARE)
        yield text, f"--gpu-memory-utilization {_HIGHEST_SHARE}", other
    held = floor(before["sequences_held"])
    if 1 <= held < setup.concurrency:
        text = _("{n} sequences at once").format(n=held)
        yield text, f"--concurrency {held}", replace(setup, concurrency=held)
    yield from _shorter(setup, before)
    if setup.kv_dtype in ("bf16", "fp16", "fp32"):
        packed = "int8" if setup.engine.name == "llama.cpp" else "fp8"
        text = _("keys and values in {dtype}").format(dtype=packed)
        yield text, f"--kv-dtype {packed}", replace(setup, kv_dtype=packed)
    for name in _smaller_formats(setup):
        text = _("weights in {dtype}").format(dtype=name)
        yield text, f"--weights-dtype {name}", replace(setup, weights=known_format(name))
    yield from _more_devices(setup)


def _shorter(
    setup: ServingSetup, before: Mapping[str, float]
) -> Iterator[tuple[str, str, ServingSetup]]:
    block = setup.engine.block
    longest = floor(before["longest_sequence"] / setup.concurrency / block) * block
    if 0 < longest < setup.context:
        text = _("a context of {n:,} tokens").format(n=longest)
        yield text, f"--context {longest}", replace(setup, context=longest)


def _smaller_formats(setup: ServingSetup) -> Iterator[str]:
    if setup.engine.name == "llama.cpp":
        yield from (name for name in ("q8_0", "q4_k_m") if
                    known_format(name).layers < setup.weights.layers)  # fmt: skip
        return
    low = "fp8" if "fp8" in setup.cluster.accelerator.peak_flops else "int8"
    yield from (name for name in (low, "awq") if known_format(name).layers < setup.weights.layers)


def _more_devices(setup: ServingSetup) -> Iterator[tuple[str, str, ServingSetup]]:
    """Twice as many of the same devices, and so on."""
    count = 2 * setup.tp * setup.pp
    while count <= _MOST_DEVICES:
        try:
            cluster = parse_system(f"{setup.cluster.accelerator.id}:{count}")[0]
        except ChipwiseError:
            return
        tp = 1
        if setup.engine.name != "llama.cpp":
            tp = usual_tp(setup.model, cluster, cluster.num_devices)
        pp = cluster.num_devices // tp
        if pp > setup.model.num_layers:
            return
        text = _("{n} devices: {system}").format(n=cluster.num_devices, system=cluster.name)
        yield text, f"--on {cluster.name}", replace(setup, cluster=cluster, tp=tp, pp=pp)
        count *= 2
