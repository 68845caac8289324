"""``--plot``: the answer as a picture, beside the answer itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chipwise.cli import output
from chipwise.cli.commands import Command
from chipwise.cli.settings import Settings
from chipwise.errors import ChipwiseError, UsageError
from chipwise.i18n import _


def check(settings: Settings) -> None:
    """Refuse before anything is computed what could not be drawn or written.

    Raises:
        UsageError: no such kind of picture, its packages are missing, its file cannot be written,
            or it would replace the answer.
    """
    plot, out = settings.output.get("plot"), settings.output.get("out")
    if plot is None:
        if "picture" in settings.output and not settings.wants("quiet"):
            output.note([_("--picture draws nothing without --plot FILE")])
        return
    from chipwise.report.pictures import form_of

    form_of(str(plot))
    output.require_writable(Path(str(plot)))
    if out and Path(str(out)).resolve() == Path(str(plot)).resolve():
        text = _("--out and --plot both name '{file}'; give them two files")
        raise UsageError("same-file", text.format(file=plot), file=str(plot))


def draw(document: Any, command: Command, settings: Settings) -> int:
    """Draw what was asked for, after the answer; 0, or the exit code where it could not be done.

    The answer has been given by then: what went wrong is said on stderr alone.
    """
    plot = settings.output.get("plot")
    if plot is None:
        return 0
    from chipwise.report.pictures import form_of, picture

    try:
        wanted = settings.output.get("picture")
        data = document.model_dump(mode="json")
        drawn = picture(data, form_of(str(plot)), command.pictures, wanted)
        if drawn is not None:
            output.write_atomically(Path(str(plot)), drawn)
        elif not settings.wants("quiet"):
            output.note([_("nothing to draw: '{file}' is not written").format(file=plot)])
    except ChipwiseError as error:
        output.write_error(command.name, error.code, error.message, error.details, as_json=False)
        return error.exit_code
    return 0
