"""The text of one example, whatever its layout: messages, instruction and answer, or plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chipwise.app.sample_lines import Record

MESSAGE_TOKENS = 5
"""Tokens that a chat template adds to a message [qwen-chatml]: two that open and close it, the
role, and a newline after each of role and end."""
END_TOKENS = 1
"""The end of a sequence."""
_CONVERSATIONS = ("messages", "conversations", "conversation")
_PAIRS = (
    (("instruction", "input", "output"), True),
    (("instruction", "input", "response"), True),
    (("instruction", "context", "response"), True),
    (("prompt", "completion"), False),
    (("prompt", "response"), True),
    (("question", "answer"), True),
)
"""Columns that together are one example, and whether they are turns of a conversation."""
_OPTIONAL = ("input", "context")
_PLAIN = ("text", "content")


@dataclass(frozen=True)
class Text:
    """One example: its text, and the tokens that a template adds."""

    words: str
    added: int


@dataclass(frozen=True)
class Layout:
    """Which columns make up an example."""

    name: str
    columns: tuple[str, ...]
    turns: bool = False
    """Each column is a message."""

    def text_of(self, record: Record) -> Text | None:
        """The text of a record; None where it has none."""
        values = [record.get(name) for name in self.columns]
        if len(self.columns) == 1 and isinstance(values[0], (list, tuple)):
            return _conversation(values[0])
        missing = [
            name
            for name, value in zip(self.columns, values, strict=True)
            if not isinstance(value, str) and not (name in _OPTIONAL and value is None)
        ]
        if missing:
            return None
        parts = [value for value in values if value]
        added = 2 * MESSAGE_TOKENS if self.turns else END_TOKENS
        return Text("\n".join(parts), added) if parts else None


def layout_of(names: Sequence[str], stated: str | None) -> Layout | None:
    """The layout of examples with these columns; None where none is known.

    Args:
        names: columns there are.
        stated: the column that was asked for.
    """
    if stated is not None:
        return Layout(stated, (stated,)) if stated in names else None
    for name in _CONVERSATIONS:
        if name in names:
            return Layout(name, (name,))
    for columns, turns in _PAIRS:
        if {*columns} - {*_OPTIONAL} <= {*names}:
            kept = tuple(name for name in columns if name in names)
            return Layout("-".join(kept), kept, turns)
    return next((Layout(name, (name,)) for name in _PLAIN if name in names), None)


def _conversation(messages: Sequence[Any]) -> Text | None:
    found = [_words(message) for message in messages if isinstance(message, Mapping)]
    if not found or not any(found):
        return None
    return Text("\n".join(found), MESSAGE_TOKENS * len(found) + END_TOKENS)


def _words(message: Mapping[str, Any]) -> str:
    """What a message says: ``content`` or, in ShareGPT's form, ``value``; parts joined."""
    content = message.get("content", message.get("value"))
    if isinstance(content, str):
        return content
    return "\n".join(_parts(content)) if isinstance(content, (list, tuple)) else ""


def _parts(content: Sequence[Any]) -> Iterator[str]:
    for part in content:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
