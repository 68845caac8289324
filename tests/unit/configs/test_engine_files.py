"""Public configurations of DeepSpeed and accelerate, read as a person reads them.

Every expected value is read off the file by hand; what a tool makes of a key is said beside it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chipwise.configs import read_source

_FOLDER = Path(__file__).parents[2] / "data" / "configs"
_INDEX = tomllib.loads((_FOLDER / "index-engines.toml").read_text(encoding="utf-8"))
_BATCHES = ["global_batch", "micro_batch", "accumulation"]

EXPECTED: Mapping[str, Mapping[str, Any]] = {
    "llama-factory-z2.json": {"shard": "zero2"},
    "llama-factory-z2-autotp.json": {"shard": "zero2", "tp": 2},
    "llama-factory-z3-offload.json": {
        "shard": "zero3", "offload": "optimizer,params",
    },
    "axolotl-zero1.json": {"shard": "zero1"},
    "axolotl-zero3-bf16-offload.json": {
        "shard": "zero3", "offload": "optimizer,params",
        "precision": "bf16",
    },
    "fastchat-s3.json": {"shard": "zero3", "offload": "optimizer,params"},
    # cpu_offload is how versions before 0.5 wrote offload_optimizer
    "deepspeed-gpt2-zero2-offload.json": {
        "global_batch": 4, "accumulation": 1, "precision": "fp16", "shard": "zero2",
        "offload": "optimizer",
    },
    "accelerate-zero3-offload.json": {
        "accumulation": 1, "precision": "fp16", "shard": "zero3", "offload": "optimizer,params",
        "optimizer": "adamw",
    },
    # nvme is off the device too
    "examples-infinity.json": {
        "micro_batch": 4, "accumulation": 1, "precision": "fp16", "shard": "zero3",
        "offload": "optimizer,params",
    },
    "transformers-zero2.json": {
        "shard": "zero2", "offload": "optimizer", "optimizer": "adamw",
    },
    # LAMB has AdamW's two moments; without zero_optimization nothing is sharded
    "examples-bert-lamb.json": {
        "global_batch": 65536, "micro_batch": 64, "precision": "fp16", "optimizer": "adamw",
        "shard": "none",
    },
    # copies 2 × shards 2, beside tensor parallel 2: 8 processes
    "accelerate-tp-hsdp.yaml": {
        "devices": 8, "precision": "bf16", "shard": "fsdp",
        "tp": 2, "dp": 4, "shard_group": 2,
    },
    "accelerate-fsdp-no-precision.yaml": {
        "devices": 1, "precision": "fp32", "shard": "fsdp",
    },
    "accelerate-multi-node.yaml": {"devices": 8, "shard": "none"},
    # the name of the file that is named: zero_stage1
    "accelerate-deepspeed-file.yaml": {"devices": 2, "shard": "zero1"},
    "handbook-zero3.yaml": {"devices": 8, "precision": "bf16", "shard": "zero3"},
    "llama-factory-fsdp2.yaml": {
        "devices": 2, "precision": "bf16", "shard": "fsdp",
    },
    "llama-factory-fsdp-offload.yaml": {
        "devices": 2, "precision": "bf16", "shard": "fsdp",
        "offload": "optimizer,params",
    },
}  # fmt: skip

AUTOS: Mapping[str, list[str]] = {
    "llama-factory-z2.json": [*_BATCHES, "precision"],
    "llama-factory-z2-autotp.json": [*_BATCHES, "precision"],
    "llama-factory-z3-offload.json": [*_BATCHES, "precision"],
    "axolotl-zero1.json": [*_BATCHES, "precision"],
    "fastchat-s3.json": [*_BATCHES, "precision"],
    "transformers-zero2.json": [*_BATCHES, "precision"],
    "axolotl-zero3-bf16-offload.json": _BATCHES,
    "accelerate-zero3-offload.json": ["global_batch", "micro_batch"],
}
"""Fields that a file leaves to HF Trainer."""


@pytest.mark.parametrize("name", _INDEX)
def test_a_public_configuration_is_read_as_it_is_meant(name: str) -> None:
    (reading,) = read_source(str(_FOLDER / "engines" / name))
    assert reading.tool == _INDEX[name]["tool"]
    assert {field: one.value for field, one in reading.taken.items()} == EXPECTED[name]
    assert set(reading.autos) == set(AUTOS.get(name, []))


@pytest.mark.parametrize("name", _INDEX)
def test_what_is_not_understood_is_listed(name: str) -> None:
    # sparse attention is nothing that is computed; everything else is known
    (reading,) = read_source(str(_FOLDER / "engines" / name))
    odd = {line.split()[-1].partition(".")[0] for line in reading.unknown}
    assert odd == ({"sparse_attention"} if name == "examples-bert-lamb.json" else set())


def test_every_file_says_where_it_is_from() -> None:
    assert set(_INDEX) == {path.name for path in (_FOLDER / "engines").iterdir()} == set(EXPECTED)
    assert all(len(entry["commit"]) == 40 and entry["license"] for entry in _INDEX.values())
