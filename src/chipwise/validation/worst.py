"""What is unusual about a row that is predicted badly.

Each rule reads the row's configuration cells, its verdict or other rows with equal cells; none
knows a source, an id or a model's name. A rule that holds is a possible reason, not a proof:
`evidence` says how much worse the rows are on which it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chipwise.catalogue.frameworks import stacks
from chipwise.validation.rows import framework_in
from chipwise.validation.score import Scored

Cells = Mapping[str, str]
WIDE_SPREAD = 0.15
"""Largest over smallest value of one configuration, minus one, from which it counts as noisy."""
SHORT_STEP = 0.2
"""Seconds below which gaps on the host are a large part of a step."""
_OUTCOME = frozenset(
    {"id", "source", "source_ref", "published", "notes", "value", "config_id", "framework_version"}
)
_INFERRED = ("inferred", "derived", "recalled", "not printed", "not stated", "does not match")


@dataclass(frozen=True)
class Seen:
    """A row, its prediction, and what other rows say about it."""

    cells: Cells
    scored: Scored
    spread: float
    """Largest over smallest value among rows with equal cells, minus one."""
    family_sources: int
    """Sources that measure the same metric on this accelerator."""

    def number(self, name: str) -> float:
        """A cell as a number; 0 where it is empty or no number."""
        try:
            return float(self.cells.get(name) or 0)
        except ValueError:
            return 0.0

    def blank(self, *names: str) -> bool:
        """None of the cells is stated."""
        return not any((self.cells.get(name) or "").strip() for name in names)

    @property
    def is_memory(self) -> bool:
        """The row measures memory."""
        return self.scored.metric == "peak_memory_gb"

    @property
    def nodes(self) -> float:
        """Fast-link domains the run spans; 1 where the domain is not stated."""
        return self.number("num_devices") / (self.number("devices_per_node") or np.inf) or 1.0


@dataclass(frozen=True)
class Rule:
    """A sentence that may explain a large error, and when it holds."""

    sentence: str
    holds: Callable[[Seen], bool]


def _variable_length(seen: Seen) -> bool:
    return seen.cells.get("packing") == "no" or seen.cells.get("padded") == "yes"


def _too_few_sequences(seen: Seen) -> bool:
    split = [seen.number(name) or 1.0 for name in ("tp", "pp", "cp")]
    ranks = seen.number("dp") or seen.number("num_devices") / (split[0] * split[1] * split[2])
    return 0 < seen.number("global_batch") < ranks


def _noted(seen: Seen) -> bool:
    notes = seen.cells.get("notes", "").lower()
    return any(word in notes for word in _INFERRED)


RULES = (
    Rule(
        "equal configurations were measured more than once, over 15 % apart",
        lambda seen: seen.spread > WIDE_SPREAD,
    ),
    Rule(
        "the parallel layout is not stated",
        lambda seen: seen.number("num_devices") > 1 and seen.blank("tp", "pp", "shard"),
    ),
    Rule(
        "fewer sequences than data-parallel ranks: part of the layout is not stated",
        _too_few_sequences,
    ),
    Rule(
        "a configuration cell is inferred or missing in the source, says its note",
        _noted,
    ),
    Rule(
        "memory is nearly full or over: allocators retry, or unseen settings kept it smaller",
        lambda seen: seen.scored.verdict != "fits",
    ),
    Rule(
        "samples of unequal length: what was padded and the longest sample are not stated",
        _variable_length,
    ),
    Rule(
        "a pipeline in eager PyTorch: stages wait for the host",
        lambda seen: (
            not seen.is_memory
            and seen.number("pp") > 1
            and stacks()[framework_in(seen.cells)].host_driven_pipeline
        ),
    ),
    Rule(
        "tensor parallelism crosses nodes",
        lambda seen: (
            not seen.is_memory and seen.number("tp") > (seen.number("devices_per_node") or np.inf)
        ),
    ),
    Rule(
        "the network between nodes is not stated",
        lambda seen: (
            not seen.is_memory
            and seen.nodes > 1
            and seen.blank("internode_gbps_per_device", "network")
        ),
    ),
    Rule(
        "only one source measures this accelerator",
        lambda seen: seen.family_sources == 1,
    ),
    Rule(
        "mixture of experts: kernels and dispatch differ by release",
        lambda seen: not seen.is_memory and seen.number("num_experts") > 1,
    ),
    Rule(
        "recompute is not stated",
        lambda seen: seen.blank("recompute"),
    ),
    Rule(
        "the micro-batch is not stated",
        lambda seen: seen.blank("micro_batch"),
    ),
    Rule(
        "the step is shorter than 0.2 s: gaps on the host dominate",
        lambda seen: seen.scored.metric == "step_time_s" and seen.scored.predicted < SHORT_STEP,
    ),
    Rule(
        "an adapter on a frozen model: libraries differ in what they keep",
        lambda seen: (seen.cells.get("method") or "full") != "full",
    ),
    Rule(
        "state is moved to the host",
        lambda seen: (seen.cells.get("offload") or "none") != "none",
    ),
)
UNEXPLAINED = "no known reason"


@dataclass(frozen=True)
class Evidence:
    """Rows on which a rule holds against all others of its kind (speed or memory)."""

    rule: Rule
    n: int
    median: float
    elsewhere: float

    @property
    def is_worse(self) -> bool:
        """Rows on which the rule holds really have the larger error."""
        return self.median > self.elsewhere


def look(rows: Sequence[Scored], cells: Mapping[str, Cells]) -> list[Seen]:
    """Rows with their cells, and what equal configurations and other sources say.

    Args:
        rows: predicted rows.
        cells: the file's cells by row id.
    """
    values: dict[object, list[float]] = {}
    sources: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        values.setdefault(_configuration(cells[row.id]), []).append(row.measured)
        sources.setdefault((row.accelerator, row.metric), set()).add(row.source)
    seen = []
    for row in rows:
        same = values[_configuration(cells[row.id])]
        spread = max(same) / min(same) - 1 if min(same) > 0 else 0.0
        known = sources[row.accelerator, row.metric]
        seen.append(Seen(cells[row.id], row, spread, len(known)))
    return seen


def evidence(rows: Sequence[Seen]) -> list[Evidence]:
    """For each rule that holds anywhere, the median error where it does and where it does not."""
    found = []
    for rule in RULES:
        held = [bool(rule.holds(one)) for one in rows]
        yes, no = (
            [
                one.scored.error or 0.0
                for one, is_held in zip(rows, held, strict=True)
                if is_held == x
            ]
            for x in (True, False)
        )
        if yes:
            elsewhere = float(np.median(no)) if no else float("nan")
            found.append(Evidence(rule, len(yes), float(np.median(yes)), elsewhere))
    return found


def reasons(one: Seen, known: Sequence[Evidence], most: int = 2) -> list[str]:
    """Sentences of the rules that hold, those on the worst rows first.

    Rules whose rows are no worse than others explain nothing and are left out.
    """
    ranked = sorted(known, key=lambda e: e.elsewhere / e.median if e.median else np.inf)
    holding = [e.rule.sentence for e in ranked if e.is_worse and e.rule.holds(one)]
    return holding[:most] or [UNEXPLAINED]


def _configuration(cells: Cells) -> object:
    return tuple(sorted((k, v) for k, v in cells.items() if k not in _OUTCOME))
