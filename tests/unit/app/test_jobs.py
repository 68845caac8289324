"""From a request to one complete job: gaps filled, rules checked, the first that fits chosen."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.app.jobs import Complete, complete, stated_job, training_warnings
from chipwise.app.requests import EstimateTrainRequest
from chipwise.errors import LayoutError, UsageError


def chosen(**fields: Any) -> Complete:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8", **fields}
    return complete(stated_job(EstimateTrainRequest.model_validate(values)))


def test_what_is_stated_is_kept() -> None:
    fields = {"tp": 2, "pp": 2, "vpp": 4, "micro_batch": 2, "recompute": "selective"}
    strategy = chosen(**fields, global_batch=64).strategy
    assert {name: getattr(strategy, name) for name in fields} == fields


def test_tp_beyond_the_node_is_kept_and_warned_about() -> None:
    one = chosen(on="h100-sxm:8x2", tp=16)
    assert one.strategy.tp == 16
    assert len(training_warnings(one.job, one.strategy)) == 1


def test_nothing_is_left_unsaid() -> None:
    one = chosen()
    workload, strategy = one.job.workload, one.strategy
    assert None not in (workload.seq_len, workload.global_batch, workload.precision)
    wanted = ("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "shard", "recompute")
    assert None not in [getattr(strategy, name) for name in (*wanted, "optimizer", "framework")]


def test_activations_are_recomputed_only_where_memory_is_short() -> None:
    assert chosen(on="h200-sxm:8", micro_batch=1).strategy.recompute == "none"
    assert chosen(on="rtx-4090:8", micro_batch=1).strategy.recompute == "full"


def test_the_optimizer_is_never_swapped_unasked() -> None:
    assert chosen(on="rtx-4090").strategy.optimizer == "adamw"


def test_zero_means_deepspeed_and_plain_data_parallelism() -> None:
    strategy = chosen(on="rtx-4090:4", shard="zero2").strategy
    assert (strategy.framework, strategy.dp, strategy.tp, strategy.pp) == ("deepspeed", 4, 1, 1)


def test_an_assumed_number_of_chunks_divides_the_layers() -> None:
    strategy = chosen(pp=2, tp=1, framework="megatron-core").strategy
    assert 32 % (2 * (strategy.vpp or 1)) == 0


def test_a_pipeline_gets_enough_micro_batches() -> None:
    one = chosen(pp=4, tp=1, micro_batch=1)
    assert one.job.workload.global_batch == 4 * 4 * 2  # 4 per stage, dp 2


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"tp": 7}, "tp-divides-heads"),
        ({"pp": 3}, "degrees-fill-cluster"),
        ({"dp": 4}, "degrees-fill-cluster"),
        ({"cp": 3}, "cp-divides-sequence"),
        ({"ep": 2}, "ep-needs-experts"),
        ({"global_batch": 12}, "batch-divides"),
        ({"tp": 1, "pp": 2, "vpp": 3}, "chunks-divide-layers"),
    ],
)
def test_an_impossible_layout_names_its_rule(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(LayoutError) as error:
        chosen(seq=4096, **fields)
    assert error.value.code == rule
    assert error.value.exit_code == 2
    assert error.value.details["nearest"]


def test_several_systems_are_a_question_for_plan() -> None:
    with pytest.raises(UsageError, match="plan train"):
        chosen(on="h100-sxm:8,a100-sxm-80:8")


def test_devices_that_nothing_trains_on_are_said() -> None:
    one = chosen(on="groq-lpu-v1:8")
    assert any("no training stack" in text for text in training_warnings(one.job, one.strategy))


def test_a_long_list_of_systems_is_not_named_one_by_one() -> None:
    with pytest.raises(UsageError) as error:
        chosen(on="any")
    assert "one system at a time" in error.value.message
    assert len(error.value.message) < 300


def test_a_sequence_beyond_the_published_context_is_a_warning() -> None:
    one = chosen(seq=8192)
    assert any("8192" in text for text in training_warnings(one.job, one.strategy))
