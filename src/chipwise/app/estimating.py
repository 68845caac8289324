"""The use case ``estimate train``: time and memory of one configuration."""

from __future__ import annotations

from chipwise.app import costing
from chipwise.app.assumptions import assumptions_of
from chipwise.app.bill import load_warnings, memory_of
from chipwise.app.configured import config_assumptions, config_warnings, sources_of
from chipwise.app.describe import layout_of, performance_of, subject_of
from chipwise.app.documents import EstimateDocument
from chipwise.app.evaluation import verdict
from chipwise.app.jobs import stated_job, training_warnings
from chipwise.app.marginal import marginal_of
from chipwise.app.observed_job import evaluate_observed
from chipwise.app.overrides import read_overrides
from chipwise.app.requests import EstimateTrainRequest
from chipwise.app.running import device_hours_of, duration_of, run_assumptions, run_of


def estimate_train(request: EstimateTrainRequest) -> EstimateDocument:
    """Time, throughput, utilization and memory of one training configuration.

    Raises:
        UsageError: unknown names, several systems, an impossible layout, a useless observation.
    """
    overrides, sources = read_overrides(request.set), sources_of(request.job, request.tool)
    one, point, seen = evaluate_observed(stated_job(request), request.observed, overrides)
    layout = layout_of(point)
    duration = duration_of(point) if request.has_length else None
    return EstimateDocument(
        inputs=request.model_dump(exclude_none=True) | layout.model_dump(),
        assumptions=(
            *config_assumptions(sources),
            *seen.assumptions,
            *run_assumptions(point),
            *costing.cost_assumptions(point),
            *assumptions_of(one),
        ),
        warnings=(
            *config_warnings(sources),
            *seen.warnings,
            *training_warnings(one.job, one.strategy),
            *load_warnings(point),
            *(costing.cost_warnings([point]) if duration else ()),
        ),
        subject=subject_of(one.job),
        layout=layout,
        verdict=verdict(point.share, request.headroom),
        memory=memory_of(point),
        marginal=marginal_of(point, overrides),
        duration_s=duration,
        device_hours=device_hours_of(point, duration) if duration else None,
        cost_usd=costing.cost_of(point, duration) if duration else None,
        energy_kwh=costing.energy_of(point, duration) if duration else None,
        price=costing.price_of(point),
        run=run_of(point),
        observed=seen.document,
        **performance_of(point),
    )
