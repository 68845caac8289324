"""From columns to an estimate: the fullest pipeline stage, the chosen strategy, the numbers.

The memory model is evaluated for the first and for the last pipeline stage and the fuller one
wins; the time model then runs once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import Calibration
from chipwise.columns import stack_columns, training_columns
from chipwise.defaults import Resolved
from chipwise.physics import MODEL
from chipwise.quantity import Array
from chipwise.spec.job import Strategy

MEMORY_PARTS = (
    "weights_resident_bytes",
    "adapter_bytes",
    "gradient_bytes",
    "optimizer_state_bytes",
    "communication_buffer_bytes",
    "kept_activation_bytes",
    "recomputed_layer_bytes",
    "working_bytes",
    "logits_bytes",
    "gathered_weights_bytes",
    "gathered_gradient_bytes",
    "dequantised_bytes",
    "optimizer_step_bytes",
    "reference_bytes",
    "reward_model_bytes",
    "teacher_bytes",
    "critic_states_bytes",
    "frozen_logits_bytes",
    "rollout_weights_bytes",
    "rollout_cache_bytes",
)
MEMORY = (
    *("allocated_bytes", "reserved_bytes", "process_bytes", "needed_bytes", "usable_bytes"),
    *("load_peak_bytes", "save_peak_bytes", "host_needed_bytes"),
    *("host_bytes", "host_load_bytes", "unpartitioned_load_bytes"),
)
TIME_PARTS = (
    "busy_time",
    "bubble_time",
    "sync_exposed_time",
    "optimizer_time",
    "step_host_time",
    "straggler_time",
    "companion_time",
)
TIME = ("step_time", "tokens_per_s", "tokens_per_s_per_device", "mfu", "hfu")


def evaluate_memory(
    columns: Mapping[str, Array], targets: Sequence[str] = MEMORY, *, keep_all: bool = False
) -> dict[str, Array]:
    """Memory of the fullest device.

    Args:
        columns: all inputs and constants, broadcastable.
        targets: quantities wanted.
        keep_all: return every intermediate as well.

    Returns:
        Values of the fuller of first and last stage, elementwise; ``stage_is_first`` and
        ``stage_is_last`` say which it was.
    """
    alone = np.asarray(columns["pp"]) == 1
    first = _first_stage(columns)
    at_first = MODEL.evaluate(first, (*targets, "needed_bytes"), keep_all=keep_all)
    if bool(np.all(alone)):
        return at_first | {"stage_is_first": 1.0, "stage_is_last": 1.0}
    last = dict(columns) | {"stage_is_first": np.where(alone, 1.0, 0.0), "stage_is_last": 1.0}
    at_last = MODEL.evaluate(last, (*targets, "needed_bytes"), keep_all=keep_all)
    fuller = at_last["needed_bytes"] > at_first["needed_bytes"]
    chosen: dict[str, Array] = {
        name: np.where(fuller, at_last[name], value) for name, value in at_first.items()
    }
    for name in ("stage_is_first", "stage_is_last"):
        chosen[name] = np.where(fuller, last[name], first[name])
    return chosen


def evaluate_first_stage(
    columns: Mapping[str, Array], targets: Sequence[str] = MEMORY
) -> dict[str, Array]:
    """Memory of the stage with the embedding alone: never more than that of the fullest device.

    Args:
        columns: all inputs and constants, broadcastable.
        targets: quantities wanted.
    """
    return MODEL.evaluate(_first_stage(columns), targets)


def _first_stage(columns: Mapping[str, Array]) -> dict[str, Array]:
    alone = np.asarray(columns["pp"]) == 1
    return dict(columns) | {"stage_is_first": 1.0, "stage_is_last": np.where(alone, 1.0, 0.0)}


def evaluate_time(
    columns: Mapping[str, Array], targets: Sequence[str] = TIME, *, keep_all: bool = False
) -> dict[str, Array]:
    """Time of one step; the parameters to synchronise are those of the embedding stage.

    Where sequences differ in length, steps take the time of the slowest rank's, and rates count
    the tokens that are computed on average; memory is that of the longest.
    """
    first = _first_stage(columns)
    if np.all(np.asarray(columns.get("slowest_share", 1.0)) == 1):
        return MODEL.evaluate(first, targets, keep_all=keep_all)
    length = MODEL.evaluate(first, ("padded_length", "paced_length"))
    paced = first | {"seq_len": length["paced_length"]}
    stepping = MODEL.evaluate(paced, ("step_time",), keep_all=keep_all)
    if set(targets) <= set(stepping):
        return stepping
    counted = {"seq_len": length["padded_length"], "step_time": stepping["step_time"]}
    if "tokens" in first:
        counted["tokens"] = first["tokens"] * first["padded_share"]
    rates = MODEL.evaluate(first | counted, targets, keep_all=keep_all)
    return {**rates, **stepping, **(counted if keep_all else {})}


@dataclass(frozen=True)
class Chosen:
    """Complete jobs as columns, with the strategy that was chosen for each."""

    strategies: tuple[Strategy, ...]
    columns: dict[str, Array]
    """Shape (jobs,) each, constants left out."""
    keys: dict[str, NDArray[np.str_]]


def choose(resolved: Sequence[Resolved], calibration: Calibration) -> Chosen:
    """For each job the first of its alternatives that fits, else its leanest one.

    Args:
        resolved: jobs with their alternatives.
        calibration: constants for the memory model that decides.
    """
    rows = [
        (training_columns(one.job, strategy), strategy)
        for one in resolved
        for strategy in one.alternatives
    ]
    columns, keys = stack_columns([row for row, _ in rows])
    memory = evaluate_memory(columns | calibration.columns(keys), ("needed_bytes", "usable_bytes"))
    share = np.broadcast_to(
        np.asarray(memory["needed_bytes"]) / np.asarray(memory["usable_bytes"]), (len(rows),)
    )
    picked: list[int] = []
    start = 0
    for one in resolved:
        shares = share[start : start + len(one.alternatives)]
        fitting = np.flatnonzero(shares <= one.patience)
        picked.append(start + int(fitting[0] if len(fitting) else np.argmin(shares)))
        start += len(one.alternatives)
    index = np.array(picked)
    return Chosen(
        tuple(rows[i][1] for i in picked),
        {name: np.asarray(value)[index] for name, value in columns.items()},
        {axis: value[index] for axis, value in keys.items()},
    )
