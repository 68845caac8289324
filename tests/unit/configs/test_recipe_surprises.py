"""Values of the wrong kind end in an error with a line, never in a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chipwise.configs import kinds
from chipwise.configs.marked import Marked, read_file
from chipwise.errors import ChipwiseError

_FOLDER = Path(__file__).parents[2] / "data" / "configs" / "recipes"
_SURPRISES: tuple[Any, ...] = (
    *([], ["a", 1], None, True, False, -1, 0, 1.5, 10**30, float("nan"), float("inf")),
    *("", "auto", "ü", "1e400", "${x}", "all", "none"),
)


def _changed(marked: Marked) -> Iterator[tuple[str, Any, Marked]]:
    for key, entry in marked.entries.items():
        for value in _SURPRISES:
            entries = {**marked.entries, key: replace(entry, value=value)}
            yield key, value, replace(marked, entries=entries)


@pytest.mark.parametrize("path", sorted(_FOLDER.iterdir()), ids=lambda path: path.name)
def test_any_value_is_read_or_refused(path: Path) -> None:
    marked = read_file(path)
    kind = next(kind for kind in kinds.KINDS if kind.looks_like(marked))
    refused = 0
    for key, value, changed in _changed(marked):
        try:
            kind.read(changed)
        except ChipwiseError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{key} = {value!r}: {error!r}")
    assert refused > 0
