"""The one change, written into a person's own file, makes the job fit."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.app import fit
from chipwise.app.documents import FitDocument
from chipwise.app.requests import FitRequest, parse_request

JOBS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama-2-7b", "qwen2.5-7b", "llama-2-13b"]),
        "micro_batch": st.sampled_from([1, 2, 6, 16]),
        "seq": st.sampled_from([512, 2048, 8192]),
        "accumulation": st.sampled_from([1, 4]),
        "recompute": st.booleans(),
        "adapters": st.booleans(),
        "optimizer": st.sampled_from(["adamw_torch", "adamw_bnb_8bit"]),
    }
)
SYSTEMS = st.sampled_from(["rtx-4090", "rtx-4090:4", "a100-sxm-40:2", "rtx-3060:2"])
Job = Mapping[str, Any]


def _yaml(values: Mapping[str, Any]) -> str:
    return "".join(f"{key}: {json.dumps(value)}  # mine\n" for key, value in values.items())


def axolotl(job: Job) -> str:
    return _yaml(
        {
            **{"base_model": job["model"], "micro_batch_size": job["micro_batch"]},
            **{"sequence_len": job["seq"], "gradient_accumulation_steps": job["accumulation"]},
            **{"gradient_checkpointing": job["recompute"], "optimizer": job["optimizer"]},
            "adapter": "lora" if job["adapters"] else None,
        }
    )


def llama_factory(job: Job) -> str:
    return _yaml(
        {
            **{"model_name_or_path": job["model"], "stage": "sft", "cutoff_len": job["seq"]},
            "finetuning_type": "lora" if job["adapters"] else "full",
            "per_device_train_batch_size": job["micro_batch"],
            "gradient_accumulation_steps": job["accumulation"],
            "disable_gradient_checkpointing": not job["recompute"],
            **{"optim": job["optimizer"], "bf16": True},
        }
    )


def ms_swift(job: Job) -> str:
    return _yaml(
        {
            **{"model": job["model"], "max_length": job["seq"], "torch_dtype": "bfloat16"},
            "train_type": "lora" if job["adapters"] else "full",
            "per_device_train_batch_size": job["micro_batch"],
            "gradient_accumulation_steps": job["accumulation"],
            **{"gradient_checkpointing": job["recompute"], "optim": job["optimizer"]},
        }
    )


def trl(job: Job) -> str:
    adapters = {"use_peft": True, "lora_r": 16} if job["adapters"] else {}
    return _yaml(
        {
            **{"model_name_or_path": job["model"], "dataset_name": "mine"},
            **{"max_length": job["seq"], "bf16": True, "optim": job["optimizer"]},
            "per_device_train_batch_size": job["micro_batch"],
            "gradient_accumulation_steps": job["accumulation"],
            "gradient_checkpointing": job["recompute"],
            **adapters,
        }
    )


def torchrun(job: Job) -> str:
    adapters = " \\\n  --use_peft --lora_r 16" if job["adapters"] else ""
    return (
        f"#!/bin/bash\nexport NCCL_DEBUG=WARN\ntorchrun --nproc_per_node 2 sft.py \\\n"
        f"  --model_name_or_path {job['model']} --dataset_name mine --bf16 True \\\n"
        f"  --max_length={job['seq']} --optim {job['optimizer']}{adapters} \\\n"
        f"  --per_device_train_batch_size {job['micro_batch']} \\\n"
        f"  --gradient_accumulation_steps {job['accumulation']} \\\n"
        f"  --gradient_checkpointing {job['recompute']}\necho done\n"
    )


def deepspeed(job: Job) -> str:
    return json.dumps(
        {
            "train_micro_batch_size_per_gpu": job["micro_batch"],
            "gradient_accumulation_steps": job["accumulation"],
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": 1 + job["recompute"], "overlap_comm": True},
        },
        indent=2,
    )


def asked(path: Path, **fields: Any) -> FitDocument:
    document = fit(parse_request(FitRequest, {"job": [str(path)], **fields}))
    assert isinstance(document, FitDocument)
    return document


def batched(words: list[str]) -> Iterator[tuple[str, str]]:
    """Flags with their values."""
    return zip(words[::2], words[1::2], strict=True)


ENDINGS = {torchrun: "sh", deepspeed: "json"}


@pytest.mark.parametrize("tool", [axolotl, llama_factory, ms_swift, trl, torchrun, deepspeed])
@settings(max_examples=25, deadline=None)
@given(job=JOBS, on=SYSTEMS)
def test_an_applied_patch_makes_the_job_fit(tool: Any, job: Job, on: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"run.{ENDINGS.get(tool, 'yaml')}"
        path.write_text(tool(job), encoding="utf-8")
        beside = {"model": job["model"], "seq": job["seq"]} if tool is deepspeed else {}
        before = asked(path, on=on, **beside)
        change = before.one_change
        if before.verdict != "does not fit" or change is None:
            assert before.patch is None
            return
        assert before.patch is not None
        words = before.patch.left_out.split()  # what no file can say is said by flags
        rest = {name[2:].replace("-", "_"): value for name, value in batched(words)}
        assert bool(before.patch.diff) == (words != change.flags.split())
        done = subprocess.run(
            ["git", "apply", "--unsafe-paths", "-p1", "--directory=/", "-"],
            input=before.patch.diff, text=True, capture_output=True, check=False, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0 or not before.patch.diff, done.stderr
        after = asked(path, **{"on": on, **beside, **rest})
        assert after.verdict in ("fits", "tight"), change.flags
        batches = {one.layout.global_batch for one in (before, after)}
        assert len(batches) == 1 or "--micro-batch" not in change.flags
