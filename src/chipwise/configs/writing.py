"""How each tool's configuration says a change: fields of a request → keys with values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chipwise.configs.editing import edited
from chipwise.configs.marked import Marked
from chipwise.configs.reading import Reading

Writer = Callable[[Reading, Any], Mapping[str, Any] | None]
"""None where the file cannot say it."""

_LAUNCHERS = ("accelerate", "deepspeed")
"""Whose flags are not those of their files."""
RANK = 16
"""Of adapters that a change introduces."""


def patched(
    readings: Sequence[Reading], changes: Mapping[str, Any], targets: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The files with the changes written into them.

    Args:
        readings: the configurations of a job.
        changes: values by field of a training request.
        targets: module names that new adapters go to.

    Returns:
        New texts by file name, and the fields that none of the files can say.
    """
    texts: dict[str, str] = {}
    left_out = []
    wanted: dict[str, dict[str, Any]] = {reading.marked.name: {} for reading in readings}
    files: dict[str, Marked] = {}
    for reading in readings:  # a script holds a launcher's flags and a trainer's
        one = reading.marked
        before = files.get(one.name)
        entries = {**(before.entries if before else {}), **one.entries}
        files[one.name] = replace(one, entries=entries)
    for name, value in changes.items():
        told = _told(readings, name, value, targets)
        if told is None:
            left_out.append(name)
        else:
            wanted[told[0].marked.name].update(told[1])
    for name, keys in wanted.items():
        if keys:
            texts[name] = edited(files[name], keys)
    return texts, tuple(left_out)


def _told(
    readings: Sequence[Reading], name: str, value: Any, targets: Sequence[str]
) -> tuple[Reading, Mapping[str, Any]] | None:
    """The file that says a field, the one that says it now first, and the keys for it."""
    order = sorted(readings, key=lambda reading: name not in reading.taken)
    for reading in order:
        if reading.marked.syntax == "shell" and reading.tool in _LAUNCHERS:
            continue
        writer = WRITERS.get(reading.tool, {}).get(name)
        keys = writer(reading, value) if writer else None
        if keys is not None:
            if name == "method" and reading.tool in TARGETS:
                key, as_text = TARGETS[reading.tool]
                keys = {**keys, key: ",".join(targets) if as_text else list(targets)}
            return reading, keys
    return None


def _key(key: str, words: Mapping[Any, Any] | None = None) -> Writer:
    """One key; with ``words`` only values that have one."""

    def write(_reading: Reading, value: Any) -> Mapping[str, Any] | None:
        if words is None:
            return {key: value}
        return {key: words[value]} if value in words else None

    return write


def _micro_batch(size: str, steps: str) -> Writer:
    """A smaller micro-batch with more of them, so that the step stays as large."""

    def write(reading: Reading, value: Any) -> Mapping[str, Any]:
        before = int(reading.value("micro_batch") or value)
        times = int(reading.value("accumulation") or 1)
        written: dict[str, Any] = {size: value}
        if before > value:
            written[steps] = max(1, times * before // value)
        return written

    return write


def _fixed(words: Mapping[Any, Mapping[str, Any]]) -> Writer:
    """Several keys for each value that can be said."""
    return lambda _reading, value: words.get(value)


def _first_of(*keys: str) -> Writer:
    """The key that the file has, else the first."""

    def write(reading: Reading, value: Any) -> Mapping[str, Any]:
        there = next((key for key in keys if key in reading.marked), keys[0])
        return {there: value}

    return write


def _swift_method(reading: Reading, value: Any) -> Mapping[str, Any] | None:
    """ms-swift renamed ``train_type`` to ``tuner_type``: the file's own word stays."""
    kind = "tuner_type" if "tuner_type" in reading.marked else "train_type"
    written: dict[str, Any] = {kind: "lora", "lora_rank": RANK}
    if value == "qlora":
        written |= {"quant_bits": 4, "quant_method": "bnb"}
    return written if value in ("lora", "qlora") else None


_HF_OPTIMIZERS = {
    "adamw-8bit": "adamw_bnb_8bit",
    "paged-adamw-8bit": "paged_adamw_8bit",
    "adafactor": "adafactor",
    "adamw": "adamw_torch",
}
_HF_BATCH = _micro_batch("per_device_train_batch_size", "gradient_accumulation_steps")
_PEFT = {"use_peft": True, "lora_r": RANK, "lora_alpha": 2 * RANK}
_STAGES = {"zero1": 1, "zero2": 2, "zero3": 3}
_HF: Mapping[str, Writer] = {
    "micro_batch": _HF_BATCH,
    "recompute": _key("gradient_checkpointing", {"full": True, "none": False}),
    "seq": _first_of("max_seq_length", "max_length", "model_max_length"),
    "optimizer": _key("optim", _HF_OPTIMIZERS),
}

WRITERS: Mapping[str, Mapping[str, Writer]] = {
    "axolotl": {
        "micro_batch": _micro_batch("micro_batch_size", "gradient_accumulation_steps"),
        "recompute": _key("gradient_checkpointing", {"full": True, "none": False}),
        "seq": _key("sequence_len"),
        "optimizer": _key("optimizer", _HF_OPTIMIZERS),
        "method": _fixed(
            {
                "lora": {"adapter": "lora", "lora_r": RANK, "lora_alpha": 2 * RANK},
                "qlora": {
                    **{"adapter": "qlora", "load_in_4bit": True},
                    **{"lora_r": RANK, "lora_alpha": 2 * RANK},
                },
            }
        ),
        "shard": _key(
            "deepspeed",
            {name: f"deepspeed_configs/{name}.json" for name in ("zero1", "zero2", "zero3")},
        ),
        "offload": _key(
            "deepspeed", {"optimizer,params": "deepspeed_configs/zero3_bf16_cpuoffload_all.json"}
        ),
    },
    "hf-trainer": _HF,
    "trl": {
        **_HF,
        "method": _fixed(
            {
                "lora": _PEFT,
                "qlora": {**_PEFT, "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            }
        ),
    },
    "deepspeed": {
        "micro_batch": _micro_batch(
            "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
        ),
        "shard": _key("zero_optimization.stage", _STAGES),
        "offload": _fixed(
            {
                "optimizer": {"zero_optimization.offload_optimizer.device": "cpu"},
                "optimizer,params": {
                    "zero_optimization.stage": 3,
                    "zero_optimization.offload_optimizer.device": "cpu",
                    "zero_optimization.offload_param.device": "cpu",
                },
            }
        ),
    },
    "accelerate": {"shard": _key("deepspeed_config.zero_stage", _STAGES)},
    "llama-factory": {
        "micro_batch": _HF_BATCH,
        "recompute": _key("disable_gradient_checkpointing", {"full": False, "none": True}),
        "seq": _key("cutoff_len"),
        "optimizer": _key("optim", _HF_OPTIMIZERS),
        "method": _fixed(
            {
                "lora": {"finetuning_type": "lora", "lora_rank": RANK},
                "qlora": {
                    **{"finetuning_type": "lora", "lora_rank": RANK},
                    **{"quantization_bit": 4, "quantization_method": "bnb"},
                },
            }
        ),
        "shard": _key(
            "deepspeed",
            {
                "zero2": "examples/deepspeed/ds_z2_config.json",
                "zero3": "examples/deepspeed/ds_z3_config.json",
            },
        ),
        "offload": _key(
            "deepspeed", {"optimizer,params": "examples/deepspeed/ds_z3_offload_config.json"}
        ),
    },
    "torchtune": {
        "micro_batch": _micro_batch("batch_size", "gradient_accumulation_steps"),
        "recompute": _key("enable_activation_checkpointing", {"full": True, "none": False}),
        "seq": _key("tokenizer.max_seq_len"),
        "optimizer": _key(
            "optimizer._component_",
            {
                "adamw-8bit": "bitsandbytes.optim.AdamW8bit",
                "paged-adamw-8bit": "bitsandbytes.optim.PagedAdamW8bit",
            },
        ),
        "offload": _fixed({"optimizer,params": {"fsdp_cpu_offload": True}}),
    },
    "torchtitan": {
        "micro_batch": _first_of("training.local_batch_size", "training.batch_size"),
        "recompute": _key(
            "activation_checkpoint.mode",
            {"full": "full", "selective": "selective", "none": "none"},
        ),
        "seq": _key("training.seq_len"),
        "offload": _fixed({"optimizer,params": {"training.enable_cpu_offload": True}}),
    },
    "ms-swift": {
        "micro_batch": _HF_BATCH,
        "recompute": _key("gradient_checkpointing", {"full": True, "none": False}),
        "seq": _key("max_length"),
        "optimizer": _key("optim", _HF_OPTIMIZERS),
        "shard": _key("deepspeed", {"zero2": "zero2", "zero3": "zero3"}),
        "offload": _key("deepspeed", {"optimizer,params": "zero3_offload"}),
        "method": _swift_method,
    },
    "litgpt": {
        "micro_batch": _key("train.micro_batch_size"),
        "seq": _key("train.max_seq_length"),
    },
}
TARGETS: Mapping[str, tuple[str, bool]] = {
    "axolotl": ("lora_target_modules", False),
    "trl": ("lora_target_modules", False),
    "llama-factory": ("lora_target", True),
    "ms-swift": ("target_modules", False),
}
"""The key of the modules that adapters go to, and whether they are one text with commas."""
