"""The jobs of a fine-tune: systems × methods, each with the data set's lengths."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, lcm, log2
from pathlib import Path
from typing import Literal

from chipwise.app.dataset import Dataset, distribution_of, sequence_length
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.plan_systems import Line, lines_on, variants_of
from chipwise.app.requests import parse_request
from chipwise.catalogue.load import use_catalogue
from chipwise.catalogue.models import load_model
from chipwise.catalogue.sizes import choices_of
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.physics.data import packed_sequences
from chipwise.search.space import trainers
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import Lengths, TrainingJob
from chipwise.spec.model import ModelSpec

MOST_DEVICES = 8
"""Devices of a system named without a count, where nothing was said."""
USUAL_BATCH = 16
"""Sequences per optimizer step where nothing was said: what QLoRA's 7B and 13B runs use
[qlora2023]."""
LONGEST = 4096
"""Tokens at which examples are cut where nothing was said, if the model reads as many."""
_POOLED = 50
"""Batches that are sorted together, at most a quarter of the data [transformers-length-grouped]."""
_MERGED = ("job", "tool", "accumulation")
"""Fields that others hold already: those of configuration files, and the batch."""
_ADAPTER_FIELDS = ("rank", "targets", "base_dtype")
FillingName = Literal["packing", "longest", "grouped", "max", "free"]


@dataclass(frozen=True)
class Task:
    """A fine-tune with nothing left unsaid about its data."""

    request: PlanFinetuneRequest
    data: Dataset
    """Before examples are cut."""
    seq: int
    """Tokens at which they are."""
    global_batch: int

    @property
    def filled(self) -> PlanFinetuneRequest:
        """The request with what is the same on all systems."""
        same = {"seq": self.seq, "global_batch": self.global_batch}
        kept = {name: value for name, value in same.items() if name not in self.request.vary}
        return self.request.model_copy(update={**kept, "accumulation": None})

    @property
    def cut(self) -> Dataset:
        """The examples that are trained on."""
        return self.data.cut(self.seq)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that memory has to hold."""
        full = self.filling in ("packing", "max") or self.request.length is not None
        return self.seq if full else ceil(self.cut.longest)

    @property
    def filling(self) -> FillingName:
        """How sequences are brought to one length."""
        if self.request.packing:
            return "packing"
        if self.request.group_by_length:
            return "grouped"
        return self.request.padding or "longest"

    @property
    def sequences(self) -> float:
        """Sequences of one epoch."""
        return self.sequences_of(self.filling)

    def sequences_of(self, filling: FillingName) -> float:
        """Sequences of one epoch, filled in some way."""
        if filling != "packing":
            return self.data.examples
        tokens = float(self.data.lengths.mean()) * self.data.examples
        return float(packed_sequences(tokens, float(self.seq)))

    def lengths_of(self, filling: FillingName) -> Lengths | None:
        """The lengths of the examples, filled in some way; None where all are made equal."""
        if filling in ("packing", "max"):
            return None
        tokens, shares = distribution_of(self.cut.lengths)
        quarter = max(1, int(self.data.examples // (4 * self.global_batch)))
        pool = min(_POOLED, quarter) * self.global_batch
        return Lengths(tokens=tokens, shares=shares, padding=filling, pool=pool)


def task_of(request: PlanFinetuneRequest, data: Dataset, clusters: list[Cluster]) -> Task:
    """A request with sequence length and batch filled in.

    Args:
        request: the question.
        data: its data set.
        clusters: every system it is asked of.
    """
    model = load_model(request.model)
    most = min(LONGEST, model.max_context or LONGEST)
    whole = request.packing or request.length is not None
    seq = sequence_length(data, request.seq, whole, most)
    return Task(request, data, seq, request.global_batch or _batch(request, clusters))


def _batch(request: PlanFinetuneRequest, clusters: list[Cluster]) -> int:
    """The usual batch, or what was accumulated on the fewest devices, raised until all share it."""
    micro_batch = request.micro_batch or 1
    counts = {cluster.num_devices * micro_batch for cluster in clusters}
    steps = request.accumulation
    least = max(USUAL_BATCH if steps is None else steps * min(counts), *counts)
    common = lcm(*counts)
    if common <= 2 * least:
        return ceil(least / common) * common
    return int(2 ** ceil(log2(least)))


def choices(request: PlanFinetuneRequest) -> list[list[Cluster]]:
    """The systems to choose from: with a count as they are, others in all counts up to a few.

    Raises:
        UsageError: unknown names.
    """
    use_catalogue(Path(request.catalogue) if request.catalogue else None)
    return choices_of(request.on, request.max_devices or MOST_DEVICES)


def lines_of_task(task: Task, found: list[list[Cluster]]) -> list[Line]:
    """Every system with every method, the same data on all.

    Args:
        task: what is trained.
        found: the systems to choose from.

    Raises:
        UsageError: no model, or a contradiction in what is trained.
    """
    lines = [
        line
        for method in task.request.methods
        for variant in variants_of(_with_method(task, method))
        for line in lines_on(found, variant)
    ]
    lengths = task.lengths_of(task.filling)
    return [Line(line.name, tuple(_job(job, task, lengths) for job in line.jobs)) for line in lines]


def _with_method(task: Task, method: str) -> PlanFinetuneRequest:
    """The request for one method, its gaps filled; what only adapters have left out for others."""
    stated = task.request.model_dump(exclude_unset=True)
    left_out = {*_MERGED, *(_ADAPTER_FIELDS if method == "full" else ())}
    vary = {name: some for name, some in task.request.vary.items() if name != "method"}
    filled = {"method": method, "vary": vary, "seq": task.longest}
    if "global_batch" not in vary:
        filled["global_batch"] = task.global_batch
    kept = {name: value for name, value in stated.items() if name not in left_out}
    return parse_request(PlanFinetuneRequest, {**kept, **filled})


def _job(job: TrainingJob, task: Task, lengths: Lengths | None) -> TrainingJob:
    """A job with the data set, on the stack that fine-tunes on this device."""
    run = job.run.model_copy(update={"sequences": task.sequences * (task.request.epochs or 1.0)})
    strategy = job.strategy
    if strategy.framework is None and "fsdp" in trainers(job.cluster.accelerator):
        strategy = strategy.model_copy(update={"framework": "finetune"})
    filled = {"packing": lengths is None, "lengths": lengths, "seq_len": task.longest}
    workload = job.workload.model_copy(update=filled)
    return job.model_copy(update={"run": run, "strategy": strategy, "workload": workload})


def model_of(request: PlanFinetuneRequest) -> ModelSpec:
    """The model that is trained, with the request's own catalogue in use.

    Raises:
        UsageError: no model of that name.
    """
    use_catalogue(Path(request.catalogue) if request.catalogue else None)
    if not request.model:
        raise UsageError("no-model", _("name a MODEL, such as llama-2-7b"))
    return load_model(request.model)
