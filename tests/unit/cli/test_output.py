from __future__ import annotations

import io
import json
import os
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


def test_a_device_or_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    output.write_atomically(pipe, "answer")
    assert os.read(reader, 64) == b"answer"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_in_place_of_the_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        output.write_atomically(tmp_path, "x")


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o600)
    link.symlink_to(target)
    output.write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("columns", ["", "abc", "0", "-5", "9" * 30])
def test_a_width_that_is_none_is_ignored(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output.write(made.fit_document(), Settings({}, {}))
    usual = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", columns)
    output.write(made.fit_document(), Settings({}, {}))
    assert capsys.readouterr().out == usual


def test_what_a_character_set_lacks_does_not_stop_the_answer() -> None:
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    output.say("10 · 20", ascii_only)
    output.say('{"name": "模型"}', ascii_only, as_json=True)
    ascii_only.seek(0)
    table, _brace, document = ascii_only.read().partition("{")
    assert table == "10 ? 20"
    assert json.loads("{" + document) == {"name": "模型"}


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
