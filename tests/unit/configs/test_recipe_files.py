"""Public configurations of trainers, read as a person reads them.

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
_INDEX = tomllib.loads((_FOLDER / "index-recipes.toml").read_text(encoding="utf-8"))

_SEVEN_BUT_K = "q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
"""torchtune: q, v and output of attention, and ``apply_lora_to_mlp``."""

EXPECTED: Mapping[str, Mapping[str, Any]] = {
    "axolotl-qlora-fsdp-70b.yaml": {
        "model": "casperhansen/llama-3-70b-fp16", "seq": 512, "packing": False,
        "micro_batch": 1, "accumulation": 4, "epochs": 4.0, "optimizer": "adamw",
        "method": "qlora", "base_dtype": "nf4-dq", "rank": 8, "targets": "all-linear",
        "recompute": "full", "attention": "flash", "shard": "fsdp",
        "offload": "optimizer,params",  # fsdp_offload_params
    },
    "axolotl-fft-8b-liger-fsdp.yaml": {
        "model": "NousResearch/Meta-Llama-3.1-8B", "seq": 4096, "packing": True,
        "micro_batch": 2, "accumulation": 4, "epochs": 1.0, "optimizer": "adamw",
        "recompute": "full", "attention": "flash", "chunked_loss": "fused", "shard": "fsdp",
        "offload": "optimizer,params",
    },
    "llama-factory-qlora.yaml": {
        "model": "Qwen/Qwen3-4B-Instruct-2507", "seq": 2048, "micro_batch": 1,
        "accumulation": 8, "epochs": 3.0, "method": "qlora", "precision": "bf16",
        "base_dtype": "nf4-dq",  # quantization_type nf4, double_quantization true by itself
        "rank": 8, "targets": "all-linear",
    },
    "llama-factory-full.yaml": {
        "model": "Qwen/Qwen3-4B-Instruct-2507", "seq": 2048, "micro_batch": 1,
        "accumulation": 2, "epochs": 3.0, "method": "full", "precision": "bf16",
        "grad_dtype": "bf16", "shard": "zero3",  # the DeepSpeed file that is named
    },
    "torchtune-8b-qlora.yaml": {
        "model": "llama-3.1-8b", "micro_batch": 2, "accumulation": 8, "epochs": 1.0,
        "precision": "bf16", "packing": False, "optimizer": "adamw", "method": "qlora",
        "base_dtype": "nf4-dq", "rank": 8, "targets": _SEVEN_BUT_K, "recompute": "full",
        "compile": False, "chunked_loss": "yes",
    },
    "torchtune-8b-full.yaml": {
        "model": "llama-3.1-8b", "micro_batch": 2, "accumulation": 1, "epochs": 1.0,
        "precision": "bf16", "packing": False, "optimizer": "paged-adamw-8bit",
        "method": "full", "master_weights": False, "grad_dtype": "bf16", "recompute": "full",
        "compile": False, "chunked_loss": "yes", "optimizer_in_backward": True,
    },
    "torchtune-70b-full.yaml": {
        "model": "llama-3.3-70b", "seq": 1024, "micro_batch": 4, "accumulation": 1,
        "epochs": 1.0, "precision": "bf16", "packing": False, "method": "full", "tp": 8,
        "optimizer": "adamw-bf16",  # states are as the weights, dtype: bf16
        "master_weights": False, "grad_dtype": "bf16", "recompute": "full", "compile": True,
        "chunked_loss": "yes", "shard": "fsdp",
    },
    "torchtitan-405b.toml": {
        "model": "llama-3.1-405b", "seq": 8192, "micro_batch": 2, "optimizer": "adamw",
        "precision": "fp8", "tp": 8, "cp": 1, "pp": 1, "shard": "fsdp", "recompute": "full",
        "compile": True,
    },
    "torchtitan-70b-2025-01.toml": {
        "model": "llama-3.1-70b", "seq": 8192, "micro_batch": 8, "optimizer": "adamw",
        "tp": 8, "cp": 1, "pp": 1, "shard": "fsdp", "recompute": "full", "compile": False,
    },
    "torchtitan-maverick.toml": {
        "model": "llama-4-maverick-17b-128e", "seq": 8192, "optimizer": "adamw",
        "micro_batch": 1, "accumulation": 1,  # one local sequence: one piece in the pipeline
        "tp": 8, "cp": 1, "ep": 1, "pp": 4, "recompute": "full", "compile": False,
        "shard": "zero2",  # a pipeline keeps weights gathered by itself
    },
    "litgpt-qlora.yaml": {
        "model": "meta-llama/Meta-Llama-3.1-8B", "seq": 512, "micro_batch": 2,
        "global_batch": 8, "epochs": 2.0, "precision": "bf16", "devices": 1,
        "method": "qlora", "base_dtype": "nf4", "rank": 32, "targets": "q_proj,v_proj",
        "optimizer": "paged-adamw",  # AdamW becomes PagedAdamW over a packed base
    },
    "litgpt-pretrain.yaml": {
        "model": "tiny-llama-1.1b", "seq": 2048, "micro_batch": 4, "global_batch": 512,
        "precision": "bf16", "optimizer": "adamw", "method": "full", "compile": True,
    },
    "ms-swift-lora.yaml": {
        "model": "Qwen/Qwen2.5-7B-Instruct", "seq": 2048, "micro_batch": 1,
        "accumulation": 8, "epochs": 1.0, "precision": "bf16", "method": "lora", "rank": 8,
        "targets": "all-linear", "shard": "zero2",
    },
    "ms-swift-ray.yaml": {
        "model": "Qwen/Qwen2.5-7B-Instruct", "micro_batch": 1, "accumulation": 8,
        "epochs": 5.0, "precision": "bf16", "attention": "flash", "devices": 4,
        "method": "lora", "targets": "q_proj,k_proj,v_proj,o_proj", "shard": "zero3",
    },
}  # fmt: skip

UNKNOWN: Mapping[str, list[str]] = {
    # fused kernels of layers, which save activations and time that are not counted
    "axolotl-fft-8b-liger-fsdp.yaml": ["liger_rope", "liger_rms_norm", "liger_glu_activation"],
    # communication overlapped inside matrix products
    "torchtitan-405b.toml": ["parallelism.enable_async_tensor_parallel"],
    # experts cut like the rest
    "torchtitan-maverick.toml": ["parallelism.expert_tensor_parallel_degree"],
}


@pytest.mark.parametrize("name", _INDEX)
def test_a_public_configuration_is_read_as_it_is_meant(name: str) -> None:
    (reading,) = read_source(str(_FOLDER / "recipes" / name))
    assert reading.tool == _INDEX[name]["tool"]
    assert {field: one.value for field, one in reading.taken.items()} == EXPECTED[name]
    assert [line.split()[-1] for line in reading.unknown] == UNKNOWN.get(name, [])


def test_every_file_says_where_it_is_from() -> None:
    assert set(_INDEX) == {path.name for path in (_FOLDER / "recipes").iterdir()} == set(EXPECTED)
    assert all(len(entry["commit"]) == 40 for entry in _INDEX.values())


def test_a_field_knows_its_line() -> None:
    # line 2 of the file is `quantization_bit: 4`
    (reading,) = read_source(str(_FOLDER / "recipes" / "llama-factory-qlora.yaml"))
    taken = reading.taken
    assert (taken["base_dtype"].line, taken["base_dtype"].key) == (2, "quantization_bit")
