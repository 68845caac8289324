"""Reference pages that are made from the code are current, and complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chipwise.app.documents import Document
from chipwise.app.schema import DOCUMENTS
from chipwise.cli.commands import COMMANDS
from chipwise.cli.flags import output_flags, picture_flags
from chipwise.physics import MODEL
from chipwise.physics.serving_model import SERVING, SPEED_OF_PASS, SPEED_UNDER_LOAD

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


SCRIPTS = ("cli-reference", "equations", "fit-tables", "json-reference", "pictures")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_generated_page_is_what_its_script_writes(script: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_and_flag_is_documented() -> None:
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    sections = page.split("\n## ")
    for command in COMMANDS:
        section = next(part for part in sections if part.startswith(f"`chipwise {command.name}`"))
        drawn = picture_flags(command.pictures) if command.pictures else ()
        for flag in (*command.flags(), *drawn):
            assert f"`--{flag.name}`" in section, f"{command.name} --{flag.name}"
    shared = next(part for part in sections if part.startswith("Flags of every command"))
    assert [flag.name for flag in output_flags() if f"`--{flag.name}`" not in shared] == []


def test_every_quantity_has_its_equation() -> None:
    page = (REFERENCE / "equations.md").read_text(encoding="utf-8")
    every = (*MODEL, *SERVING, *SPEED_OF_PASS, *SPEED_UNDER_LOAD)
    missing = [name for name in every if f"\n### `{name}` [" not in page]
    assert missing == []


def test_every_document_is_described() -> None:
    page = (REFERENCE / "json.md").read_text(encoding="utf-8")
    for kind in DOCUMENTS:
        own = set(kind.model_fields) - set(Document.model_fields) - {"schema_"}
        assert [name for name in own if f"| `{name}` |" not in page] == [], kind.__name__
