"""What fine-tuning must obey: each rule with the value that breaks it."""

from __future__ import annotations

import pytest

from chipwise.catalogue.models import load_model
from chipwise.errors import LayoutError
from chipwise.spec.job import Strategy, TrainingWorkload
from chipwise.spec.tuning_rules import check_optimizer, check_tuning
from chipwise.spec.usual_tuning import usual_tuning

LLAMA = load_model("llama-2-7b")


def work(method: str, **fields: object) -> TrainingWorkload:
    return TrainingWorkload.model_validate({"method": method, **fields})


@pytest.mark.parametrize(
    ("method", "fields", "says"),
    [
        ("lora", {"lora_rank": 5000}, "4096"),
        ("adapter", {"lora_rank": 5000}, "4096"),
        ("full", {"base_dtype": "nf4"}, "--method lora"),
        ("lisa", {"base_dtype": "int8"}, "--method lora"),
        ("lora", {"base_dtype": "nf4"}, "--method qlora"),
        ("full", {"tuning": {"train_last": 33}}, "32"),
        ("lisa", {"tuning": {"active_layers": 33}}, "32"),
        ("prompt", {"tuning": {"train_last": 2}}, "leave it out"),
        ("prompt", {"seq_len": 64, "tuning": {"virtual_tokens": 64}}, "63"),
        ("full", {"tuning": {"optimizer_rank": 5000}}, "4096"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    method: str, fields: dict[str, object], says: str
) -> None:
    with pytest.raises(LayoutError, match=says):
        check_tuning(work(method, **fields), LLAMA)


@pytest.mark.parametrize(
    ("method", "base"),
    [("lora", "int8"), ("qlora", "int8"), ("dora", "nf4"), ("ia3", "int8"), ("vera", "bf16")],
)
def test_frozen_bases_may_be_stored_in_eight_or_four_bits(method: str, base: str) -> None:
    check_tuning(work(method, base_dtype=base), LLAMA)


@pytest.mark.parametrize(
    ("workload", "strategy", "says"),
    [
        (work("lora"), {"optimizer": "galore-adamw"}, "--method full"),
        (work("full", tuning={"optimizer_rank": 64}), {"optimizer": "adamw"}, "galore-adamw"),
        (work("prefix"), {"recompute": "full"}, "--recompute none"),
    ],
)
def test_optimizers_and_recompute_have_to_suit_the_method(
    workload: TrainingWorkload, strategy: dict[str, object], says: str
) -> None:
    with pytest.raises(LayoutError, match=says):
        check_optimizer(workload, Strategy.model_validate(strategy))


def test_gaps_are_filled_with_usual_values_and_said() -> None:
    updates, said = usual_tuning(work("dora"))
    assert updates == {"lora_rank": 16, "lora_targets": "qv"} and len(said) == 2
    filled, said = usual_tuning(work("prompt"))
    assert filled["tuning"] == work("prompt", tuning={"virtual_tokens": 20}).tuning
    assert usual_tuning(work("full")) == ({}, ())
    # known by its count alone
    assert usual_tuning(work("ia3", trainable_params=1000)) == ({}, ())
