"""Requests that come with configuration files: their fields, and what was made of them.

Fields of a request win over those of the files, those over the defaults of the tool.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chipwise.app.documents import Assumption, Patch, Remedy
from chipwise.catalogue.tools import tools
from chipwise.configs import Joined, join, read_source, unresolved
from chipwise.configs.reading import Reading, Taken
from chipwise.configs.writing import patched
from chipwise.errors import UnknownNameError, UsageError
from chipwise.i18n import _

_NEW_TARGETS = ("q_proj", "v_proj")
"""Modules that adapters go to where a change brings them in."""


@dataclass(frozen=True)
class Sources:
    """The files of a request, read."""

    readings: tuple[Reading, ...]
    joined: Joined


def sources_of(job: tuple[str, ...], tool: str | None) -> Sources | None:
    """The configurations of a request; None where it names neither file nor tool.

    Raises:
        DataFileError: a file that cannot be read; names line and reason.
        UsageError: files that contradict one another, or no such tool.
    """
    if not job and tool is None:
        return None
    if tool is not None and tool not in tools():
        raise UnknownNameError(_("tool"), tool, tools(), "chipwise fit --help")
    readings = tuple(one for source in job for one in read_source(source))
    return Sources(readings, join(readings, tool))


def with_configs(fields: frozenset[str], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a request, filled up with what its configuration files say.

    Args:
        fields: fields of the request.
        values: fields as stated, as text or plain values.

    Raises:
        DataFileError: a file that cannot be read.
        UsageError: files that contradict one another, or no such tool.
    """
    job, tool = _texts(values.get("job")), values.get("tool")
    if "job" not in fields or (not job and tool is None):
        return values
    sources = sources_of(job, str(tool) if tool is not None else None)
    if sources is None:
        return values
    joined = sources.joined
    if error := unresolved(sources.readings, joined, values):
        raise error
    found = {name: value for name, value in joined.fields.items() if name in fields}
    if joined.tool is not None:
        found["framework"] = tools()[joined.tool].framework
    merged = {**found, **values}
    _one_method(merged, values)
    _one_length(merged, values)
    system = _system(values.get("on"), joined) if "on" in fields else None
    if system is not None:
        merged["on"] = system
    return merged


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(map(str, value))


def _one_method(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    """A method stated beside a file drops what the file says of another one."""
    if "method" in values and values["method"] == "full":
        for name in ("rank", "targets", "base_dtype"):
            if name not in values:
                merged.pop(name, None)
    elif values.get("method") == "qlora" and "base_dtype" not in values:
        merged.pop("base_dtype", None)


def _one_length(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Epochs of a file say how long only beside a count of examples, and not beside tokens."""
    counted = any(name in merged for name in ("examples", "data"))
    if "epochs" not in values and ("tokens" in values or not counted):
        merged.pop("epochs", None)


def _system(on: Any, joined: Joined) -> Any:
    """The system, with the count of devices that a file gives where none is stated."""
    if on is None:
        if joined.devices is None:
            return None
        text = _(
            "the configuration is for {count} devices but names no accelerator: "
            "add --on, such as --on rtx-4090:{count}"
        )
        raise UsageError("missing-value", text.format(count=joined.devices))
    if isinstance(on, str) and ":" not in on and "," not in on and joined.devices:
        return f"{on}:{joined.devices}"
    return on


# -- words -----------------------------------------------------------------------------------


def config_assumptions(sources: Sources | None) -> Iterator[Assumption]:
    """Where each field came from, and what the tool does by itself."""
    if sources is None:
        return
    joined = sources.joined
    for file in dict.fromkeys(one.file for one in joined.taken):
        said = ", ".join(_said(one) for one in joined.taken if one.file == file)
        yield Assumption(text=_("from {file}: {said}").format(file=file, said=said))
    if joined.defaults and joined.tool:
        said = ", ".join(
            f"{name.replace('_', '-')} {value}" for name, value in sorted(joined.defaults.items())
        )
        text = _("what {tool} does by itself: {said}")
        yield Assumption(text=text.format(tool=tools()[joined.tool].title, said=said))


def _said(one: Taken) -> str:
    """A field as it was understood, with its key and line."""
    said = f"{one.field.replace('_', '-')} {one.value}"
    if one.line is None:
        return f"{said} ({one.key})"
    return _("{said} ({key}, line {line})").format(said=said, key=one.key, line=one.line)


def config_warnings(sources: Sources | None) -> Iterator[str]:
    """Keys that were not understood, and files that are named but not given."""
    if sources is None:
        return
    yield from sources.joined.notes
    if sources.joined.unknown:
        text = _("keys that are not understood and were left out: {keys}")
        yield text.format(keys=", ".join(sources.joined.unknown))


# -- patches ---------------------------------------------------------------------------------


def patch_of(sources: Sources | None, change: Remedy | None) -> Patch | None:
    """The person's own files with the change in them, as a unified diff; None without files."""
    if sources is None or not sources.readings or change is None:
        return None
    texts, left_out = patched(sources.readings, _values(change.flags), _NEW_TARGETS)
    before = {reading.marked.name: reading.marked.text for reading in sources.readings}
    diff = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for name, text in texts.items()
        for line in difflib.unified_diff(
            before[name].splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"a/{name.lstrip('/')}",
            f"b/{name.lstrip('/')}",
        )
    )
    flags = " ".join(
        f"--{name.replace('_', '-')} {_values(change.flags)[name]}" for name in left_out
    )
    return Patch(diff=diff, left_out=flags)


def _values(flags: str) -> dict[str, Any]:
    """The fields that the flags of a change set; whole numbers as such."""
    words = flags.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    return {
        name.removeprefix("--").replace("-", "_"): int(value) if value.isdecimal() else value
        for name, value in pairs
    }
