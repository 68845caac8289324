"""What is answered, as models of the JSON documents that others rely on.

SI values with the unit in the key; shares and utilizations are fractions. Every document has
``schema``, ``command``, ``inputs`` (as understood, defaults filled), ``assumptions`` (largest
effect first) and ``warnings``; its ``exit_code`` is the answer's, not the program's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
EXIT_INFEASIBLE = 3
EXIT_FINDINGS = 4

Basis = Literal["measured", "calibrated", "datasheet", "assumed"]
Verdict = Literal["fits", "tight", "does not fit", "unknown"]


class Part(BaseModel):
    """Closed and immutable, like the requests."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class Range(Part):
    """An estimate with its 80 % interval and what it rests on."""

    low: float
    likely: float
    high: float
    basis: Basis


class Assumption(Part):
    """Something taken for granted; ``effect`` says what the other choice would change."""

    text: str
    effect: str | None = None


class Document(Part):
    """What every document carries."""

    schema_: int = Field(default=SCHEMA_VERSION, alias="schema", serialization_alias="schema")
    command: str
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()

    model_config = ConfigDict(populate_by_name=True)

    @property
    def exit_code(self) -> int:
        """0; documents whose answer can be no say so with another code."""
        return 0


class Observed(Part):
    """What the user's own runs changed; shifts are in ln, narrowings factors on range widths."""

    accelerator: str
    """Whose predictions moved; empty in ``validate``, where it is all rows."""
    time_shift: float
    """Of step times; throughputs and utilizations move the other way."""
    memory_shift: float
    time_narrowing: float
    memory_narrowing: float
    runs: int


# -- layout and memory -----------------------------------------------------------------------


class Layout(Part):
    """How the job is split, and the measures that are on."""

    framework: str
    dp: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    vpp: int = 1
    sequence_parallel: bool = False
    shard: str
    zero_stage: int
    shard_group: int
    """Ranks over which states are sharded; fewer than dp · cp is hybrid sharding."""
    micro_batch: int
    num_microbatches: int
    global_batch: int
    seq_len: int
    recompute: str
    recompute_every: int = 1
    attention: str
    optimizer: str
    precision: str
    method: str = "full"
    offload: tuple[str, ...] = ()
    other: Mapping[str, Any] = Field(default_factory=dict)
    """Further settings by name (pipeline schedule, gradient dtype, chunked loss …)."""


class MemoryPart(Part):
    """One line of the memory bill of the fullest device."""

    name: str
    bytes: float
    share: float
    """Of the allocated total."""
    formula: str = ""
    source: str = ""


class Memory(Part):
    """The memory bill of the fullest device in bytes; allocated and reserved apart."""

    parts: tuple[MemoryPart, ...]
    total_bytes: float
    """Peak allocated by tensors: the parts add up to it."""
    reserved_bytes: float
    """What the allocator holds at the peak: live tensors and its cache; context is apart."""
    capacity_bytes: float
    usable_bytes: float
    """What a program can have of the capacity."""
    load_peak_bytes: float | None = None
    load_unpartitioned_bytes: float | None = None
    """Loading where the model is built whole before its weights are sharded; else null."""
    save_peak_bytes: float | None = None
    range: Range | None = None
    """Of ``reserved_bytes``."""


class RemedyStep(Part):
    """One change of a combination, and what it saves on top of those before it."""

    change: str
    flags: str
    saves_bytes: float


class Remedy(Part):
    """One change that saves memory, computed; ``slowdown`` 1.3 means 30 % slower."""

    change: str
    flags: str = ""
    """The change as command-line flags."""
    saves_bytes: float
    slowdown: float | None = None
    fits_after: bool
    steps: tuple[RemedyStep, ...] = ()
    """Of a combination; empty for a single change."""


class Patch(Part):
    """The person's own configuration files with the one change in them."""

    diff: str
    """Unified diff; empty where no file can say the change."""
    left_out: str = ""
    """Flags for what no file can say."""


class Largest(Part):
    """The most that fits with all else unchanged; None where nothing fits."""

    micro_batch: int | None = None
    seq_len: int | None = None
    rank: int | None = None
    """Of low-rank adapters; None for other methods."""


class Smallest(Part):
    """The least that holds the job with its gaps filled anew; None where nothing known does."""

    card: str | None = None
    """Device with the least memory, in the same count."""
    card_memory_bytes: float | None = None
    devices: int | None = None
    """Fewest devices of the same kind."""


class Subject(Part):
    """Which model on which machine, as understood."""

    model: str
    system: str
    devices: int
    understood: str = ""
    """How an ambiguous system name was read."""


class FitDocument(Document):
    """Does it fit, where does the memory go, what would change it."""

    command: str = "fit"
    subject: Subject
    layout: Layout
    verdict: Verdict
    memory: Memory
    host_bytes: float | None = None
    """Host memory of one node: offloaded states, or the checkpoint while it is read."""
    host_capacity_bytes: float | None = None
    """Host memory a node has; null where it is not known."""
    headroom_bytes: float
    """Usable (less the headroom asked for) minus needed; negative when it does not fit."""
    largest: Largest
    smallest: Smallest = Smallest()
    remedies: tuple[Remedy, ...] = ()
    one_change: Remedy | None = None
    """The cheapest remedy that makes it fit; null when it fits or none does."""
    patch: Patch | None = None
    """Of the configuration files that were given, where there is a change to make."""
    observed: Observed | None = None

    @property
    def exit_code(self) -> int:
        """3 when it does not fit."""
        return EXIT_INFEASIBLE if self.verdict == "does not fit" else 0


class ServeLayout(Part):
    """How one copy of the model is spread, and what the engine is told."""

    engine: str
    tp: int = 1
    pp: int = 1
    copies: int = 1
    """Independent copies of the model; capacities are those of one."""
    weights_dtype: str
    kv_dtype: str
    context: int
    concurrency: int
    gpu_memory_utilization: float
    max_num_batched_tokens: int
    max_num_seqs: int


class ServeFitDocument(Document):
    """Does a model fit for serving, and what context and concurrency it leaves room for."""

    command: str = "fit"
    task: Literal["serve"] = "serve"
    subject: Subject
    layout: ServeLayout
    verdict: Verdict
    memory: Memory
    host_bytes: float | None = None
    headroom_bytes: float
    """Room for keys and values minus what the sequences asked for need; per device."""
    weights_bytes: float
    """One copy of the model, over all its devices."""
    device_weights_bytes: float
    kv_bytes_per_token: float
    """All layers, over all devices of a copy."""
    kv_room_bytes: float
    """Per device; 0 when not even the weights fit."""
    kv_tokens: int
    """Tokens that one copy's KV cache holds."""
    max_context: int
    """Longest context of one sequence alone, within what the model allows."""
    max_concurrency: int
    """Sequences of the context asked for that one copy holds at once."""
    largest: Largest
    remedies: tuple[Remedy, ...] = ()
    one_change: Remedy | None = None
    engine_command: str
    """The engine's own command line for this setup."""

    @property
    def exit_code(self) -> int:
        """3 when it does not fit."""
        return EXIT_INFEASIBLE if self.verdict == "does not fit" else 0


# -- time ------------------------------------------------------------------------------------


class TimePart(Part):
    """One share of the step time."""

    name: str
    seconds: float
    share: float


class Performance(Part):
    """How fast one configuration is; utilizations are fractions of the peak said beside them."""

    step_time_s: Range
    tokens_per_s: Range
    tokens_per_s_per_device: Range
    mfu: Range
    hfu: Range
    peak_flops_per_s: float
    """Dense peak of one device in the number format used."""
    peak_dtype: str
    bound_by: str
    time_parts: tuple[TimePart, ...]


class Marginal(Part):
    """What one step more of a resource would give, all else unchanged."""

    resource: str
    change: str
    step_time_s: float
    """For the same tokens per step."""
    speedup: float
    """Throughput of all devices, after over before."""


class RunReport(Part):
    """A whole run: its steps and what comes beside them."""

    tokens: float
    num_steps: float
    parts: tuple[TimePart, ...]
    """Shares of the run's duration, largest first."""
    checkpoint_bytes: float
    """One checkpoint: weights, master weights and optimizer states."""
    checkpoint_time_s: float | None = None
    """Writing one; None when none are asked for."""


class Price(Part):
    """The cheapest way to rent the devices; whole SKUs are paid for."""

    provider: str
    sku: str
    region: str
    market: str
    count: int
    """SKUs rented."""
    usd_per_hour: float
    """All SKUs together."""
    usd_per_device_hour: float
    """Over the devices of the job: what is paid for and not used counts."""
    low_usd_per_device_hour: float
    """The cheapest provider with a current offer."""
    high_usd_per_device_hour: float
    seen: str
    """Month in which the price held at the latest."""
    age_days: int
    stale: bool
    """Seen more than 90 days ago."""
    source: str
    confidence: str


class EstimateDocument(Performance, Document):
    """One configuration: time, throughput, utilization and memory."""

    command: str = "estimate train"
    subject: Subject
    layout: Layout
    verdict: Verdict
    memory: Memory
    marginal: tuple[Marginal, ...] = ()
    """Best first."""
    duration_s: Range | None = None
    """None when it was not said how much to train on."""
    device_hours: Range | None = None
    cost_usd: Range | None = None
    """Rent of the run; None where no price is known, or no length."""
    energy_kwh: Range | None = None
    """Electricity of the site; None where the device's power is not published, or no length."""
    price: Price | None = None
    """None where no current offer in USD holds the devices."""
    run: RunReport | None = None
    observed: Observed | None = None

    @property
    def exit_code(self) -> int:
        """3 when it does not fit."""
        return EXIT_INFEASIBLE if self.verdict == "does not fit" else 0
