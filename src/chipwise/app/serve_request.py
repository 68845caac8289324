"""The question ``estimate serve``: one deployment of a model under its traffic."""

from __future__ import annotations

from datetime import date
from typing import Annotated, ClassVar

from chipwise.app.fields import Fold, Positive, Share, Systems, Whole
from chipwise.app.requests import EngineName, FitRequest, KvDtype, Request, parse_request
from chipwise.spec.job import Dtype
from chipwise.spec.price import Market

USUAL_PROMPT, USUAL_ANSWER = 1024, 256
"""Tokens where nothing is said: a question with some context, and a paragraph."""
_SETUP = (
    *("model", "on", "engine", "precision", "weights_dtype", "kv_dtype", "tp", "pp", "dp"),
    *("gpu_memory_utilization", "max_num_batched_tokens", "max_num_seqs", "headroom", "catalogue"),
)


class EstimateServeRequest(Request):
    """Time to first token, time per token, throughput and memory of one deployment."""

    use_case: ClassVar[str] = "estimate_serve"
    model: str
    on: Systems
    engine: Annotated[EngineName, Fold] | None = None
    precision: Annotated[Dtype, Fold] | None = None
    weights_dtype: str | None = None
    kv_dtype: Annotated[KvDtype, Fold] | None = None
    tp: Whole | None = None
    pp: Whole | None = None
    dp: Whole | None = None
    """Copies of the model side by side."""
    input_len: Whole = USUAL_PROMPT
    """Tokens of a prompt."""
    output_len: Whole = USUAL_ANSWER
    """Tokens of an answer."""
    concurrency: Whole | None = None
    """Users at once, each with its next prompt when answered; else as many as fit."""
    gpu_memory_utilization: Positive | None = None
    max_num_batched_tokens: Whole | None = None
    max_num_seqs: Whole | None = None
    headroom: Share | None = None
    market: Annotated[Market, Fold] = "on-demand"
    as_of: date | None = None

    def setup_request(self) -> FitRequest:
        """The question ``fit --task serve`` about the same setup."""
        stated = self.model_dump(exclude_none=True)
        fields = {name: stated[name] for name in _SETUP if name in stated}
        lengths = {"context": self.input_len + self.output_len, "concurrency": 1}
        return parse_request(FitRequest, {**fields, **lengths, "task": "serve"})
