"""JSON schemas of everything that goes in and comes out."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel

from chipwise.app.documents import EstimateDocument, FitDocument, Part, ServeFitDocument
from chipwise.app.documents_facts import (
    CatalogueDocument,
    ErrorDocument,
    ExplainDocument,
    QuantitiesDocument,
    ValidateDocument,
)
from chipwise.app.documents_finetune import FinetuneDocument
from chipwise.app.documents_plan import PlanDocument, StudyDocument
from chipwise.app.documents_serve import EstimateServeDocument
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.requests import REQUESTS
from chipwise.app.serve_request import EstimateServeRequest
from chipwise.errors import UnknownNameError
from chipwise.i18n import _

DOCUMENTS: tuple[type[Part], ...] = (
    PlanDocument,
    FinetuneDocument,
    StudyDocument,
    FitDocument,
    ServeFitDocument,
    EstimateDocument,
    EstimateServeDocument,
    ExplainDocument,
    QuantitiesDocument,
    ValidateDocument,
    CatalogueDocument,
    ErrorDocument,
)
_REQUESTS: tuple[type[BaseModel], ...] = (*REQUESTS, PlanFinetuneRequest, EstimateServeRequest)


def json_schema(name: str | None = None) -> dict[str, Any]:
    """The schemas of inputs, outputs or both, or of one request or document.

    Args:
        name: ``inputs``, ``outputs``, a document such as ``fit``, a request such as
            ``fit-request``; None for all.

    Raises:
        UnknownNameError: no such schema.
    """
    inputs = {_dashed(kind): _schema(kind, "validation") for kind in _REQUESTS}
    outputs = {_dashed(kind): _schema(kind, "serialization") for kind in DOCUMENTS}
    if name is None:
        return {"schema": 1, "inputs": inputs, "outputs": outputs}
    if name == "inputs":
        return inputs
    if name == "outputs":
        return outputs
    known = {**inputs, **outputs}
    if name not in known:
        raise UnknownNameError(_("schema"), name, ["inputs", "outputs", *known], "chipwise schema")
    return known[name]


def _dashed(kind: type[BaseModel]) -> str:
    words = re.findall(r"[A-Z][a-z]+", kind.__name__.removesuffix("Document"))
    return "-".join(words).lower()


def _schema(kind: type[BaseModel], mode: Any) -> dict[str, Any]:
    return kind.model_json_schema(mode=mode)
