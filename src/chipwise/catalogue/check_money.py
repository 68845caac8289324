"""Prices and energy facts against themselves: sources, links, dates, and amounts that agree."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from chipwise.catalogue.energy import UNITS, EnergyFact, energy_rows
from chipwise.catalogue.finding import Finding, is_date
from chipwise.catalogue.prices import price_rows
from chipwise.errors import ChipwiseError
from chipwise.i18n import _
from chipwise.spec.price import Offer


def check_money(known: Collection[str], accelerators: Collection[str]) -> Iterator[Finding]:
    """What does not hold in the price lists and the energy facts.

    Args:
        known: keys of the sources.
        accelerators: ids of the accelerators.

    Returns:
        Findings. Cells that are no positive amount or no known currency, or columns nobody knows,
        keep a file from being read and are found so.
    """
    try:
        seen: set[tuple[str, ...]] = set()
        for path, line, offer in price_rows():
            for message in _offer_faults(offer, known, accelerators):
                yield _error(path, line, message)
            key = (str(path), *offer.product, offer.seen)
            if key in seen:
                yield _error(path, line, _("a second row of the same product and month"))
            seen.add(key)
    except ChipwiseError as error:
        yield Finding("prices.csv", "", "error", error.message)
    try:
        for path, line, fact in energy_rows():
            for message in _fact_faults(fact, known):
                yield _error(path, line, message)
    except ChipwiseError as error:
        yield Finding("energy.csv", "", "error", error.message)


def _error(path: Path, line: int, message: str) -> Finding:
    return Finding(str(path), _("line {number}").format(number=line), "error", message)


def _origin_faults(source: str, retrieved: str, known: Collection[str]) -> Iterator[str]:
    if source not in known:
        yield _("source '{key}' is not in sources.toml").format(key=source)
    if not is_date(retrieved):
        yield _("'{date}' is no date (YYYY-MM-DD)").format(date=retrieved)


def _offer_faults(
    offer: Offer, known: Collection[str], accelerators: Collection[str]
) -> Iterator[str]:
    yield from _origin_faults(offer.source, offer.retrieved, known)
    if offer.accelerator not in accelerators:
        yield _("unknown accelerator '{name}'").format(name=offer.accelerator)
    if offer.seen > offer.retrieved[:7]:
        yield _("seen in {seen}, after it was read").format(seen=offer.seen)
    hourly = [offer.on_demand, offer.spot, offer.one_year, offer.three_year]
    if offer.kind == "purchase" and (offer.purchase is None or any(hourly)):
        yield _("a purchase has a price to buy, and none by the hour")
    if offer.kind != "purchase" and (offer.purchase is not None or not any(hourly)):
        yield _("what is rented has a price by the hour, and none to buy")
    if offer.kind != "purchase" and not offer.provider:
        yield _("no provider")
    for cheaper in filter(None, hourly[1:]):
        if offer.on_demand is not None and cheaper >= offer.on_demand:
            yield _("spot and committed prices must be below the one on demand")
            break


def _fact_faults(fact: EnergyFact, known: Collection[str]) -> Iterator[str]:
    yield from _origin_faults(fact.source, fact.retrieved, known)
    if fact.unit not in UNITS:
        yield _("unit '{unit}' is none of {known}").format(unit=fact.unit, known=", ".join(UNITS))
    if not (fact.low or fact.value) <= fact.value <= (fact.high or fact.value):
        yield _("the value is not between low and high")
    if fact.quantity == "PUE" and fact.value < 1:
        yield _("a site draws no less than its machines: a PUE is 1 or more")
