"""What objectives need beside the policy, worked by hand."""

from __future__ import annotations

import pytest

from chipwise.physics import activations, experience, memory, objectives, training


def test_a_pair_is_two_sequences_of_one_micro_batch() -> None:
    # 4 pairs of 1,000 tokens
    assert activations.microbatch_tokens(4.0, 1000.0, 1.0, 2.0) == 8000
    assert training.step_tokens(64.0, 1000.0, 2.0) == 128_000


def test_a_frozen_copy_is_two_bytes_per_weight_divided_as_the_policy_is() -> None:
    # 7e9 dense weights over 4 ranks and 8e9 expert weights over 2, in 16 bit
    assert objectives.frozen_copy_bytes(6e9, 1e9, 8e9, 4.0, 2.0, 2.0) == 3.5e9 + 8e9


def test_a_reference_costs_nothing_where_adapters_are_switched_off_or_the_host_has_it() -> None:
    assert objectives.reference_bytes(14e9, 1.0, 1.0) == 14e9
    assert objectives.reference_bytes(14e9, 0.0, 1.0) == 0
    assert objectives.reference_bytes(14e9, 1.0, 0.0) == 0


def test_a_critic_of_half_the_size_keeps_half_of_the_states_but_no_gradients() -> None:
    # 28 GB weights, 2 GB adapters, 56 GB optimizer states
    half = objectives.critic_states_bytes(28e9, 2e9, 56e9, 28e9, 0.0, 0.5)
    assert half == pytest.approx(43e9)
    assert objectives.critic_states_bytes(28e9, 2e9, 56e9, 28e9, 1.0, 0.5) == pytest.approx(57e9)


def test_keys_and_values_of_llama_3_1_8b_are_131_072_bytes_per_token() -> None:
    # 32 layers × 8 heads × (128 + 128) × 2 bytes; two devices share the heads, sixteen only eight
    width = 32 * 8 * 256.0
    assert objectives.engine_token_bytes(width, 2.0, 1.0, 8.0) == 131_072
    assert objectives.engine_token_bytes(width, 2.0, 2.0, 8.0) == 65_536
    assert objectives.engine_token_bytes(width, 2.0, 16.0, 8.0) == 16_384


def test_a_group_keeps_its_prompt_once() -> None:
    # 1,000 prompt tokens shared by 10 completions of 500
    assert objectives.sequence_cache_bytes(100.0, 1000.0, 500.0, 10.0) == 60_000


def test_an_engine_fills_its_share_only_where_that_is_stated() -> None:
    # half of 80 GB less 16 GB of weights is 24 GB; ten sequences of 1 GB need ten
    assert objectives.engine_cache_bytes(80e9, 0.5, 16e9, 1e9, 10.0, 1.0) == 24e9
    assert objectives.engine_cache_bytes(80e9, 0.5, 16e9, 1e9, 10.0, 0.0) == 10e9
    assert objectives.engine_cache_bytes(80e9, 0.5, 16e9, 1e9, 100.0, 0.0) == 24e9


def test_an_engine_too_large_for_its_share_has_room_for_one_sequence() -> None:
    # 60 GB of weights in 40 GB: nothing is left, but one sequence has to go somewhere
    assert objectives.engine_cache_bytes(80e9, 0.5, 60e9, 1e9, 10.0, 1.0) == 1e9
    # unstated, a quarter of the weights: 15 GB, of which ten sequences take 10
    assert objectives.engine_cache_bytes(80e9, 0.5, 60e9, 1e9, 10.0, 0.0) == 10e9


def test_a_sleeping_engine_is_no_part_of_what_stays() -> None:
    assert objectives.rollout_resident_bytes(16e9, 24e9, 1.0) == 0
    assert objectives.rollout_resident_bytes(16e9, 24e9, 0.0) == 40e9
    assert objectives.rollout_peak_bytes(16e9, 24e9, 1.0, 5e9, 1.0) == 45e9
    assert objectives.rollout_peak_bytes(16e9, 24e9, 0.0, 5e9, 0.0) == 0


def test_the_fullest_moment_may_be_generation_and_then_has_no_fragments() -> None:
    assert memory.dynamic_bytes(30e9, 20e9, 40e9) == 40e9
    assert memory.fragment_bytes(30e9, 20e9, 40e9, 0.0, 10e9, 0.1, 0.0) == 0
    # 38 GB at the loss grow by a tenth to 41.8: 1.8 more than the engine takes
    assert memory.fragment_bytes(38e9, 20e9, 40e9, 0.0, 10e9, 0.1, 0.0) == pytest.approx(1.8e9)


def test_a_decode_step_reads_weights_and_all_keys_and_values() -> None:
    # 16 GB of weights, 100 sequences of 500 + 1000/2 tokens at 131,072 bytes: 13.1 GB
    moved = experience.decode_step_bytes(16e9, 0.0, 8e9, 0.0, 131_072.0, 500.0, 1000.0, 100.0)
    assert moved == pytest.approx(16e9 + 13.1072e9)


def test_a_decode_step_reads_only_the_experts_some_sequence_uses() -> None:
    # 90 of 100 GB are experts; each sequence uses a tenth of them: one 9 GB, ten all
    def weights(sequences: float) -> float:
        return float(
            experience.decode_step_bytes(100e9, 90e9, 100e9, 0.1, 0.0, 1.0, 1.0, sequences)
        )

    assert weights(1.0) == pytest.approx(19e9)
    assert weights(10.0) == pytest.approx(100e9)
    assert weights(20.0) == pytest.approx(100e9)


def test_decoding_is_bound_by_bandwidth_or_by_products() -> None:
    # 20 GB at 2 TB/s: 10 ms. 2 × 8e9 × 100 FLOP at 400 TFLOP/s: 4 ms; of 1,000 sequences: 40 ms
    few = experience.decode_step_time(20e9, 2e12, 8e9, 100.0, 1.0, 4e14, 2.0, 32.0, 5e-6)
    many = experience.decode_step_time(20e9, 2e12, 8e9, 1000.0, 1.0, 4e14, 2.0, 32.0, 5e-6)
    assert [few, many] == pytest.approx([0.010, 0.040])
    # on two devices 64 all-reduces of 5 µs come on top
    spread = experience.decode_step_time(10e9, 2e12, 8e9, 100.0, 2.0, 4e14, 2.0, 32.0, 5e-6)
    assert spread == pytest.approx(0.005 + 64 * 5e-6)


def test_sequences_without_room_wait_for_the_first_ones() -> None:
    assert experience.sequences_in_flight(10e9, 1e9, 25.0) == 10
    assert experience.decode_time(0.01, 100.0, 25.0, 10.0) == pytest.approx(2.5)


def test_a_rollout_is_shared_out_among_the_steps_that_train_on_it() -> None:
    # 1,024 sequences, 256 to a step, twice over: eight steps
    steps = experience.steps_per_rollout(1024.0, 256.0, 2.0)
    assert steps == 8
    assert experience.rollout_time(30.0, 8.0, 2.0, steps, 1.0) == 5
    assert experience.rollout_time(30.0, 8.0, 2.0, steps, 0.0) == 0


def test_ppo_scores_with_four_models_and_a_critic_has_no_head() -> None:
    passes = experience.scoring_passes(1.0, 1.0, 0.5, 0.5, 0.0)
    assert passes == 3
    # (3 passes × 10 layers × 1 ms + 2 heads × 2 ms) × 4 micro-batches, used for two epochs
    time = experience.scoring_time(
        passes, 1.0, 1.0, 0.0, 10.0, 1e-3, 2e-3, 0.0, 0.0, 4.0, 1.0, 1.0, 2.0
    )
    assert time == pytest.approx(0.068)
    # 3 s of 4 micro-batches of 1 s without their heads of 0.25 s, half of that and of 0.4 s more
    assert experience.critic_time(1.0, 0.25, 4.0, 0.1, 0.1, 0.2, 0.5) == pytest.approx(1.7)


def test_a_reference_on_the_host_is_fetched_for_each_micro_batch() -> None:
    # 14 GB over 56 GB/s; an adapter-off reference fetches what the policy has on the host
    assert experience.scoring_fetch_time(14e9, 1.0, 0.0, 56e9, 0.0, 0.0, 1.0) == 0.25
    assert experience.scoring_fetch_time(14e9, 0.0, 1.0, 56e9, 0.4, 1.0, 1.0) == 0.4
