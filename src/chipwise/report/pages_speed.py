"""The page of ``estimate serve``."""

from __future__ import annotations

from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.page import Block, Cell, Column, NextCommand, Note, Page, Table, page
from chipwise.report.pages_memory import memory_bill
from chipwise.report.words import Json
from chipwise.units import show

_SEEN = (
    ("ttft_s", "s"),
    ("tpot_s", "s"),
    ("e2e_latency_s", "s"),
    ("tokens_per_s_per_user", "1/s"),
    ("output_tokens_per_s", "1/s"),
    ("total_tokens_per_s", "1/s"),
    ("requests_per_s", "1/s"),
    ("output_tokens_per_s_per_device", "1/s"),
)


def serve_speed_page(document: Json) -> Page:
    """What users see and the deployment delivers, where a step goes, the memory bill."""
    seen = _seen(document)
    blocks: tuple[Block | None, ...] = (
        Note(_headline(document), words.VERDICT_TONES.get(document["verdict"], "plain")),
        Note(_subject(document)),
        _money(document),
        seen,
        _parts(_("One decode step"), document["step_parts"]),
        _parts(_("Reading one prompt alone"), document["prompt_parts"]),
        memory_bill(document["memory"]),
        words.warnings(document),
        words.assumptions(document),
        NextCommand(document["engine_command"]),
    )
    return page(_("Serving"), seen, blocks)


def _headline(document: Json) -> str:
    rate, token = document["output_tokens_per_s"]["likely"], document["tpot_s"]["likely"]
    text = _("{users} users at once: first token after {first}, then one every {token}; "
             "{rate} tokens/s in all; bound by {bound}")  # fmt: skip
    return text.format(
        users=document["traffic"]["concurrency"],
        first=show(document["ttft_s"]["likely"], "s"),
        token=show(token, "s"),
        rate=f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}",
        bound=document["bound_by"],
    )


def _subject(document: Json) -> str:
    subject, traffic = document["subject"], document["traffic"]
    lengths = _("prompts of {n:,}, answers of {m:,} tokens").format(
        n=traffic["input_len"], m=traffic["output_len"]
    )
    return words.joined(
        (
            f"{subject['model']} · {subject['system']}",
            subject["understood"],
            words.serving_layout(document["layout"]),
            lengths,
        )
    )


def _money(document: Json) -> Note | None:
    price = document["usd_per_million_output_tokens"]
    if price is None:
        return None
    text = _(
        "{usd} USD per million output tokens ({low} – {high}); {hour} USD an hour, seen {seen}"
    )
    return Note(
        text.format(
            usd=f"{price['likely']:.3g}",
            low=f"{price['low']:.3g}",
            high=f"{price['high']:.3g}",
            hour=f"{document['usd_per_hour']:.4g}",
            seen=document["price_seen"],
        )
    )


def _seen(document: Json) -> Table:
    titles = {
        "ttft_s": _("time to first token (TTFT)"),
        "tpot_s": _("time per output token (TPOT)"),
        "e2e_latency_s": _("whole answer"),
        "tokens_per_s_per_user": _("tokens/s of one user"),
        "output_tokens_per_s": _("output tokens/s"),
        "total_tokens_per_s": _("tokens/s, prompts included"),
        "requests_per_s": _("requests/s"),
        "output_tokens_per_s_per_device": _("output tokens/s per device"),
    }
    rows = []
    for name, unit in _SEEN:
        one = document[name]
        rows.append([Cell(titles[name], name),
                     *(_amount(one[end], unit) for end in ("likely", "low", "high"))])  # fmt: skip
    return Table(
        _("What users see, and what comes out"),
        (
            Column("", "name"),
            Column(_("likely"), "likely", numeric=True),
            Column(_("low"), "low", numeric=True),
            Column(_("high"), "high", numeric=True),
        ),
        rows,
    )


def _amount(value: float, unit: str) -> Cell:
    if unit == "s":
        return Cell(show(value, "s"), value)
    return Cell(f"{value:,.0f}" if value >= 100 else f"{value:.3g}", value)


def _parts(title: str, parts: list[Json]) -> Table:
    rows = [
        [
            Cell(part["name"], part["name"]),
            Cell(show(part["seconds"], "s"), part["seconds"]),
            Cell(words.share(part["share"]), part["share"]),
        ]
        for part in parts
    ]
    return Table(
        title,
        (
            Column(_("part"), "part"),
            Column(_("time"), "seconds", numeric=True),
            Column(_("share"), "share", numeric=True),
        ),
        rows,
    )
