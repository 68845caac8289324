from __future__ import annotations

import os
from pathlib import Path

import pytest

from chipwise.cli.commands import COMMANDS
from chipwise.cli.settings import MAX_RUN_FILE_BYTES, Settings, gather
from chipwise.errors import DataFileError, UnknownNameError, UsageError

FIT = next(command for command in COMMANDS if command.name == "fit")


def run_file(folder: Path, text: str) -> str:
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def fit(given: dict[str, object], **environment: str) -> Settings:
    return gather(FIT, given, environment)


def test_flag_beats_environment_beats_run_file(tmp_path: Path) -> None:
    config = run_file(tmp_path, 'model = "m"\nseq = 1\ntp = 1\npp = 1\n')
    settings = fit({"config": config, "seq": "3"}, CHIPWISE_SEQ="2", CHIPWISE_TP="2")
    assert settings.request == {"model": "m", "seq": "3", "tp": "2", "pp": 1}


def test_keys_may_be_written_with_dash_or_underscore(tmp_path: Path) -> None:
    config = run_file(tmp_path, "micro-batch = 2\nglobal_batch = 8\n")
    assert fit({"config": config}).request == {"micro_batch": 2, "global_batch": 8}


def test_the_run_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    config = run_file(tmp_path, "seq = 7\n")
    assert fit({}, CHIPWISE_CONFIG=config).request == {"seq": 7}


def test_output_settings_stay_out_of_the_request(tmp_path: Path) -> None:
    config = run_file(tmp_path, 'format = "md"\nquiet = true\n')
    settings = fit({"config": config, "out": "x.md"})
    assert settings.request == {}
    assert settings.format == "md"
    assert settings.wants("quiet")


def test_json_wins_over_format() -> None:
    assert fit({"json": True, "format": "md"}).format == "json"
    assert fit({"format": "md"}, CHIPWISE_JSON="yes").format == "json"
    assert fit({}, CHIPWISE_JSON="0").format == "table"


@pytest.mark.parametrize("given", [{"format": "xml"}, {"lang": "fr"}])
def test_an_unknown_format_or_language_is_refused_before_anything_runs(
    given: dict[str, object],
) -> None:
    with pytest.raises(UnknownNameError):
        fit(given)


def test_a_catalogue_folder_reaches_the_request() -> None:
    assert fit({"catalogue": "mine"}).request == {"catalogue": "mine"}


def test_an_unknown_key_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"'micro-bach|'micro_bach': did you mean") as caught:
        fit({"config": run_file(tmp_path, "micro-bach = 2\n")})
    assert caught.value.details["nearest"] == ["micro_batch"]


def test_a_key_of_another_command_is_noted(tmp_path: Path) -> None:
    settings = fit({"config": run_file(tmp_path, 'tokens = "2B"\n')})
    assert settings.request == {}
    assert "tokens" in settings.notes[0]


def test_an_unknown_variable_is_ignored_but_noted_with_the_nearest() -> None:
    settings = fit({}, CHIPWISE_MICRO_BACH="2", PATH="/bin", CHIPWISE_DEBUG="1")
    assert settings.request == {}
    assert len(settings.notes) == 1
    assert "CHIPWISE_MICRO_BACH" in settings.notes[0]
    assert "CHIPWISE_MICRO_BATCH" in settings.notes[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("seq = \n", "line 1"), ("# " + "x" * MAX_RUN_FILE_BYTES, "1 MiB")],
)
def test_a_broken_run_file_is_named_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    config = run_file(tmp_path, text)
    with pytest.raises(DataFileError) as caught:
        fit({"config": config})
    assert config in caught.value.message
    assert reason in caught.value.message


def test_a_missing_run_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"none\.toml"):
        fit({"config": str(tmp_path / "none.toml")})


def test_a_run_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b"\xff\xfe\x00seq")
    with pytest.raises(DataFileError):
        fit({"config": str(path)})


def test_a_run_file_cannot_name_another_run_file(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="cannot name another"):
        fit({"config": run_file(tmp_path, 'config = "other.toml"\n')})


def test_a_field_that_stands_twice_under_two_spellings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="twice"):
        fit({"config": run_file(tmp_path, "micro-batch = 2\nmicro_batch = 4\n")})


def test_a_run_file_nested_beyond_all_reason_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="deeply"):
        fit({"config": run_file(tmp_path, "a = " + "[" * 20000 + "]" * 20000)})


def test_a_pipe_is_no_run_file(tmp_path: Path) -> None:
    pipe = tmp_path / "job.toml"
    os.mkfifo(pipe)
    with pytest.raises(DataFileError, match="no regular file"):
        fit({"config": str(pipe)})


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    settings = fit({"seq": "3"}, CHIPWISE_SEQ="", CHIPWISE_LANG="", CHIPWISE_TP="")
    assert settings.request == {"seq": "3"}
    assert settings.output == {}


def test_formats_are_known_in_any_letter_case() -> None:
    assert fit({"format": "JSON"}).format == "json"


@pytest.mark.parametrize("text", ["out = 5\n", 'json = "perhaps"\n', "quiet = 3\n"])
def test_an_output_setting_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        fit({"config": run_file(tmp_path, text)})
