"""What rows of inference measurements leave open is filled by rules, and said."""

from __future__ import annotations

import pytest

from chipwise.validation.inference import predict_speed
from chipwise.validation.inference_report import inference_report, speed_table
from chipwise.validation.inference_rows import serving_row
from chipwise.validation.rows import SkippedRowError

ROW = {
    **{"layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "8", "ffn_hidden": "14336"},
    **{"vocab": "128256", "gated_mlp": "1", "accelerator": "h100-sxm", "num_devices": "1"},
    **{"engine": "vllm", "engine_family": "vllm", "weights_dtype": "bf16", "input_len": "512"},
    **{"output_len": "128", "batch_or_concurrency": "16", "scenario": "closed-loop"},
    **{"metric": "output_tokens_per_s", "value": "1000", "source": "lab", "id": "one"},
}


def test_what_is_stated_is_taken() -> None:
    one = serving_row({**ROW, "tp": "2", "num_devices": "4"})
    assert (one.deployment.setup.tp, one.deployment.replicas) == (2, 2)
    assert (one.traffic.prompt_tokens, one.traffic.output_tokens) == (512, 128)
    assert one.traffic.concurrency == 16
    assert not one.traffic.static_batch


def test_devices_that_hold_layers_work_one_after_the_other() -> None:
    one = serving_row({**ROW, "engine": "llama.cpp", "engine_family": "llamacpp",
                       "weights_dtype": "q4_k_m", "num_devices": "2"})  # fmt: skip
    assert one.deployment.layer_split
    assert (one.deployment.setup.tp, one.deployment.setup.pp) == (1, 2)


def test_pools_of_a_disaggregated_run_answer_for_their_metric() -> None:
    pools = {"prefill_pool": "2 x tp4 dp1 ep1", "decode_pool": "1 x tp8 dp1 ep8",
             "num_devices": "16"}  # fmt: skip
    first = serving_row({**ROW, **pools, "metric": "ttft_ms"})
    token = serving_row({**ROW, **pools, "metric": "tpot_ms"})
    assert (first.deployment.setup.tp, first.deployment.replicas) == (4, 2)
    assert (token.deployment.setup.tp, token.deployment.replicas) == (8, 1)


def test_a_format_that_is_left_open_is_the_widest_that_fits() -> None:
    # 70 billion parameters in 16 bit are 140 GB; in 8 bit they fit 80 GB
    big = {"layers": "80", "hidden": "8192", "heads": "64", "ffn_hidden": "28672"}
    one = serving_row({**ROW, **big, "weights_dtype": ""})
    assert one.deployment.setup.weights.name == "fp8"
    assert any("fp8" in note for note in one.notes)
    assert serving_row({**ROW, "weights_dtype": ""}).deployment.setup.weights.name == "bf16"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"hidden": ""}, "hidden"),
        ({"metric": "smiles"}, "smiles"),
        ({"accelerator": "abacus"}, "abacus"),
        ({"accelerator": "groq-lpu-v1"}, "dataflow"),
        ({"input_len": "many"}, "input_len"),
        ({"metric": "ttft_ms", "batch_or_concurrency": ""}, "batch_or_concurrency"),
    ],
)
def test_a_row_that_cannot_be_predicted_says_why(cells: dict[str, str], words: str) -> None:
    with pytest.raises(SkippedRowError, match=words):
        serving_row({**ROW, **cells})


@pytest.mark.parametrize("cell", ["value", "id", "source_ref", "published", "notes", "model"])
def test_predictions_see_only_the_configuration(cell: str) -> None:
    one, other = (inference_report([{**ROW, cell: text}]) for text in ("7", "70"))
    assert one.rows[0].predicted == other.rows[0].predicted
    assert (one.rows[0].low, one.rows[0].high) == (other.rows[0].low, other.rows[0].high)


def test_a_source_left_out_does_not_move_its_own_predictions() -> None:
    labs = [{**ROW, "source": name, "id": name, "value": value, "batch_or_concurrency": users}
            for name, value, users in (("a", "900", "16"), ("b", "1500", "32"))]  # fmt: skip
    before = inference_report(labs, leave_one_source_out=True).rows
    labs[0]["value"] = "90"
    after = inference_report(labs, leave_one_source_out=True).rows
    assert before[0].predicted == after[0].predicted
    assert before[1].predicted != after[1].predicted


def test_metrics_of_one_run_agree() -> None:
    names = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "tpot_ms",
             "tokens_per_s_per_user")  # fmt: skip
    rows = [{**ROW, "metric": name} for name in names]
    table = speed_table([(row, serving_row(row)) for row in rows])
    from chipwise.calibration import shipped_serving

    rate, total, requests, token, user = predict_speed(table, shipped_serving().columns(table.keys))
    assert total == pytest.approx(rate * (512 + 128) / 128)
    assert requests == pytest.approx(rate / 128)
    assert user == pytest.approx(1e3 / token)
