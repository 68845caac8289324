"""The use cases through the command line: what people and checks rely on."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest

MAIN_JOB = (
    *("plan", "train", "llama-2-7b", "--tokens", "2B", "--deadline", "14d"),
    *("--on", "rtx-4090:8,a100-sxm-80:8,h100-sxm:8,tpu-v5p:16"),
)


def chipwise(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chipwise", *words], capture_output=True, text=True, check=False
    )


def answer(*words: str, code: int = 0) -> Any:
    done = chipwise(*words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_the_main_job_gives_a_ranked_table_and_the_next_command() -> None:
    done = chipwise(*MAIN_JOB)
    assert done.returncode == 0
    assert "Recommended:" in done.stdout
    assert "Next: chipwise estimate train llama-2-7b" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        MAIN_JOB,
        ("plan", "train", "mixtral-8x7b", "--tokens", "1B", "--on", "h100-sxm:8x2", "--ep", "1"),
        ("plan", "train", "llama-2-7b", "--tokens", "1B", "--on", "rtx-4090:8", "--pp", "8"),
    ],
)
def test_the_next_command_gives_the_numbers_of_the_plan(words: tuple[str, ...]) -> None:
    plan = answer(*words)["plans"][0]
    shown = chipwise(*words).stdout
    command = shown[shown.index("Next: chipwise ") :].removeprefix("Next: chipwise ")
    estimate = answer(*shlex.split(command))
    assert estimate["layout"] == plan["layout"]
    assert estimate["step_time_s"] == plan["step_time_s"]
    assert estimate["memory"]["total_bytes"] == plan["memory"]["total_bytes"]


def test_what_does_not_fit_exits_3_with_remedies() -> None:
    document = answer("fit", "llama-2-7b", "--on", "rtx-4090:4", "--shard", "zero2", code=3)
    assert document["verdict"] == "does not fit"
    assert document["one_change"]["fits_after"]
    assert document["remedies"]


def test_what_fits_nowhere_exits_3_with_the_smallest_system() -> None:
    words = ("plan", "train", "llama-2-70b", "--tokens", "1B", "--on", "rtx-4090:8")
    document = answer(*words, code=3)
    assert document["plans"] == []
    assert document["no_fit"][0]["smallest"].startswith("rtx-4090:8x")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            ("estimate", "train", "llama-2-7b", "--on", "h100-sxm:8", "--tp", "7"),
            "tp-divides-heads",
        ),
        (("fit", "llama-2-7b", "--on", "h100-sxm:8,a100-sxm-80:8"), "one-system"),
        (("fit", "llama-2-7b", "--on", "h100-sxm", "--set", "foo=1"), "unknown-quantity"),
        (("explain", "steptime", "llama-2-7b", "--on", "h100-sxm"), "unknown-quantity"),
    ],
)
def test_what_cannot_be_understood_exits_2_with_a_stable_code(
    words: tuple[str, ...], code: str
) -> None:
    assert answer(*words, code=2)["error"]["code"] == code


def test_an_explanation_has_needs_and_sources_down_to_the_leaves() -> None:
    tree = answer("explain", "step_time", "llama-2-7b", "--on", "h100-sxm:8", "--depth", "20")
    assert tree["needs"]
    text = json.dumps(tree)
    assert "nvidia-h100-datasheet" in text and '"peak_bandwidth"' in text


@pytest.mark.parametrize("form", ["table", "md", "csv", "html"])
def test_every_form_of_every_answer_can_be_written(form: str) -> None:
    system = ("llama-2-7b", "--on", "h100-sxm:8")
    for words in (("fit", *system), ("estimate", "train", *system), ("explain", "mfu", *system)):
        done = chipwise(*words, "--format", form)
        assert done.returncode == 0 and done.stdout, done.stderr
