from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from chipwise.app import fit
from chipwise.app.documents import ServeFitDocument
from chipwise.app.requests import FitRequest, parse_request
from chipwise.errors import LayoutError, UnknownNameError, UsageError
from chipwise.report import FORMATS, render


def serve(model: str = "llama-3.1-8b", on: str = "rtx-3090", **stated: Any) -> ServeFitDocument:
    request = parse_request(FitRequest, {"model": model, "on": on, "task": "serve", **stated})
    document = fit(request)
    assert isinstance(document, ServeFitDocument)
    return document


def flag(document: ServeFitDocument, name: str) -> str:
    words = shlex.split(document.engine_command)
    return words[words.index(name) + 1]


def test_the_parts_of_the_bill_add_up() -> None:
    memory = serve().memory
    assert sum(part.bytes for part in memory.parts) == pytest.approx(memory.total_bytes)


def test_what_is_said_to_fit_fits_and_a_block_more_does_not() -> None:
    longest = serve().max_context
    assert serve(context=longest).exit_code == 0
    assert serve(context=longest + 32).exit_code == 3


def test_concurrency_is_what_fits_at_once() -> None:
    most = serve(context=4096).max_concurrency
    assert serve(context=4096, concurrency=most).exit_code == 0
    assert serve(context=4096, concurrency=most + 1).exit_code == 3


def test_context_ends_where_the_model_does() -> None:
    assert serve("gpt2", "h100-sxm").max_context == 1024


def test_longer_than_the_model_was_made_for_is_said() -> None:
    assert any("made for" in text for text in serve("gpt2", context=2048).warnings)


def test_a_remedy_that_is_said_to_fit_fits_when_it_is_asked_for() -> None:
    asked: dict[str, Any] = {"context": 29000, "max_num_batched_tokens": 29000}
    before = serve(**asked)
    assert before.exit_code == 3
    assert len(before.remedies) > 4
    for remedy in before.remedies:
        name, value = remedy.flags.removeprefix("--").split()
        changed: dict[str, Any] = {**asked, name.replace("-", "_"): value}
        after = serve(**changed)
        assert (after.exit_code == 0) == remedy.fits_after, remedy.change


def test_the_first_remedy_that_fits_is_the_one_change() -> None:
    found = serve("llama-3.1-405b", "h100-sxm:8")
    assert found.one_change == next(one for one in found.remedies if one.fits_after)


def test_what_fits_needs_no_remedy() -> None:
    found = serve()
    assert (found.verdict, found.remedies, found.one_change) == ("fits", (), None)


def test_a_packed_cache_holds_twice_as_many_tokens() -> None:
    assert serve(kv_dtype="fp8").kv_tokens == pytest.approx(2 * serve().kv_tokens, rel=0.001)


def test_kv_heads_that_repeat_leave_no_more_room_per_device() -> None:
    # Qwen3-235B has 4 kv heads: a device holds a quarter of them at tp 4 and at tp 8
    four, eight = (
        serve("qwen3-235b-a22b", f"h200-sxm:{n}", precision="fp8", set={"kv_room_bytes": "8GiB"})
        for n in (4, 8)
    )
    assert four.kv_tokens == eight.kv_tokens


def test_more_devices_than_layers_hold_several_copies() -> None:
    # gpt2: 12 layers and 12 heads; 4 of the 8 devices of a node divide the heads
    layout = serve("gpt2", "h100-sxm:8x64").layout
    assert layout.tp * layout.pp * layout.copies == 512
    assert layout.pp <= 12


def test_a_negative_set_value_is_refused() -> None:
    with pytest.raises(UsageError, match="never negative"):
        serve(set={"kv_room_bytes": "-1GB"})


@pytest.mark.parametrize("name", ["layers", "tp", "context", "serving_peak_bytes"])
def test_a_set_value_that_leaves_no_sensible_answer_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="has no sensible value"):
        serve(set={name: "0B" if name.endswith("bytes") else "0"})


def test_copies_share_the_devices() -> None:
    found = serve(on="h100-sxm:8", dp=4)
    assert (found.layout.tp, found.layout.pp, found.layout.copies) == (2, 1, 4)


def test_a_node_is_filled_before_a_pipeline_is_built() -> None:
    found = serve("llama-3.1-405b", "h100-sxm:8x2")
    assert (found.layout.tp, found.layout.pp) == (8, 2)


def test_llama_cpp_spreads_layers() -> None:
    found = serve("llama-3.1-70b", "rtx-3090:2", engine="llama.cpp")
    assert (found.layout.tp, found.layout.pp, found.layout.weights_dtype) == (1, 2, "q4_k_m")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trt-llm", "llama.cpp"])
def test_the_engine_is_told_the_context_in_its_own_words(engine: str) -> None:
    names = {"vllm": "--max-model-len", "sglang": "--context-length",
             "trt-llm": "--max_seq_len", "llama.cpp": "--ctx-size"}  # fmt: skip
    assert flag(serve(on="h100-sxm", engine=engine, context=5000), names[engine]) == "5000"


def test_a_share_for_trt_llm_is_that_of_the_free_memory() -> None:
    half, most = (
        serve(on="h100-sxm", engine="trt-llm", gpu_memory_utilization=share)
        for share in (0.45, 0.9)
    )
    assert most.kv_room_bytes == pytest.approx(2 * half.kv_room_bytes)


def test_a_gap_that_was_filled_is_said_and_a_stated_value_is_not() -> None:
    said = [one.text for one in serve().assumptions]
    assert "8,192 tokens per sequence, prompt and answer" in said
    assert not any("tokens per sequence" in one.text for one in serve(context=8192).assumptions)


@pytest.mark.parametrize(
    ("stated", "error", "text"),
    [
        ({"tp": 7, "on": "h100-sxm:7"}, LayoutError, "tp 7 does not divide the 32"),
        ({"tp": 4, "pp": 4, "on": "h100-sxm:8"}, LayoutError, "8"),
        ({"weights_dtype": "fp9"}, UnknownNameError, "fp8"),
        ({"weights_dtype": "awq", "engine": "llama.cpp"}, UsageError, "q4_k_m"),
        ({"on": "h100-sxm,a100-sxm-80"}, UsageError, "one system at a time"),
        ({"set": {"no_such": "1"}}, UnknownNameError, "no_such"),
        ({"gpu_memory_utilization": 1.5}, UsageError, "--gpu-memory-utilization 1.5"),
        ({"gpu_memory_utilization": 0}, UsageError, "must be"),
        ({"optimizer": "adamw"}, UsageError, "--optimizer says how to train"),
        ({"engine": "tgi"}, UsageError, "vllm"),
        ({"context": -1}, UsageError, "--context"),
    ],
)
def test_what_cannot_be_is_refused(stated: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        serve(**stated)


def test_kv_heads_have_to_go_with_tp() -> None:
    # Phi-3-medium has 40 heads and 10 kv heads: 8 divides the heads but not the kv heads
    with pytest.raises(LayoutError, match="10 key-value heads"):
        serve("phi-3-medium", "h100-sxm:8", tp=8)


def test_serving_flags_need_the_serving_task() -> None:
    with pytest.raises(UsageError, match="--context needs --task serve"):
        parse_request(FitRequest, {"model": "gpt2", "on": "h100-sxm", "context": 10})


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("context", [8192, 10**6])
def test_the_answer_can_be_shown_in_every_form(form: str, context: int) -> None:
    document = json.loads(serve(context=context).model_dump_json())
    assert render(document, form).endswith("\n")


def test_a_page_that_does_not_fit_ends_with_the_question_that_does() -> None:
    found = serve(context=29000, max_num_batched_tokens=29000)
    text = render(json.loads(found.model_dump_json()), "md")
    command = text[text.rindex("chipwise fit") :]
    assert "--max-num-batched-tokens 2048" in command
    assert "--max-num-batched-tokens 29000" not in command
    assert "--context 29000" in command


def test_the_engine_is_given_the_folder_of_a_model_and_nothing_to_run(tmp_path: Path) -> None:
    config = {
        **{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2},
        **{"num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256},
        **{"max_position_embeddings": 4096, "tie_word_embeddings": False},
    }
    folder = tmp_path / "a; touch b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for asked in (folder, folder / "config.json"):
        command = serve(str(asked), "h100-sxm").engine_command
        assert shlex.split(command)[:3] == ["vllm", "serve", str(folder)]
