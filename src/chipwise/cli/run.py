"""One run of the command line: parse, ask the use case, write the answer, choose the exit code.

Exit codes: 0 fits or healthy · 1 internal error · 2 usage error · 3 does not fit or impossible ·
4 findings at or above the level that fails.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from chipwise.cli import drawing, output, parser
from chipwise.cli.commands import COMMANDS, Command
from chipwise.cli.settings import gather
from chipwise.errors import ChipwiseError
from chipwise.i18n import _, set_language

EXIT_INTERNAL = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
COMPLETION_VARIABLE = "_CHIPWISE_COMPLETE"


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line; every failure becomes a message and an exit code.

    Args:
        argv: words after the program name; those of the process when None.
    """
    words = _as_command(list(sys.argv[1:] if argv is None else argv))
    try:
        set_language(_word_after(words, "--lang"))
        code = _run(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_stdout()
        return EXIT_BROKEN_PIPE
    except OSError:
        _drop_stdout()
        return EXIT_INTERNAL
    except KeyboardInterrupt:
        output.say("\n", sys.stderr)
        return EXIT_INTERRUPTED


def _as_command(words: list[str]) -> list[str]:
    """``plan --study FILE`` is the command ``plan study FILE``."""
    if words[:2] == ["plan", "--study"]:
        return ["plan", "study", *words[2:]]
    return words


def _drop_stdout() -> None:
    """What is still to be written goes nowhere, so that leaving the process does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    command = _command_of(words)
    name = command.name if command else " ".join(words[:1])
    as_json = _wants_json(words, command)
    try:
        return _dispatch(words or ["--help"], command)
    except ChipwiseError as error:
        output.write_error(name, error.code, error.message, error.details, as_json=as_json)
        return error.exit_code
    except typer.TyperException as error:
        return _usage_failure(error, name, as_json=as_json)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if os.environ.get("CHIPWISE_DEBUG"):
            raise
        text = _("internal error, {kind}: {error} (CHIPWISE_DEBUG=1 shows where)")
        message = text.format(kind=type(error).__name__, error=error)
        output.write_error(name, "internal", message, {}, as_json=as_json)
        return EXIT_INTERNAL


def _dispatch(words: list[str], command: Command | None) -> int:
    completing = COMPLETION_VARIABLE in os.environ
    codes: list[int] = []
    application = parser.build(
        lambda chosen, given: codes.append(answer(chosen, given)),
        only=None if completing else (command.path if command else ()),
    )
    result = typer.main.get_command(application).main(
        args=words, prog_name="chipwise", standalone_mode=False
    )
    if codes:
        return codes[0]
    return result if isinstance(result, int) else 0


def answer(command: Command, given: Mapping[str, Any]) -> int:
    """Run the use case behind a command, write its document, return the exit code."""
    settings = gather(command, given, os.environ)
    if not settings.wants("quiet"):
        output.note(settings.notes)
    set_language(settings.output.get("lang"))
    requests = importlib.import_module("chipwise.app.requests")
    home, _colon, name = command.request.rpartition(":")
    kind = getattr(importlib.import_module(f"chipwise.app.{home or 'requests'}"), name)
    request = requests.parse_request(kind, settings.request)
    drawing.check(settings)
    module, _colon, function = command.use_case.partition(":")
    document = getattr(importlib.import_module(module), function)(request)
    output.write(document, settings)
    return drawing.draw(document, command, settings) or int(document.exit_code)


def _usage_failure(error: typer.TyperException, name: str, *, as_json: bool) -> int:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help() if context else message, file=sys.stderr)
        return EXIT_USAGE
    if context is not None:
        message += "\n" + _("'{command} --help' shows what it takes.").format(
            command=context.command_path
        )
    output.write_error(name, "usage", message, {}, as_json=as_json)
    return int(error.exit_code)


def _command_of(words: Sequence[str]) -> Command | None:
    """The command that the first words name, if any."""
    plain = tuple(word for word in words[:4] if not word.startswith("-"))
    for command in COMMANDS:
        if plain[: len(command.path)] == command.path:
            return command
    return None


def _wants_json(words: Sequence[str], command: Command | None) -> bool:
    """Whether an error is to be a document too: by flag, else by environment or run file."""
    if "--json" in words:
        return True
    given = {name: _word_after(words, f"--{name}") for name in ("format", "config")}
    given = {name: word for name, word in given.items() if word is not None}
    if command is None:
        return given.get("format") == "json"
    try:
        return gather(command, given, os.environ).format == "json"
    except ChipwiseError:
        return given.get("format") == "json"


def _word_after(words: Sequence[str], flag: str) -> str | None:
    for position, word in enumerate(words):
        if word == flag and position + 1 < len(words):
            return words[position + 1]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None
