"""What is to be done, and how it is split: workload, strategy, and the job that joins them.

``None`` means "not stated": ``defaults.resolve`` fills it with what a competent user would run,
and records each filling as an assumption.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from chipwise.spec.hardware import Cluster
from chipwise.spec.method import Method, Tuning
from chipwise.spec.model import Count, Frozen, ModelSpec, Size
from chipwise.spec.objective import Objective
from chipwise.spec.price import Terms

Dtype = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "int8", "mxfp4", "nvfp4"]
BaseDtype = Literal["fp32", "bf16", "fp16", "int8", "int4", "nf4", "nf4-dq", "fp4"]
Recompute = Literal["none", "selective", "full"]
AttentionKernel = Literal["eager", "sdpa", "flash"]
Shard = Literal["none", "zero1", "zero2", "zero3", "fsdp"]
Schedule = Literal["1f1b", "interleaved-1f1b", "zero-bubble", "dualpipe"]
Optimizer = Literal[
    "adamw",
    "adamw-bf16",
    "adamw-8bit",
    "paged-adamw",
    "paged-adamw-8bit",
    "galore-adamw",
    "galore-adamw-8bit",
    "adafactor",
    "sgd",
    "lion",
    "paged-lion",
    "muon",
]
Framework = Literal[
    "megatron-core",
    "megatron",
    "deepspeed",
    "fsdp",
    "finetune",
    "nanotron",
    "xla",
    "gaudi",
    "ascend",
    "other",
]
FRAMEWORKS: tuple[Framework, ...] = (
    "megatron-core",
    "megatron",
    "deepspeed",
    "fsdp",
    "finetune",
    "nanotron",
    "xla",
    "gaudi",
    "ascend",
    "other",
)


class Lengths(Frozen):
    """How long the sequences of a data set are, and what is done about their differences."""

    tokens: tuple[float, ...]
    """Lengths, ascending; the last one is the longest there is."""
    shares: tuple[float, ...]
    """Of the sequences that are no longer than each; the last one is 1."""
    padding: Literal["longest", "grouped", "free"]
    """To the longest of a micro-batch, drawn at random or sorted beforehand, or none at all."""
    pool: Count = 1
    """Sequences that are sorted together, where they are sorted."""


class TrainingWorkload(Frozen):
    """What is trained: sequence length, batch, method and number format."""

    seq_len: Count | None = None
    global_batch: Count | None = None
    """Sequences per optimizer step over the whole job."""
    accumulation: Count | None = None
    """Micro-batches per step and rank that made the batch; None where the batch was stated."""
    tokens: Annotated[float, Field(gt=0)] | None = None
    """Tokens to train on in all."""
    precision: Dtype | None = None
    method: Method = "full"
    base_dtype: BaseDtype | None = None
    """Storage of the frozen base weights (adapter methods)."""
    lora_rank: Count | None = None
    lora_targets: str | None = None
    """A word of ``targets.WORDS`` or names of modules with commas between them."""
    trainable_params: Size | None = None
    tuning: Tuning = Tuning()
    packing: bool | None = None
    objective: Objective = Objective()
    lengths: Lengths | None = None
    """Sequences of unlike length, ``seq_len`` the longest; None where all are equally long."""


class Run(Frozen):
    """What a whole run does beside its steps; None where not stated."""

    sequences: Annotated[float, Field(gt=0)] | None = None
    """Sequences to train on in all (epochs × examples), where no tokens are stated."""
    checkpoint_every: Count | None = None
    """Steps from one checkpoint to the next."""
    storage_bandwidth: Annotated[float, Field(gt=0)] | None = None
    """Writing checkpoints, B/s for the whole job."""
    data_bandwidth: Annotated[float, Field(gt=0)] | None = None
    """Reading training data, B/s for the whole job."""
    data_stall: Annotated[float, Field(ge=0)] | None = None
    """Time waiting for data, over the time of the steps."""


class Strategy(Frozen):
    """How the job is split and which memory-saving measures are on."""

    framework: Framework | None = None
    tp: Count | None = None
    pp: Count | None = None
    dp: Count | None = None
    cp: Count | None = None
    ep: Count | None = None
    vpp: Count | None = None
    """Virtual pipeline stages per device."""
    shard: Shard | None = None
    shard_group: Count | None = None
    """Devices over which states are sharded (HSDP); None means the whole dp·cp group."""
    sequence_parallel: bool | None = None
    micro_batch: Count | None = None
    recompute: Recompute | None = None
    recompute_every: Count | None = None
    """With full recompute: every N-th layer only (1 = all layers)."""
    attention: AttentionKernel | None = None
    optimizer: Optimizer | None = None
    optimizer_in_backward: bool | None = None
    offload_optimizer: bool | None = None
    offload_params: bool | None = None
    offload_activations: bool | None = None
    master_weights: bool | None = None
    """A second, fp32 copy of the trained weights is kept."""
    grad_dtype: Literal["bf16", "fp16", "fp32"] | None = None
    chunked_loss: Literal["no", "yes", "fused"] | None = None
    """Cross entropy without the full logits (chunked), or fused with the head."""
    compiled: bool | None = None
    recorded: bool | None = None
    """The whole step is recorded once and replayed; experts run in fused kernels beside the
    exchange of another micro-batch's tokens."""
    pp_schedule: Schedule | None = None
    tp_overlap: bool | None = None
    dp_overlap: bool | None = None
    fp8_recipe: Literal["tensorwise", "rowwise", "mxfp8", "nvfp4", "fp8_full"] | None = None
    layer_split: bool | None = None
    """Layers spread over devices that work one after the other (not a pipeline)."""

    @property
    def offloads(self) -> bool:
        """Whether anything lives in host memory."""
        return bool(self.offload_optimizer or self.offload_params or self.offload_activations)


class TrainingJob(Frozen):
    """A model, a machine, a workload and a strategy: all that an estimate needs."""

    model: ModelSpec
    cluster: Cluster
    workload: TrainingWorkload
    strategy: Strategy
    run: Run = Run()
    terms: Terms = Terms()
    power_cap_watts: Annotated[float, Field(gt=0)] | None = None
    host_memory_bytes: Annotated[float, Field(gt=0)] | None = None
    """Host memory of a node, where it is stated."""

    @property
    def node_memory_bytes(self) -> float:
        """Host memory of a node: stated or usual; 0 where it is not known."""
        return self.host_memory_bytes or self.cluster.node.host_memory_bytes
