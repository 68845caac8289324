"""A study: resumed after a kill with nothing lost or doubled; failures are rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from chipwise.app import plan_study
from chipwise.app.requests import PlanStudyRequest, parse_request
from chipwise.app.study_file import read_study
from chipwise.errors import ChipwiseError
from tests.integration.test_cli import chipwise

STUDY = """
[study]
name = "small"
[fixed]
tokens = "1B"
top = 1
[axes]
model = ["llama-3.2-1b", "llama-2-7b", "no-such-model"]
on = ["rtx-4090", "h100-sxm:8", "tpu-v5p:16", "rtx-3060"]
global_batch = [64, 128, 256, 512]
[[job]]
model = "mixtral-8x7b"
on = "h200-sxm:8"
"""
JOBS = 3 * 4 * 4 + 1


def written(folder: Path, text: str = STUDY) -> Path:
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run(path: Path, into: Path) -> Any:
    values = {"file": str(path), "into": str(into)}
    return plan_study(parse_request(PlanStudyRequest, values))


def rows(into: Path) -> list[dict[str, Any]]:
    found = [row for part in sorted(into.glob("part-*.parquet"))
             for row in parquet.read_table(part).to_pylist()]  # fmt: skip
    return sorted(found, key=lambda row: int(row["job"]))


def test_every_job_is_a_row_and_failures_say_why(tmp_path: Path) -> None:
    document = run(written(tmp_path), tmp_path / "out")
    assert (document.jobs, document.resumed) == (JOBS, 0)
    assert document.planned + document.failed == JOBS
    stored = rows(tmp_path / "out")
    assert [row["job"] for row in stored] == list(range(1, JOBS + 1))
    failed = [row for row in stored if row["status"] == "failed"]
    assert len(failed) == document.failed == 16
    assert all(row["error"] == "unknown-model" and "no-such-model" in row["reason"]
               for row in failed)  # fmt: skip
    planned = [row for row in stored if row["status"] == "planned"]
    assert planned and all(row["duration_low_s"] < row["duration_s"] for row in planned)
    nowhere = [row for row in stored if row["status"] == "does not fit"]
    assert all("per device" in row["reason"] for row in nowhere)


def test_a_second_run_computes_nothing_and_new_jobs_only(tmp_path: Path) -> None:
    path = written(tmp_path)
    run(path, tmp_path / "out")
    again = run(path, tmp_path / "out")
    assert (again.resumed, again.planned, again.failed) == (JOBS, 0, 0)
    written(tmp_path, STUDY.replace("256, 512]", "256, 512, 1024]"))
    more = run(path, tmp_path / "out")
    assert (more.jobs, more.resumed) == (JOBS + 12, JOBS)
    assert len({row["id"] for row in rows(tmp_path / "out")}) == JOBS + 12


def test_a_killed_study_resumes_with_nothing_lost_or_doubled(tmp_path: Path) -> None:
    path, into = written(tmp_path), tmp_path / "out"
    command = [sys.executable, "-m", "chipwise", "plan", "--study", str(path), "--into", str(into)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(into.glob("part-*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = rows(into)
    assert 0 < len(before) < JOBS
    done = json.loads(chipwise("plan", "study", str(path), "--into", str(into), "--json").stdout)
    assert done["resumed"] == len(before) and done["planned"] + done["failed"] == JOBS - len(before)
    run(path, tmp_path / "whole")
    names = ("job", "id", "status", "system", "duration_s", "cost_usd", "tp", "micro_batch")
    killed, whole = ([[row[name] for name in names] for row in rows(folder)]
                     for folder in (into, tmp_path / "whole"))  # fmt: skip
    assert killed == whole


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ('[axes]\nmodle = ["a"]\n', "unknown-study-key", "model"),
        ('[axis]\nmodel = ["a"]\n', "unknown-study-table", "axes"),
        ("[axes]\nmodel = []\n", "empty-axis", "model"),
        ("[fixed]\ntokens = 1\n", "empty-study", "axes"),
        ("[axes]\nseq = [" + "1," * 400 + "]\ntop = [" + "1," * 400 + "]\n", "too-many-jobs", ""),
        ("not toml", "study-file", "small.toml"),
    ],
)
def test_a_wrong_study_file_says_what_is_wrong(
    text: str, code: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ChipwiseError) as error:
        read_study(written(tmp_path, text))
    assert error.value.code == code and said in error.value.message


def test_the_folder_of_another_study_is_left_alone(tmp_path: Path) -> None:
    path, into = written(tmp_path), tmp_path / "out"
    into.mkdir()
    (into / "thesis.txt").write_text("mine")
    with pytest.raises(ChipwiseError, match="other files"):
        run(path, into)
    assert [file.name for file in into.iterdir()] == ["thesis.txt"]
