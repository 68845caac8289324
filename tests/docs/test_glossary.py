"""The glossary uses the names of the code, and holds the field's words."""

from __future__ import annotations

import re

from chipwise.app.schema import json_schema
from chipwise.calibration import shipped
from chipwise.cli.commands import known_fields
from chipwise.physics import MODEL
from chipwise.physics.inputs import INPUTS
from chipwise.physics.serving_model import SERVING, SERVING_INPUTS
from tests.docs.examples import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "**" not in line
][1:]
NAMED = {name for row in ROWS for name in re.findall(r"`([a-z_0-9]+)`", row[0])}
FIELD = {
    *("tp", "pp", "dp", "cp", "ep", "sequence_parallel", "zero_stage", "micro_batch"),
    *("global_batch", "num_microbatches", "recompute", "step_time", "tokens_per_s"),
    *("tokens_per_s_per_device", "mfu", "hfu", "bandwidth", "peak_bandwidth"),
}
"""Words that every part of the program has to use alike."""


def known_names() -> set[str]:
    constants = {constant.name for constant in shipped().constants}
    quantities = {*MODEL, *SERVING, *INPUTS, *SERVING_INPUTS, *constants}
    keys = re.findall(r"'([a-z_0-9]+)': \{", str(json_schema("outputs")))
    return {*quantities, *known_fields(), *keys}


def test_every_name_in_the_glossary_is_one_of_the_code() -> None:
    assert sorted(NAMED - known_names()) == []


def test_the_words_of_the_field_are_explained() -> None:
    assert sorted(FIELD - NAMED) == []


def test_every_word_has_both_languages_and_a_meaning() -> None:
    assert [row for row in ROWS if len(row) != 3 or not all(row)] == []
    assert [row[0] for row in ROWS if not re.search(r"[\u4e00-\u9fff]|GB", row[1])] == []
    assert len(ROWS) > 50


def test_the_layers_of_the_architecture_page_are_the_contract() -> None:
    import tomllib

    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = contract["tool"]["importlinter"]["contracts"][0]["layers"]
    wanted = [layer.replace("(", "").replace(")", "") for layer in layers][1:]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.partition("## Layers")[2].split("\n\n")[2]
    assert [line.strip() for line in block.splitlines()] == wanted
