"""Use cases: a request in, a document out, the same for every way in.

Each function loads its own module when it is called, so that importing this package is cheap.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chipwise.app import (
        documents,
        documents_facts,
        documents_finetune,
        documents_plan,
        documents_serve,
        finetune_request,
        requests,
        serve_request,
    )


def _arithmetic(request: requests.JobRequest) -> AbstractContextManager[object]:
    """Where values are set by hand, what divides by zero is an answer to refuse, not a warning."""
    if not request.set:
        return nullcontext()
    import numpy as np

    return np.errstate(all="ignore")


def fit(
    request: requests.FitRequest,
) -> documents.FitDocument | documents.ServeFitDocument:
    """Does the job fit, where does the memory go, and what would change it."""
    if request.task == "serve":
        from chipwise.app import fit_serve

        with _arithmetic(request):
            return fit_serve.fit_serve(request)
    from chipwise.app import fitting

    with _arithmetic(request):
        return fitting.fit(request)


def estimate_train(request: requests.EstimateTrainRequest) -> documents.EstimateDocument:
    """Time and memory of one training configuration."""
    from chipwise.app import estimating

    with _arithmetic(request):
        return estimating.estimate_train(request)


def estimate_serve(
    request: serve_request.EstimateServeRequest,
) -> documents_serve.EstimateServeDocument:
    """What users of one deployment see, and what it delivers."""
    from chipwise.app import serve_speed

    return serve_speed.estimate_serve(request)


def plan_train(request: requests.PlanTrainRequest) -> documents_plan.PlanDocument:
    """Ranked systems and layouts for a training job."""
    from chipwise.app import planning

    with _arithmetic(request):
        return planning.plan_train(request)


def plan_finetune(
    request: finetune_request.PlanFinetuneRequest,
) -> documents_finetune.FinetuneDocument:
    """Hardware and methods ranked for training on a data set."""
    from chipwise.app import finetune

    with _arithmetic(request):
        return finetune.plan_finetune(request)


def plan_study(request: requests.PlanStudyRequest) -> documents_plan.StudyDocument:
    """Plans for all jobs of a study file, stored as they are made."""
    from chipwise.app import study

    return study.plan_study(request)


def explain(
    request: requests.ExplainRequest,
) -> documents_facts.ExplainDocument | documents_facts.QuantitiesDocument:
    """The tree of quantities behind one value, or the list of quantities."""
    from chipwise.app import explaining

    with _arithmetic(request):
        return explaining.explain(request)


def validate(request: requests.ValidateRequest) -> documents_facts.ValidateDocument:
    """Predictions against measurements."""
    from chipwise.app import validating

    return validating.validate(request)


def catalogue(request: requests.CatalogueRequest) -> documents_facts.CatalogueDocument:
    """List, show or check the catalogue."""
    from chipwise.app import browse

    return browse.catalogue(request)
