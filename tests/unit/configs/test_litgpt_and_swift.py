from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.errors import UsageError
from tests.unit.configs.recipe_texts import fields, reading

_LIT = "checkpoint_dir: checkpoints/org/model\ntrain:\n  micro_batch_size: 2\n"
_SWIFT = "model: Qwen/Qwen3-8B\nsplit_dataset_ratio: 0.1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_LIT, {"model": "org/model", "method": "full", "micro_batch": 2}),
        # lora_query and lora_value are true where nothing is said
        (f"{_LIT}lora_r: 8\n", {"method": "lora", "rank": 8, "targets": "q_proj,v_proj"}),
        (f"{_LIT}lora_query: false\nlora_head: true\n", {"targets": "v_proj,lm_head"}),
        (f"{_LIT}devices: 4\nnum_nodes: 2\n",
         {"devices": 8, "shard": "fsdp", "recompute": "full"}),
        (f"{_LIT}precision: bf16-true\noptimizer: AdamW\n",
         {"precision": "bf16", "optimizer": "adamw-bf16", "master_weights": False}),
        (f"{_LIT}precision: 32-true\n", {"precision": "fp32"}),
        # pre-training shards within a node of 8 and copies over 2
        ("model_name: pythia-1b\ntrain:\n  global_batch_size: 512\ndevices: 8\nnum_nodes: 2\n",
         {"model": "pythia-1b", "devices": 16, "shard_group": 8, "compile": True}),
        (_SWIFT, {"model": "Qwen/Qwen3-8B", "method": "lora"}),
        (f"{_SWIFT}train_type: full\n", {"method": "full"}),
        (f"{_SWIFT}quant_bits: 4\nquant_method: bnb\n",
         {"method": "qlora", "base_dtype": "nf4-dq"}),
        (f"{_SWIFT}quant_bits: 8\nquant_method: hqq\n", {"base_dtype": "int8"}),
        (f"{_SWIFT}deepspeed: zero3_offload\n", {"shard": "zero3", "offload": "optimizer,params"}),
        (f"{_SWIFT}fsdp: fsdp2\n", {"shard": "fsdp"}),
        (f"{_SWIFT}sequence_parallel_size: 4\n", {"cp": 4}),
        (f"{_SWIFT}attn_impl: flash_attention_2\n", {"attention": "flash"}),
        (f"{_SWIFT}gradient_checkpointing: false\n", {"recompute": "none"}),
        (f"{_SWIFT}use_liger_kernel: true\n", {"chunked_loss": "fused"}),
    ],
)  # fmt: skip
def test_keys_become_fields(tmp_path: Path, text: str, expected: dict[str, object]) -> None:
    found = fields(tmp_path, "c.yaml", text)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        (f"{_LIT}quantize: bnb.nf4\n", 4, "lora_r"),
        (f"{_LIT}lora_r: 8\nquantize: bnb.nf5\n", 5, "bnb.nf4"),
        (f"{_LIT}lora_r: 8\nquantize: bnb.nf4\nprecision: bf16-mixed\n", 5, "bf16-true"),
        (f"{_LIT}lora_r: 8\nquantize: bnb.nf4\ndevices: 2\n", 5, "devices: 1"),
        (f"{_SWIFT}tuner_type: full\nquant_bits: 4\n", 4, "tuner_type: lora"),
        (f"{_SWIFT}tuner_type: boft\n", 3, "write lora, or full"),
        (f"{_SWIFT}deepspeed: zero4\n", 3, "zero3"),
        (f"{_SWIFT}deepspeed: zero2\nfsdp: fsdp2\n", 3, "one of them"),
        (f"{_SWIFT}target_regex: '.*proj'\n", 3, "all-linear"),
    ],
)
def test_what_cannot_hold_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        reading(tmp_path, "c.yaml", text)
    assert f"c.yaml:{line}" in caught.value.message
    assert hint in caught.value.message


def test_a_deepspeed_file_is_named(tmp_path: Path) -> None:
    found = reading(tmp_path, "c.yaml", f"{_SWIFT}deepspeed: my/zero.json\n")
    assert "my/zero.json" in found.notes[0]
    assert found.value("shard") is None
