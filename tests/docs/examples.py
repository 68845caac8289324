"""The examples of the documentation: fenced blocks that run a command or show a file.

A block ``console`` starts with ``$ chipwise …``, over several lines where they end with a
backslash, and goes on with what was printed. After ``console`` may stand ``from=WORD`` and
``until=WORD`` (the line that starts so begins what is shown, or is the first left out), ``head=N``
(at most N lines) and ``exit=N``. A block ``toml file=PATH`` (or ``csv``) shows a file of the
repository.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    kind: str
    options: dict[str, str]
    text: str
    """What stands between the fences."""
    span: tuple[int, int]
    """Where it stands in the page."""

    @property
    def command(self) -> str:
        """The command as it stands on the page; empty where the block runs none."""
        found = re.match(r"\$ (chipwise(?:[^\n]*\\\n)*[^\n]*)", self.text)
        return found[1] if found and self.kind == "console" else ""

    @property
    def words(self) -> list[str]:
        """Arguments of the command, without the program."""
        return shlex.split(self.command.replace("\\\n", " "))[1:]


def pages() -> list[Path]:
    """Every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        options = dict(pair.partition("=")[::2] for pair in found[2].split())
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found[1], options, found[3], found.span(3))


def commands() -> list[Block]:
    """Every block that runs a command."""
    return [block for page in pages() for block in blocks(page) if block.command]
