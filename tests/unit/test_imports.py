"""The arrows between modules, and what loading the command line may load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_import_contract_is_broken() -> None:
    found = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


def loaded_by(statement: str) -> set[str]:
    """Top-level names in ``sys.modules`` after a statement, in a fresh interpreter."""
    probe = (
        "import contextlib, io, sys\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    {statement}\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"numpy", "pydantic", "pydantic_core", "rich", "huggingface_hub", "altair", "vl_convert"}


def test_help_loads_neither_numpy_nor_pydantic_nor_rich() -> None:
    assert not loaded_by("from chipwise.cli import main; main(['--help'])") & HEAVY


def test_help_of_a_command_loads_neither_numpy_nor_rich() -> None:
    loaded = loaded_by("from chipwise.cli import main; main(['fit', '--help'])")
    assert not loaded & (HEAVY - {"pydantic", "pydantic_core"})  # typer itself loads pydantic


def test_the_probe_would_see_numpy() -> None:
    assert "numpy" in loaded_by("import chipwise.quantity")
