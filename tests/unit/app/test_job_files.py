"""Configuration files in every question about training, not only in ``fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chipwise.app import estimate_train, plan_finetune, plan_train
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.requests import EstimateTrainRequest, PlanTrainRequest, parse_request

TEXT = """\
model_name_or_path: qwen2.5-7b
stage: sft
cutoff_len: 2048
finetuning_type: full
per_device_train_batch_size: 1
gradient_accumulation_steps: 4
num_train_epochs: 2
mystery: 1
bf16: true
"""


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "run.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def said(document: Any) -> str:
    return " ".join(one.text for one in document.assumptions)


def test_an_estimate_says_what_it_took_and_what_it_did_not_understand(job: str) -> None:
    document = estimate_train(
        parse_request(EstimateTrainRequest, {"job": [job], "on": "a100-sxm-80:8"})
    )
    assert "accumulation 4 (gradient_accumulation_steps, line 6)" in said(document)
    assert "what LLaMA-Factory does by itself" in said(document)
    assert any("run.yaml:8 mystery" in text for text in document.warnings)
    assert document.layout.global_batch == 1 * 4 * 8
    assert document.duration_s is None  # epochs of how many examples is not said


def test_epochs_of_a_file_hold_where_examples_are_counted(job: str) -> None:
    fields = {"job": [job], "on": "a100-sxm-80:8", "examples": 1000}
    document = estimate_train(parse_request(EstimateTrainRequest, fields))
    assert document.run is not None
    assert document.run.tokens == pytest.approx(2 * 1000 * 2048, rel=0.02)


def test_stated_tokens_take_the_place_of_the_epochs_of_a_file(job: str) -> None:
    fields = {"job": [job], "on": "a100-sxm-80:8", "tokens": "1B"}
    document = plan_train(parse_request(PlanTrainRequest, fields))
    assert document.plans
    assert all(plan.layout.global_batch == 32 for plan in document.plans)
    assert "run.yaml" in said(document)


def test_a_fine_tune_keeps_the_batch_of_the_fewest_devices_on_all(job: str) -> None:
    fields = {"job": [job], "on": "a100-sxm-80:2,a100-sxm-80:4", "method": "lora"}
    document = plan_finetune(
        parse_request(
            PlanFinetuneRequest, {**fields, "examples": 1000, "lengths": "p50=300,p90=900"}
        )
    )
    assert {plan.layout.global_batch for plan in document.plans} == {8}  # 4 × 1 × 2 devices
    assert len({plan.system for plan in document.plans}) == 2
    assert "run.yaml" in said(document)
