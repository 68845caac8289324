from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chipwise import i18n
from chipwise.cli import drawing, main
from chipwise.cli.commands import COMMANDS
from chipwise.cli.settings import Settings
from tests.unit.report import hand_made as made

FIT = ("fit", "llama-2-7b", "--on", "h100-sxm:8")
PLAN = ("plan", "train", "llama-2-7b", "--tokens", "1B", "--on")


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(i18n, "_active", None)
    monkeypatch.setenv("CHIPWISE_LANG", "en")
    yield
    i18n._translations.clear()


@pytest.mark.parametrize("suffix", ["svg", "png", "html", "csv"])
def test_the_picture_is_written_beside_the_answer(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FIT]) == 0
    usual = capsys.readouterr().out
    file = tmp_path / f"fit.{suffix}"
    assert main([*FIT, "--plot", str(file)]) == 0
    assert capsys.readouterr() == (usual, "")
    assert file.stat().st_size > 500
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_csv_holds_the_numbers_of_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fit.csv"
    assert main([*FIT, "--json", "--plot", str(file)]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    header, *lines = file.read_text(encoding="utf-8").splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    assert [(row["part"], float(row["bytes"])) for row in rows] == [
        (part["name"], part["bytes"]) for part in memory["parts"]
    ]
    assert {float(row["reserved_bytes"]) for row in rows} == {memory["reserved_bytes"]}


@pytest.mark.parametrize(
    ("name", "hint"),
    [("fit.jpg", ".svg, .png, .html, .csv"), ("none/fit.svg", "cannot write")],
)
def test_what_cannot_be_written_is_refused_before_the_answer(
    name: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FIT, "--plot", str(tmp_path / name)]) == 2
    said = capsys.readouterr()
    assert hint in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_the_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fit.svg").mkdir()
    assert main([*FIT, "--plot", str(tmp_path / "fit.svg")]) == 2
    assert "directory" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    assert main([*FIT, "--plot", str(tmp_path / "fit.svg")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_the_picture_may_not_replace_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "fit.html")
    assert main([*FIT, "--out", file, "--format", "html", "--plot", file]) == 2
    assert "two files" in capsys.readouterr().err


def test_a_picture_without_data_is_said_on_stderr_alone_and_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.svg"
    settings = Settings({}, {"plot": str(file), "picture": "scaling", "json": True})
    document = made.plan_document(made.plan())
    assert drawing.draw(document, COMMANDS[0], settings) == 2
    said = capsys.readouterr()
    assert "it has pareto, memory, time" in said.err
    assert said.out == ""
    assert not file.exists()


def test_where_no_plan_is_there_is_a_note_and_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.svg"
    assert main([*PLAN, "rtx-3060:1", "--plot", str(file)]) == 3
    assert "nothing to draw" in capsys.readouterr().err
    assert not file.exists()


def test_a_picture_the_command_does_not_offer_is_refused_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*FIT, "--plot", str(tmp_path / "fit.svg"), "--picture", "memry"]
    assert main(words) == 2
    assert "did you mean 'memory'" in capsys.readouterr().err


def test_a_choice_without_a_file_is_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--picture", "memory"]) == 0
    assert "--plot FILE" in capsys.readouterr().err


def test_a_run_file_may_name_the_picture(tmp_path: Path) -> None:
    file, job = tmp_path / "fit.svg", tmp_path / "job.toml"
    job.write_text(f'plot = "{file}"\n', encoding="utf-8")
    assert main([*FIT, "--config", str(job)]) == 0
    assert file.exists()
