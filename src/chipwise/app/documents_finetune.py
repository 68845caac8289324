"""What a plan for a fine-tune answers beside a plan: the data set, methods, runs of a grid."""

from __future__ import annotations

from collections.abc import Mapping

from chipwise.app.documents import EXIT_INFEASIBLE, Part, Range
from chipwise.app.documents_plan import ParetoPoint, Plan, PlanDocument


class Filling(Part):
    """One way to bring examples to one length, in the recommended layout."""

    name: str
    """``packing``, ``longest``, ``grouped``, ``max`` or ``free``."""
    computed_per_useful: float
    steps_per_epoch: int


class DatasetReport(Part):
    """What there is to train on, and what of the computing is spent on it."""

    examples: float
    sampled: int
    """Examples that were read; 0 where lengths were stated."""
    text: str = ""
    """Which columns of a file hold the text."""
    tokens: Range
    """Of one epoch, after cutting."""
    mean_length: float
    """Tokens of an example, after cutting."""
    longest: int
    """Tokens of the longest example after cutting: what memory has to hold."""
    seq: int
    """Tokens at which examples are cut."""
    truncated_share: float
    """Share of the examples that are cut."""
    filling: str
    computed_per_useful: float
    """Tokens computed for each token trained on, in the recommended layout."""
    steps_per_epoch: int
    fillings: tuple[Filling, ...]
    """The same for each way to fill, the leanest first."""


class FinetunePlan(Plan):
    """One ranked answer, with what its micro-batches make of the data."""

    method: str
    computed_per_useful: float


class MethodBest(ParetoPoint):
    """The best option of one method, by the objective."""

    method: str


class GridRun(Part):
    """One combination of a grid."""

    values: Mapping[str, str]
    duration_s: float | None
    """None where it does not fit the chosen system."""
    cost_usd: float | None = None
    instance: int | None = None
    """Which copy of the system works on it, from 1."""
    start_s: float | None = None


class Experiments(Part):
    """All runs of a grid on copies of the recommended system, the longest ones first."""

    system: str
    instances: int
    runs: tuple[GridRun, ...]
    makespan_s: float
    """From the start of the first to the end of the last."""
    cost_usd: float | None = None
    """Every copy is paid for until the last run ends; None where no price is known."""
    cost_without_idle_usd: float | None = None
    """Each copy is given back after its last run."""
    idle_share: float
    """Of the time paid for with every copy kept to the end."""
    instances_for_deadline: int | None = None
    """Fewest copies that end in time; None without a deadline, or where none are enough."""
    meets_deadline: bool | None = None
    meets_budget: bool | None = None

    @property
    def is_feasible(self) -> bool:
        """Whether every run fits and all limits are met."""
        fits = all(run.duration_s is not None for run in self.runs)
        return fits and False not in (self.meets_deadline, self.meets_budget)


class FinetuneDocument(PlanDocument):
    """Ranked plans for a fine-tune; the first is the recommendation."""

    command: str = "plan finetune"
    plans: tuple[FinetunePlan, ...]
    dataset: DatasetReport
    methods: tuple[MethodBest, ...] = ()
    """The best option of each method, best first."""
    experiments: Experiments | None = None
    """Only with a grid."""

    @property
    def exit_code(self) -> int:
        """3 when no plan is feasible, none meets the limits, or a grid misses them."""
        if self.experiments is not None and not self.experiments.is_feasible:
            return EXIT_INFEASIBLE
        return super().exit_code
