"""Facts of energy: how much of their rating devices draw, what a node and a site add to it.

The list also holds tariffs and carbon intensities; nothing reads them yet but the check.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import Field, ValidationError

from chipwise.catalogue.load import file_error, folders, forgettable, read_csv
from chipwise.errors import UnknownNameError
from chipwise.i18n import _
from chipwise.spec.model import Frozen

FILE = "energy.csv"
UNITS = ("ratio", "gCO2e/kWh", "USD/kWh", "EUR/kWh", "CNY/kWh", "W/GB")
LOAD, IDLE, HOST = "load-power", "idle-power", "host-power"
WORLD_PUE = "pue-uptime2024"
_PUE = "PUE"
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class EnergyFact(Frozen):
    """One dated row: a value, with the ends of its range where they are known."""

    id: str
    quantity: str
    subject: str
    """Country, site or thing it is true of."""
    provider: str = ""
    """As in the price lists, where it is true of one provider."""
    low: Positive | None = None
    value: Positive
    high: Positive | None = None
    unit: str
    year: str = ""
    confidence: str
    source: str
    retrieved: str
    note: str = ""


class Spread(Frozen):
    """A likely value with its 80 % range and where it comes from."""

    low: float
    likely: float
    high: float
    source: str
    words: str = ""
    """What it is true of."""


@cache
def energy_rows() -> tuple[tuple[Path, int, EnergyFact], ...]:
    """Every row with file and line; a person's own rows come after ours.

    Raises:
        DataFileError: a cell is no valid value; names file, line, column and reason.
    """
    columns, found = frozenset(EnergyFact.model_fields), []
    for folder in reversed(folders()):
        path = folder / FILE
        if path.is_file():
            found += [(path, line, _fact(path, line, row)) for line, row in
                      read_csv(path, columns)]  # fmt: skip
    return tuple(found)


def _fact(path: Path, line: int, row: dict[str, str]) -> EnergyFact:
    try:
        return EnergyFact.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"]))
        reason = _("'{column}': {reason}").format(column=column, reason=first["msg"])
        raise file_error(path, line, reason) from None


@cache
def energy_facts() -> dict[str, EnergyFact]:
    """The facts by id; the last row of an id wins."""
    return {fact.id: fact for _path, _line, fact in energy_rows()}


@cache
def share(name: str) -> Spread:
    """A share of power: ``load-power``, ``idle-power`` (of a device's limit), ``host-power``.

    Raises:
        UnknownNameError: the list has no such fact.
    """
    facts = energy_facts()
    if name not in facts:
        raise UnknownNameError(_("energy fact"), name, facts, FILE)
    fact = facts[name]
    return Spread(
        low=fact.low or fact.value,
        likely=fact.value,
        high=fact.high or fact.value,
        source=fact.source,
        words=fact.subject,
    )


@cache
def pue(provider: str = "") -> Spread:
    """Power of a site over that of its machines.

    Args:
        provider: as in the price lists.

    Returns:
        What the provider publishes of its whole fleet. For others the middle of what clouds
        publish, from the least of them to the world's average data centre.
    """
    found = [fact for fact in energy_facts().values() if fact.quantity == _PUE and fact.provider]
    for fact in found:
        if fact.provider == provider:
            return Spread(low=fact.value, likely=fact.value, high=fact.value, source=fact.source,
                          words=fact.subject)  # fmt: skip
    values = [fact.value for fact in found]
    world = energy_facts()[WORLD_PUE]
    words = _("no figure of this site: the middle of clouds, up to the world's average")
    return Spread(low=min(values), likely=median(values), high=world.value, source=world.source,
                  words=words)  # fmt: skip


for _cached in (energy_rows, energy_facts, share, pue):
    forgettable(_cached.cache_clear)
