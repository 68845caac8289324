"""The use case ``fit``: does it fit, where does the memory go, what would change it."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm

import numpy as np
from numpy.typing import NDArray

from chipwise import rules
from chipwise.app.assumptions import assumptions_of
from chipwise.app.bill import load_warnings, memory_of
from chipwise.app.describe import layout_of, subject_of
from chipwise.app.documents import FitDocument, Largest
from chipwise.app.evaluation import verdict
from chipwise.app.host import host_bytes, host_warnings, paging_warnings
from chipwise.app.jobs import Complete, stated_job, training_warnings
from chipwise.app.observed_job import evaluate_observed
from chipwise.app.overrides import read_overrides
from chipwise.app.remedies import remedies_for
from chipwise.app.requests import FitRequest
from chipwise.calibration import shipped
from chipwise.columns import training_columns
from chipwise.estimate import evaluate_memory
from chipwise.quantity import Array
from chipwise.spec.job import TrainingJob

_MOST_SEQUENCES = 4096
_LONGEST_SEQUENCE = 2**22
_SEQUENCE_STEP = 64


def fit(request: FitRequest) -> FitDocument:
    """Verdict, memory bill, the most that fits, and what to change.

    Raises:
        UsageError: unknown names, several systems, an impossible layout.
    """
    stated = stated_job(request)
    overrides = read_overrides(request.set)
    one, point, seen = evaluate_observed(_one_sequence(stated), request.observed, overrides)
    limit = 1 - (request.headroom or 0.0)
    over = point.share > limit
    predicted = limit / seen.memory_factor
    remedies, one_change = remedies_for(one, predicted, overrides) if over else ((), None)
    layout = layout_of(point)
    host = host_bytes(point)
    return FitDocument(
        inputs=request.model_dump(exclude_none=True) | layout.model_dump(),
        assumptions=(
            *seen.assumptions,
            *assumptions_of(Complete(stated, one.job, one.strategy)),
        ),
        warnings=(
            *seen.warnings,
            *training_warnings(one.job, one.strategy),
            *load_warnings(point),
            *host_warnings(one.job, host),
            *paging_warnings(point),
        ),
        subject=subject_of(one.job),
        layout=layout,
        verdict=verdict(point.share, request.headroom),
        memory=memory_of(point),
        host_bytes=host,
        headroom_bytes=limit * point.memory["usable_bytes"] - point.memory["needed_bytes"],
        largest=largest(one, predicted, overrides),
        remedies=remedies,
        one_change=one_change,
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
    )


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
