"""Prices: dated offers from the price lists, and the cheapest way to rent a cluster.

The lists are append-only: a new price is a new row with the month it was seen, and the latest row
of a product wins. A question asked as of an earlier day does not see later rows.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable
from datetime import date
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from chipwise.catalogue.load import file_error, folders, forgettable, read_csv
from chipwise.i18n import _
from chipwise.spec.hardware import Cluster
from chipwise.spec.price import Market, Offer, Rental

FILE = "prices.csv"
STALE_DAYS = 90
"""A price seen longer ago is called stale."""
_MOST_WASTE = 2
"""An offer that takes more devices than so many times the fewest says nothing about the price."""
_COLUMNS = frozenset(Offer.model_fields)


@cache
def price_rows() -> tuple[tuple[Path, int, Offer], ...]:
    """Every row of every price list with file and line; a person's own rows come after ours.

    Raises:
        DataFileError: a cell is no valid value; names file, line, column and reason.
    """
    found = []
    for folder in reversed(folders()):
        path = folder / FILE
        if path.is_file():
            found += [(path, line, _offer(path, line, row)) for line, row in
                      read_csv(path, _COLUMNS)]  # fmt: skip
    return tuple(found)


def _offer(path: Path, line: int, row: dict[str, str]) -> Offer:
    try:
        return Offer.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"]))
        reason = _("'{column}': {reason}").format(column=column, reason=first["msg"])
        raise file_error(path, line, reason) from None


def offers(accelerator: str | None = None, as_of: date | None = None) -> tuple[Offer, ...]:
    """The offers that held on a day: of each product the latest row seen until then.

    Args:
        accelerator: only of this one; all when None.
        as_of: the day; today when None.

    Returns:
        Offers in the order of the lists; a row of one's own replaces one of the same month.
    """
    month = f"{as_of or date.today():%Y-%m}"
    latest: dict[tuple[str, ...], Offer] = {}
    for _path, _line, offer in price_rows():
        if accelerator not in (None, offer.accelerator) or offer.seen > month:
            continue
        before = latest.get(offer.product)
        if before is None or before.seen <= offer.seen:
            latest[offer.product] = offer
    return tuple(latest.values())


def age_days(offer: Offer, as_of: date | None = None) -> int:
    """Days from the end of the month in which a price was seen; 0 within that month."""
    year, month = map(int, offer.seen.split("-"))
    last = date(year, month, monthrange(year, month)[1])
    return max(0, ((as_of or date.today()) - last).days)


def rental(
    cluster: Cluster, market: Market = "on-demand", as_of: date | None = None
) -> Rental | None:
    """The cheapest way to rent a cluster, and what other providers ask for it.

    Only whole SKUs are rented, all of one offer, and only at prices in USD:

    - Devices of one node share a machine, so a node is one SKU, even where it has more devices
      than the node needs; a SKU smaller than the node cannot stand for it.
    - Nodes of one device need no common machine: their devices are packed into as few SKUs as
      hold them.
    - Chips of a torus machine (TPU) priced one by one are rented as a slice of any shape: the
      price times its chips. Named slices are whole SKUs.

    Fresh offers (seen in the last 90 days) are preferred. Where there are none, those seen within
    90 days of the newest count, and the rental is marked stale.

    Args:
        cluster: what the job runs on.
        market: on-demand, spot, or an hourly price under a commitment.
        as_of: prices as known on that day; today when None.

    Returns:
        None where no offer holds the cluster: its price is unknown. Low and high are over the
        providers, each at its own cheapest, without SKUs twice as large as the leanest.
    """
    size = (cluster.num_devices, cluster.num_nodes, cluster.devices_per_node)
    day = as_of or date.today()
    return _rental(cluster.accelerator.id, size, bool(cluster.torus), market, day)


@cache
def _rental(
    accelerator: str, size: tuple[int, int, int], torus: bool, market: Market, day: date
) -> Rental | None:
    ways: list[tuple[float, int, Offer]] = []
    for offer in offers(accelerator, day):
        price, count = offer.hourly(market), _count(offer, size, torus)
        if offer.kind == "cloud" and price and price.currency == "USD" and count:
            ways.append(((price * count).amount, count, offer))
    ways = _current(ways, day)
    if not ways:
        return None
    usd, count, offer = min(ways, key=lambda way: way[0])
    leanest = min(count * offer.devices for _usd, count, offer in ways)
    lean = [way for way in ways if way[1] * way[2].devices <= _MOST_WASTE * leanest]
    cheapest = [usd, *_cheapest_by_provider(lean)]
    age = age_days(offer, day)
    return Rental(
        offer=offer,
        market=market,
        count=count,
        devices=size[0],
        usd_per_hour=usd,
        low_usd_per_hour=min(cheapest),
        high_usd_per_hour=max(cheapest),
        age_days=age,
        stale=age > STALE_DAYS,
    )


def _count(offer: Offer, size: tuple[int, int, int], torus: bool) -> int:
    """SKUs that hold the cluster; 0 where this SKU cannot."""
    devices, nodes, per_node = size
    if per_node == 1 or (torus and offer.devices == 1):
        return -(-devices // offer.devices)
    return nodes if offer.devices >= per_node else 0


def _current(ways: list[tuple[float, int, Offer]], day: date) -> list[tuple[float, int, Offer]]:
    """Those with a fresh price, else those nearly as new as the newest."""
    ages = [age_days(offer, day) for _usd, _count, offer in ways]
    newest = min(ages, default=0)
    limit = STALE_DAYS if newest <= STALE_DAYS else newest + STALE_DAYS
    return [way for way, age in zip(ways, ages, strict=True) if age <= limit]


def _cheapest_by_provider(ways: Iterable[tuple[float, int, Offer]]) -> list[float]:
    found: dict[str, float] = {}
    for usd, _count, offer in ways:
        found[offer.provider] = min(usd, found.get(offer.provider, usd))
    return list(found.values())


for _cached in (price_rows, _rental):
    forgettable(_cached.cache_clear)
