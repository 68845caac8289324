"""A whole run in estimates and plans: length, checkpoints, compilation, data."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.app import estimate_train, plan_train
from chipwise.app.documents import EstimateDocument
from chipwise.app.requests import EstimateTrainRequest, PlanTrainRequest, parse_request
from chipwise.errors import UsageError


def asked(**fields: Any) -> EstimateDocument:
    values = {"model": "llama-2-7b", "on": "h100-sxm:8", "seq": 2048, **fields}
    return estimate_train(parse_request(EstimateTrainRequest, values))


def likely(document: EstimateDocument) -> float:
    assert document.duration_s is not None
    return document.duration_s.likely


def parts(document: EstimateDocument) -> dict[str, float]:
    assert document.run is not None
    return {part.name: part.seconds for part in document.run.parts}


def test_epochs_of_examples_are_sequences_filled_with_tokens() -> None:
    document = asked(epochs=3, examples="52k", global_batch=64)
    assert document.run is not None
    assert document.run.tokens == 3 * 52_000 * 2048
    assert document.run.num_steps == pytest.approx(3 * 52_000 / 64)
    assert likely(document) == pytest.approx(document.run.tokens / document.tokens_per_s.likely)
    assert likely(document) == pytest.approx(likely(asked(tokens=3 * 52_000 * 2048,
                                                          global_batch=64)))  # fmt: skip
    assert any("156 k sequences" in one.text for one in document.assumptions)


def test_device_hours_are_the_duration_of_all_devices() -> None:
    document = asked(tokens="1B")
    assert document.device_hours is not None
    assert document.device_hours.likely == pytest.approx(8 * likely(document) / 3600)


def test_without_a_length_there_is_no_duration() -> None:
    document = asked()
    assert (document.duration_s, document.device_hours, document.run) == (None, None, None)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tokens": "1B", "examples": 5}, "either --tokens"),
        ({"tokens": "1B", "epochs": 5}, "either --tokens"),
        ({"epochs": 3}, "--epochs needs --examples"),
        ({"tokens": "1B", "storage_bandwidth": "5 GB"}, "--storage-bandwidth"),
        ({"tokens": "1B", "checkpoint_every": 0}, "--checkpoint-every"),
        ({"tokens": "1B", "data_stall": "120%"}, "--data-stall"),
    ],
)
def test_what_contradicts_itself_or_cannot_be_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(**fields)


def test_a_plan_needs_a_length() -> None:
    with pytest.raises(UsageError, match="--tokens is missing"):
        parse_request(PlanTrainRequest, {"model": "llama-2-7b", "on": "h100-sxm:8"})


def test_checkpoints_stall_by_their_size_over_the_storage() -> None:
    every = {"tokens": "1B", "global_batch": 64, "checkpoint_every": 100}
    document = asked(**every, storage_bandwidth="2GB/s")
    assert document.run is not None
    # 6.738e9 parameters · 12 bytes (fp32 weights and Adam), at 2 GB/s, every 100 steps
    size = 6_738_415_616 * 12
    assert document.run.checkpoint_bytes == pytest.approx(size, rel=1e-3)
    assert document.run.checkpoint_time_s == pytest.approx(size / 2e9, rel=1e-3)
    saves = 1e9 / (64 * 2048) / 100
    assert parts(document)["writing checkpoints"] == pytest.approx(saves * size / 2e9, rel=1e-3)
    usual = asked(**every)
    assert any("1 GB/s per node" in one.text for one in usual.assumptions)
    assert not any("1 GB/s per node" in one.text for one in document.assumptions)
    assert likely(usual) > likely(document) > likely(asked(tokens="1B", global_batch=64))


def test_compilation_is_paid_once_on_xla_and_its_range_is_wide() -> None:
    small, large = asked(on="tpu-v5p:16", tokens="1M"), asked(on="tpu-v5p:16", tokens="1B")
    assert parts(small)["compilation"] == parts(large)["compilation"] == 300
    assert "compilation" not in parts(asked(tokens="1B"))
    assert small.duration_s is not None and large.duration_s is not None
    assert small.duration_s.high > 900 and small.duration_s.low < 300  # 5 minutes ×/÷ 3
    stated = asked(on="tpu-v5p:16", tokens="1M", set="compile_time=1min")
    assert parts(stated)["compilation"] == 60
    assert any("compiling" in one.text for one in small.assumptions)
    assert not any("compiling" in one.text for one in stated.assumptions)


def test_waiting_for_data_is_a_share_of_the_steps_or_what_reading_takes_longer() -> None:
    plain = asked(tokens="1B")
    assert likely(asked(tokens="1B", data_stall="5%")) == pytest.approx(1.05 * likely(plain))
    slow = asked(tokens="1B", data_bandwidth="100kB/s")  # 4 bytes a token: 40,000 s
    assert likely(slow) == pytest.approx(max(40_000, likely(plain)))


def test_a_plan_counts_the_same_overheads() -> None:
    values = {"model": "llama-2-7b", "on": "tpu-v5p:16", "tokens": "1B", "checkpoint_every": 50}
    plan = plan_train(parse_request(PlanTrainRequest, values)).plans[0]
    assert plan.run is not None
    assert {part.name for part in plan.run.parts} == {
        *("training steps", "writing checkpoints", "compilation")
    }
    total = sum(part.seconds for part in plan.run.parts)
    assert plan.duration_s.likely == pytest.approx(total)
