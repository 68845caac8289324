"""Where a value comes from: the flag, else the environment, else the run file.

All three hold the same fields (flag names; ``-`` and ``_`` are the same). Values stay as they
were written: the request model reads units, numbers and choices, for every source alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chipwise.cli.commands import Command, known_fields
from chipwise.cli.flags import Flag
from chipwise.errors import DataFileError, UnknownNameError, UsageError, nearest_names
from chipwise.i18n import _

PREFIX = "CHIPWISE_"
RESERVED = frozenset({"debug"})
"""Variables that are no flag: ``CHIPWISE_DEBUG=1`` shows the traceback of an internal error."""
MAX_RUN_FILE_BYTES = 1 << 20
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True)
class Settings:
    """What one run was asked for: fields of the request, and how to answer."""

    request: Mapping[str, Any]
    output: Mapping[str, Any]
    notes: tuple[str, ...] = field(default=())

    @property
    def format(self) -> str:
        """``table`` unless ``--json`` or ``--format`` says otherwise."""
        return "json" if self.wants("json") else str(self.output.get("format", "table"))

    def wants(self, switch: str) -> bool:
        """Whether a switch is on, from any source."""
        return bool(self.output.get(switch, False))


def gather(command: Command, given: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Join the three sources for one command.

    Args:
        command: the command that runs.
        given: values from the command line by field; absent when not given.
        environment: the process environment.

    Raises:
        DataFileError: the run file cannot be read.
        UnknownNameError: the run file has a key that is no field of any command; or a format or
            language that there is not.
        UsageError: a setting of the output that is no text, or neither yes nor no.
    """
    known = known_fields()
    from_environment, notes = _from_environment(environment, known)
    file = given.get("config", from_environment.get("config"))
    from_file = read_run_file(Path(str(file)), known) if file else {}
    joined = {**from_file, **from_environment, **given}

    for flag in command.output():
        if flag.field in joined:
            joined[flag.field] = _output_setting(flag, joined[flag.field], command)

    outputs = {flag.field for flag in command.output()} - {"catalogue"}
    wanted = {flag.field for flag in command.flags()} | {"catalogue"}
    wanted |= {argument.field for argument in command.arguments()}
    unused = sorted(set(from_file) - wanted - outputs)
    if unused:
        notes.append(
            _("{file}: '{command}' does not use {keys}").format(
                file=file, command=command.name, keys=", ".join(unused)
            )
        )
    return Settings(
        {**_select(joined, wanted), **command.fixed}, _select(joined, outputs), tuple(notes)
    )


def _output_setting(flag: Flag, value: object, command: Command) -> object:
    """A setting of the output, checked; choices and yes or no in any letter case."""
    word = str(value).strip().lower()
    if flag.kind == "switch":
        if word not in TRUE_WORDS | FALSE_WORDS:
            text = _("{name} is '{value}', which is neither yes nor no")
            message = text.format(name=flag.field, value=value)
            raise UsageError("not-yes-or-no", message, field=flag.field, value=value)
        return word in TRUE_WORDS
    if flag.choices and word not in flag.choices:
        listing = f"chipwise {command.name} --help"
        raise UnknownNameError(flag.field, str(value), flag.choices, listing)
    if not isinstance(value, str):
        text = _("{name} is '{value}', which is no text").format(name=flag.field, value=value)
        raise UsageError("not-text", text, field=flag.field, value=value)
    return word if flag.choices else value


def _select(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _from_environment(
    environment: Mapping[str, str], known: frozenset[str]
) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    notes: list[str] = []
    stated = (name for name, value in environment.items() if name.startswith(PREFIX) and value)
    for variable in sorted(stated):
        name = variable.removeprefix(PREFIX).lower()
        if name in known:
            found[name] = environment[variable]
        elif name not in RESERVED:
            near = [f"{PREFIX}{item.upper()}" for item in nearest_names(name, known, 1)]
            hint = _("; did you mean {name}?").format(name=near[0]) if near else ""
            notes.append(
                _("{variable} is no setting and is ignored{hint}").format(
                    variable=variable, hint=hint
                )
            )
    return found, notes


def read_run_file(path: Path, known: frozenset[str]) -> dict[str, Any]:
    """The fields of a run file; keys are flag names with ``-`` or ``_``.

    Raises:
        DataFileError: missing, no regular file, larger than 1 MiB, no valid TOML, or the same
            field twice.
        UnknownNameError: a key that is no field of any command.
    """
    import tomllib

    try:
        content = tomllib.loads(_text_of(path))
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _unreadable(path, str(error)) from None
    except RecursionError:
        raise _unreadable(path, _("nested too deeply")) from None
    fields: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name == "config":
            raise _unreadable(path, _("a run file cannot name another one"))
        if name not in known:
            kind = _("key in {file}").format(file=path)
            raise UnknownNameError(kind, key, known, "chipwise schema inputs")
        if name in fields:
            raise _unreadable(path, _("'{name}' stands there twice").format(name=key))
        fields[name] = value
    return fields


def _text_of(path: Path) -> str:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise _unreadable(path, _("no regular file"))
    if path.stat().st_size > MAX_RUN_FILE_BYTES:
        raise _unreadable(path, _("larger than 1 MiB"))
    return path.read_text(encoding="utf-8")


def _unreadable(path: Path, reason: str) -> DataFileError:
    return DataFileError(
        "unreadable-run-file",
        _("cannot read run file '{file}': {reason}").format(file=path, reason=reason),
        file=str(path),
        reason=reason,
    )
