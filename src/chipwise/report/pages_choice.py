"""Blocks of a plan's page about the choice: how sure it is, what holds it back, other families."""

from __future__ import annotations

from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.page import Cell, Column, Listing, Note, Page, Table, page
from chipwise.report.words import Json
from chipwise.units import show

_MOST_TRADES = 6
_MOST_TURNS = 3
_NOTABLE = 0.005


def choice_note(document: Json) -> Note | None:
    """The chance that the recommended plan is the best, and which plans are its equals."""
    choice = document["choice"]
    if not choice:
        return None
    chance = choice["probability_best"].get("1", choice["probability_best"].get(1, 0.0))
    text = _("best in {chance} of {samples} draws; otherwise {regret} behind the best on average")
    facts = [
        text.format(
            chance=words.share(chance),
            samples=f"{choice['samples']:,}",
            regret=words.share(choice["regret_mean"] / (1 - chance) if chance < 1 else 0.0),
        )
    ]
    if choice["ties"]:
        ranks = ", ".join(map(str, choice["ties"]))
        facts.append(_("as good as no. {ranks} within the ranges").format(ranks=ranks))
    return Note(words.joined(facts))


def other_choices(document: Json) -> Listing:
    """Options that trade time for money or energy and that no other beats in all."""
    others = [point for point in document["pareto"] if point["rank"] != 1]
    items = [_point(point) for point in others[:_MOST_TRADES]]
    if len(others) > _MOST_TRADES:
        items.append(_("{count} more in the JSON document").format(
            count=len(others) - _MOST_TRADES))  # fmt: skip
    return Listing(_("Other trades of time, cost and energy"), items)


def families(document: Json) -> Listing:
    """The best option of each accelerator family, where there are several."""
    points = document["best_per_family"]
    if len(points) < 2:
        return Listing(_("Best of each family"), [])
    return Listing(
        _("Best of each family"),
        [f"{point['family']}: {_point(point)}" for point in points],
    )


def _point(point: Json) -> str:
    cost, energy = point["cost_usd"], point["energy_kwh"]
    hours = _("{hours} device hours").format(hours=words.shown(point["device_hours"], "1"))
    parts = (
        show(point["duration_s"], "s"),
        hours if cost is None else show(cost, "USD"),
        "" if energy is None else show(energy, "kWh"),
    )
    place = _(" (no. {rank})").format(rank=point["rank"]) if point["rank"] else ""
    return f"{point['system']}{place}: {', '.join(filter(None, parts))}"


def binds(document: Json) -> Listing:
    """Limits of the recommended plan with what is left of them, and what one step more buys."""
    return Listing(_("What holds it back"), [_bind(one) for one in document["binds"]])


def _bind(one: Json) -> str:
    name = words.constraint(one["constraint"])
    if one["limit"] is not None:
        unit = one["unit"]
        used = _("{name}: {value} of {limit}, {slack} left").format(
            name=name,
            value=words.shown(one["value"], unit),
            limit=words.shown(one["limit"], unit),
            slack=words.share(one["slack"]),
        )
    else:
        used = name
    if one["speedup"] is None:
        return used
    gain = one["speedup"] - 1
    bought = (
        _("{step} buys nothing").format(step=one["step"])
        if abs(gain) < _NOTABLE
        else _("{step}: {gain} faster").format(step=one["step"], gain=words.share(gain))
    )
    return f"{used}; {bought}" if one["limit"] is not None else f"{used} {bought}"


def turns(document: Json) -> Listing:
    """What would change the recommendation, else what moves its objective most."""
    choice = document["choice"] or {"sensitivity": []}
    items = []
    for one in choice["sensitivity"][:_MOST_TURNS]:
        moved = _("{change}: {effect}").format(change=one["change"], effect=f"{one['effect']:+.0%}")
        winner = _("{system} wins").format(system=one["winner"])
        items.append(f"{moved}, {winner}" if one["turns"] else moved)
    return Listing(_("If an input were otherwise"), items)


def scaling(document: Json) -> Table:
    """Throughput over counts of devices, where it was asked for."""
    return Table(
        _("Scaling of the recommended plan"),
        (
            Column(_("scaling"), "mode"),
            Column(_("system"), "system"),
            Column(_("global batch"), "global_batch", numeric=True),
            Column(_("step"), "step_time_s", numeric=True),
            Column(_("tokens/s"), "tokens_per_s", numeric=True),
            Column(_("efficiency"), "efficiency", numeric=True),
        ),
        [
            [
                Cell(words.scaling_mode(one["mode"]), one["mode"]),
                Cell(one["system"], one["system"]),
                Cell(str(one["global_batch"]), one["global_batch"]),
                words.amount(one["step_time_s"], "s"),
                words.amount(one["tokens_per_s"], "1"),
                Cell(words.share(one["efficiency"]), one["efficiency"]),
            ]
            for one in document["scaling"]
        ],
    )


def study_page(document: Json) -> Page:
    """What became of the jobs of a study, and where their rows are."""
    names = {
        "jobs": _("jobs"),
        "resumed": _("stored before"),
        "planned": _("planned now"),
        "failed": _("failed now"),
    }
    table = Table(
        _("Study {name}").format(name=document["study"]),
        tuple(Column(title, key, numeric=True) for key, title in names.items()),
        [[Cell(str(document[key]), document[key]) for key in names]],
    )
    text = _("Rows in {into}/part-*.parquet; {time}.")
    where = text.format(into=document["into"], time=show(document["elapsed_s"], "s"))
    return page(_("Study"), table, (table, Note(where)))
