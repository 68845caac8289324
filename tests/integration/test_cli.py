"""The command line as a process: exit codes, streams, help, completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chipwise.cli.commands import COMMANDS

CLEAN = {key: value for key, value in os.environ.items() if not key.startswith("CHIPWISE")}


def chipwise(
    *words: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chipwise", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**CLEAN, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **environment},
    )


def test_help_lists_every_command_with_its_whole_summary() -> None:
    shown = chipwise("--help")
    assert shown.returncode == 0
    assert shown.stderr == ""
    for word in {command.path[0] for command in COMMANDS} | {"schema", "completion"}:
        assert f"\n  {word}" in shown.stdout
    assert "..." not in shown.stdout.partition("Commands:")[2]


def test_nothing_at_all_shows_the_help() -> None:
    assert chipwise().stdout == chipwise("--help").stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda item: item.name)
def test_every_command_has_help_with_its_example(command: object) -> None:
    path = command.path  # type: ignore[attr-defined]
    shown = chipwise(*path, "--help", COLUMNS="80")
    assert shown.returncode == 0
    assert f"Example: {command.example}" in shown.stdout  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert chipwise("--version").stdout == f"chipwise {version('chipwise')}\n"


def test_the_console_script_is_the_module() -> None:
    script = Path(sys.executable).with_name("chipwise")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == chipwise("--version").stdout


# -- usage errors


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["ft"], "Did you mean 'fit'?"),
        (["fit", "m", "--micro-bach", "2"], "--micro-batch"),
        (["plan", "trian"], "Did you mean 'train'?"),
        (["fit"], "MODEL is missing"),
        (["fit", "llama-2-7b"], "--on is missing"),
        (["fit", "llama-2-7b", "--on"], "--on"),
        (["fit", "llama-2-7b", "--on", "h100-sxm", "--tp", "x"], "--tp"),
        (["fit", "a", "b", "--on", "h100-sxm"], "b"),
        (["plan"], "Usage: chipwise plan"),
        (["schema", "ft"], "did you mean 'fit'"),
        (["completion", "tcsh"], "unknown shell 'tcsh'"),
        (["fit", "m", "--on", "x", "--config", "none.toml"], "none.toml"),
    ],
)
def test_a_usage_error_exits_2_with_a_hint_on_stderr(words: list[str], hint: str) -> None:
    done = chipwise(*words)
    assert done.returncode == 2
    assert hint in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["fit", "--json"], ["fit", "--nope", "--json"]])
def test_with_json_an_error_is_a_document_on_stdout(words: list[str]) -> None:
    done = chipwise(*words)
    document = json.loads(done.stdout)
    assert done.returncode == 2
    assert document["command"] == "fit"
    assert set(document["error"]) == {"code", "message", "details"}


def test_an_unknown_variable_is_a_note_and_quiet_silences_it() -> None:
    words = ("fit", "--on", "h100-sxm")
    assert "note: CHIPWISE_TPP" in chipwise(*words, CHIPWISE_TPP="2").stderr
    assert "note:" not in chipwise(*words, "--quiet", CHIPWISE_TPP="2").stderr


def test_a_run_file_with_an_unknown_key_names_it(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("micro-bach = 2\n", encoding="utf-8")
    done = chipwise("fit", "--config", "job.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "micro-bach" in done.stderr
    assert "micro_batch" in done.stderr


# -- tools


def test_schema_prints_json_of_inputs_and_outputs() -> None:
    document = json.loads(chipwise("schema").stdout)
    assert "fit" in document["outputs"]
    assert "fit-request" in document["inputs"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_calls_back(shell: str) -> None:
    script = chipwise("completion", shell)
    assert script.returncode == 0
    assert f"_CHIPWISE_COMPLETE=complete_{shell}" in script.stdout


def test_completion_offers_commands_flags_and_choices() -> None:
    def offered(line: str) -> list[str]:
        words = line.split(" ")
        return chipwise(
            _CHIPWISE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
        ).stdout.split()

    assert "estimate" in offered("chipwise e")
    assert offered("chipwise fit --micro") == ["--micro-batch"]
    assert offered("chipwise fit --recompute se") == ["selective"]


def test_a_reader_that_stops_early_is_no_error() -> None:
    process = subprocess.Popen(
        f"{sys.executable} -m chipwise schema | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=CLEAN,
    )
    out, err = process.communicate()
    assert "Traceback" not in err
    assert out.splitlines()[-1] in ("0", "141")


def test_an_observed_run_moves_the_estimate_and_garbage_exits_2() -> None:
    words = ("estimate", "train", "gpt2", "--on", "a100-sxm-80", "--micro-batch", "4", "--json")
    moved = chipwise(*words, "--observed", "tokens_per_s=41000", "--observed", "peak_memory=9GiB")
    document = json.loads(moved.stdout)
    assert document["observed"]["runs"] == 1
    assert set(document["observed"]) >= {"time_shift", "memory_shift", "time_narrowing"}
    assert document["step_time_s"]["basis"] == "calibrated"
    for garbage in ("step_time=soon", "mfu=41", "run.csv"):
        refused = chipwise(*words, "--observed", garbage)
        assert refused.returncode == 2
        assert garbage in json.loads(refused.stdout)["error"]["message"]


def test_a_measured_step_time_gives_a_whole_estimate() -> None:
    done = chipwise("estimate", "train", "gpt2", "--on", "a100-sxm-80", "--set", "step_time=2s")
    assert done.returncode == 0
    assert "2.00 s" in done.stdout


@pytest.mark.parametrize("source", ["flag", "environment", "run file"])
def test_an_error_is_a_json_document_however_json_was_asked_for(
    source: str, tmp_path: Path
) -> None:
    words, environment = ["fit", "no-such-model", "--on", "h100-sxm"], {}
    if source == "flag":
        words += ["--format", "JSON"]
    elif source == "environment":
        environment = {"CHIPWISE_JSON": "1"}
    else:
        (tmp_path / "job.toml").write_text("json = true\n", encoding="utf-8")
        words += ["--config", "job.toml"]
    done = chipwise(*words, cwd=tmp_path, **environment)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "unknown-model"


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.is_char_device(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("catalogue", "systems"), ("schema",), ("fit", "--json")])
def test_a_full_disk_is_said_without_a_traceback(words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "chipwise", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_closed_output_stops_nothing() -> None:
    command = f"{sys.executable} -m chipwise catalogue systems >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_plan_within_the_budget_exits_3() -> None:
    words = ("plan", "train", "llama-2-7b", "--tokens", "2B", "--on", "h100-sxm:8")
    assert chipwise(*words, "--budget", "10kUSD").returncode == 0
    done = chipwise(*words, "--budget", "1USD", COLUMNS="160")
    assert done.returncode == 3
    assert "over budget" in done.stdout
