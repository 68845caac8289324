"""The user's own runs: what ``--observed`` says, and how it moves the numbers of its machine.

A value (``step_time=1.85s``) is one run of the configuration asked about; a measurement file holds
runs of any model and layout. What they say of a machine is learnt by ``validation.observed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import exp, log
from pathlib import Path
from statistics import fmean, median

import numpy as np

from chipwise.app.documents import Assumption, Observed
from chipwise.app.evaluation import Evaluated
from chipwise.calibration import shipped
from chipwise.catalogue.load import expanded
from chipwise.errors import UnitError, UsageError, nearest_names
from chipwise.i18n import _
from chipwise.units import parse
from chipwise.validation.observed import ODD_RUN, Shift, apply_shift, learn_shift
from chipwise.validation.table import SPEED, read_rows, training_table
from chipwise.validation.training import observations, predict

_UNITS = {
    "step_time": "s",
    "tokens_per_s": "1",
    "tokens_per_s_per_device": "1",
    "mfu": "1",
    "peak_memory": "B",
}
_MEMORY = "peak_memory"
_QUANTITY = {_MEMORY: "reserved_bytes"}
"""What is compared: the allocator's peak, as in measurement files that do not say which."""
_MOST = 1e30
"""Larger numbers are no measurements."""
_DISAGREEMENT = 0.1
"""Speeds of one run that lie further apart than this, in ln, are not of one run."""
Residual = tuple[str, float]
"""Metric, and ln(measured / predicted)."""


@dataclass(frozen=True)
class Observations:
    """What was given: values of the configuration asked about, and files of runs."""

    values: tuple[tuple[str, float], ...] = ()
    """Name and value in SI units."""
    files: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.values or self.files)


@dataclass(frozen=True)
class Site:
    """What observed runs say of the machines with one accelerator."""

    accelerator: str
    shift: Shift
    runs: int
    notes: tuple[str, ...] = ()

    @property
    def memory_factor(self) -> float:
        """Observed over predicted memory, as far as it is trusted."""
        return apply_shift(self.shift, "peak_memory_gb", 1.0, 0.0)[0]

    def slower(self, step_time: float) -> float:
        """A predicted step time as this machine would have it."""
        return apply_shift(self.shift, "step_time_s", step_time, 0.0)[0]


def read_observed(texts: Sequence[str]) -> Observations:
    """The values and files of ``--observed``.

    Raises:
        UsageError: neither a value nor a file, no such quantity, or a value out of range.
        UnitError: a number that cannot be read, or without its unit.
    """
    values: list[tuple[str, float]] = []
    files: list[Path] = []
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        path = expanded(Path(text))
        if path.is_file() or not equals:
            files.append(_file(path, text))
        else:
            values.append((name, _value(name, value, text)))
    return Observations(tuple(values), tuple(files))


def _file(path: Path, text: str) -> Path:
    if not path.is_file():
        raise UsageError(
            "no-observation",
            _("--observed '{text}' is no file and no value: write step_time=1.85s, or name a CSV "
              "file of measurements").format(text=text),
            value=text,
        )  # fmt: skip
    return path


def _value(name: str, value: str, text: str) -> float:
    if name not in _UNITS:
        near = nearest_names(name, _UNITS, 1)
        hint = _("; did you mean '{name}'?").format(name=near[0]) if near else ""
        raise UsageError(
            "unknown-observation",
            _("--observed '{text}': '{name}' is not one of {known}{hint}").format(
                text=text, name=name, known=", ".join(_UNITS), hint=hint
            ),
            value=text,
        )
    share = name == "mfu" and value.endswith("%")
    try:
        number = parse(value.removesuffix("%") if share else value, _UNITS[name])
    except UnitError as error:
        raise UnitError(error.code, f"--observed '{text}': {error.message}", value=text) from None
    number /= 100 if share else 1
    if not 0 < number <= (1.0 if name == "mfu" else _MOST):
        rule = _("a fraction up to 1, such as 0.41 or 41%") if name == "mfu" else _("above 0")
        raise UsageError(
            "out-of-range",
            _("--observed '{text}' is out of range: must be {rule}").format(text=text, rule=rule),
            value=text,
        )
    return number


# -- learning --------------------------------------------------------------------------------


def learn_sites(given: Observations, point: Evaluated | None) -> dict[str, Site]:
    """What all observations say, by accelerator.

    Args:
        given: values and files.
        point: the configuration that the values are of, evaluated without any shift.

    Raises:
        DataFileError: a file cannot be read or is no measurement file.
        UsageError: a file has no row that can be used.
    """
    found: dict[str, list[Residual]] = {}
    notes: list[str] = []
    for path in given.files:
        for accelerator, residuals in _in_file(path).items():
            found.setdefault(accelerator, []).extend(residuals)
    if point is not None and given.values:
        here = point.job.cluster.accelerator.id
        found.setdefault(here, []).extend(_of_values(point, given.values))
        notes += _disagreement(point, given.values)
    return {
        accelerator: Site(
            accelerator,
            learn_shift(residuals),
            _runs(residuals),
            (*notes, *_odd(accelerator, residuals)),
        )
        for accelerator, residuals in found.items()
    }


def _in_file(path: Path) -> dict[str, list[Residual]]:
    """Residuals of the rows of a file that can be predicted, by accelerator."""
    rows, kind = read_rows(path)
    if kind != "training":
        text = _("{path} holds {kind} measurements; --observed takes runs of training")
        raise UsageError("kind-contradicts-file", text.format(path=path, kind=kind))
    table = training_table(rows)
    usable = np.isin(table.metrics, (*SPEED, "peak_memory_gb"))
    names = np.array([one.job.cluster.accelerator.id for one in table.resolved])
    found: dict[str, list[Residual]] = {}
    for name in dict.fromkeys(names[usable].tolist()):
        part = table.take(usable & (names == name))
        pairs = observations(part, predict(part, shipped()).value)
        if residuals := [pair for pair in pairs if pair is not None]:
            found[name] = residuals
    if not found:
        reasons = "; ".join(sorted({row.reason for row in table.skipped})) or _("the file is empty")
        raise UsageError(
            "nothing-observed",
            _("{path}: no usable observed row ({reasons})").format(path=path, reasons=reasons),
        )
    return found


def _of_values(point: Evaluated, values: Sequence[tuple[str, float]]) -> list[Residual]:
    """Residuals of stated values; several numbers of one run count as one observation of speed."""
    by_name: dict[str, list[float]] = {}
    for name, value in values:
        by_name.setdefault(name, []).append(_slower(point, name, value))
    memory = by_name.pop(_MEMORY, [])
    runs = zip_longest(*by_name.values())
    times = [fmean(one for one in run if one is not None) for run in runs]
    return [
        *(("step_time_s", one) for one in times),
        *(("peak_memory_gb", one) for one in memory),
    ]


def _slower(point: Evaluated, name: str, value: float) -> float:
    """ln(measured / predicted) of step time or memory."""
    values = point.memory if name == _MEMORY else point.time
    residual = log(value / values[_QUANTITY.get(name, name)])
    return residual if name in ("step_time", _MEMORY) else -residual


def _disagreement(point: Evaluated, values: Sequence[tuple[str, float]]) -> list[str]:
    times = {name: _slower(point, name, value) for name, value in values if name != _MEMORY}
    if len(times) < 2 or max(times.values()) - min(times.values()) < _DISAGREEMENT:
        return []
    text = _("the observed {fast} and {slow} are not of one run of this configuration: "
             "they differ by {factor}")  # fmt: skip
    fast, slow = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
    return [text.format(fast=fast, slow=slow, factor=f"{exp(times[slow] - times[fast]) - 1:.0%}")]


def _odd(accelerator: str, residuals: Sequence[Residual]) -> list[str]:
    """A sentence where runs are so far off that something else may be wrong."""
    found: list[str] = []
    for words, speeds in ((_("step times"), True), (_("memory"), False)):
        levels = [
            value if metric in ("step_time_s", "peak_memory_gb") else -value
            for metric, value in residuals
            if (metric != "peak_memory_gb") == speeds
        ]
        if levels and abs(median(levels)) > ODD_RUN:
            text = _(
                "observed {what} on {accelerator} are {factor} of what is predicted: check "
                "that the configuration stated is the one that ran; such runs move the numbers less"
            )
            factor = f"{exp(median(levels)):.2f} ×"
            found.append(text.format(what=words, accelerator=accelerator, factor=factor))
    return found


def _runs(residuals: Sequence[Residual]) -> int:
    memory = sum(metric == "peak_memory_gb" for metric, _value in residuals)
    return max(memory, len(residuals) - memory)


# -- saying ----------------------------------------------------------------------------------


def site_of(sites: Mapping[str, Site], accelerator: str) -> Site:
    """What was learnt of one accelerator.

    Raises:
        UsageError: all observed runs are of other accelerators.
    """
    if accelerator not in sites:
        names = ", ".join(sorted(sites))
        raise UsageError(
            "other-accelerator",
            _("the observed runs are of {names}: they say nothing about {accelerator}").format(
                names=names, accelerator=accelerator
            ),
            observed=sorted(sites),
            accelerator=accelerator,
        )
    return sites[accelerator]


def observed_of(site: Site) -> Observed:
    """As a part of the document."""
    shift = site.shift
    return Observed(
        accelerator=site.accelerator,
        time_shift=shift.time,
        memory_shift=shift.memory,
        time_narrowing=shift.time_narrowing,
        memory_narrowing=shift.memory_narrowing,
        runs=site.runs,
    )


def site_words(site: Site) -> Assumption:
    """What moved and by how much, and how much narrower the ranges became."""
    text = _("{runs} of your own runs on {accelerator} moved the predictions: {moved}")
    joined = "; ".join(shift_words(site.shift)) or _("nothing")
    return Assumption(text=text.format(runs=site.runs, accelerator=site.accelerator, moved=joined))


def shift_words(shift: Shift) -> list[str]:
    """How far times and memory moved, and how much narrower their ranges became."""
    moved: list[str] = []
    for words, level, narrowing in (
        (_("step times"), shift.time, shift.time_narrowing),
        (_("memory"), shift.memory, shift.memory_narrowing),
    ):
        if narrowing < 1:
            text = _("{what} {change:+.1%}, range {narrower:.0%} narrower")
            change = exp(level) - 1
            moved.append(text.format(what=words, change=change, narrower=1 - narrowing))
    return moved


def unstated_words(missing: Iterable[str]) -> list[str]:
    """A sentence where observed values are of a configuration that was not stated in full."""
    flags = ", ".join(missing)
    if not flags:
        return []
    text = _("the observed values are taken to be of the configuration below; not stated: {flags}")
    return [text.format(flags=flags)]
