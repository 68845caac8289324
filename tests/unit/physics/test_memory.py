"""Memory quantities against the published formulas, worked by hand."""

from __future__ import annotations

import pytest

from chipwise.physics import activations, memory, parameters, states


def test_selective_or_flash_layers_keep_34_bytes_per_token_and_width() -> None:
    # Korthikanti 2022: s·b·h·34 in 16 bit with dropout, ffn = 4h: norms 4, linear inputs 4,
    # q k v 6, attention output 2, feed-forward 8 + 8, dropout masks 2
    hidden, layers = 1024.0, 3.0
    per_token = activations.layer_token_bytes(
        norm_token_bytes=activations.norm_token_bytes(hidden, layers, 1.0, 2.0),
        linear_input_token_bytes=activations.linear_input_token_bytes(hidden, layers, 1.0, 2.0),
        divided_token_bytes=activations.divided_token_bytes(
            attention_saved_width=3 * hidden * layers,
            attention_output_width=hidden * layers,
            ffn_saved_width=4 * hidden * layers,
            ffn_output_width=4 * hidden * layers,
            linear_inputs_saved=1.0,
            quantised_base=0.0,
            quantised_copies=0.5,
            activation_bytes=2.0,
        ),
        expert_token_bytes=0.0,
        score_token_bytes=0.0,
        adapter_token_bytes=0.0,
        layers=layers,
        tp=1.0,
        sequence_parallel=0.0,
        gathered_input_share=0.0,
        activation_overhead=1.0,
    )
    assert per_token == pytest.approx(34 * hidden)


def test_kept_scores_add_five_bytes_per_head_and_key() -> None:
    # Korthikanti 2022: 5·a·s²·b without recompute
    assert activations.score_token_bytes(16.0, 2048.0, 1.0, 1.0, 5.0) == 5 * 16 * 2048


def test_sequence_parallelism_divides_all_of_a_layer() -> None:
    def layer(sequence_parallel: float) -> float:
        return float(
            activations.layer_token_bytes(
                8.0, 4.0, 22.0, 0.0, 0.0, 0.0, 1.0, 2.0, sequence_parallel, 0.0, 1.0
            )
        )

    assert layer(1.0) == pytest.approx((8 + 4 + 22) / 2)
    assert layer(0.0) == pytest.approx(8 + 4 + 22 / 2)


def test_the_first_stage_of_1f1b_holds_as_many_micro_batches_as_there_are_stages() -> None:
    assert activations.in_flight_microbatches(8.0, 1.0, 64.0, 1.0, 1.0) == 8
    assert activations.in_flight_microbatches(8.0, 1.0, 4.0, 1.0, 1.0) == 4
    assert activations.in_flight_microbatches(8.0, 1.0, 64.0, 0.0, 1.0) == 1
    # interleaving: 1 + (p - 1)/(p·v) times as many
    assert activations.in_flight_microbatches(8.0, 2.0, 64.0, 1.0, 1.0) == pytest.approx(
        8 * (1 + 7 / 16)
    )


def test_layers_spread_over_devices_hold_one_micro_batch() -> None:
    assert activations.in_flight_microbatches(4.0, 1.0, 64.0, 1.0, 0.0) == 1


def test_adam_in_mixed_precision_is_sixteen_bytes_per_parameter() -> None:
    # 2 weights + 2 gradients + 4 master + 8 moments
    params = 1e9
    weights = states.kept_weights_bytes(params, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 1.0)
    gradients = states.kept_gradient_bytes(params, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0)
    updated = states.optimizer_params(params, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    optimizer = states.kept_optimizer_bytes(updated, 8.0, 1.0, 0.0, 4.0)
    assert weights + gradients + optimizer == pytest.approx(16e9)


def test_what_leaves_the_device_is_on_the_host() -> None:
    # 14 GB weights and 14 GB gradients go together, 84 GB of states on their own
    assert states.host_bytes(14e9, 14e9, 84e9, 3e9, 0.0, 0.0, 0.0) == pytest.approx(115e9)
    assert states.host_bytes(14e9, 14e9, 84e9, 3e9, 1.0, 0.0, 0.0) == pytest.approx(87e9)
    assert states.host_bytes(14e9, 14e9, 84e9, 0.0, 1.0, 1.0, 0.0) == 0


def test_offloaded_activations_leave_one_layer_on_the_device() -> None:
    assert activations.kept_activation_bytes(1e9, 32.0, 2.0, 0.0) == 2e9
    assert activations.offloaded_activation_bytes(1e9, 32.0, 2.0, 0.0) == 62e9
    assert activations.kept_activation_bytes(1e9, 32.0, 2.0, 1.0) == 64e9


@pytest.mark.parametrize(
    ("optimizer", "gradients", "weights", "expected"),
    [(0, 0, 0, 16.0), (1, 0, 0, 4 + 12 / 8), (1, 1, 0, 2 + 14 / 8), (1, 1, 1, 16 / 8)],
)
def test_each_zero_stage_divides_what_it_says(
    optimizer: float, gradients: float, weights: float, expected: float
) -> None:
    # ZeRO paper, section 5: 16, 4 + 12/N, 2 + 14/N, 16/N bytes per parameter
    shards = 8.0
    per_param = (
        2 / states.weight_divisor(weights, shards)
        + 2 / states.gradient_divisor(gradients, shards)
        + 12 / states.optimizer_divisor(optimizer, shards)
    )
    assert per_param == pytest.approx(expected)


def test_leading_dense_layers_leave_more_experts_to_the_last_stage() -> None:
    # 4 layers, the first one dense, 2 stages: 1 of 3 expert layers on the first, 2 on the last
    assert parameters.expert_stage_share(4.0, 2.0, 0.5, 1.0, 1.0) == pytest.approx(1 / 3)
    assert parameters.expert_stage_share(4.0, 2.0, 0.5, 0.0, 1.0) == pytest.approx(2 / 3)
    assert parameters.expert_stage_share(4.0, 1.0, 1.0, 1.0, 1.0) == 1


def test_a_head_that_counts_as_work_takes_layers_from_its_stage() -> None:
    # 16 layers and a head worth 4: ten layers on the first of two stages, six with the head
    assert parameters.stage_share(16.0, 2.0, 4.0, 1.0) * 16 == 10
    assert parameters.stage_share(16.0, 2.0, 4.0, 0.0) * 16 == 6
    assert parameters.stage_share(16.0, 2.0, 0.0, 1.0) * 16 == 8


def test_a_stack_that_shards_after_loading_holds_a_whole_copy_and_a_shard() -> None:
    shard = 5e9
    loaded = memory.load_peak_bytes(shard, 5e9, 0.0, 0.0, 1.0, 1.0, 2.0)
    assert loaded == shard + 10e9
    assert memory.load_peak_bytes(shard, 5e9, 0.0, 0.0, 1.0, 0.0, 2.0) == shard


def test_saving_one_full_state_gathers_what_others_hold() -> None:
    # two shards: the device has one half already
    assert memory.save_peak_bytes(3e9, 1e9, 0.0, 0.0, 1.0, 2.0, 2.0) == 3e9 + 1e9
    assert memory.save_peak_bytes(3e9, 1e9, 0.0, 0.0, 0.0, 1.0, 2.0) == 3e9


def test_chunked_losses_hold_a_part_of_the_logits() -> None:
    whole = activations.logits_bytes(1000.0, 1.0, 10.0, 1.0, 7.0, 2.0, 1.0)
    assert whole == 1000 * 10 * 14
    assert activations.logits_bytes(1000.0, 1.0, 10.0, 1.0, 7.0, 2.0, 8.0) == whole / 8
    assert activations.logits_bytes(1000.0, 1.0, 10.0, 0.0, 7.0, 2.0, 1.0) == 0
