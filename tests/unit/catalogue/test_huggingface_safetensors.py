"""Exact counts from checkpoints: headers and indexes, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chipwise.catalogue.huggingface import read_model
from chipwise.catalogue.safetensors import INDEX, SINGLE, stated_params
from chipwise.errors import DataFileError

CONFIG: dict[str, Any] = {
    **{"model_type": "llama", "vocab_size": 10, "hidden_size": 4, "intermediate_size": 8},
    **{"num_hidden_layers": 1, "num_attention_heads": 2, "torch_dtype": "bfloat16"},
}


def checkpoint(file: Path, tensors: dict[str, tuple[str, list[int]]], rest: bytes = b"") -> None:
    """A safetensors file with a header for the tensors and no weights."""
    entries = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}
        for name, (dtype, shape) in tensors.items()
    }
    header = json.dumps({"__metadata__": {"format": "pt"}} | entries).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + rest)


def index(folder: Path, content: object) -> None:
    (folder / INDEX).write_text(json.dumps(content), encoding="utf-8")


def test_a_header_gives_the_count(tmp_path: Path) -> None:
    checkpoint(tmp_path / SINGLE, {"a": ("BF16", [10, 4]), "b": ("F32", [4]), "c": ("F16", [])})
    assert stated_params(tmp_path) == 45


def test_buffers_of_old_checkpoints_are_not_parameters(tmp_path: Path) -> None:
    checkpoint(
        tmp_path / SINGLE,
        {
            "h.0.attn.c_attn.bias": ("F32", [12]),
            "h.0.attn.bias": ("F32", [1, 1, 8, 8]),
            "layers.0.self_attn.rotary_emb.inv_freq": ("F32", [16]),
        },
    )
    assert stated_params(tmp_path) == 12


@pytest.mark.parametrize(
    "tensor", [("w", ("U8", [4])), ("w.weight_scale", ("F32", [4])), ("w.absmax", ("F32", [4]))]
)
def test_quantised_checkpoints_state_no_count(
    tmp_path: Path, tensor: tuple[str, tuple[str, list[int]]]
) -> None:
    checkpoint(tmp_path / SINGLE, {"a": ("BF16", [10, 4]), tensor[0]: tensor[1]})
    assert stated_params(tmp_path) == 0


def test_shards_are_added_when_all_are_there(tmp_path: Path) -> None:
    index(tmp_path, {"metadata": {"total_size": 1}, "weight_map": {"a": "1.st", "b": "2.st"}})
    checkpoint(tmp_path / "1.st", {"a": ("BF16", [10, 4])})
    assert stated_params(tmp_path) == 0
    checkpoint(tmp_path / "2.st", {"b": ("BF16", [3])})
    assert stated_params(tmp_path) == 43


def test_an_index_alone_gives_its_size_over_the_bytes_of_the_type(tmp_path: Path) -> None:
    # meta-llama/Llama-2-7b-hf: total_size 13,476,831,232 with bfloat16, 6,738,415,616 parameters.
    index(tmp_path, {"metadata": {"total_size": 13_476_831_232}, "weight_map": {"a": "1.st"}})
    assert stated_params(tmp_path, "bfloat16") == 6_738_415_616
    assert stated_params(tmp_path, "torch.float16") == 6_738_415_616
    assert stated_params(tmp_path) == 0
    index(tmp_path, {"metadata": {"total_size": 5}, "weight_map": {}})
    assert stated_params(tmp_path, "bfloat16") == 0


def test_total_parameters_of_an_index_win_over_its_size(tmp_path: Path) -> None:
    index(tmp_path, {"metadata": {"total_parameters": 7, "total_size": 100}})
    assert stated_params(tmp_path, "bfloat16") == 7


def test_the_count_beside_a_configuration_becomes_stated_params(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    assert read_model(tmp_path).stated_params == 0
    index(tmp_path, {"metadata": {"total_size": 200}})
    assert read_model(tmp_path).stated_params == 100
    quantised = CONFIG | {"quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(quantised), encoding="utf-8")
    assert read_model(tmp_path).stated_params == 0


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x01",
        (2**60).to_bytes(8, "little") + b"{}",
        (100).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"\xff\xff",
        (9).to_bytes(8, "little") + b'{"a": 12}',
    ],
)
def test_broken_headers_are_refused_with_the_file(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / SINGLE).write_bytes(raw)
    with pytest.raises(DataFileError, match=r"model\.safetensors"):
        stated_params(tmp_path)


@pytest.mark.parametrize("shape", [[-1], ["4"], [2**70], [True], None, 4])
def test_impossible_shapes_are_refused(tmp_path: Path, shape: Any) -> None:
    checkpoint(tmp_path / SINGLE, {"a": ("BF16", shape)})
    with pytest.raises(DataFileError, match="sensible shape"):
        stated_params(tmp_path)


def test_shards_outside_the_folder_are_refused(tmp_path: Path) -> None:
    index(tmp_path, {"weight_map": {"a": "../../etc/passwd"}})
    with pytest.raises(DataFileError, match="outside its folder"):
        stated_params(tmp_path)
