"""Words of a shell script with their places: read, never executed.

Understood are quotes, escapes, comments, line continuations, separators of commands, assignments
of plain values, and ``$NAME``, ``${NAME}``, ``${NAME:-default}``. What a script computes stays
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chipwise.errors import DataFileError
from chipwise.i18n import _

_SEPARATORS = ";&|\n()"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?-([^{}]*))?\})")
_DECLARES = ("export", "declare", "local", "readonly")
_COMPUTED = re.compile(r"`|\$[(@*#?\d]")
"""What only a shell knows: output of commands, and arguments of the script."""
_MOST_WORDS = 20_000


@dataclass(frozen=True)
class Word:
    """One word."""

    text: str
    line: int
    start: int
    end: int
    """Where it stands in the script; 0 where it came out of a variable."""
    quoted: bool = False
    literal: bool = False
    """In single quotes: variables stay as they are."""


@dataclass(frozen=True)
class Command:
    """One command: its own assignments, and its words."""

    words: tuple[Word, ...]
    variables: dict[str, str]


def commands(name: str, text: str) -> list[Command]:
    """The commands of a script in order, variables replaced where their values are plain.

    Args:
        name: of the script, for errors.
        text: the script.

    Raises:
        DataFileError: a quote that does not end; names the line.
    """
    found: list[Command] = []
    variables: dict[str, str] = {}
    for group in _groups(name, text):
        rest = group[1:] if group[0].text in _DECLARES else group
        own: dict[str, str] = {}
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)):
            own[match[1]] = _expanded(match[2], {**variables, **own}, rest[0])
            rest = rest[1:]
        known = {key: value for key, value in own.items() if not _COMPUTED.search(value)}
        if rest and group[0].text not in _DECLARES:
            here = {**variables, **known}
            words = tuple(part for word in rest for part in _split(word, here))
            found.append(Command(words, here))
        else:
            variables.update(known)
    return found


def _expanded(text: str, variables: dict[str, str], word: Word) -> str:
    """A word's text with the variables that are known put in; others stay as they are."""
    if word.literal:
        return text

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name in variables:
            return variables[name]
        return match[3] if match[3] is not None else match[0]

    return _VARIABLE.sub(value, text)


def _split(word: Word, variables: dict[str, str]) -> Iterator[Word]:
    """A word after replacement: several where an unquoted variable holds several."""
    text = _expanded(word.text, variables, word)
    if text == word.text:
        yield word
    elif word.quoted:
        yield replace(word, text=text, end=0)
    else:
        for part in text.replace("\\\n", " ").split():
            if part != "\\":
                yield replace(word, text=part, end=0)


def _groups(name: str, text: str) -> Iterator[list[Word]]:
    """Words up to the next separator."""
    group: list[Word] = []
    for word in _words(name, text):
        if word is not None:
            group.append(word)
        elif group:
            yield group
            group = []
    if group:
        yield group


def _words(name: str, text: str) -> Iterator[Word | None]:
    """Words, and None for a separator."""
    place, line, count = 0, 1, 0
    while place < len(text):
        letter = text[place]
        if text.startswith("\\\n", place):
            place, line = place + 2, line + 1
        elif letter in _SEPARATORS:
            line += letter == "\n"
            place += 1
            yield None
        elif letter.isspace():
            place += 1
        elif letter == "#":
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        else:
            word = _word(name, text, place, line)
            line += text.count("\n", place, word.end)
            place, count = word.end, count + 1
            if count > _MOST_WORDS:
                told = _("{name}: more than {n} words").format(name=name, n=_MOST_WORDS)
                raise DataFileError("broken-config", told)
            yield word


def _word(name: str, text: str, start: int, line: int) -> Word:
    """The word that begins at a place."""
    place, parts, quoted, literal = start, [], False, False
    while place < len(text) and not text[place].isspace() and text[place] not in ";&|\n":
        letter = text[place]
        if letter in "\"'":
            end = _closing(name, text, place, line)
            inner = text[place + 1 : end]
            parts.append(inner.replace("\\\n", "") if letter == '"' else inner)
            quoted, literal = True, literal or letter == "'"
            place = end + 1
        elif letter == "$" and text.startswith("$(", place):
            end = _bracket(text, place + 1)
            parts.append(text[place:end])
            place = end
        elif letter in "()":
            if place == start:
                place += 1
                parts.append(letter)
            break
        elif letter == "\\" and place + 1 < len(text):
            if text[place + 1] != "\n":
                parts.append(text[place + 1])
            place += 2
        else:
            parts.append(letter)
            place += 1
    return Word("".join(parts), line, start, place, quoted, literal)


def _closing(name: str, text: str, start: int, line: int) -> int:
    """Where a quote ends."""
    quote, place = text[start], start + 1
    while place < len(text):
        if text[place] == "\\" and quote == '"':
            place += 2
        elif text[place] == quote:
            return place
        else:
            place += 1
    told = _("{name}:{line}: the quote {quote} does not end").format(
        name=name, line=line, quote=quote
    )
    raise DataFileError("broken-config", told, file=name, line=line)


def _bracket(text: str, start: int) -> int:
    """Behind the bracket that closes the one at a place; the end of the text without one."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place + 1
    return len(text)
