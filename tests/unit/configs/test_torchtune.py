from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.catalogue.load import entry_ids
from chipwise.configs.builders import TORCHTITAN, TORCHTUNE
from chipwise.errors import UsageError
from tests.unit.configs.recipe_texts import fields, reading


def _text(builder: str = "lora_llama3_1_8b", more: str = "", model: str = "") -> str:
    head = f"model:\n  _component_: torchtune.models.any.{builder}\n"
    return head + "".join(f"  {line}\n" for line in model.splitlines()) + more


@pytest.mark.parametrize(
    ("builder", "model", "method"),
    [
        ("llama3_2_3b", "llama-3.2-3b", "full"),
        ("lora_qwen2_5_7b_instruct", "qwen2.5-7b", "lora"),
        ("qlora_llama2_70b", "llama-2-70b", "qlora"),
        ("lora_phi4_14b", "phi-4", "lora"),
        ("qwen3_32b", "qwen3-32b", "full"),
    ],
)
def test_builders_name_model_and_method(
    tmp_path: Path, builder: str, model: str, method: str
) -> None:
    found = fields(tmp_path, "t.yaml", _text(builder))
    assert (found["model"], found["method"]) == (model, method)


def test_all_builders_are_in_the_catalogue() -> None:
    known = set(entry_ids("models"))
    assert {*TORCHTUNE.values(), *filter(None, TORCHTITAN.values())} <= known


@pytest.mark.parametrize(
    ("model", "more", "expected"),
    [
        ("lora_rank: 16\nlora_attn_modules: ['q_proj', 'output_proj']\napply_lora_to_output: True",
         "", {"rank": 16, "targets": "q_proj,o_proj,lm_head"}),
        ("quantize_base: True", "", {"method": "qlora", "base_dtype": "nf4-dq"}),
        ("use_dora: True", "", {"method": "dora"}),
        ("", "optimizer:\n  _component_: torchao.optim.AdamW8bit\n", {"optimizer": "adamw-8bit"}),
        ("", "tokenizer:\n  max_seq_len: null\n", {"seq": None}),
        ("", "enable_activation_checkpointing: True\nenable_activation_offloading: True\n",
         {"recompute": "full", "offload": "activations"}),
        ("", "loss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\n",
         {"chunked_loss": "yes"}),
        ("", "compile:\n  model: True\n  loss: False\n", {"compile": True}),
        ("", "fsdp_cpu_offload: True\n", {"shard": "fsdp", "offload": "optimizer,params"}),
        ("", "data_parallel_shard_dim: 4\ndata_parallel_replicate_dim: 2\n",
         {"shard": "fsdp", "shard_group": 4}),
        ("", "dtype: fp32\n", {"precision": "fp32", "master_weights": None}),
    ],
)  # fmt: skip
def test_keys_become_fields(
    tmp_path: Path, model: str, more: str, expected: dict[str, object]
) -> None:
    found = fields(tmp_path, "t.yaml", _text(more=more, model=model))
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        (_text("lora_llama3_1_9b"), 2, "llama3_1_8b"),
        (_text("llama3_1_8b", model="quantize_base: True"), 3, "lora_llama3_1_8b"),
        (_text(model="lora_attn_modules: ['o_proj']"), 3, "output_proj"),
        (_text(more="optimizer:\n  _component_: torch.optim.AdamV\n"), 4, "adamw"),
        (_text(more="loss:\n  _component_: a.CEWithChunkedOutput\n"), 4, "CEWithChunkedOutputLoss"),
        (_text(more="gradient_accumulation_steps: 4\noptimizer_in_bwd: True\n"), 3,
         "gradient_accumulation_steps: 1"),
        (_text(more="clip_grad_norm: 1.0\noptimizer_in_bwd: True\n"), 3, "clip_grad_norm: null"),
        (_text(more="enable_activation_checkpointing: False\nenable_activation_offloading: True\n"),
         4, "enable_activation_checkpointing: true"),
    ],
)  # fmt: skip
def test_what_cannot_hold_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        reading(tmp_path, "t.yaml", text)
    assert f"t.yaml:{line}" in caught.value.message
    assert hint in caught.value.message


def test_interpolations_are_plain_text_and_preferences_are_said(tmp_path: Path) -> None:
    more = "output_dir: ${oc.env:HOME}\nloss:\n  _component_: torchtune.rlhf.loss.DPOLoss\n"
    found = reading(tmp_path, "t.yaml", _text(more=more))
    assert "lower bound" in found.notes[-1]
    assert found.unknown == []
