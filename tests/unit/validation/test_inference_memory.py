from __future__ import annotations

from typing import Any

import pytest

from chipwise.validation.inference_memory import MemoryPrediction, predict

ROW = {
    **{"id": "a", "source": "s", "source_ref": "r", "published": "2024-01", "config_id": "c"},
    **{"model": "mistral-7b", "params_total": "7242000000", "layers": "32", "hidden": "4096"},
    **{"heads": "32", "kv_heads": "8", "head_dim": "128", "ffn_hidden": "14336"},
    **{"vocab": "32000", "gated_mlp": "1", "accelerator": "a100-sxm-80", "num_devices": "1"},
    **{"weights_dtype": "fp16", "engine": "transformers (pytorch)", "output_len": "512"},
    **{"batch_or_concurrency": "1", "metric": "peak_memory_gb", "value": "15.6", "notes": ""},
}


def one(**changed: str) -> Any:
    return predict([{**ROW, **changed}])[0]


@pytest.mark.parametrize(
    "name",
    [*("id", "source", "source_ref", "published", "config_id", "value", "notes", "model")],
)
def test_predictions_are_blind_to(name: str) -> None:
    assert one(**{name: "12345"}) == one()


def test_rows_do_not_see_each_other() -> None:
    other = {**ROW, "engine": "vLLM", "weights_dtype": "int8"}
    assert predict([other, ROW])[1] == predict([ROW, other])[0] == one()


@pytest.mark.parametrize("name", ["engine", "weights_dtype", "accelerator", "metric"])
def test_letter_case_does_not_count(name: str) -> None:
    assert one(**{name: ROW[name].upper()}) == one()


def test_other_metrics_are_skipped_and_named() -> None:
    assert one(metric="ttft_ms") == "metric ttft_ms is not predicted"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"layers": ""}, "not stated: layers"),
        ({"accelerator": "no-such"}, "no-such"),
        ({"weights_dtype": "q9"}, "q9"),
        ({"input_len": "many"}, "input_len is no number"),
        ({"input_len": "1e308"}, "1e308"),
        ({"num_devices": "nan"}, "nan"),
    ],
)
def test_a_row_that_cannot_be_predicted_says_why(changed: dict[str, str], reason: str) -> None:
    found = one(**changed)
    assert isinstance(found, str)
    assert reason in found


def test_an_eager_runtime_holds_its_weights_and_little_more() -> None:
    # 7.242 B parameters in 16 bit are 14.5 GB
    found = one()
    assert isinstance(found, MemoryPrediction)
    assert 14.5 < found.predicted < 1.15 * 14.5
    assert found.low < found.predicted < found.high


def test_an_engine_with_a_pool_fills_its_share_of_the_card() -> None:
    # 0.9 of 79.2 GiB is 76.5 GB; graphs come on top
    small, packed = one(engine="vllm"), one(engine="vllm", weights_dtype="awq")
    assert small.predicted == pytest.approx(packed.predicted)
    assert 76.5 <= small.predicted < 78


def test_scores_that_are_written_to_memory_grow_faster_than_the_prompt() -> None:
    fused = {"engine_family": "exllama"}
    at = [one(input_len=n).predicted - one(input_len=n, **fused).predicted
          for n in ("2048", "4096")]  # fmt: skip
    assert at[1] > 3 * at[0] > 0
