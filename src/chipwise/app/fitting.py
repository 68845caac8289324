"""The use case ``fit``: does it fit, where does the memory go, what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm

import numpy as np
from numpy.typing import NDArray

from chipwise import rules
from chipwise.app.assumptions import assumptions_of
from chipwise.app.bill import load_warnings, memory_of
from chipwise.app.configured import (
    config_assumptions,
    config_warnings,
    patch_of,
    sources_of,
)
from chipwise.app.describe import layout_of, subject_of
from chipwise.app.documents import FitDocument, Largest
from chipwise.app.evaluation import compare, verdict
from chipwise.app.host import host_bytes, host_fits, host_warnings, paging_warnings
from chipwise.app.jobs import Complete, stated_job, training_warnings
from chipwise.app.observed_job import evaluate_observed
from chipwise.app.overrides import read_overrides
from chipwise.app.remedies import remedies_for
from chipwise.app.requests import FitRequest
from chipwise.app.smallest import fewest_devices, smallest_of
from chipwise.calibration import shipped
from chipwise.columns import training_columns
from chipwise.estimate import evaluate_memory
from chipwise.quantity import Array
from chipwise.spec.job import TrainingJob

_MOST_SEQUENCES = 4096
_LONGEST_SEQUENCE = 2**22
_SEQUENCE_STEP = 64
_RANKS_AT_ONCE = 64


def fit(request: FitRequest) -> FitDocument:
    """Verdict, memory bill, the most that fits, and what to change.

    Raises:
        UsageError: unknown names, several systems, an impossible layout.
    """
    stated, sources = stated_job(request), sources_of(request.job, request.tool)
    overrides = read_overrides(request.set)
    one, point, seen = evaluate_observed(_one_sequence(stated), request.observed, overrides)
    limit = 1 - (request.headroom or 0.0)
    over = point.share > limit or not host_fits(point)
    predicted = limit / seen.memory_factor
    fewest = fewest_devices(one, predicted, overrides)
    remedies, one_change = remedies_for(one, predicted, overrides, fewest) if over else ((), None)
    layout = layout_of(point)
    return FitDocument(
        inputs=request.model_dump(exclude_none=True) | layout.model_dump(),
        assumptions=(
            *config_assumptions(sources),
            *seen.assumptions,
            *assumptions_of(Complete(stated, one.job, one.strategy)),
        ),
        warnings=(
            *config_warnings(sources),
            *seen.warnings,
            *training_warnings(one.job, one.strategy),
            *load_warnings(point),
            *host_warnings(point),
            *paging_warnings(point),
        ),
        subject=subject_of(one.job),
        layout=layout,
        verdict=verdict(point.share, request.headroom) if host_fits(point) else "does not fit",
        memory=memory_of(point),
        host_bytes=host_bytes(point),
        host_capacity_bytes=one.job.node_memory_bytes or None,
        headroom_bytes=limit * point.memory["usable_bytes"] - point.memory["needed_bytes"],
        largest=largest(one, predicted, overrides) if host_fits(point) else Largest(),
        smallest=smallest_of(one, fewest, predicted, overrides),
        remedies=remedies,
        one_change=one_change,
        patch=patch_of(sources, one_change),
        observed=seen.document,
    )


def _one_sequence(job: TrainingJob) -> TrainingJob:
    """With micro-batch 1 where none is stated: the least a job can ask for."""
    if job.strategy.micro_batch is not None:
        return job
    strategy = job.strategy.model_copy(update={"micro_batch": 1})
    return job.model_copy(update={"strategy": strategy})


def largest(one: Complete, limit: float, overrides: Mapping[str, float]) -> Largest:
    """The largest micro-batch and the longest sequence that fit with all else unchanged."""
    inputs, keys = training_columns(one.job, one.strategy)
    columns: dict[str, Array] = {**inputs, **shipped().columns(keys), **overrides}
    dp, cp = one.strategy.dp or 1, one.strategy.cp or 1
    micro_batches = _micro_batches(one, dp)
    in_step = max(1.0, inputs["global_batch"] / (dp * inputs["micro_batch"]))
    grown = {"micro_batch": micro_batches, "global_batch": micro_batches * dp * in_step}
    step = lcm(_SEQUENCE_STEP, cp)
    lengths = np.arange(step, _LONGEST_SEQUENCE + 1, step, dtype=np.float64)
    return Largest(
        micro_batch=_last_fitting(columns | grown, micro_batches, limit),
        seq_len=_last_fitting(columns | {"seq_len": lengths}, lengths, limit),
        rank=_largest_rank(one, limit, overrides),
    )


def _largest_rank(one: Complete, limit: float, overrides: Mapping[str, float]) -> int | None:
    """The largest rank of low-rank adapters: coarse steps, then every rank between two of them."""
    workload = one.job.workload
    if workload.lora_rank is None or workload.trainable_params is not None:
        return None
    widest = one.job.model.hidden
    step = max(1, widest // _RANKS_AT_ONCE)
    low = _last_rank(one, range(step, widest + 1, step), limit, overrides) or 0
    between = range(low + 1, min(low + step, widest) + 1)
    return _last_rank(one, between, limit, overrides) or low or None


def _last_rank(
    one: Complete, ranks: Sequence[int], limit: float, overrides: Mapping[str, float]
) -> int | None:
    workloads = [one.job.workload.model_copy(update={"lora_rank": rank}) for rank in ranks]
    jobs = [(one.job.model_copy(update={"workload": each}), one.strategy) for each in workloads]
    share = compare(jobs, overrides).share if jobs else np.array([])
    fitting = np.flatnonzero(share <= limit)
    return ranks[int(fitting[-1])] if fitting.size else None


def _micro_batches(one: Complete, dp: int) -> NDArray[np.float64]:
    """All sizes, or those that a stated global batch can be made of."""
    stated = one.stated.workload.global_batch
    if stated is None:
        return np.arange(1.0, _MOST_SEQUENCES + 1)
    return np.array(rules.divisors(max(1, stated // dp)), dtype=np.float64)


def _last_fitting(
    columns: Mapping[str, Array], values: NDArray[np.float64], limit: float
) -> int | None:
    found = evaluate_memory(columns, ("needed_bytes", "usable_bytes"))
    fits = np.asarray(found["needed_bytes"]) <= limit * np.asarray(found["usable_bytes"])
    fitting = values[np.broadcast_to(fits, values.shape)]
    return int(fitting[-1]) if fitting.size else None
