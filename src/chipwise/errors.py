"""Every error chipwise raises on purpose, as one small tree.

    ChipwiseError                    exit 1 unless a subclass says otherwise
    ├── UsageError                   exit 2: what was asked cannot be understood
    │   ├── UnknownNameError         no such model, accelerator, system, quantity
    │   ├── UnitError                a value whose unit is missing or does not match
    │   ├── LayoutError              a parallel layout that cannot exist
    │   └── DataFileError            a file that cannot be read, with the line and the reason
    └── InfeasibleError              exit 3: understood, computed, and physics says no

An error says what, why and what to do. Text is made where the error is raised, through the
message catalogue; ``code`` and ``details`` are stable and meant for programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from chipwise.i18n import _

_LONGEST_SHOWN = 80


class ChipwiseError(Exception):
    """Base of all deliberate errors; ``code`` is stable, the text is for people."""

    exit_code = 1

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: Mapping[str, object] = details

    def __reduce__(self) -> tuple[object, ...]:
        """As what it says, so that errors travel between processes."""
        return _again, (type(self), self.code, self.message, dict(self.details))


def _again(
    kind: type[ChipwiseError], code: str, message: str, details: dict[str, object]
) -> ChipwiseError:
    made = kind.__new__(kind)
    ChipwiseError.__init__(made, code, message, **details)
    return made


class UsageError(ChipwiseError):
    """The question cannot be understood or contradicts itself."""

    exit_code = 2


class UnitError(UsageError):
    """A value whose unit is missing, unknown or of the wrong dimension."""


class LayoutError(UsageError):
    """A parallel layout that cannot exist: names the rule and the nearest valid values."""


class DataFileError(UsageError):
    """A data or configuration file that cannot be read: names file, line and reason."""


class InfeasibleError(ChipwiseError):
    """Understood and computed, but the job fits nowhere or the limit cannot be met."""

    exit_code = 3


class UnknownNameError(UsageError):
    """A name that is in no catalogue; offers the nearest ones and the listing command."""

    def __init__(self, kind: str, name: str, known: Iterable[str], listing: str) -> None:
        nearest = nearest_names(name, known)
        hint = _("did you mean {names}?").format(
            names=_(" or ").join(f"'{near}'" for near in nearest)
        )
        text = _("unknown {kind} '{name}'{hint} '{listing}' shows all.").format(
            kind=kind, name=shortened(name), hint=f": {hint}" if nearest else ".", listing=listing
        )
        super().__init__(
            f"unknown-{kind.replace(' ', '-')}", text, name=name, nearest=nearest, listing=listing
        )


def shortened(text: str) -> str:
    """Text as far as a message has room for it."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def nearest_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The ``count`` known names most like ``name``, best first, ignoring letter case."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    folded = name.lower()[:_LONGEST_SHOWN]
    close = get_close_matches(folded, by_folded, n=count, cutoff=0.55)
    inside = [key for key in sorted(by_folded) if len(folded) > 2 and folded in key]
    return [by_folded[key] for key in dict.fromkeys([*close, *inside])][:count]
