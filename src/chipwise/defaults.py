"""What a job leaves unsaid, filled with what a competent user would run, and said so.

Plain gaps are filled at once. Gaps whose best filling depends on memory (recompute, the parallel
layout, the optimizer of a single small device) become a short list of strategies in order of
preference; the estimate takes the first one that fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from chipwise import rules
from chipwise.catalogue.frameworks import Stack, stacks
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.hardware import Accelerator
from chipwise.spec.job import Dtype, Framework, Recompute, Strategy, TrainingJob, TrainingWorkload
from chipwise.spec.method import adapts
from chipwise.spec.objective import completed, lengths
from chipwise.spec.usual_tuning import usual_tuning

_SEVERAL_TOKENS = 16384
_USUAL_LENGTH = 4096
_LARGEST_CHUNKS = 6
PEAK_OF: dict[str, str] = {
    **{"fp32": "fp32", "tf32": "tf32", "fp16": "fp16", "bf16": "bf16", "int8": "int8"},
    **{"fp8": "fp8", "mxfp8": "fp8", "mxfp4": "fp4", "nvfp4": "fp4"},
}
"""Which peak of an accelerator a training dtype uses."""


@dataclass(frozen=True)
class Resolved:
    """A job with nothing left unsaid, except what the alternatives still vary."""

    job: TrainingJob
    stack: Stack
    alternatives: tuple[Strategy, ...]
    """Complete strategies in order of preference; at least one."""
    patience: float
    """How far over its memory a strategy may look and still be preferred."""
    assumptions: tuple[str, ...]


def resolve(job: TrainingJob) -> Resolved:
    """Fill every gap of a job.

    Raises:
        UsageError: the accelerator lacks the dtype, or nothing sensible can be assumed.
    """
    notes: list[str] = []
    framework = job.strategy.framework or _default_framework(job, notes)
    stack = stacks()[framework]
    workload = _workload(job, framework, notes)
    filled = job.model_copy(update={"workload": workload})
    layouts = list(_layouts(filled, framework, stack, notes))
    base = [_finish(filled, layout, framework, stack, notes) for layout in layouts]
    alternatives = tuple(
        choice for strategy in base for choice in _recompute_choices(filled, strategy, stack, notes)
    )
    patience = stack.patience if job.strategy.recompute is None else 1.0
    return Resolved(
        filled, stack, _small_device(filled, alternatives), patience, tuple(dict.fromkeys(notes))
    )


def _default_framework(job: TrainingJob, notes: list[str]) -> Framework:
    accelerator = job.cluster.accelerator
    by_kind: dict[str, Framework] = {"tpu": "xla", "npu": "other"}
    by_family: dict[str, Framework] = {"gaudi": "gaudi", "ascend": "ascend", "trainium": "xla"}
    chosen = by_family.get(accelerator.family) or by_kind.get(accelerator.kind)
    if chosen is None:
        chosen = "fsdp" if job.workload.method == "full" else "finetune"
        if job.strategy.tp not in (None, 1) or job.strategy.pp not in (None, 1):
            chosen = "megatron-core" if accelerator.vendor == "nvidia" else "megatron"
    notes.append(_("software stack: {name}").format(name=stacks()[chosen].title))
    return chosen


def _workload(job: TrainingJob, framework: Framework, notes: list[str]) -> TrainingWorkload:
    given = job.workload
    updates: dict[str, object] = {}
    if given.seq_len is None:
        updates["seq_len"] = usual_seq_len(job)
        notes.append(_("sequence length {n} tokens").format(n=updates["seq_len"]))
    if given.precision is None:
        updates["precision"] = default_precision(job.cluster.accelerator, framework)
        notes.append(_("precision {dtype}").format(dtype=updates["precision"]))
    _require_dtype(job.cluster.accelerator, str(updates.get("precision", given.precision)))
    if given.method in ("qlora",) and given.base_dtype is None:
        updates["base_dtype"] = "nf4-dq"
        notes.append(_("frozen base weights in {dtype}").format(dtype="nf4-dq"))
    elif adapts(given.method) and given.base_dtype is None:
        updates["base_dtype"] = "bf16"
    filled, said = usual_tuning(given)
    notes.extend(said)
    if given.objective.loss != "sft":
        seq_len = given.seq_len or usual_seq_len(job)
        updates["objective"] = completed(given.objective, adapts(given.method), seq_len)
    return given.model_copy(update=updates | filled)


def usual_seq_len(job: TrainingJob) -> int:
    """Tokens of a sequence where nothing is said: prompt and completion, or 4096."""
    objective = job.workload.objective
    if objective.generates:
        return sum(lengths(objective, None))
    return min(_USUAL_LENGTH, job.model.max_context or _USUAL_LENGTH)


_FOUR_BIT_PAYS = 2.5
"""Peak of 4-bit products over 8-bit ones from which recipes train in 4 bits."""


def default_precision(accelerator: Accelerator, framework: Framework) -> Dtype:
    """What this stack trains in on this device when nothing is said.

    NVIDIA's tuned recipes use 8 bit on Hopper and Blackwell, and 4 bit on Blackwell Ultra, where
    it is three times as fast as 8 bit and not twice; others use bf16, and fp16 where the device
    has no bf16.
    """
    tuned = stacks()[framework].precision.get(accelerator.family)
    peaks = accelerator.peak_flops
    if tuned == "nvfp4" and peaks.get("fp4", 0.0) < _FOUR_BIT_PAYS * peaks["fp8"]:
        tuned = "fp8"
    if tuned:
        return tuned
    return "bf16" if "bf16" in accelerator.peak_flops else "fp16"


def _require_dtype(accelerator: Accelerator, precision: str) -> None:
    if PEAK_OF[precision] not in accelerator.peak_flops:
        raise UsageError(
            "dtype-missing",
            _("{name} has no {dtype}; it has {known}").format(
                name=accelerator.id,
                dtype=precision,
                known=", ".join(sorted(accelerator.peak_flops)),
            ),
            accelerator=accelerator.id,
            precision=precision,
        )


def _layouts(
    job: TrainingJob, framework: Framework, stack: Stack, notes: list[str]
) -> Iterator[Strategy]:
    """Strategies whose parallel degrees multiply to the device count, preferred ones first."""
    given = job.strategy
    devices = job.cluster.num_devices
    stated = given.tp is not None and given.pp is not None
    if stated or not stack.pipelines or framework in ("fsdp", "xla") or given.shard == "zero3":
        yield _degrees(job, given.tp or 1, given.pp or 1, notes)
        if not stated and devices > 1:
            notes.append(_("parallel layout: data parallel, states sharded"))
        return
    notes.append(_("parallel layout: the smallest tensor and pipeline degrees that fit"))
    sequences = job.workload.global_batch or devices
    ladder = sorted(
        {
            (tp, pp)
            for tp in ([given.tp] if given.tp else [1, 2, 4, 8])
            for pp in ([given.pp] if given.pp else [1, 2, 4, 8, 16, 32])
            if devices % (tp * pp * (given.cp or 1)) == 0
            and (given.cp is None or devices <= tp * pp * given.cp * sequences)
            and (given.tp is not None or tp <= job.cluster.devices_per_node)
            and pp <= job.model.num_layers
        },
        key=lambda degrees: (prod(degrees), degrees[1]),
    )
    for tp, pp in ladder or [(1, 1)]:
        yield _degrees(job, tp, pp, notes)


def _degrees(job: TrainingJob, tp: int, pp: int, notes: list[str]) -> Strategy:
    """The remaining degrees: a rank needs at least one sequence, or a part of one."""
    given, ranks = job.strategy, job.cluster.num_devices // (tp * pp)
    sequences = job.workload.global_batch or ranks
    cp = given.cp
    if cp is None:
        wanted = 1 if given.dp else ceil(ranks / sequences)
        cp = next(n for n in range(min(wanted, ranks), ranks + 1) if ranks % n == 0)
        if cp > 1:
            notes.append(_("{n}-way context parallel: fewer sequences than ranks").format(n=cp))
    dp = given.dp or max(1, ranks // cp)
    ep = given.ep or _usual_ep(job, tp * cp * dp, notes)
    return given.model_copy(update={"tp": tp, "pp": pp, "cp": cp, "dp": dp, "ep": ep})


def _usual_ep(job: TrainingJob, ranks: int, notes: list[str]) -> int:
    """Experts are spread as far as the fast link reaches: gathering them would move far more."""
    experts = max(
        (g.feed_forward.num_experts for g in job.model.layers if g.feed_forward), default=0
    )
    reach = min(ranks, job.cluster.devices_per_node, experts)
    ep = max((n for n in range(1, reach + 1) if experts % n == 0 and ranks % n == 0), default=1)
    if ep > 1:
        notes.append(_("{n}-way expert parallel").format(n=ep))
    return ep


def _finish(
    job: TrainingJob, layout: Strategy, framework: Framework, stack: Stack, notes: list[str]
) -> Strategy:
    """Everything but recompute."""
    tp, pp, dp = layout.tp or 1, layout.pp or 1, layout.dp or 1
    updates: dict[str, object] = {"framework": framework}
    several = dp * (layout.cp or 1) > 1
    if layout.shard is None or layout.shard == "fsdp":
        updates["shard"] = "zero3" if layout.shard == "fsdp" else stack.shard if several else "none"
        notes.append(_("sharding: {stage}").format(stage=updates["shard"]))
    if layout.sequence_parallel is None:
        updates["sequence_parallel"] = tp > 1 and framework != "deepspeed"
    updates["micro_batch"] = micro_batch = _micro_batch(job, layout, notes)
    if layout.attention is None:
        updates["attention"] = "sdpa" if framework in ("finetune", "fsdp") else "flash"
    if layout.optimizer is None:
        updates["optimizer"] = "adamw"
    if layout.vpp is None:
        updates["vpp"] = _chunks(job, pp, micro_batch, layout, stack, notes)
    if layout.chunked_loss is None:
        updates["chunked_loss"] = "fused" if stack.loss == "fused" else "no"
    if layout.compiled is None:
        updates["compiled"] = stack.loss == "compiled"
    updates["recorded"] = _recorded(job, layout, stack, notes)
    if layout.master_weights is None:
        updates["master_weights"] = stack.storage != "16bit"
    defaults = {
        "recompute_every": 1,
        "optimizer_in_backward": False,
        "offload_optimizer": False,
        "offload_params": False,
        "offload_activations": False,
        "layer_split": False,
        "shard_group": dp * (layout.cp or 1),
    }
    updates |= {name: value for name, value in defaults.items() if getattr(layout, name) is None}
    return layout.model_copy(update=updates)


def _recorded(job: TrainingJob, layout: Strategy, stack: Stack, notes: list[str]) -> bool:
    """Whether steps are recorded whole, with experts in fused kernels.

    Raises:
        UsageError: they are said to be, where no release does that.
    """
    narrow = "mxfp8" in (job.workload.precision, layout.fp8_recipe)
    blackwell = job.cluster.accelerator.family == "nvidia-blackwell"
    able = stack.records_experts and narrow and blackwell and rules.num_experts(job.model) > 0
    if layout.recorded and not able:
        raise UsageError(
            "cannot-record",
            _(
                "--graphs: only Megatron-Core with experts in mxfp8 on Blackwell records whole "
                "steps; leave it out, or state --framework megatron-core --precision mxfp8"
            ),
        )
    return able and bool(layout.recorded)


def _micro_batch(job: TrainingJob, layout: Strategy, notes: list[str]) -> int:
    if layout.micro_batch is not None:
        return layout.micro_batch
    dp, pp = layout.dp or 1, layout.pp or 1
    seq_len = (job.workload.seq_len or 1) * (2 if job.workload.objective.pairs else 1)
    per_rank = max(1, (job.workload.global_batch or 10**9) // dp)
    wanted = max(1, _SEVERAL_TOKENS // seq_len) if pp == 1 else max(1, per_rank // pp)
    if pp > 1 and layout.framework not in ("fsdp",):
        wanted = 1
    chosen = max(n for n in range(1, min(wanted, per_rank) + 1) if per_rank % n == 0)
    notes.append(_("micro-batch {n}").format(n=chosen))
    return chosen


def _chunks(
    job: TrainingJob, pp: int, micro_batch: int, layout: Strategy, stack: Stack, notes: list[str]
) -> int:
    """Virtual stages per device: tuned stacks interleave when nothing is said."""
    if pp == 1 or not stack.interleaves or layout.layer_split:
        return 1
    chunks = max(1, min(_LARGEST_CHUNKS, ceil(job.model.num_layers / pp) // 2))
    notes.append(_("{n} virtual stages per device").format(n=chunks))
    return chunks


def _recompute_choices(
    job: TrainingJob, strategy: Strategy, stack: Stack, notes: list[str]
) -> Iterator[Strategy]:
    if strategy.recompute is not None:
        yield strategy
        return
    choices = _usual_recompute(job, strategy, stack)
    if len(choices) > 1:
        notes.append(_("activation recompute: only if memory needs it"))
    else:
        notes.append(_("activation recompute: {mode}").format(mode=choices[0]))
    for choice in choices:
        yield strategy.model_copy(update={"recompute": choice})


def _usual_recompute(job: TrainingJob, strategy: Strategy, stack: Stack) -> tuple[Recompute, ...]:
    """What the stack does when nothing is said, in order of preference."""
    if job.workload.method == "prefix":
        return ("none",)
    if stack.recompute == "full":
        return ("full",)
    if job.workload.method != "full":
        return ("full",) if strategy.shard == "zero3" else ("none",)
    return ("none",) if stack.recompute == "none" else ("none", "full")


def _small_device(job: TrainingJob, strategies: tuple[Strategy, ...]) -> tuple[Strategy, ...]:
    """For one device and an unstated optimizer: 8-bit states, then paged ones, as last resorts."""
    if job.cluster.num_devices > 1 or job.workload.method != "full" or job.strategy.optimizer:
        return strategies
    lean = {"optimizer": "adamw-8bit", "optimizer_in_backward": True}
    eight_bit = strategies[-1].model_copy(update=lean)
    return (*strategies, eight_bit, eight_bit.model_copy(update={"offload_optimizer": True}))
