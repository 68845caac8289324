"""Documents of facts: explanations, validation, the catalogue, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from chipwise.app.documents import EXIT_FINDINGS, SCHEMA_VERSION, Document, Observed, Part, Verdict

# -- explanation -----------------------------------------------------------------------------


class Explained(Part):
    """A value with the formula, source and explained needs that produced it."""

    quantity: str
    value: float
    unit: str
    formula: str = ""
    source: str = ""
    basis: str
    meaning: str = ""
    needs: tuple[Explained, ...] = ()


class ExplainDocument(Explained, Document):
    """The tree behind one quantity."""

    command: str = "explain"


class QuantityEntry(Part):
    """One quantity that can be explained or set."""

    name: str
    unit: str
    meaning: str
    source: str = ""


class QuantitiesDocument(Document):
    """All quantities (``explain --list``)."""

    command: str = "explain"
    quantities: tuple[QuantityEntry, ...]


# -- validation ------------------------------------------------------------------------------


class ValidateSummary(Part):
    """Errors of one group of rows; fractions, error = exp|ln(predicted/measured)| − 1."""

    group: str
    by: Literal["all", "source", "accelerator"] = "all"
    """What the group is."""
    metric: str
    n: int
    median_error: float | None
    p90_error: float | None
    median_signed: float | None
    within_20pct: float | None
    interval80_coverage: float | None
    caught: float | None = None
    """Share of ``oom`` rows called tight or does not fit; null for other metrics."""


class ValidateConstant(Part):
    """A calibrated constant and what it was fitted to."""

    name: str
    value: float
    unit: str
    spread: float | None = None
    fitted_to: str


class PredictedRow(Part):
    """One measurement and its prediction; ``predicted`` of metric ``oom`` is the verdict."""

    id: str
    metric: str
    predicted: float | str
    low: float | None = None
    high: float | None = None
    measured: float | str | None = None
    error: float | None = None
    verdict: Verdict | None = None


class SkippedRow(Part):
    """A measurement that cannot be predicted, and why."""

    id: str
    skipped: str


class ValidateDocument(Document):
    """Predictions against measurements."""

    command: str = "validate"
    kind: Literal["training", "inference"]
    n_rows: int
    n_predicted: int
    n_skipped: int
    summary: tuple[ValidateSummary, ...]
    constants: tuple[ValidateConstant, ...] = ()
    rows: tuple[PredictedRow | SkippedRow, ...]
    observed: Observed | None = None
    """What the observed rows changed."""


# -- catalogue -------------------------------------------------------------------------------


class Column(Part):
    """One column of a listing; ``unit`` tells how to show its numbers."""

    name: str
    title: str
    unit: str = ""


class Fact(Part):
    """One value of an entry and where it comes from."""

    name: str
    value: Any
    unit: str = ""
    source: str = ""
    retrieved: str = ""


class Finding(Part):
    """Something wrong in the catalogue's files."""

    severity: Literal["error", "warning", "note"]
    file: str
    where: str = ""
    message: str


class CatalogueDocument(Document):
    """A listing, one entry, or the findings of a check."""

    command: str
    kind: Literal["accelerators", "systems", "models", "prices", "show", "check"]
    columns: tuple[Column, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    id: str = ""
    facts: tuple[Fact, ...] = ()
    findings: tuple[Finding, ...] = ()
    checked: int | None = None
    """Entries that a check looked at."""

    @property
    def exit_code(self) -> int:
        """4 when a check finds an error."""
        failed = any(finding.severity == "error" for finding in self.findings)
        return EXIT_FINDINGS if failed else 0


# -- errors ----------------------------------------------------------------------------------


class ErrorBody(Part):
    """What went wrong; ``code`` is stable, ``message`` is for people."""

    code: str
    message: str
    details: Mapping[str, Any] = Field(default_factory=dict)


class ErrorDocument(Part):
    """What ``--json`` prints when a command fails."""

    schema_: int = Field(default=SCHEMA_VERSION, alias="schema", serialization_alias="schema")
    command: str
    error: ErrorBody
