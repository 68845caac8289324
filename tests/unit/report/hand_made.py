"""Documents written by hand, for tests of how they are shown: the numbers mean nothing."""

from __future__ import annotations

from chipwise.app import documents as d
from chipwise.app import documents_facts as facts
from chipwise.app import documents_plan as p


def span(likely: float) -> d.Range:
    return d.Range(low=likely / 2, likely=likely, high=likely * 2, basis="datasheet")


LAYOUT = d.Layout(
    framework="fsdp",
    dp=8,
    shard="fsdp",
    zero_stage=3,
    shard_group=8,
    micro_batch=2,
    num_microbatches=4,
    global_batch=64,
    seq_len=4096,
    recompute="full",
    attention="flash",
    optimizer="adamw",
    precision="bf16",
)

MEMORY = d.Memory(
    parts=(
        d.MemoryPart(name="weights", bytes=2 * 2**30, share=0.25, formula="2 · params"),
        d.MemoryPart(name="optimizer", bytes=6 * 2**30, share=0.75, source="kingma2014"),
    ),
    total_bytes=8 * 2**30,
    reserved_bytes=10 * 2**30,
    capacity_bytes=80 * 2**30,
    usable_bytes=79 * 2**30,
)

PERFORMANCE = {
    "step_time_s": span(2.0),
    "tokens_per_s": span(131072.0),
    "tokens_per_s_per_device": span(16384.0),
    "mfu": span(0.4),
    "hfu": span(0.5),
    "peak_flops_per_s": 989e12,
    "peak_dtype": "bf16",
    "bound_by": "compute",
    "time_parts": (
        d.TimePart(name="compute", seconds=1.5, share=0.75),
        d.TimePart(name="gather weights", seconds=0.5, share=0.25),
    ),
}

ASSUMED = (
    d.Assumption(text="network 50 GB/s per device", effect="half of it: +8 % time"),
    d.Assumption(text="sequences are packed"),
)


def plan(rank: int = 1, **changes: object) -> p.Plan:
    values = {
        "rank": rank,
        "system": "h100-sxm:8",
        "devices": 8,
        "layout": LAYOUT,
        "verdict": "fits",
        "duration_s": span(36000.0),
        "device_hours": span(80.0),
        "memory": MEMORY,
        **PERFORMANCE,
        **changes,
    }
    return p.Plan.model_validate(values)


def plan_document(*plans: p.Plan, no_fit: tuple[p.NoFit, ...] = ()) -> p.PlanDocument:
    return p.PlanDocument(
        inputs={"model": "llama-2-7b", "tokens": 2e9},
        assumptions=ASSUMED,
        plans=plans,
        search=p.SearchReport(
            systems=1,
            candidates=1200,
            evaluated=1000,
            pruned=200,
            pruned_by={"dominance": 120, "memory": 50, "time": 30},
            fit=40,
            elapsed_s=0.05,
        ),
        no_fit=no_fit,
    )


SUBJECT = d.Subject(model="llama-2-7b", system="h100-sxm:8", devices=8)

REMEDY = d.Remedy(
    change="recompute full",
    flags="--recompute full",
    saves_bytes=12 * 2**30,
    slowdown=1.3,
    fits_after=True,
)


def fit_document(verdict: str = "does not fit") -> d.FitDocument:
    fits = verdict != "does not fit"
    return d.FitDocument(
        assumptions=ASSUMED,
        subject=SUBJECT,
        layout=LAYOUT,
        verdict=verdict,
        memory=MEMORY,
        headroom_bytes=(5 if fits else -5) * 2**30,
        largest=d.Largest(micro_batch=4, seq_len=8192) if fits else d.Largest(),
        remedies=() if fits else (REMEDY,),
        one_change=None if fits else REMEDY,
    )


def estimate_document(verdict: str = "fits") -> d.EstimateDocument:
    return d.EstimateDocument.model_validate(
        {
            "subject": SUBJECT,
            "layout": LAYOUT,
            "verdict": verdict,
            "memory": MEMORY,
            "assumptions": ASSUMED,
            **PERFORMANCE,
        }
    )


def explain_document() -> facts.ExplainDocument:
    rate = facts.Explained(
        quantity="rate", value=4e14, unit="FLOP/s", basis="datasheet", source="nv"
    )
    work = facts.Explained(
        quantity="work", value=8e14, unit="FLOP", formula="6 · n · d", basis="computed",
        needs=(rate,),
    )  # fmt: skip
    again = work.model_copy()
    return facts.ExplainDocument(
        quantity="step_time", value=2.0, unit="s", formula="work / rate", basis="computed",
        source="arithmetic", needs=(work, rate, again),
    )  # fmt: skip


def validate_document() -> facts.ValidateDocument:
    return facts.ValidateDocument(
        kind="training",
        n_rows=3,
        n_predicted=2,
        n_skipped=1,
        summary=(
            facts.ValidateSummary(group="all", metric="peak_memory_gb", n=2, median_error=0.1,
                              p90_error=0.2, median_signed=-0.05, within_20pct=0.5,
                              interval80_coverage=1.0),
        ),
        constants=(facts.ValidateConstant(name="context_bytes", value=2**30, unit="B",
                                      fitted_to="peak_memory_gb"),),
        rows=(
            facts.PredictedRow(id="a", metric="peak_memory_gb", predicted=10.0, low=9.0, high=11.0,
                           measured=10.5, error=0.05, verdict="fits"),
            facts.PredictedRow(id="b", metric="oom", predicted="does not fit", measured="oom"),
            facts.SkippedRow(id="c", skipped="no batch size"),
        ),
    )  # fmt: skip


def listing_document() -> facts.CatalogueDocument:
    return facts.CatalogueDocument(
        command="catalogue accelerators",
        kind="accelerators",
        columns=(
            facts.Column(name="id", title="id"),
            facts.Column(name="memory_bytes", title="memory", unit="B"),
        ),
        rows=({"id": "h100-sxm", "memory_bytes": 80 * 2**30}, {"id": "x", "memory_bytes": None}),
    )


def check_document(severity: str | None) -> facts.CatalogueDocument:
    finding = {"severity": severity, "file": "h100.toml", "where": "peak", "message": "no source"}
    return facts.CatalogueDocument.model_validate(
        {
            "command": "catalogue check",
            "kind": "check",
            "checked": 12,
            "findings": [finding] if severity else [],
        }
    )
