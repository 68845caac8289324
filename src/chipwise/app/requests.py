"""What can be asked, as frozen models whose fields are the command line's flags.

The same models read command-line words, run files, environment variables and REST bodies:
numbers may be text with units (``"2B"``, ``"14d"``, ``"10%"``), lists may be text with commas.
``None`` means not stated; the use case fills it in and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from chipwise.errors import UnitError, UsageError, nearest_names
from chipwise.i18n import _
from chipwise.spec.job import (
    AttentionKernel,
    BaseDtype,
    Dtype,
    Framework,
    LoraTargets,
    Method,
    Optimizer,
    Recompute,
    Run,
    Schedule,
    Shard,
    Strategy,
    TrainingWorkload,
)
from chipwise.spec.model import Frozen

R = TypeVar("R", bound="Request")
Offload = Literal["optimizer", "params", "activations"]
ChunkedLoss = Literal["no", "yes", "fused"]
EngineName = Literal["vllm", "sglang", "trt-llm", "llama.cpp"]
KvDtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]
Objective = Literal["time", "device-hours"]

LARGEST_COUNT = 10**9
"""Beyond any sequence, batch or count of devices there is."""
LARGEST_RUN = 1e18
"""Tokens, ten thousand times the longest published run."""
_LONGEST = 64
DTYPE_WORDS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8": "fp8",
}


def _number_in(unit: str) -> Callable[[Any], Any]:
    """A validator that reads text with a unit as a float in that SI unit."""

    def read(value: Any) -> Any:
        from chipwise.units import parse

        if not isinstance(value, str):
            return value
        try:
            return parse(value, unit)
        except UnitError as error:
            raise PydanticCustomError(
                "unit", "{reason}", {"reason": error.message, "code": error.code}
            ) from None

    return read


def _whole(value: Any) -> Any:
    """Counts may be written ``4k`` or ``2e3``; what is no whole number stays as it is."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "a count is no yes or no")
    number = _number_in("1")(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _share(value: Any) -> Any:
    """``10%`` is 0.1; a plain number is the share itself."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = nan
    if not isfinite(number):
        reason = _("'{text}' is no share; write it like 10% or 0.1").format(text=text[:_LONGEST])
        raise PydanticCustomError("not-a-number", "{reason}", {"reason": reason})
    return number / 100 if percent else number


def _systems(value: Any) -> Any:
    """Several texts are one list with commas."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return value


def _words(value: Any) -> Any:
    """Text with commas is a list; a list's items may have commas too."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(word.strip() for item in value for word in item.split(",") if word.strip())
    return value


def _overrides(value: Any) -> Any:
    """``["step_time=1.2s"]`` as a mapping; a mapping stays, its values become text."""
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, (list, tuple)):
        pairs = [str(item).partition("=") for item in value]
        broken = [name for name, equals, text in pairs if not (name.strip() and text.strip())]
        if broken:
            raise PydanticCustomError(
                "override", "{reason}", {"reason": _("write QUANTITY=VALUE"), "text": broken[0]}
            )
        return {name.strip(): text.strip() for name, equals, text in pairs}
    if isinstance(value, Mapping):
        return {str(name): str(number) for name, number in value.items()}
    return value


def _texts(value: Any) -> Any:
    """One text or several, as a tuple; commas stay, since values and file names have them."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)):
        return tuple(str(item) for item in value)
    if isinstance(value, Mapping):
        return tuple(f"{name}={number}" for name, number in value.items())
    return value


def _folded(value: Any) -> Any:
    """Choices are compared in lower case; common long names of number formats are known."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower().removeprefix("torch.")
    return DTYPE_WORDS.get(word, word)


Whole = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=LARGEST_COUNT)]
Tokens = Annotated[float, BeforeValidator(_number_in("1")), Field(gt=0, le=LARGEST_RUN)]
Duration = Annotated[float, BeforeValidator(_number_in("s")), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_share), Field(ge=0, lt=1, allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(_share), Field(gt=0, le=1, allow_inf_nan=False)]
Rate = Annotated[float, BeforeValidator(_number_in("B/s")), Field(ge=1, allow_inf_nan=False)]
Observed = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Systems = Annotated[str, BeforeValidator(_systems)]
Fold = BeforeValidator(_folded)


class Request(Frozen):
    """What every question may carry."""

    use_case: ClassVar[str]
    catalogue: str | None = None
    """Folder with the user's own catalogue files, which add to or replace the bundled ones."""


class JobRequest(Request):
    """A model on a system, with what is trained and how; shared by all training questions."""

    model: str | None = None
    on: Systems | None = None
    seq: Whole | None = None
    global_batch: Whole | None = None
    method: Annotated[Method, Fold] = "full"
    rank: Whole | None = None
    targets: Annotated[LoraTargets, Fold] | None = None
    base_dtype: Annotated[BaseDtype, Fold] | None = None
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
    framework: Annotated[Framework, Fold] | None = None

    pp_schedule: Annotated[Schedule, Fold] | None = None
    recompute: Annotated[Recompute, Fold] | None = None
    recompute_every: Whole | None = None
    attention: Annotated[AttentionKernel, Fold] | None = None
    optimizer: Annotated[Optimizer, Fold] | None = None
    grad_dtype: Annotated[Literal["bf16", "fp16", "fp32"], Fold] | None = None
    master_weights: bool | None = None
    offload: Annotated[tuple[Offload, ...], BeforeValidator(_words)] = ()
    chunked_loss: Annotated[ChunkedLoss, Fold] | None = None
    compile: bool | None = None
    headroom: Share | None = None
    """Share of device memory that must stay free."""

    set: Annotated[Mapping[str, str], BeforeValidator(_overrides)] = Field(default_factory=dict)
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
        )

    @property
    def strategy(self) -> Strategy:
        """How it is split and which measures are on, as a spec; None where not stated."""
        same = (
            *("framework", "tp", "pp", "dp", "cp", "ep", "vpp", "shard", "sequence_parallel"),
            *("micro_batch", "recompute", "recompute_every", "attention", "optimizer"),
            *("master_weights", "grad_dtype", "chunked_loss", "pp_schedule"),
        )
        stated = {name: getattr(self, name) for name in same}
        if self.recompute is None and self.recompute_every is not None:
            stated["recompute"] = "full"
        return Strategy(
            **stated,
            compiled=self.compile,
            offload_optimizer=self._offloads("optimizer"),
            offload_params=self._offloads("params"),
            offload_activations=self._offloads("activations"),
        )

    def _offloads(self, what: Offload) -> bool | None:
        return what in self.offload if self.offload else None

    @model_validator(mode="after")
    def _adapter_flags_need_an_adapter_method(self) -> JobRequest:
        given = [name for name in ("rank", "targets") if getattr(self, name) is not None]
        if given and self.method == "full":
            raise PydanticCustomError(
                "contradiction",
                "{reason}",
                {
                    "reason": _("--{flag} needs --method lora or qlora").format(flag=given[0]),
                },
            )
        return self


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


class PlanTrainRequest(_NeedsModelAndSystem, _RunRequest):
    """Ranked systems and layouts; strategy fields that are stated pin an axis of the search."""

    use_case: ClassVar[str] = "plan_train"
    observed: Observed = ()
    """The user's own runs: measured values of the stated configuration, or measurement files."""
    objective: Annotated[Objective, Fold] = "time"
    deadline: Duration | None = None
    """Longest time allowed. [s]"""
    max_devices: Whole | None = None
    top: Whole = 10
    """Plans to return."""

    @model_validator(mode="after")
    def _a_plan_needs_a_length(self) -> PlanTrainRequest:
        if not self.has_length:
            reason = _("--tokens is missing (or --epochs and --examples)")
            raise PydanticCustomError("missing-value", "{reason}", {"reason": reason})
        return self


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
    kind: Literal["accelerators", "systems", "models", "show", "check"]
    id: str | None = None

    @model_validator(mode="after")
    def _show_needs_an_id(self) -> CatalogueRequest:
        if self.kind == "show" and self.id is None:
            reason = _("name an ID to show")
            raise PydanticCustomError("missing-value", "{reason}", {"reason": reason})
        return self


REQUESTS: tuple[type[Request], ...] = (
    PlanTrainRequest,
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
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _usage_error(kind, error.errors(include_url=False)) from None


def _usage_error(kind: type[Request], problems: list[ErrorDetails]) -> UsageError:
    first = problems[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    code, text = _described(kind, field, first)
    return UsageError(code, text, field=field, value=_plain(first["input"]))


def _plain(value: object) -> object:
    return value if isinstance(value, (str, int, float, bool, list)) else None


def flag_of(field: str) -> str:
    """The flag or argument that carries a field, as a person writes it."""
    if field in ("model", "quantity", "file", "id"):
        return field.upper()
    return f"--{field.replace('_', '-')}"


def _described(kind: type[Request], field: str, problem: ErrorDetails) -> tuple[str, str]:
    flag, given = flag_of(field), problem["input"]
    match problem["type"]:
        case "missing" if field:
            return "missing-value", _("{flag} is missing").format(flag=flag)
        case "extra_forbidden":
            near = nearest_names(field, kind.model_fields, 1)
            hint = _("; did you mean '{name}'?").format(name=near[0]) if near else ""
            return "unknown-field", _("unknown field '{field}'{hint}").format(
                field=field, hint=hint
            )
        case "literal_error":
            known = choices_of(kind, field)
            near = nearest_names(str(given), known, 1)
            hint = _("; did you mean '{name}'?").format(name=near[0]) if near else ""
            return "unknown-choice", _("{flag} '{given}' is not one of {known}{hint}").format(
                flag=flag, given=given, known=", ".join(known), hint=hint
            )
        case "int_type" | "int_parsing" | "int_from_float":
            return "not-a-whole-number", _("{flag} '{given}' is not a whole number").format(
                flag=flag, given=given
            )
        case "greater_than_equal" | "greater_than" | "less_than" | "less_than_equal":
            return "out-of-range", _("{flag} {given} is out of range: {rule}").format(
                flag=flag, given=given, rule=_bounds(problem)
            )
        case "bool_parsing" | "bool_type":
            return "not-yes-or-no", _("{flag} '{given}' is neither yes nor no").format(
                flag=flag, given=given
            )
    context = problem.get("ctx", {})
    plain = _("'{given}' is nothing that can be meant here").format(given=str(given)[:_LONGEST])
    reason = str(context.get("reason", plain))
    own_code = problem["type"] if "reason" in context else "invalid-value"
    code = str(context.get("code", own_code))
    return code, f"{flag}: {reason}" if field else reason


def _bounds(problem: ErrorDetails) -> str:
    context = problem.get("ctx", {})
    for key, sign in (("ge", "≥"), ("gt", ">"), ("lt", "<"), ("le", "≤")):
        if key in context:
            return _("must be {sign} {limit}").format(sign=sign, limit=context[key])
    return problem["msg"]


def choices_of(kind: type[Request], field: str) -> tuple[str, ...]:
    """The words a field allows, read from its type; empty for numbers and free text."""
    annotation: Any = kind.model_fields[field].annotation
    schema = TypeAdapter(annotation).json_schema()
    found: list[str] = []

    def collect(part: Any) -> None:
        if isinstance(part, Mapping):
            found.extend(str(word) for word in part.get("enum", ()))
            if "const" in part:
                found.append(str(part["const"]))
            for inner in part.values():
                collect(inner)
        elif isinstance(part, list):
            for inner in part:
                collect(inner)

    collect(schema)
    return tuple(dict.fromkeys(found))
