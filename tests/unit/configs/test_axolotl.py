"""axolotl's keys as fields of a job, each with the line it stands on."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.configs import axolotl
from chipwise.configs.marked import read_text
from chipwise.configs.reading import Reading
from chipwise.errors import UsageError

BASE = "base_model: org/model\nsequence_len: 2048\nmicro_batch_size: 4\n"


def read(more: str) -> Reading:
    marked = read_text("run.yml", BASE + more)
    assert axolotl.looks_like(marked)
    return axolotl.read(marked)


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ("", {"model": "org/model", "seq": 2048, "micro_batch": 4}),
        ("gradient_accumulation_steps: 8", {"accumulation": 8}),
        ("adapter: lora\nlora_r: 64\nlora_target_linear: true",
         {"method": "lora", "rank": 64, "targets": "all-linear"}),
        ("adapter: lora\nload_in_8bit: true", {"method": "qlora", "base_dtype": "int8"}),
        ("adapter: qlora\nload_in_4bit: true", {"method": "qlora", "base_dtype": "nf4-dq"}),
        ("adapter: lora\nlora_target_modules: [q_proj, v_proj]", {"targets": "q_proj,v_proj"}),
        ("bf16: true\nflash_attention: true", {"precision": "bf16", "attention": "flash"}),
        ("gradient_checkpointing: unsloth", {"recompute": "full", "offload": "activations"}),
        ("gradient_checkpointing: false", {"recompute": "none"}),
        ("optimizer: adamw_bnb_8bit", {"optimizer": "adamw-8bit"}),
        ("deepspeed: deepspeed_configs/zero3_bf16.json", {"shard": "zero3"}),
        ("deepspeed: zero3_bf16_cpuoffload_all.json",
         {"shard": "zero3", "offload": "optimizer,params"}),
        ("fsdp: [full_shard, auto_wrap]\nfsdp_config:\n  fsdp_offload_params: true",
         {"shard": "fsdp", "offload": "optimizer,params"}),
        ("liger_fused_linear_cross_entropy: true", {"chunked_loss": "fused"}),
    ],
)  # fmt: skip
def test_keys_become_fields(more: str, fields: dict[str, Any]) -> None:
    found = read(more)
    assert {name: found.value(name) for name in fields} == fields


def test_full_training_leaves_out_what_only_adapters_have() -> None:
    found = read("adapter:\nlora_r: 32\nlora_target_modules: [q_proj]")
    assert not {"method", "rank", "targets"} & set(found.taken)


def test_what_the_device_has_is_left_open() -> None:
    assert "precision" not in read("bf16: auto\nfp16:\ntf32: false").taken


@pytest.mark.parametrize(
    ("more", "place", "says"),
    [
        ("load_in_4bit: true", "run.yml:4", "adapter: qlora"),
        ("bf16: true\nfp16: true", "run.yml:5", "one of them"),
        ("sequence_len: many", "run.yml:4", "many"),
        ("optimizer: adamwx", "run.yml:4", "adamw_torch"),
        ("adapter: lora\nlora_target_modules: .*attn", "run.yml:5", "all-linear"),
    ],
)
def test_what_cannot_be_is_named_with_its_line(more: str, place: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(more)
    assert place in caught.value.message and says in caught.value.message


def test_keys_that_are_not_understood_are_listed_and_harmless_ones_are_not() -> None:
    found = read("frobnicate: 3\nwandb_project: x\nlora_dropout: 0.1").close(["wandb*", "*dropout"])
    assert found.unknown == ["run.yml:4 frobnicate"]
