"""What holds for every way to serve a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chipwise.catalogue.engines import EngineName, engines
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.catalogue.weight_formats import known_format, weight_formats
from chipwise.physics.serving_model import SERVING
from chipwise.serving_columns import KV_BYTES, ServingSetup, serving_columns, stack_setups

MODELS = ("llama-3.1-8b", "gpt-oss-20b", "deepseek-v3", "qwen3.5-27b", "gemma-2-9b", "gpt2")
ENGINES: tuple[EngineName, ...] = ("vllm", "sglang", "trt-llm", "llama.cpp")
[CLUSTER] = parse_system("h100-sxm:8")
setups = st.builds(
    ServingSetup,
    model=st.sampled_from(MODELS).map(load_model),
    cluster=st.just(CLUSTER),
    engine=st.sampled_from(ENGINES).map(lambda name: engines()[name]),
    weights=st.sampled_from(sorted(weight_formats())).map(known_format),
    kv_dtype=st.sampled_from(sorted(KV_BYTES)),
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 3, 4]),
    context=st.integers(1, 10**6),
    concurrency=st.integers(1, 10**4),
    batched_tokens=st.integers(1, 10**5),
    sequences=st.integers(1, 4096),
    utilization=st.floats(0.05, 1.0),
    headroom=st.floats(0.0, 0.5),
)


def values(setup: ServingSetup) -> dict[str, float]:
    found = SERVING.evaluate(serving_columns(setup), keep_all=True)
    return {name: float(value) for name, value in found.items()}


@given(setups)
def test_every_number_is_finite_and_no_size_is_negative(setup: ServingSetup) -> None:
    found = values(setup)
    assert all(np.isfinite(number) for number in found.values())
    signed = {"kv_room_bytes"}
    assert all(n >= 0 for name, n in found.items() if name.endswith("bytes") and name not in signed)


@given(st.lists(setups, min_size=1, max_size=5))
def test_many_setups_at_once_are_the_same_as_one_by_one(several: list[ServingSetup]) -> None:
    together = SERVING.evaluate(stack_setups(several))
    for place, setup in enumerate(several):
        for name, value in values(setup).items():
            at = np.broadcast_to(together[name], (len(several),))[place]
            np.testing.assert_allclose(at, value, rtol=1e-12)


@given(setups)
def test_more_tensor_parallelism_never_needs_more_weights_per_device(setup: ServingSetup) -> None:
    one, more = (values(replace(setup, tp=tp)) for tp in (setup.tp, 2 * setup.tp))
    assert more["device_weights_bytes"] <= one["device_weights_bytes"]
    assert more["device_kv_share"] <= one["device_kv_share"]


@given(setups)
def test_what_is_longer_never_fits_more_often(setup: ServingSetup) -> None:
    one, longer = values(setup), values(replace(setup, context=setup.context + 100))
    assert longer["serving_share"] >= one["serving_share"]
    assert longer["sequences_held"] <= one["sequences_held"]


@given(setups)
def test_a_larger_forward_pass_never_leaves_more_room(setup: ServingSetup) -> None:
    one = values(setup)
    more = values(replace(setup, batched_tokens=2 * setup.batched_tokens))
    assert more["kv_room_bytes"] <= one["kv_room_bytes"]
