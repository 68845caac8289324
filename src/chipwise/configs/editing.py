"""A person's own file with other values: only what changes is touched, comments and layout stay."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from chipwise.configs.flags import edited_flags
from chipwise.configs.marked import Marked, read_text


def edited(marked: Marked, changes: Mapping[str, Any]) -> str:
    """The text of a file with some keys set.

    Args:
        marked: the file as read.
        changes: values by dotted key; keys that are missing are added, None removes nothing and
            is written as null.
    """
    if marked.syntax == "shell":
        return edited_flags(marked, changes)
    for key, value in changes.items():
        entry = marked.entries.get(key)
        if entry is not None and entry.end:
            text = _replaced(marked, entry.start, entry.end, value)
        else:
            text = _added(marked, key, value)
        marked = read_text(marked.name, text, marked.syntax)
    return marked.text


def _replaced(marked: Marked, start: int, end: int, value: Any) -> str:
    text = marked.text
    old = text[start:end]
    if "\n" in old and marked.syntax == "yaml" and isinstance(value, list):
        return text[:start] + _block(old, value, _column(text, start)) + text[end:]
    tail = "\n" if old.endswith("\n") else ""
    space = " " if start and text[start - 1] == ":" else ""
    return text[:start] + space + _written(value, marked.syntax) + tail + text[end:]


def _block(old: str, items: list[Any], column: int) -> str:
    """A list over several lines, indented as the old one was."""
    tail = "\n" if old.endswith("\n") else ""
    return ("\n" + " " * column).join(f"- {_written(item, 'yaml')}" for item in items) + tail


def _column(text: str, place: int) -> int:
    return place - (text.rfind("\n", 0, place) + 1)


def _written(value: Any, syntax: str) -> str:
    """A value as the syntax writes it; JSON is valid YAML, and TOML but for null."""
    if syntax == "yaml" and isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*", value):
        words = ("true", "false", "yes", "no", "on", "off", "null")
        return value if value.lower() not in words else json.dumps(value)
    return json.dumps(value)


def _added(marked: Marked, key: str, value: Any) -> str:
    parent, _dot, name = key.rpartition(".")
    if marked.syntax == "toml":
        return _added_toml(marked.text, parent, name, value)
    if marked.syntax == "json":
        return _added_json(marked, parent, name, value)
    return _added_yaml(marked, parent, name, value)


def _added_toml(text: str, table: str, name: str, value: Any) -> str:
    line = f"{name} = {_written(value, 'toml')}\n"
    if not table:
        return line + text
    header = re.search(rf"(?m)^[ \t]*\[\s*{re.escape(table)}\s*\][^\n]*\n?", text)
    if header is None:
        return f"{_ended(text)}\n[{table}]\n{line}"
    return _ended(text[: header.end()]) + line + text[header.end() :]


def _added_json(marked: Marked, parent: str, name: str, value: Any) -> str:
    """Behind the first brace of the parent, on a line of its own."""
    text, indent = marked.text, "    "
    if parent and not marked.under(parent):
        grand, _dot, last = parent.rpartition(".")
        return _added_json(marked, grand, last, {name: value})
    brace = text.index("{") if not parent else _brace_of(text, parent)
    found = re.search(r"\n([ \t]+)\"", text)
    if found:
        indent = found[1]
    depth = len(parent.split(".")) + 1 if parent else 1
    empty = text[brace + 1 :].lstrip().startswith("}")
    written = f'\n{indent * depth}"{name}": {json.dumps(value)}'
    end = f"\n{indent * (depth - 1)}" if empty else ","
    rest = text[brace + 1 :]
    return text[: brace + 1] + written + end + (rest.lstrip() if empty else rest)


def _brace_of(text: str, path: str) -> int:
    """Where the object of a dotted key begins."""
    place = text.index("{")
    for name in path.split("."):
        found = re.compile(rf'"{re.escape(name)}"\s*:\s*\{{').search(text, place)
        if found is None:
            raise ValueError(path)
        place = found.end() - 1
    return place


def _added_yaml(marked: Marked, parent: str, name: str, value: Any) -> str:
    """Before the first child of the parent, else at the end of the file."""
    text = marked.text
    children = [
        (entry.start, key)
        for key, entry in marked.entries.items()
        if parent and key.startswith(f"{parent}.")
    ]
    if parent and not children:
        grand, _dot, last = parent.rpartition(".")
        if grand:
            raise ValueError(parent)
        if parent in marked.entries:  # an empty mapping: {} or null
            entry = marked.entries[parent]
            line = f"\n  {name}: {_written(value, 'yaml')}"
            return text[: entry.start].rstrip(" ") + line + text[entry.end :]
        return f"{_ended(text)}{last}:\n  {name}: {_written(value, 'yaml')}\n"
    line = f"{name}: {_written(value, 'yaml')}\n"
    if not parent:
        return _ended(text) + line
    first = text.rfind("\n", 0, min(children)[0]) + 1
    indent = re.match(r"[ \t]*", text[first:])
    return text[:first] + (indent[0] if indent else "  ") + line + text[first:]


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
