"""Single changes to a training job that save memory, in the order in which a person tries them.

Those that keep the job as it is (``keeps``) come before those that change what is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chipwise.app.jobs import Complete
from chipwise.i18n import _
from chipwise.spec.job import Strategy, TrainingJob
from chipwise.spec.objective import PRECOMPUTABLE, Objective

Pair = tuple[TrainingJob, Strategy]
_SHORTEST_SEQUENCE = 512


@dataclass(frozen=True)
class Measure:
    """One change; ``apply`` gives the changed job."""

    change: str
    flags: str
    apply: Callable[[Pair], Pair]
    keeps: bool = True
    """What is trained, and on how long sequences, stays the same."""


def measures_for(one: Complete) -> Iterator[Measure]:
    """The changes that are open to a complete job."""
    split, workload, cluster = one.strategy, one.job.workload, one.job.cluster
    if (split.micro_batch or 1) > 1:
        yield _split_change(_("micro-batch 1, accumulated"), "--micro-batch 1", micro_batch=1)
    if split.recompute != "full" or (split.recompute_every or 1) > 1:
        yield _split_change(
            _("recompute all activations"),
            "--recompute full",
            recompute="full",
            recompute_every=1,
        )
    half = (workload.seq_len or 1) // 2
    fixed = workload.objective.generates
    if half >= _SHORTEST_SEQUENCE and half % (split.cp or 1) == 0 and not fixed:
        text = _("sequences of {n} tokens").format(n=half)
        yield _work_change(text, f"--seq {half}", seq_len=half)
    if cluster.num_devices > 1 and (split.dp or 1) * (split.cp or 1) > 1:
        yield from _sharding(split)
    if split.optimizer == "adamw" and workload.method == "full":
        yield _split_change(
            _("8-bit optimizer states"), "--optimizer adamw-8bit", optimizer="adamw-8bit"
        )
    yield from _companions(workload.objective)
    yield from _adapters(one)
    if not split.offload_optimizer and workload.method == "full":
        yield _split_change(
            _("optimizer states in host memory"), "--offload optimizer", offload_optimizer=True
        )
    if not split.offload_params:
        yield _split_change(
            _("weights, gradients and optimizer states in host memory"),
            "--offload optimizer,params",
            offload_optimizer=True,
            offload_params=True,
        )


def _sharding(split: Strategy) -> Iterator[Measure]:
    stages = ("zero1", "zero2", "zero3")
    texts = (
        _("optimizer states sharded"),
        _("gradients and optimizer states sharded"),
        _("weights, gradients and optimizer states sharded"),
    )
    if split.shard in ("none", *stages[:2]):
        place = stages.index(split.shard) + 1 if split.shard in stages else 0
        for stage, text in zip(stages[place:], texts[place:], strict=True):
            yield _split_change(text, f"--shard {stage}", shard=stage)


def _adapters(one: Complete) -> Iterator[Measure]:
    workload = one.job.workload
    if workload.method == "full":
        updates = {"lora_rank": 16, "lora_targets": "qv", "base_dtype": "bf16"}
        yield _work_change(_("train LoRA adapters only"), "--method lora", method="lora", **updates)
    if workload.method in ("full", "lora"):
        rank, targets = workload.lora_rank or 16, workload.lora_targets or "qv"
        updates = {"lora_rank": rank, "lora_targets": targets, "base_dtype": "nf4-dq"}
        yield _work_change(
            _("train LoRA adapters on 4-bit weights"), "--method qlora", method="qlora", **updates
        )


def _companions(what: Objective) -> Iterator[Measure]:
    """Less of what lies beside the policy."""
    if what.rollout == "shared" and not what.rollout_sleep:
        text = _("the rollout engine gives its memory back while training")
        yield _objective_change(text, "--rollout-sleep", rollout_sleep=True)
    if what.rollout == "shared" and what.rollout_memory:
        half = what.rollout_memory / 2
        text = _("a rollout engine of {share:.0%} of the memory").format(share=half)
        yield _objective_change(text, f"--rollout-memory {half:g}", rollout_memory=half)
    if what.reference == "copy" and what.loss in PRECOMPUTABLE:
        text = _("the reference's scores computed before training")
        yield _objective_change(text, "--reference precomputed", reference="precomputed")
    elif what.reference == "copy":
        text = _("the reference in host memory")
        yield _objective_change(text, "--reference offloaded", reference="offloaded")


def _objective_change(change: str, flags: str, **updates: object) -> Measure:
    def apply(pair: Pair) -> Pair:
        job, split = pair
        what = job.workload.objective.model_copy(update=dict(updates))
        workload = job.workload.model_copy(update={"objective": what})
        return job.model_copy(update={"workload": workload}), split

    return Measure(change, flags, apply)


def _split_change(change: str, flags: str, **updates: object) -> Measure:
    return Measure(change, flags, lambda pair: (pair[0], pair[1].model_copy(update=dict(updates))))


def _work_change(change: str, flags: str, **updates: object) -> Measure:
    def apply(pair: Pair) -> Pair:
        job, split = pair
        workload = job.workload.model_copy(update=dict(updates))
        return job.model_copy(update={"workload": workload}), split

    return Measure(change, flags, apply, keeps=False)
