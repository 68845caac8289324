"""Time quantities against their bounds, worked by hand."""

from __future__ import annotations

import pytest

from chipwise.physics import collectives, layer, operations, products, training


def test_a_tensor_parallel_group_of_one_is_free() -> None:
    assert collectives.tp_layer_time(1.0, 4096.0, 4096.0, 2.0, 4e11, 2e-5, 1.0, 2.0) == 0


def test_a_ring_moves_each_byte_almost_twice() -> None:
    # 2 (n-1)/n of 8 MB over 8 ranks at 1 GB/s, two blocks, both directions, no latency
    moved = 2 * 7 / 8 * 1000 * 4000 * 2 / 1e9
    found = collectives.tp_layer_time(8.0, 1000.0, 4000.0, 2.0, 1e9, 0.0, 0.0, 2.0)
    assert found == pytest.approx(4 * moved)


def test_a_group_over_nodes_drives_as_many_cards_as_it_has_members_in_a_node() -> None:
    # 8 data-parallel ranks per node of 8 with 25 GB/s cards and a 300 GB/s link
    assert collectives.dp_bandwidth(1.0, 1.0, 16.0, 8.0, 3e11, 25e9) == 8 * 25e9
    # tensor parallelism over the node leaves one member of each data-parallel group in it
    assert collectives.dp_bandwidth(8.0, 1.0, 2.0, 8.0, 3e11, 25e9) == 25e9
    assert collectives.dp_bandwidth(8.0, 1.0, 1.0, 8.0, 3e11, 25e9) == 3e11


@pytest.mark.parametrize(("schedule", "idle"), [(1.0, 7.0), (1 / 3, 7 / 3)])
def test_a_pipeline_leaves_its_stages_less_one_idle(schedule: float, idle: float) -> None:
    assert training.bubble_microbatches(8.0, 1.0, 1.0, schedule, 1.0, 64.0) == pytest.approx(idle)


def test_interleaving_divides_the_bubble() -> None:
    assert training.bubble_microbatches(8.0, 4.0, 1.0, 1.0, 1.0, 64.0) == 7 / 4


def test_layers_spread_over_devices_make_all_others_wait() -> None:
    assert training.bubble_microbatches(4.0, 1.0, 1.0, 1.0, 0.0, 10.0) == 30


def test_training_costs_six_operations_per_parameter_and_token() -> None:
    forward = operations.linear_flop_per_token(7e9, 1e9, 0.0, 2.0)
    assert forward == 2 * 6e9  # the untied embedding is a look-up
    assert operations.model_flop_per_token(forward, 0.0, 2.0) == 6 * 6e9


def test_causal_attention_needs_half_of_the_scores() -> None:
    # two layers of 4096 = 32 · (64 + 64): 2 FLOP × width × mean keys seen
    full = operations.attention_flop_per_token(8192.0, 0.0, 1024.0, 0.0, 2.0)
    assert full == 2 * 8192 * 1024
    assert operations.attended_tokens(2048.0, 0.0, 0.5) == 1024
    assert operations.attended_window_tokens(2048.0, 4096.0, 0.5) == 1024
    # window 512 of 2048: 512 - 512²/4096
    assert operations.attended_window_tokens(2048.0, 512.0, 0.5) == 512 - 512**2 / 4096


def test_a_layer_takes_the_longer_of_device_and_host() -> None:
    assert layer.layer_time(10e-3, 0.0, 1e-3, 1e-3) == pytest.approx(10e-3, rel=1e-3)
    assert layer.layer_time(1e-3, 0.0, 10e-3, 1e-3) == pytest.approx(10e-3, rel=1e-3)


def test_a_device_that_waits_for_its_host_loses_nothing_to_communication() -> None:
    alone = layer.layer_time(1e-3, 0.0, 10e-3, 1e-3)
    with_communication = layer.layer_time(1e-3, 2e-3, 10e-3, 1e-3) + 2e-3
    assert with_communication == pytest.approx(alone, rel=2e-3)


def test_large_products_run_at_the_full_rate_and_small_ones_do_not() -> None:
    large = products.ffn_shape_efficiency(1e6, 1e6, 1e6, 1.0, 48.0)
    small = products.ffn_shape_efficiency(48.0, 1e6, 1e6, 1.0, 48.0)
    assert large == pytest.approx(1.0, abs=1e-3)
    assert small == pytest.approx(0.5, rel=1e-3)


def test_widths_that_cut_tiles_cost_more() -> None:
    assert products.alignment_slowdown(14400.0, 8.0, 1.3) == 1.3  # 1800 is no multiple of 64
    assert products.alignment_slowdown(14336.0, 8.0, 1.3) == 1.0


def test_a_power_cap_slows_by_its_root() -> None:
    assert products.power_factor(350.0, 700.0) == pytest.approx(0.5**0.5)
    assert products.power_factor(900.0, 700.0) == 1


def test_gradients_of_one_rank_need_no_synchronisation() -> None:
    assert (
        collectives.gradient_sync_time(
            *(1e9, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0),
            *(1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1e11, 1e-5, 1.0, 0.0),
        )
        == 0
    )


@pytest.mark.parametrize(("whole", "pp", "each"), [(0.0, 4.0, 6), (1.0, 4.0, 10), (1.0, 1.0, 6)])
def test_a_pipeline_that_reduces_whole_gradients_moves_them_twice(
    whole: float, pp: float, each: int
) -> None:
    # 1e9 parameters over 2 ranks, half of the bytes moves: 4 for a shard of fp32 gradients and 2 to
    # hand out 16-bit weights, 4 more where gradients are handed out too; 1 GB/s
    found = collectives.gradient_sync_time(
        *(1e9, 0.0, 0.0, 2.0, 2.0, 1.0, 1.0),
        *(1.0, 4.0, 0.0, 1.0, whole, pp, 2.0, 1e9, 0.0, 1.0, 0.0),
    )
    assert found == pytest.approx(each / 2)


def test_a_fused_product_hides_most_of_the_accumulation_but_not_that_of_experts() -> None:
    # 1e9 dense and 1e9 expert parameters, 2 · 4 + 2 bytes each at 1 TB/s: 10 ms + 10 ms
    apart = training.accumulation_time(1e9, 0.0, 1e9, 1.0, 1.0, 1.0, 4.0, 2.0, 1e12, 0.0, 0.3)
    fused = training.accumulation_time(1e9, 0.0, 1e9, 1.0, 1.0, 1.0, 4.0, 2.0, 1e12, 1.0, 0.3)
    assert apart == pytest.approx(20e-3)
    assert fused == pytest.approx(13e-3)


def test_a_last_stage_holds_most_of_the_head_and_a_device_alone_all_of_it() -> None:
    # a head of 5 ms, 0.95 of it exposed on a last stage; nothing where stages are balanced
    assert training.head_stage_time(5.0, 8.0, 0.95, 0.0) == pytest.approx(4.75)
    assert training.head_stage_time(5.0, 8.0, 0.95, 1.0) == 0
    assert training.head_stage_time(5.0, 1.0, 0.95, 0.0) == 5


def test_the_bubble_is_made_of_stages_without_the_head() -> None:
    # 7 stages idle for a micro-batch of 10 ms, 2 ms of which are the head of the slowest one
    assert training.bubble_time(10.0, 2.0, 7.0) == 56


def test_an_update_on_the_host_takes_the_link_and_its_processors() -> None:
    # 1e9 parameters, 4 + 4 bytes each over 20 GB/s: 0.4 s; 2e9 parameters per second: 0.5 s
    assert training.host_update_time(1e9, 0.0, 4.0, 4.0, 20e9, 2e9) == pytest.approx(0.9)
    assert training.host_update_time(1e9, 1.0, 4.0, 4.0, 20e9, 2e9) == 0


def test_offloaded_activations_cost_what_computing_does_not_hide() -> None:
    # 31 layers of 1 GB out and back over 31 GB/s: 2 s; half of 1.5 s computing hides 0.75 s of it
    assert training.activation_fetch_time(1e9, 32.0, 0.0, 31e9, 1.5, 0.5) == pytest.approx(1.25)
    # behind 3 s of computing no more than half of it hides
    assert training.activation_fetch_time(1e9, 32.0, 0.0, 31e9, 3.0, 0.5) == pytest.approx(1.0)
    assert training.activation_fetch_time(1e9, 32.0, 1.0, 31e9, 0.0, 0.5) == 0


def test_hybrid_sharding_gathers_inside_the_node_and_reduces_between_copies() -> None:
    # 16 ranks, 8 to a node: copies of 8 use the fast link, one copy of 16 the network
    assert collectives.shard_bandwidth(1.0, 1.0, 16.0, 8.0, 8.0, 4e11, 5e10) == 4e11
    assert collectives.shard_bandwidth(1.0, 1.0, 16.0, 16.0, 8.0, 4e11, 5e10) == 5e10
    assert collectives.shard_nodes(1.0, 1.0, 16.0, 8.0, 8.0, 2.0) == 1
    assert collectives.shard_nodes(1.0, 1.0, 16.0, 16.0, 8.0, 2.0) == 2
    # two copies: 2·(1 - 1/2) of 8e9/8 gradients of 4 bytes over 1 GB/s
    found = collectives.replica_sync_time(8e9, 0.0, 0.0, 8.0, 1.0, 16.0, 1.0, 1.0, 4.0, 1e9)
    assert found == pytest.approx(4.0)
    assert collectives.replica_sync_time(8e9, 0.0, 0.0, 16.0, 1.0, 16.0, 1.0, 1.0, 4.0, 1e9) == 0
