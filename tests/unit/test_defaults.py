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


def test_experts_in_mxfp8_on_blackwell_count_as_recorded_and_it_is_said() -> None:
    resolved = resolve(expert_job("mxfp8"))
    assert all(one.recorded for one in resolved.alternatives)
    assert any("recorded" in note for note in resolved.assumptions)


@pytest.mark.parametrize(
    ("precision", "system", "strategy"),
    [
        ("bf16", "gb200:64", {}),
        ("nvfp4", "gb200:64", {}),
        ("fp8", "h100-sxm:64", {}),
        ("mxfp8", "gb200:64", {"framework": "fsdp"}),
        ("mxfp8", "gb200:64", {"recorded": False}),
    ],
)
def test_other_steps_are_launched_and_nothing_is_said(
    precision: str, system: str, strategy: dict[str, object]
) -> None:
    resolved = resolve(expert_job(precision, system, **strategy))
    assert not any(one.recorded for one in resolved.alternatives)
    assert not any("recorded" in note for note in resolved.assumptions)


def test_recorded_steps_are_refused_where_no_release_records_them() -> None:
    with pytest.raises(UsageError, match=r"(?s)only Megatron-Core .* mxfp8 on Blackwell"):
        resolve(expert_job("bf16", recorded=True))
