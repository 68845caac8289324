"""The one change, written into a person's own file, makes the job fit."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
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


def asked(path: Path, on: str) -> FitDocument:
    document = fit(parse_request(FitRequest, {"job": [str(path)], "on": on}))
    assert isinstance(document, FitDocument)
    return document


@pytest.mark.parametrize("tool", [axolotl, llama_factory, ms_swift])
@settings(max_examples=25, deadline=None)
@given(job=JOBS, on=SYSTEMS)
def test_an_applied_patch_makes_the_job_fit(tool: Any, job: Job, on: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.yaml"
        path.write_text(tool(job), encoding="utf-8")
        before = asked(path, on)
        change = before.one_change
        if before.verdict != "does not fit" or change is None:
            assert before.patch is None
            return
        assert before.patch is not None
        if before.patch.left_out:
            assert before.patch.left_out.split()[0] in change.flags
            return
        done = subprocess.run(
            ["git", "apply", "--unsafe-paths", "-p1", "--directory=/", "-"],
            input=before.patch.diff, text=True, capture_output=True, check=False, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        after = asked(path, on)
        assert after.verdict in ("fits", "tight"), change.flags
        batches = {one.layout.global_batch for one in (before, after)}
        assert len(batches) == 1 or "--micro-batch" not in change.flags
