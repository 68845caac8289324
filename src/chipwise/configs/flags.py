"""Words of a command as flags with values, and flags set in the text of a script."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chipwise.configs.marked import Entry, Marked
from chipwise.configs.reading import whole
from chipwise.configs.shell import Word

_BARE = {
    *("--standalone", "--use_env", "--no_python", "--multi_gpu", "--tpu"),
    *("--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--debug", "--no_ssh", "--cpu"),
    *("--enable_each_rank_log", "--force_multi", "--save_pid", "--quiet", "-q"),
}
"""Options of launchers that take no value."""
_FLAG = re.compile(r"--|-[A-Za-z]")


@dataclass
class Flags:
    """Words of a command as flags with values, and what stands between them."""

    entries: dict[str, Entry] = field(default_factory=dict)
    loose: list[Word] = field(default_factory=list)


def launcher_options(words: list[Word]) -> tuple[dict[str, Entry], list[Word]]:
    """Options of a launcher up to the first word that is none, and the words from there on."""
    options: dict[str, Entry] = {}
    place = 0
    while place < len(words) and words[place].text.startswith("-"):
        text = words[place].text
        if text in ("-m", "--module"):
            break
        name, equals, value = text.lstrip("-").partition("=")
        key = name.replace("-", "_")
        if equals:
            options[key] = _entry(value, words[place], len(text) - len(value))
        elif text in _BARE or place + 1 == len(words):
            options[key] = Entry(True, words[place].line, 0, 0)
        else:
            place += 1
            options[key] = _entry(words[place].text, words[place])
        place += 1
    return options, words[place:]


def trainer_flags(words: list[Word]) -> Flags:
    """Flags of a trainer: ``--a b``, ``--a=b``, ``--a b c``, ``--a``, ``a=b``."""
    found = Flags()
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        text = word.text
        if _FLAG.match(text):
            name, equals, value = text.lstrip("-").partition("=")
            key = name if "." in name else name.replace("-", "_")
            if equals:
                found.entries[key] = _entry(value, word, len(text) - len(value))
                continue
            values = []
            while place < len(words) and not _FLAG.match(words[place].text):
                values.append(words[place])
                place += 1
            _several(found, key, word, values)
        elif "=" in text and re.match(r"[A-Za-z_][\w.]*=", text):
            name, _equals, value = text.partition("=")
            found.entries[name] = _entry(value, word, len(name) + 1)
        else:
            found.loose.append(word)
    return found


def _several(found: Flags, key: str, word: Word, values: list[Word]) -> None:
    """A flag with none, one or several values behind it; a file behind one is the command's own."""
    if not values:
        found.entries[key] = Entry(True, word.line, 0, 0)
        if key.startswith("no_"):
            found.entries[key.removeprefix("no_")] = Entry(False, word.line, 0, 0)
            del found.entries[key]
    elif len(values) == 1:
        found.entries[key] = _entry(values[0].text, values[0])
    elif any("=" in one.text for one in values[1:]) and "=" not in values[0].text:
        found.entries[key] = _entry(values[0].text, values[0])
        rest = trainer_flags(values[1:])
        found.entries.update(rest.entries)
        found.loose += rest.loose
    else:
        end = values[-1].end if all(one.end for one in values) else 0
        listed = [_value(one.text) for one in values]
        found.entries[key] = Entry(listed, values[0].line, values[0].start, end)


def _entry(text: str, word: Word, skip: int = 0) -> Entry:
    """A value with its place in the script; one out of a variable or in quotes has none."""
    plain = word.end and word.end - word.start == len(word.text)
    if plain:
        return Entry(_value(text), word.line, word.start + skip, word.end)
    if word.end and not skip:
        return Entry(_value(text), word.line, word.start, word.end)
    return Entry(_value(text), word.line, 0, 0)


def _value(text: str) -> Any:
    """A value as JSON or Python writes it, else text."""
    if text in ("True", "False"):
        return text == "True"
    if text in ("None", "null"):
        return None
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return float(text)
    if text.startswith("[") or text in ("true", "false"):
        try:
            return json.loads(text.replace("'", '"'))
        except json.JSONDecodeError:
            return text
    return text


def count_in(options: dict[str, Entry], *names: str) -> int | None:
    """A count that an option states; None where it is missing or computed by the script."""
    for name in names:
        entry = options.get(name)
        if entry is not None:
            try:
                return whole(str(entry.value).partition(":")[2] or entry.value)
            except (ValueError, TypeError):
                return None
    return None


def edited_flags(marked: Marked, changes: Mapping[str, Any]) -> str:
    """The text of a script with flags set: replaced where they stand, else behind the last one."""
    text = marked.text
    places = sorted(
        ((marked.entries[key], value) for key, value in changes.items()
         if key in marked.entries and marked.entries[key].end),
        key=lambda pair: -pair[0].start,
    )  # fmt: skip
    end = max((entry.end for entry in marked.entries.values()), default=len(text))
    added = [key for key in changes if key not in marked.entries or not marked.entries[key].end]
    for key in added:
        text = text[:end] + f" --{key} {_shell(changes[key])}" + text[end:]
    for entry, value in places:
        text = text[: entry.start] + _shell(value) + text[entry.end :]
    return text


def _shell(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(shlex.quote(str(item)) for item in value)
    return shlex.quote(str(value))
