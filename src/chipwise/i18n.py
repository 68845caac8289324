"""The language of what chipwise says: gettext message ids, loaded when first needed.

English sentences are the message ids. A compiled catalogue ``locale/<lang>/LC_MESSAGES/
chipwise.mo`` replaces them; without one the English text stands.
"""

from __future__ import annotations

import os

_LANGUAGES = ("en", "zh")
_active: str | None = None


def choose_language(requested: str | None = None) -> str:
    """The language to speak: the requested one, else the locale's, else English.

    Only the language counts: ``zh``, ``zh-CN`` and ``zh_CN.UTF-8`` are all Chinese.
    """
    wanted = requested or os.environ.get("CHIPWISE_LANG") or _locale()
    language = wanted.replace("-", "_").split("_")[0].split(".")[0].lower()
    return language if language in _LANGUAGES else "en"


def set_language(requested: str | None) -> None:
    """Fix the language for this process (``--lang``)."""
    global _active
    _active = choose_language(requested)
    _translations.clear()


def _(message: str) -> str:
    """The message in the active language; the message itself where no translation exists."""
    language = _active or choose_language()
    if language == "en":
        return message
    return _load(language).get(message, message)


_translations: dict[str, dict[str, str]] = {}


def _load(language: str) -> dict[str, str]:
    if language not in _translations:
        import gettext
        from pathlib import Path

        found = gettext.translation(
            "chipwise", Path(__file__).parent / "locale", [language], fallback=True
        )
        catalogue = getattr(found, "_catalog", {})
        _translations[language] = {key: text for key, text in catalogue.items() if key and text}
    return _translations[language]


def _locale() -> str:
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            return value
    return "en"
