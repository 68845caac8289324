"""The page of ``plan finetune``: what the data is, what filling costs, methods, runs of a grid."""

from __future__ import annotations

from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.page import Cell, Column, Listing, NextCommand, Note, Page, Table, Tone
from chipwise.report.pages_plan import plan_blocks
from chipwise.report.words import Json
from chipwise.units import show

_MOST_RUNS = 30
"""Runs of a grid that are shown."""


def finetune_page(document: Json) -> Page:
    """A plan, with the data set before it and the runs of a grid after it."""
    data = document["dataset"]
    return plan_blocks(
        document,
        _("Fine-tune"),
        before=(Note(_data_line(data)), Note(_waste_line(data))),
        after=(_fillings(data), _methods(document), *_experiments(document)),
        next_command=_fit_command(document),
    )


def filling(name: str) -> str:
    """A way to bring examples to one length, in words."""
    return {
        "packing": _("packed"),
        "free": _("not padded"),
        "grouped": _("padded to the longest, sorted by length"),
        "longest": _("padded to the longest of the micro-batch"),
        "max": _("padded to the sequence length"),
    }[name]


def _data_line(data: Json) -> str:
    text = _("Data: {examples} examples, {tokens} tokens ({low} – {high}), {mean} each on average, "
             "{longest} at most; {cut} cut at {seq}.")  # fmt: skip
    tokens = data["tokens"]
    return text.format(
        examples=words.shown(data["examples"], "1"),
        tokens=show(tokens["likely"], "1"),
        low=show(tokens["low"], "1"),
        high=show(tokens["high"], "1"),
        mean=words.shown(round(data["mean_length"]), "1"),
        longest=words.shown(data["longest"], "1"),
        cut=words.share(data["truncated_share"]),
        seq=data["seq"],
    )


def _waste_line(data: Json) -> str:
    text = _("{filling}: {ratio} tokens computed for each one trained on; {steps} steps an epoch.")
    return text.format(
        filling=filling(data["filling"]).capitalize(),
        ratio=f"{data['computed_per_useful']:.2f}",
        steps=words.shown(data["steps_per_epoch"], "1"),
    )


def _fillings(data: Json) -> Listing:
    text = _("{filling}: {ratio} computed per token trained on, {steps} steps an epoch")
    return Listing(
        _("Other ways to fill, in the recommended layout"),
        [
            text.format(
                filling=filling(one["name"]),
                ratio=f"{one['computed_per_useful']:.2f}",
                steps=words.shown(one["steps_per_epoch"], "1"),
            )
            for one in data["fillings"]
            if one["name"] != data["filling"]
        ],
    )


def _methods(document: Json) -> Listing:
    items = []
    for one in document["methods"]:
        cost = show(one["cost_usd"], "USD") if one["cost_usd"] is not None else _("cost unknown")
        time = show(one["duration_s"], "s")
        items.append(f"{one['method']}: {one['system']}, {time}, {cost}")
    return Listing(_("Best of each method"), items if len(items) > 1 else [])


def _fit_command(document: Json) -> NextCommand | None:
    """The memory bill of the recommended plan: its micro-batches are of the longest examples."""
    if not document["plans"]:
        return None
    best = document["plans"][0]
    return NextCommand(
        words.command(
            f"chipwise fit {words.asked(_without_prices(document['inputs']))} "
            f"--on {best['system']}",
            best["layout"],
            f"--global-batch {best['layout']['global_batch']}",
            *_adapter_flags(best["layout"]),
        )
    )


_PRICES = ("market", "as_of", "pue", "power_cap", "rank", "targets", "base_dtype")


def _without_prices(inputs: Json) -> Json:
    return {name: value for name, value in inputs.items() if name not in _PRICES}


def _adapter_flags(layout: Json) -> list[str]:
    names = {"lora_rank": "rank", "lora_targets": "targets", "base_dtype": "base-dtype"}
    other = layout["other"]
    if layout["method"] == "full":
        return []
    return [f"--{flag} {other[name]}" for name, flag in names.items() if other.get(name)]


# -- grids -----------------------------------------------------------------------------------


def _experiments(document: Json) -> tuple[Note | Table, ...]:
    found = document["experiments"]
    if not found:
        return ()
    return Note(_experiments_line(found), _tone(found)), _runs(found)


def _tone(found: Json) -> Tone:
    missed = False in (found["meets_deadline"], found["meets_budget"])
    unfit = any(run["duration_s"] is None for run in found["runs"])
    return "bad" if missed or unfit else "plain"


def _experiments_line(found: Json) -> str:
    text = _("{runs} runs on {instances} × {system}: {time} in all; {money}")
    cost, alone = found["cost_usd"], found["cost_without_idle_usd"]
    money = _("cost unknown")
    if cost is not None:
        money = _("{usd}, {alone} if each is given back after its last run").format(
            usd=show(cost, "USD"), alone=show(alone, "USD")
        )
    parts = [
        text.format(
            runs=len(found["runs"]),
            instances=found["instances"],
            system=found["system"],
            time=show(found["makespan_s"], "s"),
            money=money,
        ),
        _("{share} idle").format(share=words.share(found["idle_share"])),
    ]
    needed = found["instances_for_deadline"]
    if needed is not None:
        parts.append(_("the deadline takes {count} at least").format(count=needed))
    if found["meets_deadline"] is False:
        parts.append(_("later than the deadline"))
    if found["meets_budget"] is False:
        parts.append(_("over budget") if cost is not None else _("price unknown"))
    return words.joined(parts)


def _runs(found: Json) -> Table:
    title = _("Runs")
    if len(found["runs"]) > _MOST_RUNS:
        title = _("The first {most} of {count} runs").format(
            most=_MOST_RUNS, count=len(found["runs"])
        )
    return Table(
        title,
        (
            Column(_("run"), "values"),
            Column(_("time"), "duration_s", numeric=True),
            Column(_("cost"), "cost_usd", numeric=True),
            Column(_("copy"), "instance", numeric=True),
            Column(_("starts after"), "start_s", numeric=True),
        ),
        [_run_row(run) for run in found["runs"][:_MOST_RUNS]],
    )


def _run_row(run: Json) -> list[Cell]:
    name = ", ".join(f"{key}={value}" for key, value in run["values"].items())
    if run["duration_s"] is None:
        return [Cell(name, name), words.verdict("does not fit"), Cell("–"), Cell("–"), Cell("–")]
    return [
        Cell(name, name),
        words.amount(run["duration_s"], "s"),
        words.amount(run["cost_usd"], "USD"),
        Cell(str(run["instance"]), run["instance"]),
        words.amount(run["start_s"], "s"),
    ]
