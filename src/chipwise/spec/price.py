"""What machines cost: offers, the way to rent a cluster, and the terms asked for.

Money is an amount with its currency beside it. Amounts of unlike currencies cannot be added:
``Money`` refuses, and so nothing converts by accident.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, get_args

from pydantic import Field

from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.model import Count, Frozen

Market = Literal["on-demand", "spot", "1y", "3y"]
Currency = Literal["USD", "EUR", "CNY"]
CURRENCIES: tuple[str, ...] = get_args(Currency)
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Month = Annotated[str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])$")]


class Money(Frozen):
    """An amount in one currency."""

    amount: Annotated[float, Field(allow_inf_nan=False)]
    currency: Currency

    def __add__(self, other: Money) -> Money:
        """The sum of two amounts of one currency.

        Raises:
            UsageError: the currencies differ.
        """
        if self.currency != other.currency:
            text = _("{first} and {second} cannot be added: convert one of them first").format(
                first=self.currency, second=other.currency
            )
            raise UsageError("unlike-currencies", text)
        return Money(amount=self.amount + other.amount, currency=self.currency)

    def __mul__(self, count: float) -> Money:
        """So many times the amount."""
        return Money(amount=self.amount * count, currency=self.currency)


class Offer(Frozen):
    """One dated row of a price list; hourly prices are those of the whole SKU."""

    kind: Literal["cloud", "block", "purchase"]
    """``block`` is capacity reserved and paid ahead for fixed dates: listed, never rented."""
    provider: str = ""
    sku: Annotated[str, Field(min_length=1)]
    region: str = ""
    accelerator: str
    devices: Count
    vcpus: Count | None = None
    memory_gb: Amount | None = None
    on_demand: Amount | None = None
    spot: Amount | None = None
    one_year: Amount | None = None
    """Per hour under a commitment of one year."""
    three_year: Amount | None = None
    purchase: Amount | None = None
    currency: Currency
    confidence: Literal["primary", "secondary", "estimate"]
    source: str
    """Key into the source list."""
    reference: str = ""
    """File or page within the source."""
    seen: Month
    """Month in which the price held at the latest."""
    retrieved: str
    note: str = ""

    def hourly(self, market: Market) -> Money | None:
        """Price of the whole SKU per hour; None where there is none."""
        amount = {
            "on-demand": self.on_demand,
            "spot": self.spot,
            "1y": self.one_year,
            "3y": self.three_year,
        }[market]
        return None if amount is None else Money(amount=amount, currency=self.currency)

    @property
    def product(self) -> tuple[str, ...]:
        """What a later row of the same replaces."""
        return (self.kind, self.provider, self.sku, self.region, self.accelerator, self.currency)


class Rental(Frozen):
    """A way to rent a cluster: whole SKUs of one offer, in USD."""

    offer: Offer
    market: Market
    count: Count
    """SKUs rented."""
    devices: Count
    """Devices of the cluster, which may be fewer than those paid for."""
    usd_per_hour: Amount
    """All SKUs together."""
    low_usd_per_hour: Amount
    """The cheapest of the providers with a current offer; each at its own cheapest."""
    high_usd_per_hour: Amount
    age_days: int
    """From the end of the month in which the price was seen."""
    stale: bool

    @property
    def usd_per_device_hour(self) -> float:
        """Over the devices of the cluster: what is paid for and not used counts."""
        return self.usd_per_hour / self.devices


class Terms(Frozen):
    """On what terms a job is paid and powered; None where not stated."""

    market: Market = "on-demand"
    as_of: date | None = None
    """Prices as they were known on that day; today when None."""
    pue: Annotated[float, Field(ge=1, le=10)] | None = None
    """Power of the whole site over that of its machines."""
