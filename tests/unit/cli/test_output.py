from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from chipwise.cli import output
from chipwise.cli.settings import Settings
from chipwise.errors import UsageError
from tests.unit.report import hand_made as made


def test_json_is_one_document_with_schema_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    output.write(made.fit_document(), Settings({}, {"json": True}))
    written = json.loads(capsys.readouterr().out)
    assert written["schema"] == 1
    assert written["command"] == "fit"
    assert written["one_change"]["change"] == "recompute full"


def test_a_table_on_a_pipe_has_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    output.write(made.fit_document(), Settings({}, {}))
    text = capsys.readouterr().out
    assert text.startswith("does not fit")
    assert "\x1b" not in text


def test_out_writes_the_file_and_nothing_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fit.json"
    output.write(made.fit_document(), Settings({}, {"format": "json", "out": str(path)}))
    assert json.loads(path.read_text(encoding="utf-8"))["command"] == "fit"
    assert capsys.readouterr().out == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["fit.json"]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    output.write_atomically(tmp_path / "made", "x")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        output.write_atomically(tmp_path / "none" / "x", "x")


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "answer"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        output.write_atomically(path, "lone surrogate \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["answer"]


def test_an_error_is_text_on_stderr_and_with_json_a_document_on_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.write_error("fit", "unknown-model", "no such model", {"name": "x"}, as_json=True)
    written = capsys.readouterr()
    assert written.err == "error: no such model\n"
    assert json.loads(written.out) == {
        "schema": 1,
        "command": "fit",
        "error": {"code": "unknown-model", "message": "no such model", "details": {"name": "x"}},
    }
    output.write_error("fit", "unknown-model", "no such model", {}, as_json=False)
    assert capsys.readouterr().out == ""
