"""The command tree as a typer application, made from the tables in ``flags`` and ``commands``.

Help is plain text in sections: typer's rich panels would load rich at every start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from chipwise.cli.commands import COMMANDS, Command, groups
from chipwise.cli.flags import Argument, Flag
from chipwise.i18n import _

Handler = Callable[[Command, Mapping[str, Any]], None]


class PlainCommand(TyperCommand):
    """A command whose help shows its flags in sections, with metavars and choices."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments first, then flags: ``MODEL [FLAGS]``."""
        names = [param.metavar or "" for param in self.params if param.param_type_name != "option"]
        return [*names, _("[FLAGS]")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and flags, grouped by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            title = getattr(param, "rich_help_panel", None) or _("Help")
            sections.setdefault(title, []).append(_help_row(param))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example as it is, without wrapping."""
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")


class PlainGroup(TyperGroup):
    """A group that lists its commands in the order of the tables, each with its whole summary."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the tables, then commands about chipwise itself."""
        order = list(dict.fromkeys(word for command in COMMANDS for word in command.path))
        rank = {word: position for position, word in enumerate(order)}
        return sorted(self.commands, key=lambda name: rank.get(name, len(rank)))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one row per command."""
        rows = [(name, self.commands[name].help or "") for name in self.list_commands(ctx)]
        with formatter.section(_("Commands")):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example as it is, without wrapping."""
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")


def _help_row(param: Any) -> tuple[str, str]:
    if param.param_type_name == "argument":
        return param.metavar or param.name, param.help or ""
    names = ", ".join([*param.opts, *param.secondary_opts])
    return f"{names} {param.metavar}" if param.metavar else names, param.help or ""


def build(handle: Handler, only: tuple[str, ...] | None = None) -> typer.Typer:
    """The application; every command gathers its values and calls ``handle``.

    Args:
        handle: called with the command and the values given on the command line by field.
        only: build the flags of this command alone (the others keep name and summary), which
            halves the start; None builds all.
    """
    app = typer.Typer(
        name="chipwise",
        cls=PlainGroup,
        help=_("Which accelerator, how many, split how: memory, time and throughput of a job."),
        epilog=_("Example: {command}").format(command=COMMANDS[0].example),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    homes = {"": app}
    for command in COMMANDS:
        home = _home(homes, app, command)
        home.command(
            command.path[-1],
            cls=PlainCommand,
            help=command.summary(),
            epilog=_("Example: {command}").format(command=command.example),
        )(_callback(command, handle, full=only is None or only == command.path))
    _add_tools(app)
    return app


def _home(homes: dict[str, typer.Typer], app: typer.Typer, command: Command) -> typer.Typer:
    group = command.path[0] if len(command.path) > 1 else ""
    if group not in homes:
        homes[group] = typer.Typer(cls=PlainGroup, rich_markup_mode=None, no_args_is_help=True)
        app.add_typer(homes[group], name=group, help=groups()[group])
    return homes[group]


def _callback(command: Command, handle: Handler, *, full: bool) -> Callable[..., None]:
    """A function with the signature typer reads: every flag a keyword, None when not given."""

    def callback(**given: Any) -> None:
        handle(command, {name: value for name, value in given.items() if _is_given(value)})

    parameters: list[inspect.Parameter] = []
    if full:
        parameters += [_argument(argument) for argument in command.arguments()]
        parameters += [_option(flag) for flag in (*command.flags(), *command.output())]
    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    callback.__annotations__ = {item.name: item.annotation for item in parameters}
    return callback


def _is_given(value: object) -> bool:
    return value is not None and value != []


def _argument(argument: Argument) -> inspect.Parameter:
    shown = argument.name if argument.required else f"[{argument.name}]"
    info = typer.Argument(
        metavar=shown, help=argument.help, rich_help_panel=_("Arguments"), show_default=False
    )
    return _parameter(argument.field, Annotated[str | None, info])


def _option(flag: Flag) -> inspect.Parameter:
    info = typer.Option(
        *flag.spelled,
        metavar="|".join(flag.choices) if flag.choices else flag.metavar or None,
        help=flag.help,
        show_default=False,
        rich_help_panel=flag.section,
        autocompletion=_completer(flag.choices) if flag.choices else None,
    )
    kinds: dict[str, Any] = {"text": str, "list": list[str], "switch": bool, "pair": bool}
    return _parameter(flag.field, Annotated[kinds[flag.kind] | None, info])


def _completer(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _show_version(wanted: bool | None) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"chipwise {version('chipwise')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool | None,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            show_default=False,
            help=_("Show the version and exit."),
        ),
    ] = None,
) -> None:
    """Replaced by the help of the application."""


def _add_tools(app: typer.Typer) -> None:
    """Commands about chipwise itself."""
    from chipwise.cli import tools

    app.command("schema", cls=PlainCommand, help=_("JSON schemas of inputs and outputs."))(
        tools.schema
    )
    app.command("completion", cls=PlainCommand, help=_("Print the shell completion script."))(
        tools.completion
    )
