"""Money and energy of a run: what it costs, what it draws, on what terms, and who beats whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, hypot, isfinite, log

from chipwise.app.documents import Assumption, Basis, Price, Range
from chipwise.app.evaluation import Evaluated
from chipwise.catalogue.energy import HOST, IDLE, LOAD, Spread, pue, share
from chipwise.catalogue.hardware import accelerator_provenance
from chipwise.catalogue.prices import rental
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.physics import MODEL
from chipwise.physics.inputs import INPUTS
from chipwise.quantity import Given
from chipwise.spec.job import TrainingJob
from chipwise.spec.price import Rental
from chipwise.units import show

_KWH = 3.6e6
_SET_PRICES = frozenset({"cost", "device_rent"})
"""With these set by hand no offer counts."""
Ends = tuple[float, float]
"""Low and high of a factor, over its likely value."""


def rental_of(job: TrainingJob) -> Rental | None:
    """The cheapest way to rent the job's machine on its terms; None where no price is known."""
    return rental(job.cluster, job.terms.market, job.terms.as_of)


def _used(point: Evaluated) -> Rental | None:
    """The rental whose price counts: none where cost or price were set by hand."""
    return None if point.overridden & _SET_PRICES else rental_of(point.job)


def price_of(point: Evaluated) -> Price | None:
    """How the machine is rented, in the words of the documents; None where another price is set."""
    rented = _used(point)
    if rented is None:
        return None
    offer, devices = rented.offer, rented.devices
    return Price(
        provider=offer.provider,
        sku=offer.sku,
        region=offer.region,
        market=rented.market,
        count=rented.count,
        usd_per_hour=rented.usd_per_hour,
        usd_per_device_hour=rented.usd_per_device_hour,
        low_usd_per_device_hour=rented.low_usd_per_hour / devices,
        high_usd_per_device_hour=rented.high_usd_per_hour / devices,
        seen=offer.seen,
        age_days=rented.age_days,
        stale=rented.stale,
        source=offer.source,
        confidence=offer.confidence,
    )


def cost_of(point: Evaluated, duration: Range) -> Range | None:
    """Rent of the run in USD; None where no price is known.

    The likely value is at the cheapest offer. The range joins that of the duration with that of
    the providers' prices, as independent: the ends of both seldom fall together.
    """
    likely = _quantity(point, "cost")
    if likely is None:
        return None
    factors = [] if "cost" in point.overridden else [_ends(duration)]
    rented = _used(point)
    if rented:
        usd = rented.usd_per_hour
        factors.append((rented.low_usd_per_hour / usd, rented.high_usd_per_hour / usd))
    return _joined(likely, factors, duration.basis)


def energy_of(point: Evaluated, duration: Range) -> Range | None:
    """Electricity of the run in kWh, as the site draws it; None where no power is published.

    The range joins, as independent, those of the duration and of each share of power that was not
    stated.
    """
    likely = _quantity(point, "energy")
    if likely is None:
        return None
    factors = [] if "energy" in point.overridden else [_ends(duration), *_power_ends(point)]
    return _joined(likely / _KWH, factors, "assumed")


def _quantity(point: Evaluated, name: str) -> float | None:
    """A quantity of the evaluated run; None where something it needs is unknown."""
    value = point.time.get(name)
    if value is None:
        value = float(MODEL.evaluate(point.time, (name,))[name])
    return value if isfinite(value) else None


def _power_ends(point: Evaluated) -> Iterator[Ends]:
    """Relative ends of what was assumed about power; measured power needs no assumption."""
    known, values = point.overridden, point.time
    if not known & {"load_power_share", "device_power", "machine_power"}:
        yield _device_ends(point)
    if not known & {"host_power_share", "machine_power"}:
        host = share(HOST)
        whole = 1 + values["host_power_share"]
        yield (1 + host.low) / whole, (1 + host.high) / whole
    if "pue" not in known and point.job.terms.pue is None:
        yield _relative(_site(point.job))


def _device_ends(point: Evaluated) -> Ends:
    """Relative ends of a device's power, the shares of load and idle moved together."""
    load, idle, steps = share(LOAD), share(IDLE), _quantity(point, "stepping_share") or 0.0
    low, likely, high = (
        of_load * steps + of_idle * (1 - steps)
        for of_load, of_idle in (
            (load.low, idle.low),
            (load.likely, idle.likely),
            (load.high, idle.high),
        )
    )
    return low / likely, high / likely


def _site(job: TrainingJob) -> Spread:
    rented = rental_of(job)
    return pue(rented.offer.provider if rented else "")


def _relative(spread: Spread) -> Ends:
    return spread.low / spread.likely, spread.high / spread.likely


def _ends(span: Range) -> Ends:
    return (span.low / span.likely, span.high / span.likely) if span.likely else (1.0, 1.0)


def _joined(likely: float, factors: Sequence[Ends], basis: Basis) -> Range:
    """A product's range from those of independent factors: logarithms add in squares."""
    low = hypot(*(log(end) for end, _high in factors)) if factors else 0.0
    high = hypot(*(log(end) for _low, end in factors)) if factors else 0.0
    return Range(low=likely * exp(-low), likely=likely, high=likely * exp(high), basis=basis)


def require_known(name: str, point: Evaluated) -> None:
    """Refuse to explain a number that nobody knows.

    Raises:
        UsageError: no price holds the devices, or their power is not published.
    """
    value = point.time.get(name, 0.0)
    if isfinite(value):
        return
    text = _("'{name}' is unknown here; say --set device_rent=2USD/h or --set board_power=300W")
    raise UsageError("unknown-value", text.format(name=name), quantity=name)


def given_of(job: TrainingJob) -> dict[str, Given]:
    """Where the inputs of cost and energy come from."""
    rented, stated = rental_of(job), accelerator_provenance(job.cluster.accelerator.id)
    found = {
        "load_power_share": share(LOAD).source,
        "idle_power_share": share(IDLE).source,
        "host_power_share": share(HOST).source,
        "pue": "--pue" if job.terms.pue else _site(job).source,
    }
    given = {name: replace(INPUTS[name], source=source) for name, source in found.items()}
    if rented:
        for name in ("paid_devices", "device_rent"):
            given[name] = replace(INPUTS[name], source=rented.offer.source, basis="datasheet")
    if "tdp" in stated:
        rating = stated["tdp"]
        given["board_power"] = replace(
            INPUTS["board_power"], source=rating.source, basis=rating.basis
        )
    return given


# -- plans -----------------------------------------------------------------------------------


def meets_budget(cost: Range | None, budget: float | None) -> bool | None:
    """Whether a run is known to cost no more; None where there is no budget."""
    return None if budget is None else cost is not None and cost.likely <= budget


# -- words -----------------------------------------------------------------------------------


def _market(market: str) -> str:
    """The market as a person says it."""
    return {
        "on-demand": _("on demand"),
        "spot": _("spot, which may end at any time"),
        "1y": _("by the hour under a commitment of one year, of which only the run is counted"),
        "3y": _("by the hour under a commitment of three years, of which only the run is counted"),
    }[market]


def cost_assumptions(point: Evaluated) -> Iterator[Assumption]:
    """On what price, market, power and site the cost and energy of a run rest."""
    if not point.time["tokens"] > 0:
        return
    yield from _price_assumption(point)
    if _quantity(point, "energy") is None:
        text = _("energy unknown: no power rating of {name} is published (--set board_power=300W)")
        yield Assumption(text=text.format(name=point.job.cluster.accelerator.id))
    elif not point.overridden & {"energy", "machine_power"}:
        yield _power_assumption(point)


def _price_assumption(point: Evaluated) -> Iterator[Assumption]:
    if point.overridden & _SET_PRICES:
        return
    terms, rented = point.job.terms, rental_of(point.job)
    cluster = point.job.cluster
    if rented is None:
        text = _("cost unknown: no {market} offer in USD holds {system}")
        yield Assumption(text=text.format(market=terms.market, system=cluster.name))
        return
    text = _("rented from {provider} as {count} × {sku} at {usd} per device-hour, {market}")
    said = text.format(
        provider=rented.offer.provider,
        count=rented.count,
        sku=rented.offer.sku,
        usd=show(rented.usd_per_device_hour, "USD"),
        market=_market(terms.market),
    )
    effect = _("other providers up to {usd}").format(
        usd=show(rented.high_usd_per_hour / rented.devices, "USD")
    )
    dearer = rented.high_usd_per_hour > rented.usd_per_hour
    yield Assumption(text=said, effect=effect if dearer else None)


def _power_assumption(point: Evaluated) -> Assumption:
    values = point.time
    text = _(
        "a device draws {load:.0%} of {watts} in a step and {idle:.0%} while it waits, the rest "
        "of its node {host:.0%} of that, the site {pue:.2f} times all (--pue says otherwise)"
    )
    return Assumption(
        text=text.format(
            load=values["load_power_share"],
            watts=show(values["board_power"], "W"),
            idle=values["idle_power_share"],
            host=values["host_power_share"],
            pue=values["pue"],
        )
    )


def cost_warnings(points: Sequence[Evaluated]) -> tuple[str, ...]:
    """Prices that are old: seen more than 90 days ago."""
    rented = [one for point in points if (one := _used(point))]
    old = sorted({f"{one.offer.provider} ({one.offer.seen})" for one in rented if one.stale})
    if not old:
        return ()
    text = _("prices seen more than 90 days ago: {offers}; look before you buy")
    return (text.format(offers=", ".join(old)),)
