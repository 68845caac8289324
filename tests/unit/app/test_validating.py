"""``validate``: what moved is said, and summaries say what their groups are."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from chipwise.app import validate
from chipwise.app.requests import ValidateRequest
from chipwise.report import render
from chipwise.validation.report import BUNDLED
from chipwise.validation.table import read_rows

SOURCE = "torchtune"


def observed_file(folder: Path, count: int) -> str:
    rows, _kind = read_rows(BUNDLED / "training.csv")
    speed = ("tokens_per_s_per_device", "step_time_s")
    kept = [row for row in rows if row["source"] == SOURCE and row["metric"] in speed][:count]
    path = folder / "observed.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(kept[0]))
        writer.writeheader()
        writer.writerows(kept)
    return str(path)


def test_what_observed_rows_moved_is_said_and_is_in_the_document(tmp_path: Path) -> None:
    document = validate(ValidateRequest(only_source=SOURCE, observed=observed_file(tmp_path, 2)))
    assert document.observed is not None
    assert document.observed.runs == 2
    assert document.observed.time_narrowing < 1 and document.observed.memory_narrowing == 1
    texts = [one.text for one in document.assumptions]
    assert any("as shipped" in text for text in texts)
    assert any("2 observed rows" in text and "step times" in text for text in texts)
    assert validate(ValidateRequest(only_source=SOURCE)).observed is None


def test_summaries_say_what_their_groups_are() -> None:
    document = validate(ValidateRequest(only_source=SOURCE))
    kinds = {(row.by, row.group) for row in document.summary}
    assert ("all", "all") in kinds and ("source", SOURCE) in kinds
    rows, _kind = read_rows(BUNDLED / "training.csv")
    names = {row["accelerator"] for row in rows if row["source"] == SOURCE}
    assert {group for by, group in kinds if by == "accelerator"} <= names


@pytest.mark.parametrize("title", ["All rows", "By source", "By accelerator"])
def test_the_page_has_a_table_for_each_kind_of_group(title: str) -> None:
    document = validate(ValidateRequest(only_source=SOURCE))
    assert title in render(document.model_dump(mode="json", by_alias=True), "md")
