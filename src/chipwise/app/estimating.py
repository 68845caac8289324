"""The use case ``estimate train``: time and memory of one configuration."""

from __future__ import annotations

from chipwise.app.assumptions import assumptions_of
from chipwise.app.bill import load_warnings, memory_of
from chipwise.app.describe import layout_of, performance_of, subject_of
from chipwise.app.documents import EstimateDocument
from chipwise.app.evaluation import evaluate, read_overrides, verdict
from chipwise.app.jobs import complete, stated_job, training_warnings
from chipwise.app.requests import EstimateTrainRequest


def estimate_train(request: EstimateTrainRequest) -> EstimateDocument:
    """Time, throughput, utilization and memory of one training configuration.

    Raises:
        UsageError: unknown names, several systems, an impossible layout.
    """
    overrides = read_overrides(request.set)
    one = complete(stated_job(request), overrides)
    point = evaluate(one.job, one.strategy, overrides)
    layout = layout_of(point)
    return EstimateDocument(
        inputs=request.model_dump(exclude_none=True) | layout.model_dump(),
        assumptions=assumptions_of(one),
        warnings=(*training_warnings(one.job, one.strategy), *load_warnings(point)),
        subject=subject_of(one.job),
        layout=layout,
        verdict=verdict(point.share, request.headroom),
        memory=memory_of(point),
        **performance_of(point),
    )
