"""``plan finetune`` as a process: a generated data set in, a plan out."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.integration.test_cli import chipwise


def conversations(path: Path, count: int) -> Path:
    """Examples of unlike length, always the same."""
    draw = random.Random(3)
    rows = [
        {
            "messages": [
                {"role": "user", "content": "word " * draw.randint(5, 60)},
                {"role": "assistant", "content": "answer " * int(draw.lognormvariate(4.5, 0.8))},
            ]
        }
        for _place in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_data_set_becomes_a_plan(tmp_path: Path) -> None:
    conversations(tmp_path / "chat.jsonl", 400)
    words = "plan finetune llama-3.1-8b --data chat.jsonl --on rtx-4090,rtx-3090:1 --seq 1024"
    done = chipwise(*words.split(), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["command"] == "plan finetune"
    data = found["dataset"]
    assert (data["examples"], data["sampled"], data["text"]) == (400, 400, "messages")
    assert {"tokens", "mean_length", "truncated_share", "computed_per_useful"} <= set(data)
    assert data["steps_per_epoch"] == 25  # 400 / 16
    assert [plan["rank"] for plan in found["plans"]] == list(range(1, len(found["plans"]) + 1))
    assert {plan["method"] for plan in found["plans"]} <= {"full", "lora", "qlora"}
    assert found["inputs"]["methods"] == ["full", "lora", "qlora"]


def test_the_answer_is_the_same_every_time(tmp_path: Path) -> None:
    conversations(tmp_path / "chat.jsonl", 300)
    words = "plan finetune llama-2-7b --data chat.jsonl --on rtx-4090:2 --method qlora --format csv"
    first, second = (chipwise(*words.split(), cwd=tmp_path) for _again in range(2))
    assert first.stdout == second.stdout
    assert first.returncode == 0


def test_parquet_answers_as_jsonl_does(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = conversations(tmp_path / "chat.jsonl", 300).read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "chat.parquet")
    words = "plan finetune llama-2-7b --on rtx-4090:2 --method qlora --json --data"
    found = [
        json.loads(chipwise(*words.split(), name, cwd=tmp_path).stdout)["dataset"]
        for name in ("chat.jsonl", "chat.parquet")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("form", ["table", "md", "html", "csv"])
def test_every_format_shows_data_and_grid(tmp_path: Path, form: str) -> None:
    words = (
        "plan finetune llama-2-7b --examples 9k --lengths p50=400,p90=1200 --on rtx-4090:2 "
        "--grid rank=8,16 --grid lr=1e-4,2e-4 --instances 2 --format"
    )
    done = chipwise(*words.split(), form, cwd=tmp_path, COLUMNS="160")
    assert done.returncode == 0, done.stderr
    assert "None" not in done.stdout
    if form != "csv":
        assert "4 runs on 2 × rtx-4090:2" in done.stdout
        assert "tokens computed for each one trained on" in done.stdout
        assert "rank=16, lr=2e-4" in done.stdout


def test_the_next_command_runs_and_agrees(tmp_path: Path) -> None:
    words = "plan finetune llama-2-7b --examples 9k --lengths p50=400,p90=1200 --on rtx-4090:2"
    shown = chipwise(*words.split(), COLUMNS="2000").stdout.splitlines()[-1]
    plan = json.loads(chipwise(*words.split(), "--json").stdout)["plans"][0]
    command = shown.partition("chipwise ")[2].split()
    assert command[0] == "fit"
    found = json.loads(chipwise(*command, "--json").stdout)
    assert found["verdict"] == plan["verdict"]
    assert found["memory"]["total_bytes"] == pytest.approx(plan["memory"]["total_bytes"], rel=0.02)


def test_a_missing_file_and_a_missing_data_set_are_usage_errors(tmp_path: Path) -> None:
    for words, reason in (
        (["--data", "none.jsonl"], "no such file"),
        (["--examples", "5k"], "--data FILE is missing"),
        (["--data", "/dev/zero"], "no regular file"),
    ):
        done = chipwise("plan", "finetune", "llama-2-7b", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert reason in done.stderr
        assert done.stdout == ""


def test_a_job_that_fits_nowhere_exits_with_three() -> None:
    words = "plan finetune llama-3.1-405b --examples 1k --length 300 --on rtx-3060:1"
    done = chipwise(*words.split())
    assert done.returncode == 3
    assert "No plan on" in done.stdout
