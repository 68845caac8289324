"""A file with other values: read again it says them, and all else stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.configs.editing import edited
from chipwise.configs.marked import Syntax, read_text

YAML = """\
# my run
base_model: meta/x   # the model
micro_batch_size: 8  # too much?
lora_target_modules:
  - q_proj
  - v_proj
fsdp_config:
  # how
  offload: false
datasets:
  - path: a
    type: alpaca
empty:
"""
JSON = """\
{
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {
        "stage": 2,
        "offload_optimizer": {"device": "none"}
    }
}
"""
TOML = """\
[training]
seq_len = 8192  # tokens
local_batch_size = 1

[activation_checkpoint]
mode = "selective"  # "none", "full"
"""


@pytest.mark.parametrize(
    ("text", "syntax", "changes"),
    [
        (YAML, "yaml", {"micro_batch_size": 1}),
        (YAML, "yaml", {"gradient_checkpointing": True, "optimizer": "adamw_bnb_8bit"}),
        (YAML, "yaml", {"fsdp_config.offload": True, "fsdp_config.version": 2}),
        (YAML, "yaml", {"lora_target_modules": ["k_proj"]}),
        (YAML, "yaml", {"empty": 3, "other.inner": "x"}),
        (JSON, "json", {"train_micro_batch_size_per_gpu": 1}),
        (JSON, "json", {"zero_optimization.stage": 3, "gradient_accumulation_steps": 4}),
        (JSON, "json", {"zero_optimization.offload_param.device": "cpu"}),
        (JSON, "json", {"zero_optimization.offload_optimizer.device": "cpu"}),
        (JSON, "json", {"activation_checkpointing.cpu_checkpointing": True}),
        ("{}", "json", {"a": 1, "b.c": 2}),
        (TOML, "toml", {"training.seq_len": 4096, "activation_checkpoint.mode": "full"}),
        (TOML, "toml", {"training.global_batch_size": 8, "optimizer.name": "AdamW"}),
    ],
)
def test_an_edited_file_says_what_was_set_and_all_else(
    text: str, syntax: Syntax, changes: dict[str, Any]
) -> None:
    before = read_text("file", text, syntax)
    after = read_text("file", edited(before, changes), syntax)
    said = {key: entry.value for key, entry in after.entries.items()}
    kept = {key: entry.value for key, entry in before.entries.items() if key not in changes}
    assert {key: said[key] for key in changes} == changes
    assert {key: said[key] for key in kept} == kept
    assert set(said) == {*kept, *changes}


@pytest.mark.parametrize(
    ("text", "syntax", "changes", "touched"),
    [
        (YAML, "yaml", {"micro_batch_size": 1}, "micro_batch_size: 1  # too much?"),
        (JSON, "json", {"zero_optimization.stage": 3}, '        "stage": 3,'),
        (TOML, "toml", {"training.seq_len": 4096}, "seq_len = 4096  # tokens"),
        (TOML, "toml", {"activation_checkpoint.mode": "full"}, 'mode = "full"  # "none", "full"'),
    ],
)
def test_one_line_changes_and_its_comment_stays(
    text: str, syntax: Syntax, changes: dict[str, Any], touched: str
) -> None:
    before, after = text.splitlines(), edited(read_text("file", text, syntax), changes).splitlines()
    different = [new for old, new in zip(before, after, strict=True) if old != new]
    assert different == [touched]
