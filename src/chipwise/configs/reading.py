"""What a configuration says of a job: fields with the key and line they come from.

Fields are those of a training request. Beside them stand ``accumulation`` (micro-batches per
optimizer step and rank) and ``devices``, of which the global batch is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from chipwise.configs.marked import Marked
from chipwise.errors import DataFileError, UsageError
from chipwise.i18n import _


@dataclass(frozen=True)
class Taken:
    """One field of the job, and where it stands."""

    field: str
    value: Any
    key: str
    file: str
    line: int | None
    hint: bool = False
    """Guessed from a name: anything that is said outright wins."""

    @property
    def place(self) -> str:
        """File and line, as an editor understands it."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass
class Reading:
    """A configuration as understood, field by field."""

    marked: Marked
    tool: str
    """Whose configuration it is: an id of tools.toml."""
    taken: dict[str, Taken] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    """Keys that may matter and are not understood, with file and line."""
    notes: list[str] = field(default_factory=list)
    """What was understood in a way worth saying."""
    autos: dict[str, str] = field(default_factory=dict)
    """Fields that a key leaves to whoever runs the file, with that key."""
    _used: set[str] = field(default_factory=set)

    def take(self, name: str, value: Any, key: str, *, hint: bool = False) -> None:
        """Set a field from a key; a later key of the same file wins."""
        self.use(key)
        line = self.marked.line(key)
        self.taken[name] = Taken(name, value, key, self.marked.name, line, hint)

    def leave(self, name: str, key: str) -> None:
        """Note that a key leaves a field open: ``auto``."""
        self.use(key)
        self.autos[name] = key

    def value(self, name: str) -> Any:
        """A field taken so far, or None."""
        one = self.taken.get(name)
        return None if one is None else one.value

    def use(self, *keys: str) -> None:
        """Mark keys as understood."""
        self._used.update(keys)

    def map(self, rules: Mapping[str, tuple[str, Callable[[Any], Any]]]) -> None:
        """Take every key of ``rules`` that is there: key → (field, conversion).

        A conversion returns None where the value says nothing.

        Raises:
            DataFileError: a value that its conversion refuses; names file, line and what fits.
        """
        for key, (name, convert) in rules.items():
            if key not in self.marked:
                continue
            self.use(key)
            value = self.marked.get(key)
            if value is None:
                continue
            try:
                converted = convert(value)
            except (ValueError, TypeError, KeyError) as error:
                raise self.refused(key, _reason(error)) from None
            if converted is not None:
                self.take(name, converted, key)

    def named_file(self, key: str) -> None:
        """Say that a key names another file, which says more."""
        self.use(key)
        text = _("{place} names {file}: give it too, with another --job, for what it says")
        place = f"{self.marked.name}:{self.marked.line(key)}"
        self.notes.append(text.format(place=place, file=self.marked.get(key)))

    def refused(self, key: str, why: str) -> DataFileError:
        """An error about one key."""
        line = self.marked.line(key)
        place = f"{self.marked.name}:{line}" if line else self.marked.name
        text = f"{place}: {key}: {why}"
        return DataFileError("broken-config", text, file=self.marked.name, line=line, key=key)

    def close(self, harmless: Iterable[str]) -> Reading:
        """List the keys that nothing used and that are not known to be harmless.

        A key without a value says nothing.

        Args:
            harmless: patterns of keys without effect on memory or time, such as ``logging.*``.
        """
        patterns = tuple(harmless)
        for key, entry in self.marked.entries.items():
            if entry.value is None or key in self._used:
                continue
            if any(fnmatchcase(key, pattern) for pattern in patterns):
                continue
            self.unknown.append(f"{self.marked.name}:{entry.line} {key}")
        return self


def _reason(error: Exception) -> str:
    """What an exception says; KeyError puts quotes around it."""
    return str(error.args[0]) if error.args else _("not understood")


# -- conversions -----------------------------------------------------------------------------


def whole(value: Any) -> int:
    """A positive whole number, also written as text or ``4.0``."""
    number = float(value) if not isinstance(value, bool) else float("nan")
    if not 1 <= number < 2**63 or number != int(number):
        raise ValueError(_("'{value}' is no positive whole number").format(value=value))
    return int(number)


def amount(value: Any) -> float:
    """A positive number that is finite."""
    number = float(value) if not isinstance(value, bool) else float("nan")
    if not 0 < number < float("inf"):
        raise ValueError(_("'{value}' is no positive number").format(value=value))
    return number


def maybe_whole(value: Any) -> int | None:
    """A positive whole number; zero, negative numbers and ``auto`` say nothing."""
    if isinstance(value, str) and value.strip().lower() in ("auto", "none", ""):
        return None
    if not isinstance(value, bool) and isinstance(value, (int, float)) and value < 1:
        return None
    return whole(value)


def flag(value: Any) -> bool:
    """Yes or no, also as text."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0", "none", "null", ""):
        return False
    raise ValueError(_("'{value}' is neither true nor false").format(value=value))


def one_of(words: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A conversion from words, case and ``-``/``_`` alike, to values.

    The conversion raises ValueError with the nearest words for one that is not known.
    """
    known = {_plain(word): value for word, value in words.items()}

    def convert(value: Any) -> Any:
        word = _plain(value)
        if word not in known:
            text = _("'{value}' is not known; it can be {known}")
            raise ValueError(text.format(value=value, known=", ".join(sorted(words))))
        return known[word]

    return convert


def _plain(value: Any) -> str:
    return str(value).strip().lower().replace("-", "_")


def contradiction(first: Taken, second: Taken, why: str) -> UsageError:
    """Two keys that cannot both hold."""
    text = _("{first} ({key}) and {second} ({other}): {why}").format(
        first=first.place, key=first.key, second=second.place, other=second.key, why=why
    )
    return UsageError("contradiction", text)
