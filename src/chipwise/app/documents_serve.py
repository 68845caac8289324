"""The document of ``estimate serve``."""

from __future__ import annotations

from typing import Literal

from chipwise.app.documents import Document, Memory, Part, Range, ServeLayout, Subject, Verdict


class TrafficUsed(Part):
    """What the deployment is asked for, gaps filled."""

    input_len: int
    output_len: int
    concurrency: int
    """Users at once, over all copies."""
    resident: float
    """Sequences that one copy decodes at once; users beyond them wait."""


class StepPart(Part):
    """A part of one decode step, or of reading one prompt."""

    name: str
    seconds: float
    share: float


class EstimateServeDocument(Document):
    """What users of one deployment see, what it delivers, and where the time goes."""

    command: str = "estimate serve"
    task: Literal["serve-speed"] = "serve-speed"
    subject: Subject
    layout: ServeLayout
    traffic: TrafficUsed
    verdict: Verdict
    ttft_s: Range
    """Mean time to first token, waiting included."""
    tpot_s: Range
    """Mean time per output token behind the first."""
    e2e_latency_s: Range
    """From a request to its last token."""
    tokens_per_s_per_user: Range
    output_tokens_per_s: Range
    total_tokens_per_s: Range
    """Prompts and answers, all copies."""
    requests_per_s: Range
    output_tokens_per_s_per_device: Range
    max_concurrency: int
    """Sequences of these lengths that one copy holds at once."""
    bound_by: str
    step_parts: tuple[StepPart, ...]
    """One decode step of one copy."""
    prompt_parts: tuple[StepPart, ...]
    """Reading one prompt alone."""
    memory: Memory
    usd_per_hour: float | None = None
    usd_per_million_output_tokens: Range | None = None
    """At this load; None where no price of the machine is known."""
    price_seen: str | None = None
    engine_command: str
