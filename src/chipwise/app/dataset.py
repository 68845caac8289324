"""A data set as the planner needs it: how many examples, how long they are, how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, hypot, log, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chipwise.app.documents import Basis
from chipwise.app.example_text import Layout, layout_of
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.length_words import fitted
from chipwise.app.sample_lines import Sample, sample_lines, unreadable
from chipwise.app.sample_parquet import sample_parquet
from chipwise.app.tokens import count_tokens
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.units import show

Z80 = 1.2816
"""Standard deviations from the middle of a normal distribution to either end of 80 %."""
_STEPS = 512
"""Distinct lengths that are kept apart."""
_SUFFIXES = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet")
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Dataset:
    """The examples of one epoch."""

    lengths: Vector
    """Tokens of some examples that stand for all, ascending, before any is cut. [1]"""
    examples: float
    exact: bool
    """Whether the number of examples is known, not estimated."""
    factor: float
    """All tokens may be so many times more or less (80 % range)."""
    basis: Basis
    sampled: int = 0
    """Examples that were read; 0 where none was."""
    text: str = ""
    """Which columns hold the text."""
    said: tuple[str, ...] = ()
    """What was taken for granted."""
    warnings: tuple[str, ...] = ()

    @property
    def longest(self) -> float:
        """The longest example that was seen or stated. [1]"""
        return float(self.lengths[-1])

    def cut(self, seq: int) -> Dataset:
        """With every example cut to so many tokens."""
        return replace(self, lengths=np.minimum(self.lengths, float(seq)))

    def truncated_share(self, seq: int) -> float:
        """Share of the examples longer than so many tokens."""
        return float((self.lengths > seq).mean())


def dataset_of(request: PlanFinetuneRequest, vocab: int) -> Dataset:
    """The data set that a request names or describes.

    Raises:
        UsageError: the file cannot be read, or holds no example; an extra is missing.
    """
    if request.data is not None:
        found = _read(request, Path(request.data), vocab)
        if request.examples is None:
            return found
        return replace(found, examples=request.examples, exact=True)
    examples = request.examples or 1.0
    if request.lengths is not None:
        curve = fitted(request.lengths)
        lengths = curve.lengths()
        if "max" in request.lengths:
            lengths = np.minimum(lengths, request.lengths["max"])
            lengths[-1] = request.lengths["max"]
        said = _("lengths log-normal: median {median}, standard deviation of the logarithm {sigma}")
        words = said.format(median=show(curve.median, "1"), sigma=f"{curve.sigma:.2f}")
        return Dataset(lengths, examples, True, 1.0, "assumed", said=(words,))
    warning = _(
        "a mean says nothing of padding: all examples are taken to be {length} tokens long, and "
        "the longest to fill the sequence; --lengths or --data counts it"
    )
    length = request.length or 1.0
    words = warning.format(length=show(length, "1"))
    return Dataset(np.array([length]), examples, True, 1.0, "assumed", warnings=(words,))


# -- files -----------------------------------------------------------------------------------


def _read(request: PlanFinetuneRequest, path: Path, vocab: int) -> Dataset:
    sample, layout = _sampled(path, request.text_field)
    texts = [text for record in sample.records if (text := layout.text_of(record))]
    without = len(sample.records) - len(texts)
    if not texts:
        reason = _("no example has text in {columns}").format(columns=", ".join(layout.columns))
        raise unreadable(path, reason + _broken_too(sample))
    counted = count_tokens([one.words for one in texts], request.tokenizer, vocab)
    lengths = np.sort(counted.tokens + np.array([float(one.added) for one in texts]))
    examples = sample.total * len(texts) / len(sample.records)
    certain = sample.whole and not without
    return Dataset(
        np.maximum(lengths, 1.0),
        float(round(examples)) if not certain else float(sample.total),
        sample.whole,
        _factor(lengths, counted.factor, sample.whole),
        counted.basis,
        len(texts),
        layout.name,
        (_sample_words(sample, len(texts), layout), counted.words),
        tuple(filter(None, [_broken(sample, without)])),
    )


def _sampled(path: Path, field: str | None) -> tuple[Sample, Layout]:
    """Records of a file and how their text is laid out.

    Raises:
        DataFileError: it cannot be read or has no column of text.
    """
    _check_file(path)
    try:
        if path.suffix.lower() == ".parquet":
            sample = sample_parquet(path, lambda names: _layout(path, names, field).columns)
        else:
            sample = sample_lines(path)
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from None
    if not sample.records:
        raise unreadable(path, _("it holds no example") + _broken_too(sample))
    names = dict.fromkeys(name for record in sample.records[:100] for name in record)
    return sample, _layout(path, list(names), field)


def _check_file(path: Path) -> None:
    if not path.exists():
        raise unreadable(path, _("no such file"))
    if not path.is_file():
        raise unreadable(path, _("no regular file"))
    if path.suffix.lower() not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        reason = _("its kind '{suffix}' is none of {known}").format(suffix=path.suffix, known=known)
        raise unreadable(path, reason)


def _layout(path: Path, names: Sequence[str], field: str | None) -> Layout:
    found = layout_of(names, field)
    if found is None:
        held = ", ".join(names[:12]) or _("nothing")
        reason = (
            _("no column '{field}'; it has {held}") if field
            else _("no column of text is recognised among {held}; name it with --text-field")
        ).format(field=field, held=held)  # fmt: skip
        raise unreadable(path, reason)
    return found


def _broken(sample: Sample, without: int) -> str:
    """The lines that are of no use, the first ones named."""
    parts = []
    if sample.broken:
        text = _("{count} broken lines left out ({named}{more})")
        more = ", …" if sample.broken > len(sample.named) else ""
        named = "; ".join(sample.named)
        parts.append(text.format(count=sample.broken, named=named, more=more))
    if without:
        parts.append(_("{count} examples without text left out").format(count=without))
    return "; ".join(parts)


def _broken_too(sample: Sample) -> str:
    """The same behind another reason."""
    return f"; {_broken(sample, 0)}" if sample.broken else ""


def _factor(lengths: Vector, counting: float, whole: bool) -> float:
    """Range of all tokens: how they were counted, joined with the error of the sample."""
    mean = float(lengths.mean())
    error = 0.0 if whole else Z80 * float(lengths.std()) / sqrt(len(lengths)) / mean
    return exp(hypot(log(counting), error))


def _sample_words(sample: Sample, used: int, layout: Layout) -> str:
    text = (
        _("all {used} examples read, text in {columns}") if sample.whole
        else _("{used} of {total} examples read, from the beginning and fixed random places, "
               "text in {columns}")
    )  # fmt: skip
    return text.format(used=f"{used:,}", total=show(sample.total, "1"), columns=layout.name)


# -- distributions ---------------------------------------------------------------------------


def distribution_of(lengths: Vector) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Ascending lengths and the share of examples no longer than each.

    Args:
        lengths: of the examples. Shape (examples,). [1]

    Returns:
        Every length where there are few; else means of bins of equal width, the longest by itself,
        so that mean and longest stay as they are.
    """
    values, counts = np.unique(lengths, return_counts=True)
    if len(values) > _STEPS:
        below = values[:-1]
        edges = np.linspace(below[0], below[-1], _STEPS)
        place = np.append(np.searchsorted(edges, below), _STEPS)
        sums = np.bincount(place, weights=values * counts, minlength=_STEPS + 1)
        counts = np.bincount(place, weights=counts, minlength=_STEPS + 1)
        values, counts = sums[counts > 0] / counts[counts > 0], counts[counts > 0]
    shares = np.cumsum(counts) / counts.sum()
    return tuple(map(float, values)), (*map(float, shares[:-1]), 1.0)


def sequence_length(data: Dataset, stated: int | None, packed: bool, most: int) -> int:
    """Tokens of a sequence: as stated, else what holds the longest example, up to ``most``.

    Packed sequences are ``most`` tokens long, whatever the examples are.
    """
    if stated is not None:
        return stated
    return most if packed else min(most, max(1, ceil(data.longest)))


def require_examples(data: Dataset) -> None:
    """Raise where there is less than one example.

    Raises:
        UsageError: nothing to train on.
    """
    if data.examples < 1:
        raise UsageError("no-examples", _("there is not one example to train on"))
