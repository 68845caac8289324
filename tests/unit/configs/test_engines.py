"""DeepSpeed and accelerate beside a trainer's file: what is left open, and what contradicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.app import fit
from chipwise.app.documents import FitDocument
from chipwise.app.requests import FitRequest, parse_request
from chipwise.configs import join, read_source
from chipwise.errors import ChipwiseError

AUTO = """{
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "train_batch_size": "auto",
  "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 2}
}
"""
TRAINER = "model_name_or_path: llama-2-7b\nper_device_train_batch_size: 3\nbf16: true\n"


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(**fields: object) -> FitDocument:
    document = fit(parse_request(FitRequest, fields))
    assert isinstance(document, FitDocument)
    return document


def test_auto_is_what_the_flags_say(put: Path) -> None:
    (put / "ds.json").write_text(AUTO, encoding="utf-8")
    fields = {"model": "llama-2-7b", "method": "full", "on": "rtx-4090:4", "precision": "bf16"}
    by_file = asked(**fields, job="ds.json", micro_batch=1)
    by_flag = asked(**fields, shard="zero2", framework="deepspeed", micro_batch=1)
    assert by_file.memory.parts == by_flag.memory.parts
    assert by_file.one_change == by_flag.one_change


def test_auto_is_what_the_trainer_says(put: Path) -> None:
    (put / "ds.json").write_text(AUTO, encoding="utf-8")
    (put / "args.yaml").write_text(TRAINER, encoding="utf-8")
    document = asked(on="a100-sxm-80:4", job=["ds.json", "args.yaml"])
    assert document.layout.micro_batch == 3
    assert document.layout.shard == "zero2"
    assert document.layout.precision == "bf16"


@pytest.mark.parametrize(
    ("fields", "words"),
    [({}, r"ds.json:2: train_micro_batch.*--micro-batch"),
     ({"micro_batch": 1}, r"ds.json:5: bf16.enabled.*--precision")],
)  # fmt: skip
def test_auto_that_nothing_resolves_is_refused(
    put: Path, fields: dict[str, object], words: str
) -> None:
    (put / "ds.json").write_text(AUTO, encoding="utf-8")
    with pytest.raises(ChipwiseError, match=words):
        asked(model="llama-2-7b", on="rtx-4090:4", job="ds.json", **fields)


def test_three_batch_sizes_count_the_devices(put: Path) -> None:
    # 64 sequences of 2 × 4 on each device: 8 devices
    sizes = '"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2'
    (put / "ds.json").write_text(
        f'{{{sizes}, "gradient_accumulation_steps": 4, "bf16": {{"enabled": true}}}}',
        encoding="utf-8",
    )
    assert join(read_source("ds.json")).devices == 8


BROKEN = {
    "stage": ('{"zero_optimization": {"stage": 4}}', r"ds.json:1: .*no stage 4"),
    "negative": ('{"train_micro_batch_size_per_gpu": -2}', r"ds.json:1: .*'-2'"),
    "comma": ('{"zero_optimization": {"stage": 2},\n}', r"ds.json:2: no JSON"),
    "both": (
        '{"zero_optimization": {"stage": 2},\n"fp16": {"enabled": true},\n'
        '"bf16": {"enabled": true}}',
        r"ds.json:3.*ds.json:2|ds.json:2.*ds.json:3",
    ),
    "batch": (
        '{"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4,'
        '"gradient_accumulation_steps": 2}',
        r"10 is not 4 × 2",
    ),
    "place": (
        '{"zero_optimization": {"stage": 3, "offload_param": {"device": "disk"}}}',
        r"'disk' is no place",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_engine_file_names_its_line(put: Path, kind: str) -> None:
    text, words = BROKEN[kind]
    (put / "ds.json").write_text(text, encoding="utf-8")
    with pytest.raises(ChipwiseError, match=words):
        read_source("ds.json")


PAIRS = {
    "precision": ("bf16: true\nnum_train_epochs: 1\n", "mixed_precision: fp16\nnum_processes: 2\n"),
    "sharding": (
        "fsdp: full_shard\nnum_train_epochs: 1\n",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n",
    ),
    "batch": (
        "gradient_accumulation_steps: 2\nnum_train_epochs: 1\n",
        "distributed_type: NO\ngradient_accumulation_steps: 4\n",
    ),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_files_that_contradict_one_another_are_both_named(put: Path, kind: str) -> None:
    for name, text in zip(("args.yaml", "acc.yaml"), PAIRS[kind], strict=True):
        (put / name).write_text(text, encoding="utf-8")
    readings = [one for name in ("args.yaml", "acc.yaml") for one in read_source(name)]
    with pytest.raises(ChipwiseError, match=r"args.yaml:1 .*acc.yaml:\d"):
        join(readings)


def test_weights_read_in_16_bit_stay_there_only_without_an_engine(put: Path) -> None:
    (put / "args.yaml").write_text(TRAINER + "torch_dtype: bfloat16\n", encoding="utf-8")
    engine = "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  zero_stage: 3\n"
    (put / "acc.yaml").write_text(engine, encoding="utf-8")
    alone = join(read_source("args.yaml"))
    assert alone.fields["master_weights"] is False
    assert alone.fields["optimizer"] == "adamw-bf16"
    together = join([*read_source("args.yaml"), *read_source("acc.yaml")])
    assert together.fields["master_weights"] is True
    assert together.fields["optimizer"] == "adamw"
    assert together.devices == 4


def test_a_section_inside_the_trainers_file_is_read(put: Path) -> None:
    (put / "args.json").write_text(
        '{"model_name_or_path": "llama-2-7b", "num_train_epochs": 1, "bf16": true,\n'
        '"deepspeed": {"zero_optimization": {"stage": 3}}}', encoding="utf-8",
    )  # fmt: skip
    assert join(read_source("args.json")).fields["shard"] == "zero3"


def test_packed_weights_without_adapters_are_refused(put: Path) -> None:
    (put / "args.yaml").write_text(TRAINER + "load_in_4bit: true\nuse_peft: false\n",
                                   encoding="utf-8")  # fmt: skip
    with pytest.raises(ChipwiseError, match=r"args.yaml:4.*args.yaml:5.*packed weights"):
        read_source("args.yaml")
