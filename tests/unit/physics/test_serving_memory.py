from __future__ import annotations

import numpy as np
import pytest

from chipwise.physics import serving_memory as m


def test_grouped_heads_keep_keys_and_values_of_every_layer() -> None:
    # Llama-3.1-8B: 32 layers × 2 × 8 heads × 128 × 2 B = 131,072 B
    assert m.kv_bytes_per_token(32 * 2 * 8 * 128, 0.0, 2.0) == 131072


def test_latent_attention_keeps_576_values_a_layer() -> None:
    # DeepSeek-V3: 61 layers × (512 + 64) × 2 B = 70,272 B
    assert m.kv_bytes_per_token(61 * 576, 0.0, 2.0) == 70272


def test_window_layers_stop_growing_at_their_window() -> None:
    at = [float(m.sequence_kv_bytes(0.0, 10.0, 128.0, n, 2.0, 0.0)) for n in (64, 128, 1000)]
    assert at == [1280, 2560, 2560]


def test_recurrent_layers_cost_the_same_at_every_length() -> None:
    at = [float(m.sequence_kv_bytes(0.0, 0.0, 0.0, n, 2.0, 777.0)) for n in (1, 10**6)]
    assert at == [777, 777]


def test_kv_heads_repeat_beyond_their_number() -> None:
    np.testing.assert_array_equal(m.kv_shards(np.array([1, 4, 8, 16]), 8.0), [1, 4, 8, 8])


@pytest.mark.parametrize(("tokens", "gib"), [(20000, 2.06), (29000, 2.99)])
def test_the_forward_pass_of_an_8b_llama_works_in_what_its_profiling_run_showed(
    tokens: int, gib: float
) -> None:
    # vllm-project/vllm#10517: torch peak 17.06 and 17.98 GiB minus 14.99 GiB of weights.
    # 3 × 4096 + 3 × 14336 values of 2 B a token.
    found = m.block_activation_bytes(tokens, 4096.0, 3 * 14336.0, 10240.0, 0.0, 0.0, 1.0, 2.0)
    assert float(found) / 2**30 == pytest.approx(gib, abs=0.01)


def test_room_is_what_the_planned_share_leaves() -> None:
    # the same thread: 0.9 × 23.58 − 14.99 − 0.35 − 2.07 = 3.81 GiB
    room = m.kv_room_bytes(0.9 * 23.58, 14.99, 0.35, 2.07, 0.5, 1.0, 0.0, 1.0)
    assert float(room) == pytest.approx(3.81, abs=0.01)


def test_a_share_of_the_free_memory_becomes_the_pool() -> None:
    assert m.kv_room_bytes(100.0, 50.0, 5.0, 4.0, 1.0, 1.0, 1.0, 0.9) == pytest.approx(36.0)


def test_the_fullest_stage_holds_whole_layers_or_a_table() -> None:
    # 10 layers of 1 B on 4 stages: 3 layers inside; 2 layers and a table of 4 B at an end
    assert m.device_weights_bytes(10.0, 4.0, 10.0, 4.0) == 6.0
    assert m.device_weights_bytes(10.0, 0.5, 10.0, 4.0) == 3.0
    assert m.device_weights_bytes(10.0, 4.0, 10.0, 1.0) == 14.0


def test_tied_embeddings_are_stored_once() -> None:
    assert m.weights_bytes(100.0, 10.0, 10.0, 1.0) == 110
    assert m.weights_bytes(100.0, 10.0, 10.0, 0.0) == 120


def test_both_ends_of_a_pipeline_need_a_tied_table() -> None:
    assert m.rank_outer_bytes(10.0, 10.0, 1.0, 1.0, 1.0, 1.0) == 10
    assert m.rank_outer_bytes(10.0, 10.0, 1.0, 1.0, 1.0, 2.0) == 10
    assert m.rank_outer_bytes(10.0, 10.0, 0.0, 1.0, 1.0, 1.0) == 20


def test_an_input_table_on_the_host_leaves_the_head_on_the_device() -> None:
    assert m.rank_outer_bytes(10.0, 10.0, 1.0, 0.0, 1.0, 1.0) == 10
    assert m.rank_outer_bytes(8.0, 10.0, 0.0, 0.0, 1.0, 1.0) == 10


@pytest.mark.parametrize("room", [500.0, 5000.0])
def test_the_longest_sequence_fills_the_room_exactly(room: float) -> None:
    shape = {"kv_full_width": 2.0, "kv_window_width": 3.0, "window": 50.0, "kv_value_bytes": 2.0}
    longest = m.longest_sequence(room, 1.0, sequence_state_bytes=20.0, **shape)
    used = m.sequence_kv_bytes(context=longest, sequence_state_bytes=20.0, **shape)
    assert float(used) == pytest.approx(room)


def test_no_room_means_no_context() -> None:
    assert m.longest_sequence(-5.0, 1.0, 2.0, 0.0, 0.0, 2.0, 0.0) == 0
    assert m.sequences_held(-5.0, 2.0) == 0


def test_engines_with_a_pool_fill_their_room_whatever_is_asked_for() -> None:
    assert m.held_bytes(100.0, 10.0, 40.0, 1.0) == 130
    assert m.held_bytes(100.0, 10.0, 40.0, 0.0) == 100


def test_the_share_is_one_when_the_room_is_exactly_used() -> None:
    assert m.planned_share(40.0, 40.0, 0.9, 100.0) == 1
    assert m.planned_share(40.0, 50.0, 1.0, 100.0) > 1
