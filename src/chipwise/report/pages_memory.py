"""The page of ``fit``, and what all pages that show memory share."""

from __future__ import annotations

from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.page import Block, Cell, Column, NextCommand, Note, Page, Table, page
from chipwise.report.words import Json
from chipwise.units import show


def fit_page(document: Json) -> Page:
    """Verdict, the memory bill, the most that fits, the one change, remedies."""
    return bill_page(
        document,
        verdict=_verdict_line(document),
        subject=training_subject(document),
        most=_largest(document["largest"]),
        least=_smallest(document),
        held=memory_line(document),
        following=_after_fit(document),
    )


def bill_page(
    document: Json,
    *,
    verdict: str,
    subject: Note,
    most: Block | None,
    least: Block | None = None,
    held: str,
    following: NextCommand,
) -> Page:
    """The page of a ``fit`` document of any task.

    Args:
        document: the document.
        verdict: the verdict in a line.
        subject: what on what.
        most: the most that fits.
        least: the smallest device and count that hold it.
        held: what the device holds and has.
        following: the next command.
    """
    bill = memory_bill(document["memory"])
    blocks = (
        Note(verdict, words.VERDICT_TONES.get(document["verdict"], "plain")),
        subject,
        _one_change(document),
        most,
        least,
        bill,
        Note(held),
        _remedies_table(document["remedies"]),
        *(_steps(remedy["steps"]) for remedy in document["remedies"] if remedy.get("steps")),
        words.warnings(document),
        words.assumptions(document),
        following,
    )
    return page(_("Fit"), bill, blocks)


def _verdict_line(document: Json) -> str:
    free = document["headroom_bytes"]
    said = words.verdict(document["verdict"]).text
    if free < 0:
        return _("{verdict}: {bytes} too much per device").format(
            verdict=said, bytes=show(-free, "B")
        )
    host, held = document.get("host_capacity_bytes"), document.get("host_bytes") or 0.0
    if host and held > host:
        return _("{verdict}: {bytes} too much for the host memory of a node").format(
            verdict=said, bytes=show(held - host, "B")
        )
    return _("{verdict}: {bytes} left per device").format(verdict=said, bytes=show(free, "B"))


def training_subject(document: Json) -> Note:
    """Which training job on which machine, as understood."""
    subject = document["subject"]
    return Note(
        words.joined(
            (
                f"{subject['model']} · {subject['system']}",
                subject["understood"],
                words.layout(document["layout"]),
                _("sequence {tokens}").format(tokens=document["layout"]["seq_len"]),
                document["layout"]["precision"],
                document["layout"]["optimizer"],
            )
        )
    )


def memory_bill(memory: Json) -> Table:
    """The parts of the fullest device's memory, and their sum."""
    rows = [
        [
            Cell(words.part(part["name"]), part["name"]),
            words.amount(part["bytes"], "B"),
            Cell(words.share(part["share"]), part["share"]),
            Cell(words.part_meaning(part["name"]), None, "muted"),
            Cell("", part["formula"]),
            Cell("", part["source"]),
        ]
        for part in memory["parts"]
    ]
    total = _("peak allocated")
    rows.append([Cell(total, "total"), words.amount(memory["total_bytes"], "B"),
                 Cell(words.share(1.0), 1.0), Cell(""), Cell("", ""), Cell("", "")])  # fmt: skip
    return Table(
        _("Memory of the fullest device"),
        (
            Column(_("part"), "part"),
            Column(_("memory"), "bytes", numeric=True),
            Column(_("share"), "share", numeric=True),
            Column(_("what it is"), "meaning"),
            Column("", "formula", csv_only=True),
            Column("", "source", csv_only=True),
        ),
        rows,
    )


def memory_line(document: Json) -> str:
    """What the device holds at the peak, of what it has, with its range."""
    memory = document["memory"]
    held, usable = show(memory["reserved_bytes"], "B"), show(memory["usable_bytes"], "B")
    capacity = show(memory["capacity_bytes"], "B")
    parts = [
        _("held at the peak {held} of {usable} usable ({capacity} on the device)").format(
            held=held, usable=usable, capacity=capacity
        )
    ]
    if memory["range"]:
        low, high = memory["range"]["low"], memory["range"]["high"]
        parts.append(
            _("80 % range {low} – {high}, {basis}").format(
                low=show(low, "B"),
                high=show(high, "B"),
                basis=words.basis(memory["range"]["basis"]),
            )
        )
    moments = (
        (_("loading"), "load_peak_bytes"),
        (_("loading unsharded"), "load_unpartitioned_bytes"),
        (_("saving"), "save_peak_bytes"),
    )
    for label, key in moments:
        if memory[key] is not None:
            parts.append(f"{label} {show(memory[key], 'B')}")
    if document.get("host_bytes") is not None:
        host = show(document["host_bytes"], "B")
        has = document.get("host_capacity_bytes")
        of = _(" of {bytes}").format(bytes=show(has, "B")) if has else ""
        parts.append(_("host {bytes} per node").format(bytes=host) + of)
    return words.joined(parts)


def _largest(largest: Json) -> Note | None:
    facts = [
        _("micro-batch {count}").format(count=largest["micro_batch"])
        if largest["micro_batch"] is not None
        else "",
        _("sequence {count}").format(count=largest["seq_len"])
        if largest["seq_len"] is not None
        else "",
        _("rank {count}").format(count=largest["rank"]) if largest.get("rank") is not None else "",
    ]
    text = _(", or ").join(fact for fact in facts if fact)
    return (
        Note(_("Largest that fits, all else unchanged: {facts}").format(facts=text))
        if text
        else None
    )


def _smallest(document: Json) -> Note | None:
    """The smallest device in this count, and the fewest of these devices."""
    smallest, subject = document["smallest"], document["subject"]
    facts = []
    if smallest["card"]:
        memory = show(smallest["card_memory_bytes"], "B")
        facts.append(
            _("{card} ({memory}) as a device").format(card=smallest["card"], memory=memory)
        )
    if smallest["devices"]:
        device = subject["system"].partition(":")[0]
        facts.append(_("{count} of {device}").format(count=smallest["devices"], device=device))
    if not facts:
        return None
    return Note(_("Smallest that holds it: {facts}").format(facts=_(", or ").join(facts)))


def _one_change(document: Json) -> Note | None:
    """The cheapest change that makes it fit."""
    change = document["one_change"]
    if not change:
        return None
    return Note(
        _("The one change: {change} (saves {bytes}{slower}): {flags}")
        .format(
            change=change["change"],
            bytes=show(change["saves_bytes"], "B"),
            slower=_slower(change["slowdown"]),
            flags=change["flags"],
        )
        .rstrip(": "),
        "good",
    )


def _slower(slowdown: float | None) -> str:
    return "" if slowdown is None else _(", {factor} × the time").format(factor=f"{slowdown:.2f}")


def _steps(steps: list[Json]) -> Note:
    """A combination, change by change."""
    told = (
        _("{change} saves {bytes}").format(
            change=step["change"], bytes=words.saving(step["saves_bytes"])
        )
        for step in steps
    )
    return Note(_("Step by step: {steps}").format(steps=_(", then ").join(told)))


def _remedies_table(remedies: list[Json]) -> Table:
    """What each change would save, and whether it is enough."""
    rows = [
        [
            Cell(remedy["change"], remedy["change"]),
            Cell(words.saving(remedy["saves_bytes"]), remedy["saves_bytes"]),
            Cell("–" if remedy["slowdown"] is None else f"{remedy['slowdown']:.2f} ×",
                 remedy["slowdown"]),
            Cell(_("fits"), True, "good") if remedy["fits_after"]
            else Cell(_("not enough"), False, "muted"),
            Cell(remedy["flags"], remedy["flags"]),
        ]
        for remedy in remedies
    ]  # fmt: skip
    return Table(
        _("What would help"),
        (
            Column(_("change"), "change"),
            Column(_("saves"), "saves_bytes", numeric=True),
            Column(_("time"), "slowdown", numeric=True),
            Column(_("after it"), "fits_after"),
            Column(_("flags"), "flags"),
        ),
        rows,
    )


def _after_fit(document: Json) -> NextCommand:
    subject, change = document["subject"], document["one_change"]
    where = f"{words.asked(document['inputs'])} --on {subject['system']}"
    if change and change["flags"]:
        return NextCommand(
            words.command(f"chipwise fit {where}", document["layout"], change["flags"])
        )
    return NextCommand(words.command(f"chipwise explain peak_memory {where}", document["layout"]))
