"""Public files of trainers, launchers and engines, read as a person reads them.

Every expected value is read off the file by hand.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chipwise.configs import join, read_source

_FOLDER = Path(__file__).parents[2] / "data" / "configs"
_INDEX = tomllib.loads((_FOLDER / "index-trainers.toml").read_text(encoding="utf-8"))
_SEVEN = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
_ON_THE_HOST = {"shard": "zero3", "offload": "optimizer,params"}

EXPECTED: Mapping[str, Mapping[str, Any]] = {
    "transformers-zero3.json": {**_ON_THE_HOST, "optimizer": "adamw"},
    "axolotl-zero3-offload.json": {**_ON_THE_HOST, "precision": "bf16"},
    "fastchat-zero2.json": {"shard": "zero2", "offload": "optimizer"},
    "llava-zero2.json": {"shard": "zero2"},
    # offload_optimizer is there, and its device is none
    "qwen-zero2.json": {"shard": "zero2", "optimizer": "adamw"},
    "handbook-zero3.yaml": {**_ON_THE_HOST, "precision": "bf16", "devices": 1},
    "handbook-fsdp.yaml": {"shard": "fsdp", "precision": "bf16", "devices": 8},
    "handbook-multi-gpu.yaml": {"precision": "bf16", "devices": 8, "shard": "none"},
    # fsdp_version 2 says with a switch that gathered weights are given back
    "trl-fsdp2.yaml": {"shard": "fsdp", "precision": "bf16", "devices": 8},
    "handbook-dpo-qlora.yaml": {
        "model": "alignment-handbook/zephyr-7b-sft-qlora", "seq": 1024, "micro_batch": 4,
        "accumulation": 4, "epochs": 1.0, "precision": "bf16", "optimizer": "paged-adamw",
        "recompute": "full", "method": "qlora", "base_dtype": "nf4", "rank": 128,
        "targets": _SEVEN, "loss": "dpo",  # prompts have a length of their own: pairs
    },
    "handbook-sft.yaml": {
        "model": "HuggingFaceTB/SmolLM-360M", "seq": 2048, "micro_batch": 4, "accumulation": 4,
        "epochs": 1.0, "precision": "bf16", "recompute": "full", "attention": "flash",
        "master_weights": False, "grad_dtype": "bf16",  # torch_dtype: bfloat16
    },
    "llava-lora.sh": {
        "model": "lmsys/vicuna-13b-v1.5", "seq": 2048, "micro_batch": 16, "accumulation": 1,
        "epochs": 1.0, "precision": "bf16", "recompute": "full", "method": "lora", "rank": 128,
        "shard": "zero3",  # the name of the DeepSpeed file
    },
    "alpaca-fsdp.sh": {
        "model": "facebook/opt-6.7b", "micro_batch": 4, "accumulation": 8, "epochs": 3.0,
        "precision": "bf16", "shard": "fsdp", "devices": 4,
    },
    "qwen-qlora.sh": {
        "model": "Qwen/Qwen-7B-Chat-Int4", "seq": 512, "micro_batch": 2, "accumulation": 8,
        "epochs": 5.0, "precision": "fp16", "recompute": "full", "method": "qlora",
        "base_dtype": "nf4", "shard": "zero2",  # how many devices, Python is asked
    },
}  # fmt: skip

OPEN: Mapping[str, set[str]] = {
    "transformers-zero3.json": {"micro_batch", "accumulation", "global_batch", "precision"},
    "axolotl-zero3-offload.json": {"micro_batch", "accumulation", "global_batch"},
    "fastchat-zero2.json": {"micro_batch", "accumulation", "precision"},
    "llava-zero2.json": {"micro_batch", "accumulation", "global_batch", "precision"},
    "qwen-zero2.json": {"micro_batch", "accumulation", "global_batch", "precision"},
}
"""What ``auto`` leaves to the Trainer."""

UNKNOWN: Mapping[str, list[str]] = {
    # a picture encoder beside the language model
    "llava-lora.sh": ["vision_tower", "pretrain_mm_mlp_adapter", "mm_projector_type"],
}


@pytest.mark.parametrize("name", _INDEX)
def test_a_public_file_is_read_as_it_is_meant(name: str) -> None:
    readings = read_source(str(_FOLDER / "trainers" / name))
    taken = {field: one.value for reading in readings for field, one in reading.taken.items()}
    assert taken == EXPECTED[name]
    assert {field for reading in readings for field in reading.autos} == OPEN.get(name, set())
    unknown = [line.split()[-1] for reading in readings for line in reading.unknown]
    assert unknown == UNKNOWN.get(name, [])
    assert join(readings).tool == _INDEX[name]["tool"]


def test_every_file_says_where_it_is_from() -> None:
    assert set(_INDEX) == {path.name for path in (_FOLDER / "trainers").iterdir()} == set(EXPECTED)
    assert all(len(entry["commit"]) == 40 for entry in _INDEX.values())
