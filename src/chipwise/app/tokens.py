"""How many tokens texts have: counted by a tokenizer, else from their characters.

The only module that loads ``tokenizers``, which is an extra.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chipwise.app.documents import Basis
from chipwise.app.sample_lines import unreadable
from chipwise.errors import UsageError
from chipwise.i18n import _

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_LARGE = 100_000
"""Vocabulary from which tokenizers know whole words of many languages."""
_CHARACTERS = {False: 3.17, True: 3.94}
"""Characters per token of English: Llama 2 with 32k tokens, Llama 3 with 128k [llama3-herd2024]."""
_CJK_CHARACTERS = {False: 28 / 35, True: 1 / 0.6}
"""Of Chinese text: LLaMA with 32k tokens [chinese-llama2023], DeepSeek with 128k [deepseek-tokens].
"""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """Tokens of some texts."""

    tokens: Vector
    """Shape (texts,)."""
    factor: float
    """The true total may be so many times more or less (80 % range)."""
    basis: Basis
    words: str
    """How they were counted."""


def count_tokens(texts: Sequence[str], tokenizer: str | None, vocab: int) -> Counted:
    """Tokens of each text, without what a template adds.

    Args:
        texts: at least one.
        tokenizer: path of a ``tokenizer.json``; None to go by characters.
        vocab: tokens the model knows, which decides how many characters one has.

    Raises:
        UsageError: ``tokenizers`` is missing.
        DataFileError: the file is no tokenizer.
    """
    if tokenizer is not None:
        words = _("tokens counted with {file}").format(file=tokenizer)
        return Counted(_with_tokenizer(texts, Path(tokenizer)), 1.0, "measured", words)
    large = vocab >= _LARGE
    cjk = np.array([len(_CJK.findall(text)) for text in texts], dtype=np.float64)
    other = np.array([len(text) for text in texts], dtype=np.float64) - cjk
    wide, narrow = cjk / _CJK_CHARACTERS[large], other / _CHARACTERS[large]
    share = float(wide.sum() / max(1.0, (wide + narrow).sum()))
    words = _("{latin:.3g} characters per token, {cjk:.2g} of Chinese, Japanese or Korean").format(
        latin=_CHARACTERS[large], cjk=_CJK_CHARACTERS[large]
    )
    return Counted(wide + narrow, _factor(share), "assumed", words)


def _factor(share: float) -> float:
    """How far the published tokenizers are apart, by the share of each kind of text."""
    apart = [
        log(each[True] / each[False]) * part
        for each, part in ((_CHARACTERS, 1 - share), (_CJK_CHARACTERS, share))
    ]
    return exp(hypot(*apart))


def _with_tokenizer(texts: Sequence[str], path: Path) -> Vector:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        text = _("--tokenizer needs the tokenizers library: pip install 'chipwise[data]'")
        raise UsageError("extra-missing", text, extra="data") from None
    if not path.is_file():
        raise unreadable(path, _("no such file"))
    try:
        loaded = Tokenizer.from_file(str(path))
        loaded.no_truncation()
        loaded.no_padding()
        sound = [text.encode("utf-8", "replace").decode() for text in texts]
        found = loaded.encode_batch(sound, add_special_tokens=False)
    except Exception as error:  # the library raises plain Exception for every fault of a file
        raise unreadable(path, str(error).partition("\n")[0]) from None
    return np.array([len(one.ids) for one in found], dtype=np.float64)
