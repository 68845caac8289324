"""Command lines and scripts: parsed, never executed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chipwise.configs import join, read_source
from chipwise.configs.editing import edited
from chipwise.configs.marked import Marked
from chipwise.errors import ChipwiseError

_MODEL = "--model_name_or_path llama-2-7b"
_FILES = {
    "ds.json": '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}',
    "acc.yaml": "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n",
    "run.yaml": "base_model: llama-2-7b\nmicro_batch_size: 2\nsequence_len: 1024\n",
    "lf.yaml": "model_name_or_path: qwen2.5-7b\nfinetuning_type: lora\ncutoff_len: 1024\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in _FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(command: str) -> dict[str, Any]:
    """Fields of a command, the count of devices among them."""
    joined = join(read_source(command))
    stated = {name: value for name, value in joined.fields.items() if name not in joined.defaults}
    return stated | ({"devices": joined.devices} if joined.devices else {})


CASES: Mapping[str, Mapping[str, Any]] = {
    f"torchrun --nproc_per_node 8 --nnodes=2 t.py {_MODEL} --bf16 True --fsdp 'full_shard offload'":
        {"model": "llama-2-7b", "precision": "bf16", "shard": "fsdp", "devices": 16,
         "offload": "optimizer,params"},
    f"python3 -m torch.distributed.run --nproc-per-node 2 t.py {_MODEL} --fp16":
        {"model": "llama-2-7b", "precision": "fp16", "devices": 2},
    # the flag of a launcher wins over its file
    f"accelerate launch --config_file acc.yaml --num_processes 4 t.py {_MODEL}":
        {"model": "llama-2-7b", "precision": "bf16", "shard": "fsdp", "devices": 4},
    f"accelerate launch --use_deepspeed --zero_stage 3 --num_processes 2 t.py {_MODEL} --use_peft":
        {"model": "llama-2-7b", "shard": "zero3", "devices": 2, "method": "lora"},
    f"deepspeed --num_gpus 4 t.py --deepspeed ds.json {_MODEL} --bf16":
        {"model": "llama-2-7b", "precision": "bf16", "shard": "zero2", "devices": 4},
    f"deepspeed --include localhost:0,3 t.py {_MODEL}": {"model": "llama-2-7b", "devices": 2},
    "llamafactory-cli train lf.yaml cutoff_len=512":
        {"model": "qwen2.5-7b", "seq": 512, "method": "lora"},
    "axolotl train run.yaml --micro-batch-size 4":
        {"model": "llama-2-7b", "micro_batch": 4, "seq": 1024},
    "CUDA_VISIBLE_DEVICES=0,1 accelerate launch -m axolotl.cli.train run.yaml":
        {"model": "llama-2-7b", "micro_batch": 2, "seq": 1024, "devices": 2},
    "NPROC_PER_NODE=2 swift sft --model llama-2-7b --tuner_type lora --deepspeed zero2":
        {"model": "llama-2-7b", "method": "lora", "shard": "zero2", "devices": 2},
    f"trl dpo {_MODEL} --load_in_4bit --use_peft --lora_target_modules q_proj v_proj":
        {"model": "llama-2-7b", "loss": "dpo", "method": "qlora", "base_dtype": "nf4",
         "targets": "q_proj,v_proj"},
    f"python examples/scripts/orpo.py {_MODEL} --no_gradient_checkpointing --max_length 512":
        {"model": "llama-2-7b", "loss": "orpo", "recompute": "none", "seq": 512},
}  # fmt: skip


@pytest.mark.parametrize("command", CASES)
def test_a_command_says_launcher_and_trainer(command: str) -> None:
    assert said(command) == CASES[command]


def test_a_file_that_is_not_there_is_asked_for() -> None:
    (note,) = join(read_source(f"deepspeed t.py --deepspeed zero3.json {_MODEL} --bf16")).notes
    assert "zero3.json" in note and "--job" in note


def test_variables_with_plain_values_are_put_in(folder: Path) -> None:
    script = folder / "train.sh"
    script.write_text(
        'GPUS=4 # cards\nexport MODEL="llama-2-7b"\nBATCH=${BATCH:-2}\nSEEN=$(nvidia-smi -L)\n'
        'OPTIONS="--bf16 True \\\n --max_length ${LENGTH:-512}"\n'
        "echo $MODEL && torchrun --nproc_per_node $GPUS t.py \\\n"
        "  --model_name_or_path $MODEL $OPTIONS \\\n"
        "  --per_device_train_batch_size $BATCH --run_name 'of $MODEL' --seen $SEEN\n",
        encoding="utf-8",
    )
    assert said(str(script)) == {
        **{"model": "llama-2-7b", "precision": "bf16", "seq": 512, "micro_batch": 2},
        "devices": 4,
    }
    assert [key.split()[-1] for key in join(read_source(str(script))).unknown] == ["seen"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls -la here", "torchrun"),
        ("torchrun t.py --bf16 'x", "command:1"),
        (f"torchrun t.py {_MODEL} --bf16 --fp16", "one of them"),
        (f"torchrun t.py {_MODEL} --per_device_train_batch_size -1", "'-1'"),
        (f"torchrun t.py {_MODEL} --load_in_4bit", "use_peft"),
        (f"torchrun t.py {_MODEL} --deepspeed ds.json --fsdp full_shard", "one of them shards"),
    ],
)
def test_a_command_that_cannot_be_is_refused(command: str, words: str) -> None:
    with pytest.raises(ChipwiseError, match=words):
        read_source(command)


def test_flags_are_changed_where_they_stand_and_added_behind_the_last() -> None:
    text = "torchrun t.py --a 1 \\\n  --b 'x y' --c=2 --d\necho done\n"
    reading = next(one for one in _readings(text) if "a" in one.entries)
    changed = edited(reading, {"a": 5, "c": 7, "e": "n m"})
    assert changed == "torchrun t.py --a 5 \\\n  --b 'x y' --c=7 --e 'n m' --d\necho done\n"


def _readings(text: str) -> list[Marked]:
    Path("x.sh").write_text(text, encoding="utf-8")
    return [one.marked for one in read_source("x.sh")]
