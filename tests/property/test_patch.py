"""The one change, written into a person's own file, makes the job fit."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.app import fit
from chipwise.app.documents import FitDocument
from chipwise.app.requests import FitRequest, parse_request

OPTIONS = st.fixed_dictionaries(
    {
        "micro_batch_size": st.sampled_from([1, 2, 6, 16]),
        "sequence_len": st.sampled_from([512, 2048, 8192]),
        "gradient_accumulation_steps": st.sampled_from([1, 4]),
        "gradient_checkpointing": st.booleans(),
        "adapter": st.sampled_from([None, "lora"]),
        "optimizer": st.sampled_from(["adamw_torch", "adamw_bnb_8bit"]),
        "flash_attention": st.booleans(),
    }
)
SYSTEMS = st.sampled_from(["rtx-4090", "rtx-4090:4", "a100-sxm-40:2", "rtx-3060:2"])
MODELS = st.sampled_from(["llama-2-7b", "qwen2.5-7b", "llama-2-13b"])


def asked(path: Path, on: str) -> FitDocument:
    document = fit(parse_request(FitRequest, {"job": [str(path)], "on": on}))
    assert isinstance(document, FitDocument)
    return document


@settings(max_examples=40, deadline=None)
@given(options=OPTIONS, on=SYSTEMS, model=MODELS)
def test_an_applied_patch_makes_the_job_fit(options: dict[str, Any], on: str, model: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.yml"
        lines = [
            f"base_model: {model}  # mine",
            *(f"{k}: {json.dumps(v)}" for k, v in options.items()),
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
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
