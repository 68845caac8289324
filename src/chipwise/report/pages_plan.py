"""The pages of ``plan`` and ``estimate``."""

from __future__ import annotations

from collections.abc import Callable

from chipwise.i18n import _
from chipwise.report import pages_choice, words
from chipwise.report.page import Block, Cell, Column, Listing, NextCommand, Note, Page, Table, page
from chipwise.report.pages_memory import memory_bill, memory_line, training_subject
from chipwise.report.words import Json
from chipwise.units import show


def plan_page(document: Json) -> Page:
    """Ranked plans, systems without one, the search, assumptions, the next command."""
    return plan_blocks(document, _("Plan"), next_command=_after_plan(document))


def plan_blocks(
    document: Json,
    title: str,
    *,
    before: tuple[Block | None, ...] = (),
    after: tuple[Block | None, ...] = (),
    next_command: NextCommand | None,
) -> Page:
    """The page of any ranked plans.

    Args:
        document: the plan.
        title: of the page.
        before: what is to stand before the table of plans.
        after: and behind it.
        next_command: what to type next.
    """
    plans = document["plans"]
    table = Table(
        "",
        (
            Column("#", "rank", numeric=True),
            Column(_("system"), "system"),
            Column(_("layout"), "layout"),
            Column(_("verdict"), "verdict", spare=1),
            Column(_("time\n80 % range"), "duration_s", numeric=True),
            Column("", "duration_low_s", csv_only=True),
            Column("", "duration_high_s", csv_only=True),
            Column("MFU", "mfu", numeric=True, spare=3),
            Column(_("tokens/s"), "tokens_per_s", numeric=True, spare=5),
            Column(_("cost\nenergy"), "cost_usd", numeric=True),
            Column("", "cost_low_usd", csv_only=True),
            Column("", "cost_high_usd", csv_only=True),
            Column("", "energy_kwh", csv_only=True),
            Column(_("device\nhours"), "device_hours", numeric=True, spare=2),
            Column(_("memory\nper device"), "reserved_bytes", numeric=True),
            Column("", "capacity_bytes", csv_only=True),
            Column(_("bound by"), "bound_by", spare=4),
        ),
        [_plan_row(plan) for plan in plans],
        first_is_best=True,
    )
    headline = Note(_plan_headline(document), "plain" if plans else "bad")
    blocks: tuple[Block | None, ...] = (
        headline,
        _best_in_numbers(document),
        *_best_run(document),
        _best_money(document),
        pages_choice.choice_note(document),
        *before,
        table,
        *after,
        pages_choice.other_choices(document),
        pages_choice.families(document),
        pages_choice.binds(document),
        pages_choice.turns(document),
        pages_choice.scaling(document),
        _no_fit(document),
        Note(_search_line(document["search"]), "muted"),
        words.warnings(document),
        words.assumptions(document),
        next_command,
    )
    return page(title, table, blocks)


def _plan_row(plan: Json) -> list[Cell]:
    duration = plan["duration_s"]
    late = plan["meets_deadline"] is False
    time = words.likely(duration, "s")
    return [
        Cell(str(plan["rank"]), plan["rank"]),
        Cell(plan["system"], plan["system"]),
        Cell(_layout(plan), _layout(plan)),
        words.verdict(plan["verdict"]),
        Cell(f"{time.text}\n{_('late')}", time.value, "bad") if late else time,
        Cell("", duration["low"]),
        Cell("", duration["high"]),
        Cell(words.share(plan["mfu"]["likely"]), plan["mfu"]["likely"]),
        words.amount(plan["tokens_per_s"]["likely"], "1"),
        *_cost_cells(plan),
        words.amount(plan["device_hours"]["likely"], "1"),
        words.memory_use(plan["memory"]),
        Cell("", plan["memory"]["capacity_bytes"]),
        Cell(plan["bound_by"], plan["bound_by"]),
    ]


def _layout(plan: Json) -> str:
    """The layout in words; a plan that was chosen among methods always names its own."""
    split = words.layout(plan["layout"])
    return f"{split} · {plan['method']}" if plan.get("method") == "full" else split


def _cost_cells(plan: Json) -> list[Cell]:
    """Rent above energy, with what only CSV carries; a dash where unknown."""
    cost, energy = plan["cost_usd"] or {}, plan["energy_kwh"] or {}
    usd, kwh = words.amount(cost.get("likely"), "USD"), words.amount(energy.get("likely"), "kWh")
    missed = plan["meets_budget"] is False
    word = _("over budget") if cost else _("price unknown")
    lines = [usd.text, *([word] if missed else []), kwh.text]
    return [
        Cell("\n".join(lines), usd.value, "bad" if missed else "plain"),
        Cell("", cost.get("low")),
        Cell("", cost.get("high")),
        Cell("", energy.get("likely")),
    ]


def _plan_headline(document: Json) -> str:
    if not document["plans"]:
        return _("No system and layout that were asked for can do this job.")
    best = document["plans"][0]
    return _("Recommended: {system}, {layout}: {duration}; basis: {basis}.").format(
        system=best["system"],
        layout=_layout(best),
        duration=show(best["duration_s"]["likely"], "s"),
        basis=words.basis(best["duration_s"]["basis"]),
    )


def _best_in_numbers(document: Json) -> Note | None:
    """The recommended plan's step, utilization and limit, with their ranges."""
    if not document["plans"]:
        return None
    best = document["plans"][0]
    facts = [
        _("step {time}").format(time=words.bare_span(best["step_time_s"], "s")),
        _("MFU {share} of {peak} dense").format(
            share=words.bare_share_span(best["mfu"]), peak=words.peak(best)
        ),
        _("bound by {what}").format(what=best["bound_by"]),
    ]
    if best["meets_deadline"] is not None:
        kept = best["meets_deadline"]
        facts.append(_("within the deadline") if kept else _("later than the deadline"))
    return Note(words.joined(facts))


def _best_run(document: Json) -> tuple[Note, ...]:
    """What the recommended plan's run consists of, where it is not all steps."""
    run = document["plans"][0]["run"] if document["plans"] else None
    return _run_parts(run) if run else ()


def _best_money(document: Json) -> Note | None:
    """What the recommended plan costs and draws, and whose price that is."""
    if not document["plans"]:
        return None
    best = document["plans"][0]
    return Note(words.joined((_money(best), _price_line(best["price"]))))


def _money(answer: Json) -> str:
    """Cost and energy of a run with their ranges; what is unknown is said."""
    cost, energy = answer["cost_usd"], answer["energy_kwh"]
    parts = [
        _("cost {usd}").format(usd=words.bare_span(cost, "USD")) if cost else _("cost unknown"),
        _("energy {kwh}").format(kwh=words.bare_span(energy, "kWh"))
        if energy
        else _("energy unknown"),
    ]
    return words.joined(parts)


def _price_line(price: Json | None) -> str:
    if not price:
        return ""
    text = _("prices: {provider} {sku}, seen {seen}")
    return text.format(provider=price["provider"], sku=price["sku"], seen=price["seen"])


def _no_fit(document: Json) -> Listing:
    items = []
    for entry in document["no_fit"]:
        smallest = entry.get("smallest")
        hint = _("; smallest that holds it: {system}").format(system=smallest) if smallest else ""
        items.append(f"{entry['system']}: {entry['reason']}{hint}")
    return Listing(_("No plan on"), items)


def _search_line(search: Json) -> str:
    return _(
        "{candidates} candidates on {systems} systems, {evaluated} evaluated, "
        "{pruned} ruled out by bounds, {fit} fit; {time}"
    ).format(
        systems=search["systems"],
        candidates=f"{search['candidates']:,}",
        evaluated=f"{search['evaluated']:,}",
        pruned=f"{search['pruned']:,}",
        fit=f"{search['fit']:,}",
        time=show(search["elapsed_s"], "s"),
    )


def _after_plan(document: Json) -> NextCommand | None:
    if not document["plans"]:
        return None
    best, inputs = document["plans"][0], document["inputs"]
    return NextCommand(
        words.command(
            f"chipwise estimate train {words.asked(inputs)} --on {best['system']}",
            best["layout"],
            f"--global-batch {best['layout']['global_batch']}",
        )
    )


def estimate_page(document: Json) -> Page:
    """How fast, how well used, where the time goes, and the memory bill."""
    table = _performance(document)
    system = document["subject"]["system"]
    parts = Table(
        _("Where the step's time goes"),
        (
            Column(_("part"), "part"),
            Column(_("time"), "seconds", numeric=True),
            Column(_("share"), "share", numeric=True),
        ),
        [
            [
                Cell(part["name"], part["name"]),
                words.amount(part["seconds"], "s"),
                Cell(words.share(part["share"]), part["share"]),
            ]
            for part in document["time_parts"]
        ],
    )
    blocks: tuple[Block | None, ...] = (
        training_subject(document),
        table,
        Note(_("Bound by {what}.").format(what=document["bound_by"])),
        _faster_with(document["marginal"]),
        parts,
        *_run(document),
        memory_bill(document["memory"]),
        Note(
            f"{words.verdict(document['verdict']).text}: {memory_line(document)}",
            words.VERDICT_TONES.get(document["verdict"], "plain"),
        ),
        words.warnings(document),
        words.assumptions(document),
        NextCommand(
            words.command(
                f"chipwise explain step_time {words.asked(document['inputs'])} --on {system}",
                document["layout"],
                f"--global-batch {document['layout']['global_batch']}",
            )
        ),
    )
    return page(_("Estimate"), table, blocks)


_WORTH_SAYING = 1.005
_MOST_STEPS = 3


def _faster_with(marginal: list[Json]) -> Listing:
    """The steps that help most, best first."""
    text = _("{resource} {change}: {gain} faster, {time} a step")
    return Listing(
        _("Would be faster with"),
        [
            text.format(
                resource=one["resource"],
                change=one["change"],
                gain=words.share(one["speedup"] - 1),
                time=show(one["step_time_s"], "s"),
            )
            for one in marginal[:_MOST_STEPS]
            if one["speedup"] > _WORTH_SAYING
        ],
    )


def _run(document: Json) -> tuple[Note, ...]:
    """How long the whole run is, and what it consists of."""
    run = document["run"]
    if not run:
        return ()
    text = _("The run: {tokens} tokens in {steps} steps, {duration}; {hours} device hours.")
    said = text.format(
        tokens=show(run["tokens"], "1"),
        steps=show(run["num_steps"], "1"),
        duration=words.span(document["duration_s"], "s"),
        hours=words.shown(document["device_hours"]["likely"], "1"),
    )
    money = words.joined((_money(document), _price_line(document["price"])))
    return Note(said), *_run_parts(run), Note(money)


def _run_parts(run: Json) -> tuple[Note, ...]:
    """The shares of a run; nothing where it is all steps."""
    if len(run["parts"]) < 2:
        return ()
    shares = (f"{part['name']} {words.share(part['share'])}" for part in run["parts"])
    return (Note(words.joined(shares), "muted"),)


def _performance(document: Json) -> Table:
    peak = words.peak(document)
    quantities: tuple[tuple[str, str, Callable[[Json], str]], ...] = (
        ("step_time_s", _("step time"), lambda value: words.span(value, "s")),
        ("tokens_per_s", _("tokens/s, all devices"), lambda value: words.span(value, "1")),
        ("tokens_per_s_per_device", _("tokens/s per device"),
         lambda value: words.span(value, "1")),
        ("mfu", _("MFU of {peak} dense").format(peak=peak), words.share_span),
        ("hfu", _("HFU, recompute counted"), words.share_span),
    )  # fmt: skip
    return Table(
        "",
        (
            Column(_("quantity"), "quantity"),
            Column(_("likely (80 % range), basis"), "likely"),
            Column("", "low", csv_only=True),
            Column("", "high", csv_only=True),
            Column("", "basis", csv_only=True),
        ),
        [
            [
                Cell(title, key),
                Cell(shown(document[key]), document[key]["likely"]),
                Cell("", document[key]["low"]),
                Cell("", document[key]["high"]),
                Cell("", document[key]["basis"]),
            ]
            for key, title, shown in quantities
        ],
    )
