from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.configs import join
from chipwise.errors import ChipwiseError, DataFileError, UsageError
from tests.unit.configs.recipe_texts import fields, reading

_BASE = "model_name_or_path: Qwen/Qwen3-8B\ntemplate: qwen3\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # finetuning_type is lora where nothing is said
        ("", {"method": "lora"}),
        ("use_dora: true", {"method": "dora"}),
        ("lora_target: q_proj,v_proj", {"targets": "q_proj,v_proj"}),
        ("finetuning_type: full\nlora_rank: 8", {"method": "full", "rank": None}),
        ("quantization_bit: 4", {"method": "qlora", "base_dtype": "nf4-dq"}),
        ("quantization_bit: 4\ndouble_quantization: false", {"base_dtype": "nf4"}),
        ("quantization_bit: 4\nquantization_type: fp4", {"base_dtype": "fp4"}),
        ("quantization_bit: 8", {"base_dtype": "int8"}),
        ("quantization_bit: 4\nquantization_method: hqq", {"base_dtype": "int4"}),
        # packed on disk: quantization_bit has no effect
        ("quantization_bit: 4\nquantization_method: gptq", {"method": "lora", "base_dtype": None}),
        ("pure_bf16: true", {"precision": "bf16", "master_weights": False, "grad_dtype": "bf16"}),
        ("bf16: true\nfp8: true", {"precision": "fp8"}),
        ("flash_attn: auto", {"attention": None}),
        ("flash_attn: fa2", {"attention": "flash"}),
        ("flash_attn: disabled", {"attention": "eager"}),
        ("neat_packing: true", {"packing": True}),
        ("disable_gradient_checkpointing: true", {"recompute": "none"}),
        ("enable_liger_kernel: true", {"chunked_loss": "fused"}),
        # logits are needed in preference training, so no fused loss
        ("enable_liger_kernel: true\nstage: dpo", {"chunked_loss": None}),
        ("use_unsloth_gc: true", {"recompute": "full", "offload": "activations"}),
        ("fsdp: full_shard auto_wrap offload", {"shard": "fsdp", "offload": "optimizer,params"}),
        ("optim: paged_adamw_8bit", {"optimizer": "paged-adamw-8bit"}),
        ("ray_num_workers: 4", {"devices": 4}),
    ],
)
def test_keys_become_fields(tmp_path: Path, text: str, expected: dict[str, object]) -> None:
    found = fields(tmp_path, "lf.yaml", _BASE + text)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("finetuning_type: full\nquantization_bit: 4", 4, "finetuning_type: lora"),
        ("finetuning_type: oft", 3, "write lora, or full"),
        ("bf16: true\nfp16: true", 3, "one of them is on at most"),
        ("quantization_bit: 3", 3, "write 4 or 8"),
        ("stage: sfft", 3, "sft"),
        ("stage: dpo\nneat_packing: true", 3, "stage: sft"),
        ("use_galore: true", 3, "finetuning_type: full"),
        ("optim: adamw_8bits", 3, "adamw_8bit"),
        ("lora_target: .*proj", 3, "all-linear"),
        ("per_device_train_batch_size: none", 3, ""),
    ],
)
def test_what_cannot_hold_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        reading(tmp_path, "lf.yaml", _BASE + text)
    assert f"lf.yaml:{line}" in caught.value.message
    assert hint in caught.value.message


def test_json_is_read_like_yaml(tmp_path: Path) -> None:
    text = '{\n "model_name_or_path": "m",\n "stage": "sft",\n "cutoff_len": 4096\n}'
    assert fields(tmp_path, "lf.json", text) == {"model": "m", "seq": 4096, "method": "lora"}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("finetuning_type: freeze\nfreeze_trainable_layers: 3", "train_last", 3),
        ("additional_target: embed_tokens", "modules_to_save", "embeddings"),
        ("stage: dpo", "loss", "dpo"),
        ("stage: rm", "loss", "reward"),
        ("finetuning_type: full\nuse_galore: true", "optimizer", "galore-adamw"),
    ],
)
def test_more_than_plain_tuning_is_understood(
    tmp_path: Path, text: str, name: str, value: object
) -> None:
    assert fields(tmp_path, "lf.yaml", _BASE + text)[name] == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("deepspeed: ds_z3.json", "ds_z3.json"),
        ("finetuning_type: full\nuse_badam: true\nbadam_mode: layer", "upper bound"),
        ("stage: ppo", "lower bound"),
        ("additional_target: router", "not counted"),
        ("upcast_layernorm: true", "fp32"),
    ],
)
def test_what_is_not_computed_is_said(tmp_path: Path, text: str, said: str) -> None:
    found = reading(tmp_path, "lf.yaml", _BASE + text)
    assert said in " ".join(found.notes)
    assert found.unknown == []


def test_keys_that_are_not_understood_are_listed(tmp_path: Path) -> None:
    found = reading(tmp_path, "lf.yaml", _BASE + "shift_attn: true\nplot_loss: true\n")
    assert [line.rpartition("/")[2] for line in found.unknown] == ["lf.yaml:3 shift_attn"]


def test_defaults_fill_what_is_left(tmp_path: Path) -> None:
    joined = join([reading(tmp_path, "lf.yaml", _BASE)])
    # hparams: per_device_train_batch_size 8 and cutoff_len 2048, lora_rank 8, lora_target all
    expected = {"micro_batch": 8, "seq": 2048, "rank": 8, "targets": "all-linear"}
    assert {key: joined.defaults.get(key) for key in expected} == expected
    assert joined.tool == "llama-factory"


def test_a_wrong_value_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(ChipwiseError) as caught:
        reading(tmp_path, "lf.yaml", _BASE + "bf16: perhaps\n")
    assert isinstance(caught.value, DataFileError)
    assert "lf.yaml:3: bf16" in caught.value.message
