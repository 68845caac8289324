"""What a plan answers: ranked plans, how they were found, how sure the choice is, what binds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from chipwise.app.documents import (
    EXIT_INFEASIBLE,
    Document,
    Layout,
    Memory,
    Observed,
    Part,
    Performance,
    Price,
    Range,
    RunReport,
    Verdict,
)

Mode = Literal["strong", "weak"]


class Plan(Performance):
    """One ranked answer."""

    rank: int
    system: str
    vendor: str = ""
    """Who makes the devices; empty where nobody said."""
    devices: int
    understood: str = ""
    layout: Layout
    verdict: Verdict
    duration_s: Range
    device_hours: Range
    cost_usd: Range | None = None
    """Rent of the run; None where no price is known."""
    energy_kwh: Range | None = None
    """Electricity of the site; None where the power of the device is not published."""
    price: Price | None = None
    """None where no current offer in USD holds the devices."""
    memory: Memory
    meets_deadline: bool | None = None
    """None when no deadline was asked for."""
    meets_budget: bool | None = None
    """None when no budget was asked for; false also where the cost is unknown."""
    run: RunReport | None = None
    observed: Observed | None = None
    """What own runs on this system changed."""


class SearchReport(Part):
    """How the plans were found."""

    systems: int
    """Systems looked at, each count of an accelerator by itself."""
    candidates: int
    evaluated: int
    pruned: int
    """Ruled out without loss: ``candidates`` less ``evaluated``."""
    pruned_by: Mapping[str, int]
    """Candidates by what ruled them out: dominance, memory or time."""
    fit: int
    """Of those evaluated."""
    elapsed_s: float


class ParetoPoint(Part):
    """One option; on the front no other beats it in time, cost and energy, as far as known."""

    system: str
    family: str = ""
    """Accelerator family."""
    devices: int
    rank: int | None = None
    """Place in ``plans``, when it stands there."""
    duration_s: float
    device_hours: float
    cost_usd: float | None = None
    energy_kwh: float | None = None


class Bind(Part):
    """A limit or resource of the recommended plan, and what one step more of it buys."""

    constraint: str
    unit: str = ""
    value: float | None = None
    limit: float | None = None
    slack: float | None = None
    """Share of the limit that is left; negative where it is missed."""
    step: str | None = None
    speedup: float | None = None
    """Throughput after that step over before, the layout searched again or kept."""


class Turn(Part):
    """The winner if an input were otherwise."""

    change: str
    winner: str
    turns: bool
    """Whether another plan than the recommended one wins."""
    effect: float
    """Relative change of the recommended plan's objective."""


class BatchAdvice(Part):
    """Tokens per step against what published laws of pre-training advise."""

    global_batch: int
    step_tokens: float
    advised_tokens: Range
    """From the lower to the higher law; the likely one is the lower, which is taken."""
    critical_tokens: float
    extra_tokens_share: float
    """Tokens needed beyond those of very small steps for the same loss, over these."""


class Choice(Part):
    """How sure the choice between the plans is, given what is not known for certain."""

    samples: int
    probability_best: Mapping[int, float]
    """Chance that a plan is the best, by rank."""
    regret_mean: float
    """What the recommended plan takes beyond the best one, relative, on average."""
    regret_p90: float
    ties: tuple[int, ...]
    """Ranks of plans that beat the recommended one often enough to be its equal."""
    sensitivity: tuple[Turn, ...]


class ScalingPoint(Part):
    """The best layout at one count of the recommended plan's devices."""

    mode: Mode
    """The global batch kept, or kept per device."""
    system: str
    devices: int
    nodes: int
    global_batch: int
    step_time_s: float
    tokens_per_s: float
    efficiency: float
    """Throughput per device over that of the smallest count."""


class NoFit(Part):
    """A system that was asked for and offers no plan, with the reason."""

    system: str
    reason: str
    short_by_bytes: float | None = None
    smallest: str | None = None
    """The smallest count of the same devices that would hold the job, else of larger ones."""


class PlanDocument(Document):
    """Ranked plans; the first is the recommendation."""

    command: str = "plan train"
    plans: tuple[Plan, ...]
    search: SearchReport
    pareto: tuple[ParetoPoint, ...] = ()
    best_per_family: tuple[ParetoPoint, ...] = ()
    """The best option of each accelerator family, by the objective."""
    binds: tuple[Bind, ...] = ()
    """What holds the recommended plan back."""
    choice: Choice | None = None
    """None where there is nothing to choose from."""
    scaling: tuple[ScalingPoint, ...] = ()
    """Only where asked for."""
    batch: tuple[BatchAdvice, ...] = ()
    """One for each global batch among the plans; empty for fine-tuning: no law is known."""
    no_fit: tuple[NoFit, ...] = ()
    observed: tuple[Observed, ...] = ()
    """What own runs changed, by accelerator."""

    @property
    def exit_code(self) -> int:
        """3 when no plan is feasible, or none meets deadline and budget."""
        missed = all(False in (plan.meets_deadline, plan.meets_budget) for plan in self.plans)
        return EXIT_INFEASIBLE if missed else 0


class StudyDocument(Document):
    """What became of the jobs of a study; the rows themselves are in its folder."""

    command: str = "plan study"
    study: str
    into: str
    """Folder with the Parquet files."""
    jobs: int
    resumed: int
    """Stored by an earlier run."""
    planned: int
    failed: int
    """Stored with the reason."""
    elapsed_s: float

    @property
    def exit_code(self) -> int:
        """0: failures are rows like others."""
        return 0
