"""The language is chosen once; English stands wherever a translation is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from chipwise import i18n

VARIABLES = ("CHIPWISE_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


@pytest.fixture(autouse=True)
def no_language_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(i18n, "_active", None)
    yield
    i18n._translations.clear()


def test_without_any_wish_it_is_english() -> None:
    assert i18n.choose_language() == "en"


@pytest.mark.parametrize(
    "wish", ["zh", "ZH", "zh-CN", "zh_CN", "zh_TW.UTF-8", "zh-Hans-CN", "zh.UTF-8"]
)
def test_every_way_to_write_chinese_is_chinese(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert i18n.choose_language(wish) == "zh"
    monkeypatch.setenv("LANG", wish)
    assert i18n.choose_language() == "zh"


@pytest.mark.parametrize("wish", ["en_US.UTF-8", "C", "C.UTF-8", "POSIX", "de_DE", "zhx", "-", "_"])
def test_a_language_there_is_none_of_becomes_english(wish: str) -> None:
    assert i18n.choose_language(wish) == "en"


def test_the_request_wins_over_our_variable_and_that_over_the_locale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert i18n.choose_language() == "zh"
    monkeypatch.setenv("CHIPWISE_LANG", "en")
    assert i18n.choose_language() == "en"
    assert i18n.choose_language("zh") == "zh"


def test_lc_all_wins_over_lc_messages_and_that_over_lang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    monkeypatch.setenv("LC_MESSAGES", "zh_CN.UTF-8")
    assert i18n.choose_language() == "zh"
    monkeypatch.setenv("LC_ALL", "C")
    assert i18n.choose_language() == "en"


def test_a_message_is_translated_where_the_catalogue_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    i18n.set_language("zh")
    monkeypatch.setitem(i18n._translations, "zh", {"does not fit": "放不下"})
    assert i18n._("does not fit") == "放不下"
    assert i18n._("no such message in any catalogue") == "no such message in any catalogue"


def test_english_needs_no_catalogue_and_the_empty_message_stays_empty() -> None:
    i18n.set_language("en")
    assert i18n._("fits") == "fits"
    for language in ("en", "zh"):
        i18n.set_language(language)
        assert i18n._("") == ""


def test_speaking_english_imports_no_gettext() -> None:
    code = "import sys; from chipwise.i18n import _; _('fits'); print('gettext' in sys.modules)"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={})
    assert done.stdout.strip() == "False"
