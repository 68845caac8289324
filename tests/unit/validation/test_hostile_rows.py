"""Measurement rows that no sound table has: skipped with a reason or predicted, never a crash."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from chipwise.app import validate
from chipwise.app.documents_facts import PredictedRow, SkippedRow, ValidateDocument
from chipwise.app.requests import ValidateRequest

ROW = {
    **{"id": "a", "source": "here", "metric": "step_time_s", "value": "1.5"},
    **{"accelerator": "h100-sxm", "num_devices": "8", "layers": "32", "hidden": "4096"},
    **{"heads": "32", "ffn_hidden": "11008", "vocab": "32000", "seq_len": "4096"},
    **{"micro_batch": "1", "global_batch": "8", "tp": "1", "pp": "1", "dp": "8"},
    **{"precision": "bf16", "framework": "torchtitan", "shard": "zero3"},
}


def validated(
    folder: Path, *rows: Mapping[str, str], leave_one_source_out: bool = False
) -> ValidateDocument:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return validate(ValidateRequest(file=str(path), leave_one_source_out=leave_one_source_out))


def reasons(document: ValidateDocument) -> Iterable[str]:
    return [row.skipped for row in document.rows if isinstance(row, SkippedRow)]


@pytest.mark.parametrize("text", ["nan", "inf", "-5", "1e400", "fast"])
@pytest.mark.parametrize("cell", ["num_devices", "seq_len", "tp", "micro_batch", "power_cap_w"])
def test_a_cell_that_is_no_number_skips_the_row_and_is_named(
    tmp_path: Path, cell: str, text: str
) -> None:
    (reason,) = reasons(validated(tmp_path, {**ROW, cell: text}))
    assert cell in reason
    assert text in reason


@pytest.mark.parametrize(
    "cell", ["shard", "recompute", "attention", "grad_dtype", "pp_schedule", "fp8_recipe"]
)
def test_an_unknown_word_is_predicted_as_if_it_were_not_stated(tmp_path: Path, cell: str) -> None:
    without = validated(tmp_path, {**ROW, cell: ""}).rows
    assert validated(tmp_path, {**ROW, cell: "no such word"}).rows == without


@pytest.mark.parametrize("cell", ["heads", "power_cap_w", "tp", "devices_per_node"])
def test_zero_means_not_stated(tmp_path: Path, cell: str) -> None:
    without = validated(tmp_path, {**ROW, cell: ""}).rows
    assert validated(tmp_path, {**ROW, cell: "0"}).rows == without


@pytest.mark.parametrize("value", ["", "nan", "inf", "-inf", "fast"])
def test_a_value_that_is_no_number_has_a_prediction_and_no_error(
    tmp_path: Path, value: str
) -> None:
    (row,) = validated(tmp_path, {**ROW, "value": value}).rows
    assert isinstance(row, PredictedRow)
    assert row.error is None


def test_every_row_is_answered_even_where_ids_repeat(tmp_path: Path) -> None:
    skipped = {**ROW, "layers": ""}
    document = validated(tmp_path, ROW, ROW, skipped, skipped)
    assert (document.n_rows, document.n_predicted, document.n_skipped) == (4, 2, 2)
    assert len(document.rows) == 4


def test_a_file_of_one_source_leaves_nothing_to_refit_from_and_says_so(tmp_path: Path) -> None:
    document = validated(tmp_path, ROW, leave_one_source_out=True)
    (row,) = document.rows
    assert isinstance(row, PredictedRow)
    assert row.low is not None
    assert row.high is not None
    assert row.low < float(row.predicted) < row.high
    assert "no other source" in document.assumptions[0].text


def test_without_any_row_there_is_nothing_to_predict(tmp_path: Path) -> None:
    document = validated(tmp_path, {**ROW, "layers": ""}, leave_one_source_out=True)
    assert document.n_predicted == 0
