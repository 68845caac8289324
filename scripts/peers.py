"""Rows on which public planners were measured, and their errors beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from chipwise.validation.accuracy import level
from chipwise.validation.score import Scored

Cells = Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """Rows by a predicate on their cells, and what peers reach on them."""

    title: str
    holds: Callable[[Cells], bool]
    peers: str
    signed: bool = False
    """One row: show the signed error of the rate instead of a mean."""


def _table_5(cells: Cells) -> bool:
    return "Table 5" in cells["source_ref"] and cells["metric"] == "step_time_s"


def _vtrain(cells: Cells, *, several_nodes: bool) -> bool:
    return cells["source"] == "vtrain-a100" and (float(cells["num_devices"]) > 8) == several_nodes


def _truncated_b200(cells: Cells, metric: str) -> bool:
    return cells["source"] == "simumax" and cells["metric"] == metric


def _llama_65b(cells: Cells) -> bool:
    return (
        (cells["layers"], cells["hidden"], cells["num_devices"]) == ("80", "8192", "2048")
        and cells["accelerator"] == "a100-sxm-80"
        and cells["metric"] == "tokens_per_s_per_device"
    )


PEERS = (
    Comparison(
        "Megatron-LM, Table 5 of arXiv 2205.05198, step time on 8–512 A100",
        _table_5,
        "Calculon 3.65 % (largest 8.9 %), with one A100 file for time and another for memory; "
        "SimuMax 4.2 %",
    ),
    Comparison(
        "vTrain's measurements on several nodes, step time on 64–512 A100",
        lambda cells: _vtrain(cells, several_nodes=True),
        "Calculon 11.1 % (103 rows); SimuMax 12.5 %",
    ),
    Comparison(
        "vTrain's measurements on one node, step time of small models on 1–8 A100",
        lambda cells: _vtrain(cells, several_nodes=False),
        "Calculon 38.9 % (1,440 rows); SimuMax 27.5 %",
    ),
    Comparison(
        "SimuMax's own measurements, step time on 8 B200",
        lambda cells: _truncated_b200(cells, "step_time_s"),
        "SimuMax 5.6 %, profiled on that machine",
    ),
    Comparison(
        "SimuMax's own measurements, allocated memory on 8 B200",
        lambda cells: _truncated_b200(cells, "peak_memory_gb"),
        "SimuMax 0.5 %",
    ),
    Comparison(
        "LLaMA-65B on 2,048 A100-80, 380 tokens/s per GPU, layout not published",
        _llama_65b,
        "Calculon −7.5 … −17 %; SimuMax −22 … −38 %; llm-analysis −69 %",
        signed=True,
    ),
)


def peer_table(
    cells: Mapping[str, Cells],
    own: Mapping[str, Scored],
    left_out: Mapping[str, Scored],
    percent: Callable[..., str],
) -> Iterator[str]:
    """A table: rows, n, our mean and largest error as shipped and left out, the peers'."""
    yield "| Rows | n | as shipped: mean (largest) | source left out | Peers, mean |"
    yield "|---|--:|--:|--:|---|"
    for one in PEERS:
        ids = [i for i, row in cells.items() if one.holds(row) and i in own and own[i].trusted]
        if not ids:
            raise ValueError(f"no row for {one.title}")
        texts = []
        for rows in (own, left_out):
            if one.signed:
                texts.append(percent(float(np.expm1(level(rows[ids[0]]))), signed=True))
                continue
            errors = [rows[i].error or 0.0 for i in ids]
            texts.append(f"{percent(float(np.mean(errors)))} ({percent(max(errors))})")
        yield f"| {one.title} | {len(ids)} | {texts[0]} | {texts[1]} | {one.peers} |"
    yield ""
