"""The page of errors is current, complete and says what its numbers are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
SVG = "{http://www.w3.org/2000/svg}"


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_shipped_numbers_are_those_of_a_fresh_computation() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "accuracy", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    """A page with another median is out of date."""
    page = tmp_path / "accuracy.md"
    other = re.sub(r"(speed, as shipped \| \d+ \| )\d+", r"\g<1>99", text())
    assert other != text()
    page.write_text(other, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "accuracy", "--check", page],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "scripts/accuracy" in done.stdout


def test_nothing_was_left_to_fill_in() -> None:
    assert re.findall(r"\{\w+\}|\bnan\b", text()) == []


def test_every_plot_is_there_with_a_text_alternative() -> None:
    shown = re.findall(r"!\[([^\]]+)\]\((accuracy/[\w-]+\.svg)\)", text())
    files = {path.name for path in (ROOT / "docs" / "accuracy").glob("*.svg")}
    assert {Path(name).name for _alternative, name in shown} == files
    for alternative, name in shown:
        assert "rows" in alternative
        root = ET.parse(PAGE.parent / name).getroot()
        assert all(root.findtext(SVG + tag) for tag in ("title", "desc"))
        labels = " ".join(one.text or "" for one in root.iter(SVG + "text"))
        assert "measured [" in labels and "predicted [" in labels


def test_twenty_five_worst_rows_each_have_a_reason_or_say_that_there_is_none() -> None:
    table = text().partition("## The worst rows")[2].split("\n\n")
    rows = next(part for part in table if part.startswith("| Row")).splitlines()[2:]
    assert len(rows) == 25
    assert all(row.split("|")[-2].strip() for row in rows)
