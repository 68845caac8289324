"""The page of ``fit --task serve``."""

from __future__ import annotations

from chipwise.i18n import _
from chipwise.report import words
from chipwise.report.page import Cell, Column, NextCommand, Note, Page, Table
from chipwise.report.pages_memory import bill_page
from chipwise.report.words import Json
from chipwise.units import show


def serve_fit_page(document: Json) -> Page:
    """Verdict, what the cache holds, the memory bill, the one change, the engine's flags."""
    return bill_page(
        document,
        verdict=_verdict_line(document),
        subject=_subject(document),
        most=_capacity(document),
        held=_memory_line(document),
        following=_next(document),
    )


def _verdict_line(document: Json) -> str:
    layout, free = document["layout"], document["headroom_bytes"]
    text = _("{verdict}: {n} × {context:,} tokens leave {bytes} per device for more")
    if free < 0:
        text = _("{verdict}: {n} × {context:,} tokens need {bytes} more per device")
    return text.format(
        verdict=words.verdict(document["verdict"]).text,
        n=layout["concurrency"],
        context=layout["context"],
        bytes=show(abs(free), "B"),
    )


def _subject(document: Json) -> Note:
    subject = document["subject"]
    return Note(
        words.joined(
            (
                f"{subject['model']} · {subject['system']}",
                subject["understood"],
                words.serving_layout(document["layout"]),
            )
        )
    )


def _capacity(document: Json) -> Table:
    rows = (
        (_("longest context of one sequence"), "max_context", "1"),
        (_("sequences at once of the context asked for"), "max_concurrency", "1"),
        (_("tokens the KV cache holds"), "kv_tokens", "1"),
        (_("room for keys and values per device"), "kv_room_bytes", "B"),
        (_("keys and values per token"), "kv_bytes_per_token", "B"),
        (_("weights"), "weights_bytes", "B"),
    )
    return Table(
        _("One copy of the model"),
        (Column("", "name"), Column("", "value", numeric=True)),
        [[Cell(title, key), words.amount(document[key], unit)] for title, key, unit in rows],
    )


def _next(document: Json) -> NextCommand:
    """The engine's command line; when nothing fits, the question again with the one change."""
    change = document["one_change"]
    if document["verdict"] != "does not fit" or not change:
        return NextCommand(document["engine_command"])
    subject, layout = document["subject"], document["layout"]
    named = ("engine", "weights_dtype", "kv_dtype", "context", "concurrency",
             "gpu_memory_utilization", "max_num_batched_tokens")  # fmt: skip
    asked = {"on": subject["system"]} | {name: layout[name] for name in named}
    changed = change["flags"].split()[0].removeprefix("--").replace("-", "_")
    flags = [f"--{name.replace('_', '-')} {value}" for name, value in asked.items()
              if name != changed]  # fmt: skip
    flags.append(change["flags"])
    model = words.asked(document["inputs"])
    return NextCommand(f"chipwise fit {model} --task serve {' '.join(flags)}")


def _memory_line(document: Json) -> str:
    memory = document["memory"]
    return _(
        "while serving the device shows {held}; the engine plans with {usable} of {capacity}"
    ).format(
        held=show(memory["reserved_bytes"], "B"),
        usable=show(memory["usable_bytes"], "B"),
        capacity=show(memory["capacity_bytes"], "B"),
    )
