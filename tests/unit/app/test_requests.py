from __future__ import annotations

from typing import Any

import pytest

from chipwise.app.requests import (
    CatalogueRequest,
    EstimateTrainRequest,
    ExplainRequest,
    FitRequest,
    PlanTrainRequest,
    Request,
    parse_request,
)
from chipwise.errors import UsageError

HERE = {"model": "m", "on": "h100-sxm"}


def fit(**fields: Any) -> FitRequest:
    return parse_request(FitRequest, {**HERE, **fields})


def refusal(kind: type[Request], /, **fields: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_request(kind, fields)
    return caught.value


# -- values with units


def test_counts_durations_and_shares_are_read_from_text() -> None:
    plan = parse_request(
        PlanTrainRequest,
        {**HERE, "tokens": "2B", "deadline": "14d", "headroom": "10%", "seq": "4k"},
    )
    assert plan.tokens == 2e9
    assert plan.deadline == 14 * 86400
    assert plan.headroom == pytest.approx(0.1)
    assert plan.seq == 4000


def test_numbers_mean_the_same_as_their_text() -> None:
    assert fit(micro_batch=2, headroom=0.1) == fit(micro_batch="2", headroom="0.1")


def test_lists_may_be_repeated_or_separated_by_commas() -> None:
    assert fit(offload=["optimizer", "params"]) == fit(offload="optimizer, params")


def test_booleans_may_be_words() -> None:
    assert fit(sequence_parallel="yes").sequence_parallel is True
    assert fit(sequence_parallel="0").sequence_parallel is False


def test_choices_ignore_letter_case_and_know_the_long_names_of_number_formats() -> None:
    assert fit(precision="BFloat16", recompute="FULL") == fit(precision="bf16", recompute="full")
    assert fit(precision="torch.float16").precision == "fp16"


def test_overrides_are_a_mapping_of_text() -> None:
    assert fit(set=["step_time=1.2 s", "mfu=0.4"]).set == {"step_time": "1.2 s", "mfu": "0.4"}
    assert fit(set={"mfu": 0.4}).set == {"mfu": "0.4"}


# -- refusals name the flag, the value and what would do


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"tp": "two"}, "not-a-number", "--tp"),
        ({"tp": "7.5"}, "not-a-whole-number", "--tp"),
        ({"tp": True}, "not-a-whole-number", "--tp"),
        ({"micro_batch": 0}, "out-of-range", "--micro-batch 0 is out of range: must be ≥ 1"),
        ({"seq": "-1"}, "out-of-range", "--seq -1"),
        ({"headroom": "100%"}, "out-of-range", "--headroom"),
        ({"headroom": "nan"}, "not-a-number", "--headroom: 'nan' is no share; write it like 10%"),
        ({"headroom": "5GB"}, "not-a-number", "10% or 0.1"),
        ({"headroom": float("nan")}, "out-of-range", "--headroom"),
        ({"seq": "1e30"}, "out-of-range", "must be ≤ 1000000000"),
        ({"global_batch": 10**30}, "out-of-range", "--global-batch"),
        ({"model": 5}, "invalid-value", "MODEL: '5' is nothing that can be meant here"),
        ({"set": 5}, "invalid-value", "--set: '5'"),
        ({"recompute": "ful"}, "unknown-choice", "none, selective, full; did you mean 'full'?"),
        ({"offload": "optimiser"}, "unknown-choice", "did you mean 'optimizer'?"),
        ({"compile": "maybe"}, "not-yes-or-no", "--compile 'maybe'"),
        ({"set": "step_time"}, "override", "QUANTITY=VALUE"),
        ({"modle": "m"}, "unknown-field", "did you mean 'model'?"),
        ({"rank": 8}, "contradiction", "--rank needs --method lora or qlora"),
    ],
)
def test_bad_values_are_refused(fields: dict[str, Any], code: str, text: str) -> None:
    error = refusal(FitRequest, **{**HERE, **fields})
    assert error.code == code
    assert text in error.message
    assert error.exit_code == 2


def test_systems_may_be_one_text_or_several() -> None:
    assert fit(on=["h100-sxm:8", "rtx-4090"]).on == fit(on="h100-sxm:8,rtx-4090").on


def test_recompute_of_every_nth_layer_is_full_recompute() -> None:
    assert fit(recompute_every=2).strategy.recompute == "full"
    assert fit(recompute_every=2, recompute="none").strategy.recompute == "none"


def test_what_is_missing_is_named_as_it_is_typed() -> None:
    assert "MODEL is missing" in refusal(FitRequest, on="h100-sxm").message
    assert "--on is missing" in refusal(FitRequest, model="m").message
    assert "--tokens is missing" in refusal(PlanTrainRequest, **HERE).message
    assert "QUANTITY" in refusal(ExplainRequest).message
    assert "--on" in refusal(ExplainRequest, quantity="peak_flops").message
    assert "ID" in refusal(CatalogueRequest, kind="show").message


def test_a_duration_without_unit_is_refused() -> None:
    error = refusal(PlanTrainRequest, **HERE, tokens="2B", deadline="14")
    assert error.code == "missing-unit"
    assert "--deadline" in error.message


def test_infinity_is_no_number_of_tokens() -> None:
    assert "must be ≤" in refusal(PlanTrainRequest, **HERE, tokens="1e300").message
    assert refusal(PlanTrainRequest, **HERE, tokens=float("inf")).exit_code == 2


def test_listing_quantities_needs_nothing_else() -> None:
    assert parse_request(ExplainRequest, {"list": True}).list


# -- specs


def test_what_is_not_stated_stays_not_stated_in_the_specs() -> None:
    strategy = fit().strategy.model_dump(exclude_none=True)
    workload = fit().workload.model_dump(exclude_none=True)
    assert strategy == {}
    objective = {"loss": "sft"}
    tuning: dict[str, object] = {"modules_to_save": (), "freeze": ()}
    assert workload == {"method": "full", "objective": objective, "tuning": tuning}


def test_stated_fields_reach_the_specs() -> None:
    request = parse_request(
        EstimateTrainRequest,
        {**HERE, "tp": 2, "offload": "optimizer", "compile": True, "seq": 512, "method": "lora",
         "rank": 8},
    )  # fmt: skip
    strategy = request.strategy
    assert (strategy.tp, strategy.compiled, strategy.offload_optimizer) == (2, True, True)
    assert strategy.offload_params is False
    assert (request.workload.seq_len, request.workload.lora_rank) == (512, 8)


def test_the_tokens_of_a_plan_reach_the_workload() -> None:
    plan = parse_request(PlanTrainRequest, {**HERE, "tokens": "2B"})
    assert plan.workload.tokens == 2e9
