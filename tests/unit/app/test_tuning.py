"""How fine-tuning is asked for: words of trainers, lists, and options without their method."""

from __future__ import annotations

import pytest

from chipwise.app.fitting import fit
from chipwise.app.requests import FitRequest, parse_request
from chipwise.errors import UsageError


def asked(**fields: object) -> FitRequest:
    return parse_request(FitRequest, {"model": "llama-2-7b", "on": "a100-sxm-80"} | fields)


@pytest.mark.parametrize(
    ("field", "given", "read"),
    [
        ("optimizer", "paged_adamw_8bit", "paged-adamw-8bit"),
        ("optimizer", "paged_adamw_32bit", "paged-adamw"),
        ("optimizer", "galore_adamw", "galore-adamw"),
        ("method", "ln_tuning", "ln-tuning"),
        ("method", "prefix_tuning", "prefix"),
        ("method", "DoRA", "dora"),
    ],
)
def test_names_of_trainers_are_understood(field: str, given: str, read: str) -> None:
    assert getattr(asked(**{field: given}), field) == read


def test_targets_and_parts_are_lists_with_commas() -> None:
    request = asked(
        method="lora", targets=["q_proj, v_proj", "down_proj"], modules_to_save="lm_head,wte"
    )
    assert request.workload.lora_targets == "q_proj,v_proj,down_proj"
    assert request.workload.tuning.modules_to_save == ("head", "embeddings")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"targets": "q_proj"}, "--targets needs --method lora or qlora"),
        ({"method": "lora", "virtual_tokens": 8}, "--virtual-tokens needs --method prompt"),
        ({"active_layers": 2}, "--active-layers needs --method lisa"),
        ({"method": "lora", "freeze": "head"}, "--freeze is for --method full"),
        ({"freeze": "norms"}, "neither the embeddings nor the head"),
        ({"method": "lisa", "active_layers": 2, "train_last": 2}, "either"),
    ],
)
def test_options_without_their_method_are_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        asked(**fields)


def test_a_target_the_model_lacks_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="gate_proj"):
        fit(asked(method="lora", targets="gate_prj"))
    with pytest.raises(UsageError, match="at least one"):
        fit(asked(method="lora", targets=","))


@pytest.mark.parametrize("method", ["lora", "dora", "vera", "ia3", "prompt", "prefix", "adapter"])
def test_every_method_gets_a_verdict_with_its_gaps_said(method: str) -> None:
    answer = fit(asked(method=method, seq=1024))
    assert answer.verdict == "fits"
    adapters = {part.name: part.bytes for part in answer.memory.parts}["adapters"]
    assert 0 < adapters < 0.05 * answer.memory.total_bytes
    assert answer.layout.method == method


def test_paged_states_leave_the_bill_and_go_to_the_host_under_pressure() -> None:
    fields: dict[str, object] = {"method": "full", "seq": 1024, "framework": "finetune"}
    plain = fit(asked(**fields, optimizer="adamw-8bit"))
    paged = fit(asked(**fields, optimizer="paged-adamw-8bit"))
    states = {part.name: part.bytes for part in plain.memory.parts}["optimizer states"]
    # two moments of 2.06 bytes in all for 6.738e9 parameters
    assert states == pytest.approx(2.06 * 6_738_415_616)
    assert plain.memory.total_bytes - paged.memory.total_bytes == pytest.approx(states)
    assert paged.host_bytes is None
    # 48 GB hold 2 + 2 + 2 bytes for each parameter and some of the pages
    short = fit(asked(**fields, on="l40s", optimizer="paged-adamw-8bit"))
    assert short.verdict != "does not fit"
    assert short.host_bytes is not None and 0 < short.host_bytes < states
    assert any("paged optimizer states" in text for text in short.warnings)
