"""Text of a YAML, JSON or TOML file as keys with values, and where in the text each stands.

Parsed, never executed: tags are refused, references stay within a limit, sizes too.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from chipwise.errors import DataFileError
from chipwise.i18n import _

Syntax = Literal["yaml", "json", "toml", "shell"]
LARGEST_FILE = 2**20
"""Bytes; a configuration has a few kilobytes."""
_MOST_KEYS = 20_000
SYNTAXES: Mapping[str, Syntax] = {
    ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml",
}  # fmt: skip
_TOML_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_TOML_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w.-]+)\s*=\s*""")


@dataclass(frozen=True)
class Entry:
    """One value of a file: a scalar, or a list of scalars."""

    value: Any
    line: int
    """Counted from 1."""
    start: int
    end: int
    """Where the value stands in the text; ``end`` is behind it."""


@dataclass(frozen=True)
class Marked:
    """A file as read: entries by dotted key, such as ``zero_optimization.stage``."""

    name: str
    text: str
    syntax: Syntax
    entries: Mapping[str, Entry]

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def get(self, key: str) -> Any:
        """The value of a key, None where it is missing or null."""
        entry = self.entries.get(key)
        return None if entry is None else entry.value

    def line(self, key: str) -> int | None:
        """Line of a key, if it is there."""
        entry = self.entries.get(key)
        return None if entry is None else entry.line

    def under(self, prefix: str) -> bool:
        """Whether there is anything below a key."""
        return any(key == prefix or key.startswith(f"{prefix}.") for key in self.entries)


def text_of(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        DataFileError: no such file, too large, or no text.
    """
    try:
        if not path.is_file():
            raise DataFileError("unreadable-file", _("{path}: no such file").format(path=path))
        if path.stat().st_size > LARGEST_FILE:
            text = _("{path}: larger than 1 MiB: this is no configuration").format(path=path)
            raise DataFileError("unreadable-file", text)
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or _("not UTF-8 text")
        raise DataFileError("unreadable-file", f"{path}: {reason}") from None


def read_file(path: Path) -> Marked:
    """A configuration file.

    Raises:
        DataFileError: no such file, too large, no text, or not what its suffix says; names the
            line where there is one.
    """
    return read_text(str(path), text_of(path), SYNTAXES.get(path.suffix.lower()))


def read_text(name: str, text: str, syntax: Syntax | None = None) -> Marked:
    """A configuration as text; JSON and YAML are told apart where no syntax is given.

    Raises:
        DataFileError: not of that syntax; names the line.
    """
    syntax = syntax or ("json" if text.lstrip().startswith("{") else "yaml")
    found = _toml(name, text) if syntax == "toml" else _tree(name, text, syntax)
    entries: dict[str, Entry] = {}
    for key, entry in found:
        entries[key] = entry
        if len(entries) > _MOST_KEYS:
            raise _broken(name, entry.line, _("more than {n} keys").format(n=_MOST_KEYS))
    return Marked(name, text, syntax, entries)


def _broken(name: str, line: int | None, what: str) -> DataFileError:
    place = f"{name}:{line}" if line else name
    return DataFileError("broken-config", f"{place}: {what}", file=name, line=line)


# -- YAML and JSON ---------------------------------------------------------------------------


def _tree(name: str, text: str, syntax: Syntax) -> Iterator[tuple[str, Entry]]:
    if syntax == "json":
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            raise _broken(name, error.lineno, _("no JSON: {why}").format(why=error.msg)) from None
        text = text.replace("\t", " ")  # strings hold none: places stay
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        why = error.problem or error.context or ""
        raise _broken(name, line, _("no YAML: {why}").format(why=why)) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise _broken(name, None, _("no YAML: {why}").format(why=error)) from None
    if not isinstance(root, yaml.MappingNode):
        raise _broken(name, 1, _("no keys with values: nothing to read a job from"))
    budget = [_MOST_KEYS]
    yield from _leaves(name, root, "", budget)


def _leaves(
    name: str, node: yaml.Node, prefix: str, budget: list[int]
) -> Iterator[tuple[str, Entry]]:
    """Scalars and lists of scalars below a node; ``budget`` ends what references blow up."""
    budget[0] -= 1
    line = node.start_mark.line + 1
    if budget[0] < 0:
        raise _broken(name, line, _("more than {n} keys").format(n=_MOST_KEYS))
    _refuse_tags(name, node)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            word = str(getattr(key, "value", ""))
            yield from _leaves(name, value, f"{prefix}.{word}" if prefix else word, budget)
        if not node.value and prefix:
            yield prefix, Entry(None, line, node.start_mark.index, node.end_mark.index)
    elif isinstance(node, yaml.SequenceNode):
        if all(isinstance(item, yaml.ScalarNode) for item in node.value):
            values = [_scalar(name, item) for item in node.value]
            yield prefix, Entry(values, line, node.start_mark.index, node.end_mark.index)
        else:
            for place, item in enumerate(node.value):
                yield from _leaves(name, item, f"{prefix}.{place}", budget)
    elif isinstance(node, yaml.ScalarNode):
        value = _scalar(name, node)
        yield prefix, Entry(value, line, node.start_mark.index, node.end_mark.index)


_TAGS = ("null", "bool", "int", "float", "str", "timestamp", "map", "seq")


def _tag(node: yaml.Node) -> str:
    return str(node.tag).removeprefix("tag:yaml.org,2002:")


def _refuse_tags(name: str, node: yaml.Node) -> None:
    if _tag(node) not in _TAGS:
        text = _("'{tag}' is not read: only plain values are").format(tag=node.tag)
        raise _broken(name, node.start_mark.line + 1, text)


def _scalar(name: str, node: yaml.ScalarNode) -> Any:
    _refuse_tags(name, node)
    tag = _tag(node)
    if tag in ("str", "timestamp"):
        return _number(str(node.value)) if node.style is None else str(node.value)
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError):
        return str(node.value)


def _number(text: str) -> Any:
    """``2e-5`` is a number to everyone but YAML 1.1."""
    if re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", text):
        return float(text)
    return text


# -- TOML ------------------------------------------------------------------------------------


def _toml(name: str, text: str) -> Iterator[tuple[str, Entry]]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else None
        raise _broken(name, line, _("no TOML: {why}").format(why=error)) from None
    places = dict(_toml_places(text))
    for key, value in _flat(tables, ""):
        yield key, Entry(value, *places.get(key, (1, 0, 0)))


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for place, item in enumerate(value):
            yield from _flat(item, f"{prefix}.{place}")
    else:
        yield prefix, value


def _toml_places(text: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Line, start and end of every value that stands on one line."""
    table, offset = "", 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        body = line.rstrip("\r\n")
        if header := _TOML_TABLE.match(body):
            table = header[1].strip()
        elif pair := _TOML_VALUE.match(body):
            key = pair[1].strip("\"'")
            value = _before_comment(body[pair.end() :])
            start = offset + pair.end()
            yield f"{table}.{key}" if table else key, (number, start, start + len(value))
        offset += len(line)


def _before_comment(text: str) -> str:
    """A value without the comment behind it; ``#`` within quotes is no comment."""
    quote = ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            return text[:place].rstrip()
    return text.rstrip()
