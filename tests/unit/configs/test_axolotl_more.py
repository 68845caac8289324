from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.errors import UsageError
from tests.unit.configs.recipe_texts import fields, reading

_BASE = "base_model: org/model\nmicro_batch_size: 1\n"
_EVERY = r"model.layers.[\d]+.(mlp|self_attn).(up|down|q)_proj"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("adapter: lora\npeft_use_dora: true", {"method": "dora"}),
        ("activation_offloading: legacy", {"offload": "activations"}),
        ("activation_offloading: false", {"offload": None}),
        ("expert_parallel_size: 4", {"ep": 4}),
        # 4 shards × 2 copies
        ("dp_shard_size: 4\ndp_replicate_size: 2", {"shard": "fsdp", "shard_group": 4, "dp": 8}),
        ("attn_implementation: xformers", {"attention": "flash"}),
        ("attn_implementation: kernels-community/vllm-flash-attn3", {"attention": "flash"}),
        (f"adapter: lora\nlora_target_modules: '{_EVERY}'",
         {"targets": "up_proj,down_proj,q_proj"}),
    ],
)  # fmt: skip
def test_keys_become_fields(tmp_path: Path, text: str, expected: dict[str, object]) -> None:
    found = fields(tmp_path, "a.yaml", _BASE + text)
    assert {key: found.get(key) for key in expected} == expected


def test_patterns_of_some_layers_are_refused(tmp_path: Path) -> None:
    pattern = r"model.layers.(3|7).self_attn.(q|k)_proj"
    with pytest.raises(UsageError) as caught:
        reading(tmp_path, "a.yaml", f"{_BASE}adapter: lora\nlora_target_modules: '{pattern}'\n")
    assert "a.yaml:4: lora_target_modules" in caught.value.message


def test_preferences_and_parts_trained_beside_adapters_are_fields(tmp_path: Path) -> None:
    text = "adapter: lora\nrl: dpo\nlora_modules_to_save: [lm_head, embed_tokens]\n"
    found = fields(tmp_path, "a.yaml", _BASE + text)
    assert (found["loss"], found["modules_to_save"]) == ("dpo", "head,embeddings")


def test_what_is_not_computed_is_said(tmp_path: Path) -> None:
    text = "adapter: lora\nrl: gdpo\nlora_modules_to_save: [router]\n"
    notes = " ".join(reading(tmp_path, "a.yaml", _BASE + text).notes)
    assert "lower bound" in notes
    assert "router trained in full" in notes
