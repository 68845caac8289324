"""One pass of an engine and the load on it, against sums made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipwise.calibration import shipped_serving
from chipwise.physics.serving_model import LOAD, PASS, SERVING_INPUTS, SPEED_INPUTS
from tests.physics_units import assert_units

LLAMA = {
    # 8 billion parameters: 32 layers of 4096, 32 heads of 128 and 8 kv heads, 14336 in the block
    **{"layers": 32.0, "hidden": 4096.0, "table_params": 128256 * 4096.0},
    "attention_split_params": 32 * 2 * 4096.0 * 4096,
    "attention_kv_params": 32 * 2 * 4096.0 * 1024,
    "attention_whole_params": 0.0,
    "block_params": 32 * 3 * 4096.0 * 14336,
    **{"expert_params": 0.0, "num_experts": 0.0, "top_k": 0.0, "moe_layers": 0.0},
    **{"small_params": 0.0, "kv_full_width": 32 * 2 * 1024.0, "kv_window_width": 0.0},
    **{"window": 0.0, "kv_heads": 8.0, "score_width": 32 * 32 * 256.0, "tied_embeddings": 0.0},
    **dict.fromkeys(("attention_bytes", "block_bytes", "table_bytes", "head_bytes"), 2.0),
    **{"small_bytes": 2.0, "kv_value_bytes": 2.0},
}
CHIP = {
    **{"peak_matmul": 1e15, "peak_16bit": 1e15, "matmul_fraction": 0.8, "peak_bandwidth": 1e12},
    **{"intra_bandwidth": 1e11, "network_bandwidth": 1e10, "devices_per_node": 8.0},
    **{"tp": 1.0, "expert_shards": 1.0, "flop_per_multiply_add": 2.0, "compute_bytes": 2.0},
}
CONSTANTS = {
    **{"weight_stream_share": 0.8, "format_stream_share": 1.0, "matmul_share": 0.75},
    **{"format_matmul_share": 1.0, "engine_matmul_share": 1.0, "cache_read_share": 1.0},
    **{"expert_stream_share": 0.75, "expert_matmul_share": 0.5, "rank_imbalance": 1.3},
    **{"reduce_latency": 1e-5, "reduce_share": 0.5, "exchange_share": 0.5},
    **{"step_launch_time": 1e-5, "prompt_launch_time": 5e-5, "stack_share": 1.0},
}
DECODE = {
    **{"pass_tokens": 1.0, "pass_sequences": 1.0, "pass_context": 1000.0, "pass_prompts": 0.0},
    **{"prompt_tokens": 1000.0, "pass_logit_rows": 1.0, "graphed": 1.0},
}


def passed(*names: str, **more: Any) -> dict[str, float]:
    found = PASS.evaluate({**LLAMA, **CHIP, **CONSTANTS, **DECODE, **more}, names)
    return {name: float(value) for name, value in found.items()}


def test_a_decode_step_streams_all_weights_once() -> None:
    # (33.6 + 8.4) · 10^6 · 32 + 176 · 10^6 · 32 + 525 · 10^6 parameters, two bytes, 0.8 TB/s
    params = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 128256 * 4096
    assert passed("weight_stream_time")["weight_stream_time"] == pytest.approx(2 * params / 8e11)


def test_keys_and_values_of_one_sequence() -> None:
    # 32 layers · 2 · 1024 values · 2 bytes are 131,072 B a token
    assert passed("cache_read_time")["cache_read_time"] == pytest.approx(131072 * 1000 / 8e11)


def test_two_all_reduces_a_layer() -> None:
    # (1 + 0.15) · 10 µs, and 2 · 4096 · 1/2 bytes over 50 GB/s, 64 times
    each = 1.15e-5 + 2 * 4096 * 0.5 / 5e10
    assert passed("reduce_time", tp=2.0)["reduce_time"] == pytest.approx(64 * each)
    assert passed("reduce_time")["reduce_time"] == 0.0


def test_experts_are_covered_by_many_tokens() -> None:
    experts = {"num_experts": 8.0, "top_k": 2.0, "expert_params": 1e9, "block_params": 2e9}
    # one token chooses two of eight; two tokens miss (6/8)² of them
    assert passed("expert_coverage", **experts)["expert_coverage"] == pytest.approx(0.25)
    two = passed("expert_coverage", pass_tokens=2.0, **experts)["expert_coverage"]
    assert two == pytest.approx(1 - 0.75**2)
    many = passed("expert_stream_time", pass_tokens=1e6, **experts)["expert_stream_time"]
    assert many == pytest.approx(2e9 / (8e11 * 0.75))


@pytest.mark.parametrize("name", ["peak_bandwidth", "peak_matmul", "intra_bandwidth"])
def test_faster_hardware_is_never_slower(name: str) -> None:
    slow = passed("pass_time", tp=2.0)["pass_time"]
    assert passed("pass_time", **{"tp": 2.0, name: 2 * CHIP[name]})["pass_time"] <= slow


USERS = {
    **{"concurrency": 1.0, "replicas": 1.0, "pp": 1.0, "layer_split": 0.0, "static_batch": 0.0},
    **{"prompt_tokens": 512.0, "output_tokens": 101.0, "num_prompts": 0.0, "at_once": 0.0},
    **{"disaggregated": 0.0, "pipelined_prompts": 0.0, "sequence_limit": 64.0},
    **{"decode_pass_time": 0.01, "prompt_pass_time": 0.05, "prompts_pass_time": 0.5},
    **{"step_host_time": 0.0, "sequence_host_time": 0.0, "mixed_share": 1.0, "lockstep": 0.0},
    **{"slot_wait_share": 1.0, "front_time": 0.0},
}


def loaded(*names: str, **more: Any) -> dict[str, float]:
    given = {**USERS, "prompts_per_pass": 10.0, **more}
    return {name: float(value) for name, value in LOAD.evaluate(given, names).items()}


def test_one_user_waits_for_nobody() -> None:
    found = loaded("time_per_output_token", "output_rate", "cycle_time")
    assert found["time_per_output_token"] == pytest.approx(0.01)
    # a hundred steps, and the next prompt
    assert found["cycle_time"] == pytest.approx(1.0 + 0.05)
    assert found["output_rate"] == pytest.approx(101 / 1.05)


def test_users_wait_for_the_prompts_of_others() -> None:
    found = loaded("time_per_output_token", "output_rate", concurrency=11.0)
    # ten other prompts of 50 ms in a hundred steps
    assert found["time_per_output_token"] == pytest.approx(0.01 + 10 * 0.05 / 100)
    assert found["output_rate"] == pytest.approx(11 * 101 / (1.0 + 11 * 0.05))


def test_answers_of_one_token_leave_only_the_queue() -> None:
    # everybody is in the queue: the last to come waits for all others
    found = loaded("time_to_first_token", concurrency=20.0, output_tokens=1.0)
    assert found["time_to_first_token"] == pytest.approx(20 * 0.05 + 0.5 * 0.01)


def test_users_beyond_the_limit_wait_for_a_place() -> None:
    inside = loaded("slot_wait_time", concurrency=64.0)["slot_wait_time"]
    beyond = loaded("slot_wait_time", "cycle_time", concurrency=96.0)
    assert inside == 0.0
    assert beyond["slot_wait_time"] == pytest.approx(0.5 * beyond["cycle_time"])


def test_more_users_never_lower_the_rate() -> None:
    rates = [loaded("output_rate", concurrency=float(n))["output_rate"] for n in range(1, 100)]
    assert np.all(np.diff(rates) >= -1e-9)


def test_units_and_inputs_are_those_that_are_needed() -> None:
    given = {**SERVING_INPUTS, **SPEED_INPUTS, **shipped_serving().given({})}
    for model in (PASS, LOAD):
        assert_units(model, given)
        assert sorted(set(model) & set(given) - {"decode_pass_time"}) == []
    needed = {need for model in (PASS, LOAD) for step in model.values() for need in step.needs}
    assert sorted({*SPEED_INPUTS, *shipped_serving().given({})} - needed) == []
