"""What is filled in where a job is silent, and that it is said."""

from __future__ import annotations

import pytest

from chipwise.catalogue.frameworks import normalise_framework, stacks
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.defaults import default_precision, resolve
from chipwise.errors import UsageError
from chipwise.spec.job import FRAMEWORKS, Strategy, TrainingJob, TrainingWorkload


def job(system: str, workload: dict[str, object], strategy: dict[str, object]) -> TrainingJob:
    return TrainingJob(
        model=load_model("llama-2-7b"),
        cluster=parse_system(system)[0],
        workload=TrainingWorkload.model_validate(workload),
        strategy=Strategy.model_validate(strategy),
    )


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("NeMo 24.07 / Megatron-Core", "megatron-core"),
        ("MEGATRON-DEEPSPEED", "deepspeed"),
        ("Megatron-LM", "megatron"),
        ("llm-foundry/composer (PyTorch FSDP)", "fsdp"),
        ("ms-swift DeepSpeed-ZeRO2", "finetune"),
        ("MindSpeed-LLM (Mcore)", "ascend"),
        ("MaxText", "xla"),
        ("optimum-habana", "gaudi"),
        ("nanotron 0.5", "nanotron"),
        ("something new", "other"),
    ],
)
def test_free_text_is_recognised_whatever_its_case_and_version(text: str, family: str) -> None:
    assert normalise_framework(text) == family
    assert normalise_framework(text.upper()) == family
    assert normalise_framework(f"{text} 99.1") == family


def test_there_are_ten_families_each_with_a_source() -> None:
    assert set(stacks()) == set(FRAMEWORKS) and len(FRAMEWORKS) == 10
    assert all(stack.source and stack.retrieved for stack in stacks().values())


def test_a_rank_gets_at_least_one_sequence_or_a_part_of_one() -> None:
    resolved = resolve(job("h100-sxm:8x8", {"global_batch": 16}, {"framework": "fsdp"}))
    layout = resolved.alternatives[0]
    assert layout.dp == 16 and layout.cp == 4
    assert any("context parallel" in note for note in resolved.assumptions)


def test_recompute_is_an_alternative_where_the_stack_turns_it_on_only_when_needed() -> None:
    resolved = resolve(job("h100-sxm:8", {}, {"framework": "megatron-core", "tp": 2, "pp": 1}))
    assert [one.recompute for one in resolved.alternatives] == ["none", "full"]
    stated = resolve(job("h100-sxm:8", {}, {"framework": "fsdp", "recompute": "full"}))
    assert [one.recompute for one in stated.alternatives] == ["full"]


def test_one_small_device_ends_with_eight_bit_and_paged_states() -> None:
    resolved = resolve(job("rtx-4090", {}, {"framework": "finetune"}))
    last = resolved.alternatives[-1]
    assert last.optimizer == "adamw-8bit" and last.offload_optimizer
    stated = resolve(job("rtx-4090", {}, {"framework": "finetune", "optimizer": "adamw"}))
    assert {one.optimizer for one in stated.alternatives} == {"adamw"}


def test_a_number_format_the_device_lacks_names_those_it_has() -> None:
    with pytest.raises(UsageError, match="it has"):
        resolve(job("a100-sxm-80", {"precision": "fp8"}, {}))


def test_a_device_without_bf16_trains_in_fp16() -> None:
    volta = parse_system("v100-sxm2-32")[0].accelerator
    assert default_precision(volta, "fsdp") in ("fp16", "bf16")
    assert ("bf16" in volta.peak_flops) == (default_precision(volta, "fsdp") == "bf16")


def expert_job(precision: str, system: str = "gb200:64", **strategy: object) -> TrainingJob:
    return TrainingJob(
        model=load_model("deepseek-v3"),
        cluster=parse_system(system)[0],
        workload=TrainingWorkload.model_validate(
            {"precision": precision, "seq_len": 4096, "global_batch": 1024}
        ),
        strategy=Strategy.model_validate({"framework": "megatron-core", **strategy}),
    )


@pytest.mark.parametrize("stated", [True, False, None])
def test_steps_are_recorded_where_that_is_said(stated: bool | None) -> None:
    resolved = resolve(expert_job("mxfp8", recorded=stated))
    assert all(one.recorded is bool(stated) for one in resolved.alternatives)


@pytest.mark.parametrize(
    ("device", "precision"),
    [("gb200", "fp8"), ("b200-sxm", "fp8"), ("gb300", "nvfp4"), ("h100-sxm", "fp8")],
)
def test_tuned_recipes_train_in_four_bits_where_these_are_three_times_as_fast(
    device: str, precision: str
) -> None:
    accelerator = parse_system(device)[0].accelerator
    assert default_precision(accelerator, "megatron-core") == precision


def test_recorded_steps_are_refused_where_no_release_records_them() -> None:
    with pytest.raises(UsageError, match=r"(?s)only Megatron-Core .* mxfp8 on Blackwell"):
        resolve(expert_job("bf16", recorded=True))
