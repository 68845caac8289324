"""Files are parsed and never executed; what is broken is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.configs.marked import Syntax, read_file, read_text
from chipwise.errors import DataFileError


def test_values_have_their_type_line_and_place() -> None:
    text = "a: 1\nb:\n  c: [x, 2]\n  d: 2e-5\ne: 'yes'\nf:\n"
    marked = read_text("x.yml", text)
    found = {key: (entry.value, entry.line) for key, entry in marked.entries.items()}
    assert found == {"a": (1, 1), "b.c": (["x", 2], 3), "b.d": (2e-5, 4), "e": ("yes", 5),
                     "f": (None, 6)}  # fmt: skip
    entry = marked.entries["b.c"]
    assert text[entry.start : entry.end] == "[x, 2]"


@pytest.mark.parametrize(
    ("text", "syntax", "place"),
    [
        ("a: [1, 2\nb: 3\n", "yaml", "x:2"),
        ("a: 1\n\tb: 2\n", "yaml", "x:2"),
        ("a: 1\nb: !!python/object/apply:os.system ['true']\n", "yaml", "x:2"),
        ("a: 1\nb: !ENV home\n", "yaml", "x:2"),
        ('{"a": 1,\n "b": }', "json", "x:2"),
        ('a = 1\nb = "\n', "toml", "x:2"),
        ("- 1\n- 2\n", "yaml", "x:1"),
        ("", "yaml", "x:1"),
    ],
)
def test_broken_text_is_named_with_its_line(text: str, syntax: Syntax, place: str) -> None:
    with pytest.raises(DataFileError, match=place):
        read_text("x", text, syntax)


def test_references_do_not_blow_up() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for one, before in zip("bcdefgh", "abcdefg", strict=True):
        lines.append(f"{one}: &{one} [{', '.join([f'*{before}'] * 10)}]")
    with pytest.raises(DataFileError, match="more than"):
        read_text("x", "\n".join(lines), "yaml")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00a")
    (tmp_path / "large.json").write_text("{" + " " * 2**20 + "}", encoding="utf-8")
    for name, says in (("absent.yml", "no such"), ("binary.yml", "UTF-8"), ("large.json", "1 MiB")):
        with pytest.raises(DataFileError, match=says):
            read_file(tmp_path / name)
