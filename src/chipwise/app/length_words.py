"""Lengths said in words: ``p50=400,p90=1200,max=4096`` as a log-normal distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import exp, isfinite, log
from statistics import NormalDist, linear_regression
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import PydanticCustomError

from chipwise.errors import UnitError, shortened
from chipwise.i18n import _

STEPS = 512
"""Equal shares of the sequences that a distribution is divided into."""


@dataclass(frozen=True)
class LogNormal:
    """Lengths whose logarithms are normal: what text collections come near to."""

    median: float
    sigma: float
    """Standard deviation of the logarithm."""

    def lengths(self) -> NDArray[np.float64]:
        """The middle of each of ``STEPS`` equal shares, ascending. Shape (STEPS,)."""
        normal = NormalDist()
        middles = [(step + 0.5) / STEPS for step in range(STEPS)]
        found = [self.median * exp(self.sigma * normal.inv_cdf(share)) for share in middles]
        return np.array([max(1.0, length) for length in found])


def fitted(quantiles: Mapping[str, float]) -> LogNormal:
    """The log-normal distribution through two quantiles, or nearest to more of them.

    Args:
        quantiles: ``p50`` and the like with lengths in tokens; other keys are passed over.

    Notes:
        ln x = ln m + σ·z is a straight line in the normal quantile z: exact for two, least squares
        in ln for more.
    """
    normal = NormalDist()
    points = [
        (normal.inv_cdf(float(name[1:]) / 100), log(value))
        for name, value in quantiles.items()
        if name != "max"
    ]
    slope, middle = linear_regression(*zip(*points, strict=True))
    return LogNormal(exp(middle), slope)


def read_lengths(value: Any) -> Any:
    """``"p50=400,p90=1200,max=4k"`` as a mapping of names to tokens, checked."""
    from chipwise.units import parse

    if value is None or not isinstance(value, (str, list, tuple, Mapping)):
        return value
    pairs = value.items() if isinstance(value, Mapping) else _pairs(value)
    found: dict[str, float] = {}
    for name, text in pairs:
        if not _is_name(name):
            raise _refused(_("'{text}' is no quantile; write p50=400,p90=1200,max=4096"), name)
        try:
            found[name] = parse(str(text), "1")
        except UnitError as error:
            raise _refused("{text}", error.message) from None
    _check(found)
    return found


def _pairs(value: str | list[Any] | tuple[Any, ...]) -> list[tuple[str, str]]:
    text = value if isinstance(value, str) else ",".join(map(str, value))
    split = [word.partition("=") for word in text.split(",") if word.strip()]
    return [(name.strip().lower(), number.strip()) for name, _equals, number in split]


def _is_name(name: str) -> bool:
    if name == "max":
        return True
    try:
        return name.startswith("p") and 0 < float(name[1:]) < 100
    except ValueError:
        return False


def _check(found: Mapping[str, float]) -> None:
    names = sorted((name for name in found if name != "max"), key=lambda name: float(name[1:]))
    values = [found[name] for name in (*names, *(("max",) if "max" in found else ()))]
    if any(not (isfinite(value) and value >= 1) for value in values):
        raise _refused(_("lengths are 1 token at least"), "")
    if len(names) < 2:
        raise _refused(_("two quantiles at least are needed, such as p50=400,p90=1200"), "")
    if any(one > other for one, other in pairwise(values)):
        raise _refused(_("lengths fall where quantiles rise: {text}"), ", ".join(names))


def _refused(text: str, word: str) -> PydanticCustomError:
    reason = text.format(text=shortened(word))
    return PydanticCustomError("not-lengths", "{reason}", {"reason": reason})
