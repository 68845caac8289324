from __future__ import annotations

import pytest

from chipwise.app.refusals import choices_of
from chipwise.app.requests import FitRequest
from chipwise.catalogue.engines import engines, recognise_engine
from chipwise.catalogue.hardware import load_accelerator
from chipwise.catalogue.sources import sources


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("vLLM (ROCm)", "vllm"), ("VLLM 0.6", "vllm"), ("sglang-jax", "sglang")),
        *(("nemo / TensorRT-LLM", "trt-llm"), ("Optimum NVIDIA", "trt-llm")),
        *(("ollama / llama.cpp", "llama.cpp"), ("ctransformers", "llama.cpp")),
        *(("DeepSpeed-MII", "pooled"), ("TGI", "pooled"), ("transformers (pytorch)", "eager")),
        *(("", "eager"), ("something new", "eager")),
    ],
)
def test_free_text_names_an_engine(text: str, name: str) -> None:
    assert recognise_engine(text).name == name


def test_defaults_grow_on_big_devices_but_not_on_the_a100() -> None:
    # vllm: 8,192 tokens and 1,024 sequences from 70 GiB on, except A100; else 2,048 and 256
    vllm = engines()["vllm"]
    on = {name: load_accelerator(name) for name in ("h100-sxm", "a100-sxm-80", "rtx-4090")}
    assert {name: vllm.tokens_on(device) for name, device in on.items()} == {
        "h100-sxm": 8192,
        "a100-sxm-80": 2048,
        "rtx-4090": 2048,
    }
    assert vllm.sequences_on(on["h100-sxm"]) == 1024


def test_every_offered_engine_can_be_asked_for() -> None:
    offered = {name for name, engine in engines().items() if engine.offered}
    assert offered == set(choices_of(FitRequest, "engine"))


def test_every_engine_names_a_known_source() -> None:
    assert {one.source for one in engines().values()} - {"assumed"} <= set(sources())
