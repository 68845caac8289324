"""Commands about chipwise itself: JSON schemas and shell completion."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

from chipwise.cli import output
from chipwise.errors import UnknownNameError
from chipwise.i18n import _

SHELLS = ("bash", "zsh", "fish", "powershell")


def schema(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help=_("inputs, outputs, or one document such as fit")),
    ] = None,
) -> None:
    """Print the JSON schema of every request and document, or of one side or one of them."""
    import json

    from chipwise.app.schema import json_schema

    text = json.dumps(json_schema(name), ensure_ascii=False, indent=2)
    output.say(f"{text}\n", sys.stdout, as_json=True)


def completion(
    shell: Annotated[
        str,
        typer.Argument(metavar="SHELL", help=_("bash, zsh, fish or powershell")),
    ],
) -> None:
    """Print the completion script of a shell, to be sourced by it."""
    if shell not in SHELLS:
        raise UnknownNameError(_("shell"), shell, SHELLS, "chipwise completion --help")
    script: str = import_module("typer.completion").get_completion_script(
        prog_name="chipwise", complete_var="_CHIPWISE_COMPLETE", shell=shell
    )
    output.say(f"{script}\n", sys.stdout)
