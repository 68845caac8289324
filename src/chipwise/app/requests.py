"""What can be asked, as frozen models whose fields are the command line's flags.

The same models read command-line words, run files, environment variables and REST bodies:
numbers may be text with units (``"2B"``, ``"14d"``, ``"10%"``), lists may be text with commas.
``None`` means not stated; the use case fills it in and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from chipwise.app.configured import with_configs
from chipwise.app.fields import (
    Bytes,
    Duration,
    Fold,
    Money,
    Observed,
    Positive,
    Power,
    Rate,
    Share,
    Sources,
    Systems,
    Tokens,
    Whole,
    overrides,
    variants,
    words,
)
from chipwise.app.objective import ObjectiveFields
from chipwise.app.refusals import flag_of, usage_error
from chipwise.app.tuning import OptimizerWord, TuningFields
from chipwise.i18n import _
from chipwise.spec.job import (
    AttentionKernel,
    Dtype,
    Framework,
    Recompute,
    Run,
    Schedule,
    Shard,
    Strategy,
    TrainingWorkload,
)
from chipwise.spec.model import Frozen
from chipwise.spec.price import Market, Terms

R = TypeVar("R", bound="Request")
Offload = Literal["optimizer", "params", "activations"]
ChunkedLoss = Literal["no", "yes", "fused"]
EngineName = Literal["vllm", "sglang", "trt-llm", "llama.cpp"]
KvDtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]
Objective = Literal["time", "device-hours", "cost", "energy"]


class Request(Frozen):
    """What every question may carry."""

    use_case: ClassVar[str]
    catalogue: str | None = None
    """Folder with the user's own catalogue files, which add to or replace the bundled ones."""


class JobRequest(TuningFields, ObjectiveFields, Request):
    """A model on a system, with what is trained and how; shared by all training questions."""

    model: str | None = None
    on: Systems | None = None
    job: Sources = ()
    """Configuration files of the person's own, whose values hold where nothing is stated."""
    tool: str | None = None
    """Tool whose defaults hold where nothing is stated: axolotl, trl, torchtune …"""
    seq: Whole | None = None
    global_batch: Whole | None = None
    accumulation: Whole | None = None
    """Micro-batches per optimizer step and rank: another way to say the global batch."""
    precision: Annotated[Dtype, Fold] | None = None

    micro_batch: Whole | None = None
    tp: Whole | None = None
    pp: Whole | None = None
    dp: Whole | None = None
    cp: Whole | None = None
    ep: Whole | None = None
    vpp: Whole | None = None
    sequence_parallel: bool | None = None
    shard: Annotated[Shard, Fold] | None = None
    shard_group: Whole | None = None
    """Ranks over which states are sharded, fewer than all with hybrid sharding."""
    framework: Annotated[Framework, Fold] | None = None

    pp_schedule: Annotated[Schedule, Fold] | None = None
    recompute: Annotated[Recompute, Fold] | None = None
    recompute_every: Whole | None = None
    attention: Annotated[AttentionKernel, Fold] | None = None
    optimizer: OptimizerWord | None = None
    optimizer_in_backward: bool | None = None
    """Weights are updated while gradients are computed, layer by layer."""
    grad_dtype: Annotated[Literal["bf16", "fp16", "fp32"], Fold] | None = None
    master_weights: bool | None = None
    offload: Annotated[tuple[Offload, ...], BeforeValidator(words)] = ()
    chunked_loss: Annotated[ChunkedLoss, Fold] | None = None
    compile: bool | None = None
    graphs: bool | None = None
    headroom: Share | None = None
    """Share of device memory that must stay free."""
    host_memory: Bytes | None = None
    """Host memory of one node, where it is not the usual one. [B]"""

    set: Annotated[Mapping[str, str], BeforeValidator(overrides)] = Field(default_factory=dict)
    """Measured values that replace computed quantities, with their units, as text."""

    @property
    def workload(self) -> TrainingWorkload:
        """What is trained, as a spec."""
        return TrainingWorkload(
            seq_len=self.seq,
            global_batch=self.global_batch,
            tokens=getattr(self, "tokens", None),
            precision=self.precision,
            method=self.method,
            base_dtype=self.base_dtype,
            lora_rank=self.rank,
            lora_targets=self.targets,
            tuning=self.tuning,
        )

    @property
    def strategy(self) -> Strategy:
        """How it is split and which measures are on, as a spec; None where not stated."""
        same = (
            *("framework", "tp", "pp", "dp", "cp", "ep", "vpp", "shard", "shard_group"),
            "sequence_parallel",
            *("micro_batch", "recompute", "recompute_every", "attention", "optimizer"),
            *("master_weights", "grad_dtype", "chunked_loss", "pp_schedule"),
        )
        stated = {name: getattr(self, name) for name in same}
        if self.recompute is None and self.recompute_every is not None:
            stated["recompute"] = "full"
        return Strategy(
            **stated,
            compiled=self.compile,
            optimizer_in_backward=self.optimizer_in_backward,
            recorded=self.graphs,
            offload_optimizer=self._offloads("optimizer"),
            offload_params=self._offloads("params"),
            offload_activations=self._offloads("activations"),
        )

    def _offloads(self, what: Offload) -> bool | None:
        return what in self.offload if self.offload else None


class _RunRequest(JobRequest):
    """Questions about time: how long the whole run is, and what it does beside its steps."""

    tokens: Tokens | None = None
    epochs: Tokens | None = None
    examples: Tokens | None = None
    """Sequences of one epoch."""
    checkpoint_every: Whole | None = None
    """Steps from one checkpoint to the next."""
    storage_bandwidth: Rate | None = None
    """Writing checkpoints, whole job. [B/s]"""
    data_bandwidth: Rate | None = None
    """Reading training data, whole job. [B/s]"""
    data_stall: Share | None = None
    """Time waiting for data, over the time of the steps."""

    market: Annotated[Market, Fold] | None = None
    as_of: date | None = None
    """Prices as they were known on that day."""
    pue: Annotated[float, Field(ge=1, le=10)] | None = None
    power_cap: Power | None = None
    """Limit on the power of one device, in force where its rating is higher. [W]"""
    """Power of the whole site over that of its machines."""

    @property
    def terms(self) -> Terms:
        """How the job is paid and powered, as a spec."""
        return Terms(market=self.market or "on-demand", as_of=self.as_of, pue=self.pue)

    @property
    def run(self) -> Run:
        """What the run does beside its steps, as a spec."""
        sequences = self.examples * (self.epochs or 1.0) if self.examples else None
        return Run(
            sequences=sequences,
            checkpoint_every=self.checkpoint_every,
            storage_bandwidth=self.storage_bandwidth,
            data_bandwidth=self.data_bandwidth,
            data_stall=self.data_stall,
        )

    @property
    def has_length(self) -> bool:
        """Whether it is said how much to train on."""
        return self.tokens is not None or self.examples is not None

    @model_validator(mode="after")
    def _one_way_to_say_how_much(self) -> _RunRequest:
        reason = ""
        if self.tokens is not None and (self.examples or self.epochs) is not None:
            reason = _("say either --tokens, or --epochs and --examples")
        elif self.epochs is not None and self.examples is None:
            reason = _("--epochs needs --examples: how many sequences one epoch has")
        if reason:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self


class _NeedsModelAndSystem(JobRequest):
    model: str
    on: Systems


_SERVING = (
    *("engine", "weights_dtype", "kv_dtype", "context", "concurrency"),
    *("gpu_memory_utilization", "max_num_batched_tokens", "max_num_seqs"),
)
"""Fields that only serving has."""
_EITHER = ("task", "model", "on", "precision", "seq", "tp", "pp", "dp", "headroom", "set")
"""Fields of training that mean the same when serving."""


class FitRequest(_NeedsModelAndSystem):
    """Does the job fit in memory: a training step, or an engine that serves the model."""

    use_case: ClassVar[str] = "fit"
    task: Annotated[Literal["train", "serve"], Fold] = "train"

    engine: Annotated[EngineName, Fold] | None = None
    weights_dtype: str | None = None
    """How the checkpoint stores its weights: bf16, fp8, awq, q4_k_m …"""
    kv_dtype: Annotated[KvDtype, Fold] | None = None
    context: Whole | None = None
    """Tokens of one sequence, prompt and answer."""
    concurrency: Whole | None = None
    """Sequences at once."""
    gpu_memory_utilization: Positive | None = None
    """Share of the device's memory the engine plans with."""
    max_num_batched_tokens: Whole | None = None
    """Most tokens of one forward pass."""
    max_num_seqs: Whole | None = None
    """Most sequences of one forward pass."""

    observed: Observed = ()
    """The user's own runs: measured values of this configuration, or measurement files."""

    @model_validator(mode="after")
    def _flags_belong_to_the_task(self) -> FitRequest:
        kept = {*_SERVING, *_EITHER, *Request.model_fields}
        stated = self.model_fields_set
        odd = stated & {*_SERVING} if self.task == "train" else stated - kept
        odd = {
            name for name in odd if getattr(self, name) != self.__class__.model_fields[name].default
        }
        if not odd:
            return self
        flag = flag_of(sorted(odd)[0])
        reason = (
            _("{flag} needs --task serve") if self.task == "train"
            else _("{flag} says how to train; --task serve does not take it")
        ).format(flag=flag)  # fmt: skip
        raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})


class EstimateTrainRequest(_NeedsModelAndSystem, _RunRequest):
    """Time and memory of one training configuration."""

    use_case: ClassVar[str] = "estimate_train"
    observed: Observed = ()
    """The user's own runs: measured values of this configuration, or measurement files."""


VARIED = ("precision", "optimizer", "global_batch")
"""What ``--vary`` takes: layouts are always searched, these change what is trained."""


class PlanTrainRequest(_NeedsModelAndSystem, _RunRequest):
    """Ranked systems and layouts; strategy fields that are stated pin an axis of the search."""

    use_case: ClassVar[str] = "plan_train"
    varied: ClassVar[tuple[str, ...]] = VARIED
    observed: Observed = ()
    """The user's own runs: measured values of the stated configuration, or measurement files."""
    objective: Annotated[Objective, Fold] = "time"
    deadline: Duration | None = None
    """Longest time allowed. [s]"""
    budget: Money | None = None
    """Most that the run may cost. [USD]"""
    max_devices: Whole | None = None
    top: Whole = 10
    """Plans to return."""
    ray: str | None = None
    """Ray cluster to search on: ``local`` to start one, else an address; here when None."""
    vary: Annotated[Mapping[str, tuple[str, ...]], BeforeValidator(variants)] = Field(
        default_factory=dict
    )
    """What may change in training itself, with the values to choose from."""
    scaling: Whole | None = None
    """Devices up to which scaling curves of the recommended plan are computed."""

    @model_validator(mode="after")
    def _only_what_changes_training_is_varied(self) -> PlanTrainRequest:
        for name in self.vary:
            if name not in self.varied:
                text = _("--vary {name} is not possible; it takes {known}")
                reason = text.format(name=name, known=", ".join(self.varied))
                raise PydanticCustomError("unknown-variant", "{reason}", {"reason": reason})
            if name in self.model_fields_set and getattr(self, name) is not None:
                reason = _("say either --{name} or --vary {name}").format(name=flag_of(name)[2:])
                raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    @model_validator(mode="after")
    def _a_plan_needs_a_length(self) -> PlanTrainRequest:
        if not self.has_length:
            reason = _("--tokens is missing (or --epochs and --examples)")
            raise PydanticCustomError("missing-value", "{reason}", {"reason": reason})
        return self


class PlanStudyRequest(Request):
    """Plans for all jobs of a study file."""

    use_case: ClassVar[str] = "plan_study"
    file: str
    """TOML with axes and jobs."""
    into: str | None = None
    """Folder of the results; named like the file when None."""
    ray: str | None = None
    """Ray cluster to work on: ``local`` to start one, else an address; here when None."""


class ExplainRequest(_RunRequest):
    """The tree behind one quantity; without a model, a fact of the system; or the list."""

    use_case: ClassVar[str] = "explain"
    quantity: str | None = None
    depth: Whole = 4
    """Levels of the tree to unfold."""
    list: bool = False

    @model_validator(mode="after")
    def _a_quantity_or_the_list(self) -> ExplainRequest:
        if self.list:
            return self
        if self.quantity is None:
            raise PydanticCustomError(
                "missing-value", "{reason}", {"reason": _("name a QUANTITY, or ask for --list")}
            )
        if self.on is None:
            raise PydanticCustomError(
                "missing-value", "{reason}", {"reason": _("--on SYSTEM is missing")}
            )
        return self


class ValidateRequest(Request):
    """Predictions against measurements."""

    use_case: ClassVar[str] = "validate"
    file: str | None = None
    kind: Annotated[Literal["training", "inference"], Fold] | None = None
    leave_one_source_out: bool = False
    only_source: str | None = None
    observed: str | None = None


class CatalogueRequest(Request):
    """List, show or check the catalogue."""

    use_case: ClassVar[str] = "catalogue"
    kind: Literal["accelerators", "systems", "models", "prices", "show", "check"]
    id: str | None = None
    as_of: date | None = None
    """Prices as they were known on that day."""

    @model_validator(mode="after")
    def _show_needs_an_id(self) -> CatalogueRequest:
        if self.kind == "show" and self.id is None:
            reason = _("name an ID to show")
            raise PydanticCustomError("missing-value", "{reason}", {"reason": reason})
        return self


REQUESTS: tuple[type[Request], ...] = (
    PlanTrainRequest,
    PlanStudyRequest,
    FitRequest,
    EstimateTrainRequest,
    ExplainRequest,
    ValidateRequest,
    CatalogueRequest,
)


def parse_request(kind: type[R], values: Mapping[str, Any]) -> R:
    """A request from values of any source.

    Args:
        kind: the request model.
        values: fields by name, as text, numbers, booleans or lists.

    Raises:
        UsageError: a field is missing, unknown, of the wrong kind or out of range; the message
            names the flag, the value and what would be valid.
    """
    values = with_configs(frozenset(kind.model_fields), values)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise usage_error(kind, error.errors(include_url=False)) from None
