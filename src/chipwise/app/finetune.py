"""The use case ``plan finetune``: hardware and methods ranked for a data set of examples."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, exp, hypot, log
from time import perf_counter

from chipwise.app.dataset import Dataset, dataset_of, require_examples
from chipwise.app.documents import Assumption, Range
from chipwise.app.documents_finetune import (
    DatasetReport,
    Filling,
    FinetuneDocument,
    FinetunePlan,
    MethodBest,
)
from chipwise.app.documents_plan import Plan
from chipwise.app.evaluation import Evaluated
from chipwise.app.experiments import experiments_of, hardest, per_run
from chipwise.app.finetune_jobs import (
    MOST_DEVICES,
    FillingName,
    Task,
    choices,
    lines_of_task,
    model_of,
    task_of,
)
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.plan_options import point_of
from chipwise.app.planning import Planned, plan_on
from chipwise.columns.lengths import length_columns
from chipwise.i18n import _
from chipwise.physics.data import computed_per_useful
from chipwise.spec.job import TrainingWorkload
from chipwise.units import show

_FILLINGS: tuple[FillingName, ...] = ("packing", "free", "grouped", "longest", "max")
_SPREAD = ("duration_s", "device_hours", "cost_usd", "energy_kwh")
"""What the number of tokens changes in proportion."""


def plan_finetune(request: PlanFinetuneRequest) -> FinetuneDocument:
    """Systems, methods and layouts ranked for training on a data set.

    Raises:
        UsageError: unknown names, a contradiction, or a data file that cannot be read.
    """
    began = perf_counter()
    data = dataset_of(request, model_of(request).vocab)
    require_examples(data)
    found = choices(request)
    clusters = [cluster for some in found for cluster in some]
    task = task_of(hardest(request), data, clusters)
    planned = plan_on(per_run(task.filled), lines_of_task(task, found), began)
    document = planned.document
    plans = tuple(_plan(plan, task) for plan in document.plans)
    return FinetuneDocument(
        **dict(document)
        | {
            "command": "plan finetune",
            "inputs": _inputs(request, task),
            "plans": plans,
            "assumptions": (*_assumptions(task), *document.assumptions),
            "warnings": (*data.warnings, *_warnings(task), *document.warnings),
        },
        dataset=_dataset(task, planned),
        methods=_methods(planned, task),
        experiments=experiments_of(request, data, planned),
    )


def _inputs(request: PlanFinetuneRequest, task: Task) -> dict[str, object]:
    stated = request.model_dump(exclude_none=True)
    filled = {
        **{"seq": task.seq, "global_batch": task.global_batch, "examples": task.data.examples},
        "max_devices": request.max_devices or MOST_DEVICES,
        "epochs": request.epochs or 1.0,
    }
    del stated["method"]
    chosen = {"methods": request.methods}
    return stated | {k: v for k, v in filled.items() if k not in request.vary} | chosen


# -- plans and methods -----------------------------------------------------------------------


def _plan(plan: Plan, task: Task) -> FinetunePlan:
    """A plan with its method and its waste; ranges widened by what is not known of the tokens."""
    fields = dict(plan)
    for name in _SPREAD:
        if fields[name] is not None:
            fields[name] = widened(fields[name], task.data.factor)
    split = plan.layout
    computed = _computed(task, task.filling, split.micro_batch, split.dp)
    return FinetunePlan(**fields, method=split.method, computed_per_useful=computed)


def widened(span: Range, factor: float) -> Range:
    """A range joined, as independent, with a factor that its value is proportional to.

    Args:
        span: the range without it.
        factor: the value may be so many times more or less (80 % range).
    """
    if span.likely <= 0 or factor == 1:
        return span
    low, high = (exp(hypot(log(end / span.likely), log(factor))) for end in (span.low, span.high))
    ends = {"low": span.likely / low, "high": span.likely * high}
    return span.model_copy(update=ends)


def _methods(planned: Planned, task: Task) -> tuple[MethodBest, ...]:
    """The best option of each method."""
    options = planned.options
    found: dict[str, int] = {}
    for row in options.rank(per_run(task.filled)) if len(options) else ():
        found.setdefault(options.candidates[row].job.workload.method, int(row))
    return tuple(
        MethodBest(**dict(point_of(options, row, planned.document.plans)), method=method)
        for method, row in found.items()
    )


# -- the data set ----------------------------------------------------------------------------


def _dataset(task: Task, planned: Planned) -> DatasetReport:
    cut, data = task.cut, task.data
    mean = _useful(task, task.filling)
    total = mean * data.examples
    batch, micro_batch, dp = _batch_of(planned.points, task)
    fillings = tuple(
        Filling(
            name=name,
            computed_per_useful=_computed(task, name, micro_batch, dp),
            steps_per_epoch=ceil(task.sequences_of(name) / batch),
        )
        for name in _FILLINGS
    )
    used = next(one for one in fillings if one.name == task.filling)
    return DatasetReport(
        examples=data.examples,
        sampled=data.sampled,
        text=data.text,
        tokens=Range(
            low=total / data.factor,
            likely=total,
            high=total * data.factor,
            basis=data.basis,
        ),
        mean_length=mean,
        longest=ceil(cut.longest),
        seq=task.seq,
        truncated_share=0.0 if task.filling == "packing" else data.truncated_share(task.seq),
        filling=task.filling,
        computed_per_useful=used.computed_per_useful,
        steps_per_epoch=used.steps_per_epoch,
        fillings=tuple(sorted(fillings, key=lambda one: one.computed_per_useful)),
    )


def _batch_of(points: tuple[Evaluated, ...], task: Task) -> tuple[int, int, int]:
    """Global batch, micro-batch and ranks of the recommended plan; of one device without one."""
    if not points:
        return task.global_batch, 1, 1
    best = points[0]
    batch = best.job.workload.global_batch or task.global_batch
    return batch, best.strategy.micro_batch or 1, best.strategy.dp or 1


def _useful(task: Task, filling: FillingName) -> float:
    """Mean tokens of an example that are trained on: packing cuts none off."""
    some: Dataset = task.data if filling == "packing" else task.cut
    return float(some.lengths.mean())


def _computed(task: Task, filling: FillingName, micro_batch: int, dp: int) -> float:
    """Tokens computed for each token that is trained on."""
    useful = _useful(task, filling) * task.data.examples
    if filling in ("packing", "max"):
        computed = task.sequences_of(filling) * task.seq
    else:
        workload = TrainingWorkload(seq_len=task.longest, lengths=task.lengths_of(filling))
        share = length_columns(workload, micro_batch, dp)["padded_share"]
        computed = float(share) * task.longest * task.data.examples
    return float(computed_per_useful(computed, useful))


# -- words -----------------------------------------------------------------------------------


def _assumptions(task: Task) -> Iterator[Assumption]:
    yield from (Assumption(text=text) for text in task.data.said)
    request = task.request
    if request.seq is None:
        text = _("examples are cut at {seq} tokens (--seq says otherwise)")
        yield Assumption(text=text.format(seq=task.seq))
    if request.global_batch is None and "global_batch" not in request.vary:
        text = _("global batch {batch} sequences, the same on all systems")
        yield Assumption(text=text.format(batch=task.global_batch))
    if request.epochs is None:
        yield Assumption(text=_("one epoch (--epochs says otherwise)"))
    if task.filling not in ("packing", "max"):
        text = _("memory holds micro-batches of the longest example, {longest} tokens; time is "
                 "that of the mean, slowed by the rank that draws the longest")  # fmt: skip
        yield Assumption(text=text.format(longest=task.longest))
    if request.packing:
        text = _("packed sequences cut examples where they are full; attention looks across them")
        yield Assumption(text=text)
    if request.framework is None:
        text = _("fine-tuning libraries (--framework fsdp, deepspeed or megatron-core for others)")
        yield Assumption(text=text)


def _warnings(task: Task) -> Iterator[str]:
    share = 0.0 if task.filling == "packing" else task.data.truncated_share(task.seq)
    if share > 0:
        text = _("{share} of the examples are longer than {seq} tokens and are cut")
        yield text.format(share=f"{share:.1%}", seq=task.seq)
    if task.sequences < task.global_batch:
        text = _("an epoch of {sequences} sequences is less than one batch of {batch}")
        sequences = show(task.sequences, "1")
        yield text.format(sequences=sequences, batch=task.global_batch)
