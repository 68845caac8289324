"""One complete job evaluated in full: every quantity of its memory and of its time, as numbers.

All use cases go through here, so that a plan and an estimate of the same layout agree exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from chipwise.app.documents import Verdict
from chipwise.app.overrides import require_sound
from chipwise.calibration import shipped
from chipwise.columns import stack_columns, training_columns
from chipwise.estimate import MEMORY, TIME, evaluate_memory, evaluate_time
from chipwise.physics import MODEL
from chipwise.quantity import Array
from chipwise.spec.job import Strategy, TrainingJob
from chipwise.validation.observed import Shift, apply_shift

TIGHT = 0.9
"""Above this share of the usable memory a job that fits is called tight."""
Scalars = Mapping[str, float]
UNMOVED = Shift(0.0, 0.0, 1.0, 1.0)
"""Nothing was observed."""
_PEAKS = ("allocated_bytes", "reserved_bytes", "process_bytes", "needed_bytes")
"""What observed memory moves."""


@dataclass(frozen=True)
class Evaluated:
    """A complete job with all its numbers: inputs, intermediates and results."""

    job: TrainingJob
    strategy: Strategy
    keys: Mapping[str, str]
    """Calibration group by axis."""
    memory: Scalars
    """At the fullest stage."""
    time: Scalars
    overridden: frozenset[str]
    memory_quantities: frozenset[str]
    """Quantities of the memory bill: asked on their own, they are the fullest stage's."""
    shift: Shift = UNMOVED
    """What the user's own runs on this machine say; the numbers are moved by it already."""

    @property
    def share(self) -> float:
        """Needed over usable memory; infinite where nothing is usable."""
        usable = self.memory["usable_bytes"]
        return self.memory["needed_bytes"] / usable if usable > 0 else inf


def evaluate(
    job: TrainingJob,
    strategy: Strategy,
    overrides: Mapping[str, float] | None = None,
    also: Sequence[str] = (),
    shift: Shift = UNMOVED,
) -> Evaluated:
    """Every quantity of one complete job.

    Args:
        job: a job with nothing left unsaid.
        strategy: its strategy, complete.
        overrides: values in SI units that replace inputs, constants or quantities.
        also: quantities wanted beside those of memory and time.
        shift: what own runs on this machine say; a step time in ``overrides`` is not moved.

    Raises:
        UsageError: these overrides leave no sensible result.
    """
    inputs, keys = training_columns(job, strategy)
    columns: dict[str, Array] = {**inputs, **shipped().columns(keys), **(overrides or {})}
    computed = _without_quantities(columns, overrides or {})
    memory = evaluate_memory(columns, MEMORY, keep_all=True)
    bill = frozenset(memory)
    if also:
        memory = evaluate_memory(columns, (*MEMORY, *also), keep_all=True)
    wanted = (*TIME, "duration", *also)
    time = evaluate_time(columns, wanted, keep_all=True)
    if shift.time and "step_time" not in columns:
        moved, _width = apply_shift(shift, "step_time_s", float(time["step_time"]), 0.0)
        time |= evaluate_time(columns | {"step_time": moved}, wanted, keep_all=True)
    if computed is not None:
        memory = evaluate_memory(computed, MEMORY, keep_all=True) | columns | memory
        time = evaluate_time(computed, wanted, keep_all=True) | columns | time
    for name in _PEAKS if shift.memory else ():
        memory[name], _width = apply_shift(shift, "peak_memory_gb", float(memory[name]), 0.0)
    results = {name: memory[name] for name in MEMORY} | {
        name: time[name] for name in (*TIME, "duration")
    }
    require_sound(_numbers(results), overrides)
    return Evaluated(
        job,
        strategy,
        keys,
        _numbers(columns | memory),
        _numbers(columns | {"stage_is_first": 1.0} | time),
        frozenset(overrides or ()),
        bill.union(name for name in also if MODEL[name].unit == "B"),
        shift,
    )


def _without_quantities(
    columns: Mapping[str, Array], overrides: Mapping[str, float]
) -> dict[str, Array] | None:
    """The columns without measured quantities, which hide what they are made of; None if none.

    What a measured value consists of is still wanted: its parts are computed and scaled to it.
    """
    if not any(name in MODEL for name in overrides):
        return None
    return {name: value for name, value in columns.items() if name not in MODEL}


def _numbers(values: Mapping[str, Array]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


@dataclass(frozen=True)
class Rough:
    """Many complete jobs, only what comparing them takes. Each array has shape (jobs,)."""

    needed: NDArray[np.float64]
    usable: NDArray[np.float64]
    host_needed: NDArray[np.float64]
    """Host memory that one node needs. [B]"""
    tokens_per_s: NDArray[np.float64]

    @property
    def share(self) -> NDArray[np.float64]:
        """Needed over usable memory; infinite where nothing is usable."""
        usable = np.where(self.usable > 0, self.usable, 1.0)
        return np.where(self.usable > 0, self.needed / usable, np.inf)


def compare(
    jobs: Sequence[tuple[TrainingJob, Strategy]], overrides: Mapping[str, float] | None = None
) -> Rough:
    """Memory and throughput of several complete jobs in one evaluation."""
    inputs, keys = stack_columns([training_columns(*job) for job in jobs])
    columns: dict[str, Array] = {**inputs, **shipped().columns(keys), **(overrides or {})}
    bytes_wanted = ("needed_bytes", "usable_bytes", "host_needed_bytes")
    memory = evaluate_memory(columns, bytes_wanted)
    time = evaluate_time(columns, ("tokens_per_s",))
    found = [np.asarray(memory[name]) for name in bytes_wanted] + [np.asarray(time["tokens_per_s"])]
    return Rough(*(np.broadcast_to(value, (len(jobs),)) for value in found))


def verdict(share: float, headroom: float | None = None) -> Verdict:
    """In words: more than the limit does not fit, over 90 % of it is tight.

    Args:
        share: needed over usable memory.
        headroom: share of the memory that must stay free.
    """
    used = share / (1 - (headroom or 0.0))
    if not used <= 1:
        return "does not fit"
    return "tight" if used > TIGHT else "fits"
