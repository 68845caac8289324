from __future__ import annotations

import pytest

from chipwise.catalogue.models import load_model, model_ids
from chipwise.serving_columns import serving_model_columns
from chipwise.spec.tensors import params_total


@pytest.mark.parametrize("name", model_ids())
def test_every_parameter_is_counted_once(name: str) -> None:
    model = load_model(name)
    columns = serving_model_columns(model)
    parts = ("attention_split_params", "attention_kv_params", "attention_whole_params")
    layers = sum(columns[part] for part in (*parts, "block_params", "small_params"))
    tables = columns["table_params"] * (1 if model.tied_embeddings else 2)
    assert layers + tables == params_total(model)


def test_key_and_value_projections_are_told_from_query_and_output() -> None:
    # Llama-3.1-8B, each of 32 layers: 4096 × 4096 twice; 4096 × 1024 twice
    columns = serving_model_columns(load_model("llama-3.1-8b"))
    assert columns["attention_split_params"] == 32 * 2 * 4096 * 4096
    assert columns["attention_kv_params"] == 32 * 2 * 4096 * 1024
    assert columns["attention_whole_params"] == 0


def test_latent_projections_stay_on_every_rank() -> None:
    # DeepSeek-V3, each of 61 layers: 7168 × (512 + 64) and 7168 × 1536
    columns = serving_model_columns(load_model("deepseek-v3"))
    assert columns["attention_whole_params"] == 61 * 7168 * (576 + 1536)
    assert (columns["kv_full_width"], columns["kv_heads"]) == (61 * 576, 1)


def test_alternating_windows_are_kept_apart() -> None:
    # gpt-oss-20b: 12 layers with a window of 128 and 12 without; 2 × 8 heads × 64 each
    columns = serving_model_columns(load_model("gpt-oss-20b"))
    assert columns["kv_full_width"] == columns["kv_window_width"] == 12 * 2 * 8 * 64
    assert columns["window"] == 128


def test_linear_attention_keeps_a_state_and_no_tokens() -> None:
    # Qwen3.5-27B: 16 full layers of 2 × 4 heads × 256; 48 linear ones of 48 × 128 × 128 in fp32
    columns = serving_model_columns(load_model("qwen3.5-27b"))
    assert columns["kv_full_width"] == 16 * 2 * 4 * 256
    assert columns["sequence_state_bytes"] == 48 * 48 * 128 * 128 * 4
