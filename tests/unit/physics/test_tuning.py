"""Memory of fine-tuning methods, worked by hand."""

from __future__ import annotations

import pytest

from chipwise.catalogue.models import load_model
from chipwise.catalogue.optimizers import optimizers
from chipwise.columns.adapters import tuning_columns
from chipwise.physics import activations, memory, paging, states
from chipwise.spec.job import Strategy, TrainingWorkload

LLAMA = load_model("llama-2-7b")


def columns(method: str, optimizer: str = "adamw", **fields: object) -> dict[str, float]:
    workload = TrainingWorkload.model_validate({"method": method, **fields})
    return tuning_columns(workload, LLAMA, Strategy.model_validate({"optimizer": optimizer}), 2.0)


def test_frozen_layers_have_no_gradients_states_or_activations() -> None:
    # a quarter of 8e9 layer weights, half of 2e9 outer ones: 3e9 · 2 bytes
    assert states.kept_gradient_bytes(
        8e9, 2e9, 0.0, 1.0, 1.0, 0.25, 0.5, 0.0, 2.0
    ) == pytest.approx(6e9)
    assert states.optimizer_params(8e9, 2e9, 0.0, 1.0, 1.0, 0.25, 0.5, 0.0) == pytest.approx(3e9)
    assert activations.kept_layers(32.0, 32.0, 0.25) == 8
    assert activations.kept_layers(32.0, 16.0, 1.0) == 16


def test_an_adapter_has_weight_gradient_and_two_moments_in_fp32() -> None:
    # 4 + 4 + 8; 8-bit moments 4 + 4 + 2.06
    assert columns("lora")["adapter_state_bytes"] == 16
    assert columns("lora", "adamw-8bit")["adapter_state_bytes"] == pytest.approx(10.06)
    assert states.adapter_bytes(1e6, 16.0, 8.0, 1.0, 2.0, 1.0) == 4e6


def test_dora_copies_its_largest_matrix_four_times_and_an_identity() -> None:
    # down_proj: 11008 inputs, 4096 outputs, fp32
    found = columns("dora", lora_rank=8, lora_targets="q_proj,down_proj")
    assert found["adapter_temporary_bytes"] == 4 * (11008**2 + 4 * 11008 * 4096)
    # base and low-rank outputs of both matrices in 32 layers
    assert found["adapter_saved_width"] == 32 * 2 * (4096 + 4096)
    assert columns("lora")["adapter_temporary_bytes"] == 0


def test_temporaries_count_as_far_as_they_exceed_the_logits() -> None:
    def peak(logits: float, temporary: float) -> float:
        return float(memory.loss_peak_bytes(5e9, logits, 0.0, 0.0, 0.0, temporary, 0.0, 0.0, 0.0))

    assert peak(1e9, 3e9) == 8e9
    assert peak(4e9, 3e9) == 9e9


def test_ia3_keeps_what_its_factors_multiply() -> None:
    # keys and values 4096 each, inputs of down 11008
    assert columns("ia3")["adapter_saved_width"] == 32 * (4096 + 4096 + 11008)


@pytest.mark.parametrize(
    ("targets", "share"),
    [("qv", 0.5), ("attention", 0.75), ("mlp", 0.75), ("qkv+mlp", 0.9), ("all-linear", 1.0),
     ("q_proj,v_proj", 0.5), ("o_proj", 0.25), ("q_proj,o_proj,down_proj", 1.0)],
)  # fmt: skip
def test_adapters_keep_the_inputs_of_what_they_adapt(targets: str, share: float) -> None:
    assert columns("lora", lora_targets=targets)["linear_inputs_saved"] == share


def test_virtual_tokens_pass_the_layers_and_prefixes_only_lie_before_them() -> None:
    prompt = columns("prompt", tuning={"virtual_tokens": 100})
    prefix = columns("prefix", tuning={"virtual_tokens": 100})
    assert (prompt["prompt_tokens"], prompt["prefix_tokens"]) == (100, 0)
    assert (prefix["prompt_tokens"], prefix["prefix_tokens"]) == (0, 100)
    assert activations.passed_tokens(2048.0, 100.0) == 2148
    # 100 tokens · 4 sequences · (64 / 32 values) · 2 bytes
    assert activations.prefix_bytes(100.0, 4.0, 64.0, 32.0, 2.0, 1.0) == 1600


def test_pages_stay_while_there_is_room() -> None:
    assert paging.paged_base_bytes(1e9, 2.0, 1.0, 1.0) == 2e9
    assert paging.paged_base_bytes(1e9, 2.0, 0.0, 1.0) == 0
    assert states.optimizer_state_bytes(6e9, 1.0, 2e9) == 4e9
    assert paging.paged_resident_bytes(2e9, 24e9, 20e9) == 2e9
    assert paging.paged_resident_bytes(2e9, 24e9, 23e9) == 1e9
    assert paging.paged_resident_bytes(2e9, 24e9, 30e9) == 0
    assert paging.paged_out_bytes(2e9, 0.5e9) == 1.5e9


def test_states_of_small_tensors_are_not_paged() -> None:
    # rank 16 on 4096 × 4096: 65 536 values a side, below 100 000; rank 32 above
    assert columns("lora", "paged-adamw", lora_rank=16)["adapter_paged_bytes"] == 0
    assert columns("lora", "paged-adamw", lora_rank=32)["adapter_paged_bytes"] == 8
    assert columns("lora", "adamw", lora_rank=32)["adapter_paged_bytes"] == 0


def test_galore_keeps_states_of_the_low_rank_and_its_projections() -> None:
    # rank 1024: q, k, v, o keep 4096·1024 of 4096² values; gate, up, down 11008·1024 of 11008·4096
    total = 6_738_415_616
    spared = 32 * (4 * 4096 * 3072 + 3 * 11008 * 3072)
    found = columns("full", "galore-adamw", tuning={"optimizer_rank": 1024})
    assert found["optimizer_state_share"] == pytest.approx(1 - spared / total)
    # projections: smaller side 4096 · rank in 7 matrices of 32 layers, 2 bytes each
    assert found["projection_bytes"] == pytest.approx(2 * 32 * 7 * 4096 * 1024 / total)
    # 8 · 0.5 + 1 states, 4 master
    assert states.kept_optimizer_bytes(1e9, 8.0, 0.5, 1.0, 4.0) == 9e9


def test_lisa_trains_some_layers_and_passes_gradients_through_all() -> None:
    found = columns("lisa", tuning={"active_layers": 2})
    assert found["reached_share"] == 1
    assert found["linear_inputs_saved"] == 2 / 32
    assert found["backward_passes"] == 1 + 2 / 32


def test_every_optimizer_says_where_its_bytes_come_from() -> None:
    assert all(facts.source and facts.retrieved for facts in optimizers().values())
