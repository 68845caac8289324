"""Small configurations for tests: text in, reading out."""

from __future__ import annotations

from pathlib import Path

from chipwise.configs import read_source
from chipwise.configs.reading import Reading


def reading(folder: Path, name: str, text: str) -> Reading:
    """A configuration as read from a file of that name."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    (found,) = read_source(str(path))
    return found


def fields(folder: Path, name: str, text: str) -> dict[str, object]:
    """Its fields alone."""
    return {key: one.value for key, one in reading(folder, name, text).taken.items()}
