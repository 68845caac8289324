from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chipwise.app.browse import catalogue
from chipwise.app.documents_facts import CatalogueDocument, Fact
from chipwise.app.requests import CatalogueRequest, parse_request
from chipwise.errors import UnknownNameError, UsageError
from chipwise.report import render


def ask(kind: str, **fields: Any) -> CatalogueDocument:
    return catalogue(parse_request(CatalogueRequest, {"kind": kind, **fields}))


def fact(document: CatalogueDocument, name: str) -> Fact:
    return next(item for item in document.facts if item.name == name)


@pytest.mark.parametrize("kind", ["accelerators", "systems", "models"])
def test_a_listing_has_a_row_per_entry_and_shows_in_every_format(kind: str) -> None:
    document = ask(kind)
    ids = [row["id"] for row in document.rows]
    assert ids == sorted(set(ids))
    assert len(ids) > 20
    for form in ("table", "csv", "md", "html"):
        assert ids[0] in render(document.model_dump(mode="json"), form)


def test_a_row_has_the_columns_that_the_listing_announces() -> None:
    document = ask("accelerators")
    assert set(document.rows[0]) == {column.name for column in document.columns}


def test_shown_values_are_si_numbers_with_source_and_date() -> None:
    # 3350 GB/s, the bandwidth of NVIDIA's H100 SXM data sheet
    bandwidth = fact(ask("show", id="h100-sxm"), "bandwidth")
    assert (bandwidth.value, bandwidth.unit) == (3.35e12, "B/s")
    assert bandwidth.source
    assert bandwidth.retrieved


def test_a_model_is_found_by_its_hub_id_with_its_exact_count() -> None:
    # 6,738,415,616: parameters of Llama 2 7B
    document = ask("show", id="meta-llama/Llama-2-7b-hf")
    assert document.id == "llama-2-7b"
    assert fact(document, "params").value == 6738415616


def test_another_name_of_a_device_is_said_how_it_was_read() -> None:
    document = ask("show", id="A100-SXM4-80GB")
    assert document.id == "a100-sxm-80"
    assert any("a100-sxm-80" in warning for warning in document.warnings)


def test_an_unknown_entry_is_named_with_the_nearest_of_all_kinds() -> None:
    with pytest.raises(UnknownNameError) as caught:
        ask("show", id="hgx-h10")
    assert "did you mean 'hgx-h100'" in caught.value.message


def test_the_bundled_catalogue_holds() -> None:
    assert [item for item in ask("check").findings if item.severity == "error"] == []


def test_a_broken_file_of_ones_own_is_a_finding_with_exit_code_4(tmp_path: Path) -> None:
    folder = tmp_path / "accelerators"
    folder.mkdir()
    (folder / "my-card.toml").write_text('id = "my-card"\nname = \n', encoding="utf-8")
    try:
        document = ask("check", catalogue=str(tmp_path))
        assert document.exit_code == 4
        assert any("my-card.toml" in item.file for item in document.findings)
    finally:
        ask("systems")


def test_a_catalogue_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        ask("systems", catalogue=str(tmp_path / "none"))
