"""A training objective as columns: companions as so many times the policy, the rollout engine."""

from __future__ import annotations

from functools import lru_cache

from chipwise.columns.model import Scalars
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import TrainingJob, TrainingWorkload
from chipwise.spec.method import adapts
from chipwise.spec.model import ModelSpec
from chipwise.spec.objective import PRECOMPUTABLE, Objective, completed, engine_share
from chipwise.spec.tensors import params_total

_SIXTEEN_BIT = 2.0
_MOST_SEQUENCES = 1024.0
"""Sequences an engine has in flight at most [verl-config]."""
_LOG_SOFTMAX = 3.0
"""16-bit logits and their fp32 log-softmax, in copies of 16 bits [agarwal2023]."""
_WEIGHTS_OF_SHARE = 0.5
"""Part of an engine's memory that its weights may take; the rest is for keys and values."""
_UNUSED = (
    *("companion_bytes", "companion_host_bytes", "companion_peak_bytes"),
    *("frozen_logits_bytes", "companion_time"),
)
"""Quantities that are zero for next-token training: given, so that nothing is computed for it."""


def objective_columns(job: TrainingJob, compute_bytes: float) -> Scalars:
    """Companions and rollout of one job; quantities without use are given as zero.

    Args:
        job: a job whose workload is complete.
        compute_bytes: per value of a forward pass.
    """
    workload = job.workload
    adapters = adapts(workload.method)
    what = completed(workload.objective, adapters, workload.seq_len)
    used = {} if what.loss != "sft" else dict.fromkeys(_UNUSED, 0.0)
    return (
        used
        | _companions(what, job.model, compute_bytes)
        | _passes(what)
        | _rollout(what, job.model)
        | rollout_columns(job)
    )


def head_columns(objective: Objective, model: ModelSpec) -> Scalars:
    """What replaces the output head: one score where a reward model is trained."""
    if objective.loss != "reward":
        return {}
    return {"vocab": 1.0, "head_params": float(model.hidden), "tied_embeddings": 0.0}


def rollout_columns(job: TrainingJob) -> Scalars:
    """What of the rollout depends on the machine."""
    what = job.workload.objective
    apart = what.devices_apart
    if not what.generates:
        return {"rollout_tp": 1.0, "rollout_devices": 0.0}
    return {
        "rollout_tp": float(what.rollout_tp or usual_rollout_tp(job.model, job.cluster, what)),
        "rollout_devices": float(apart),
    }


def usual_rollout_tp(model: ModelSpec, cluster: Cluster, objective: Objective) -> int:
    """The fewest devices of a node that hold the weights in half of an engine's memory."""
    device = cluster.accelerator
    room = (device.visible_bytes or device.memory_bytes) * engine_share(objective)
    domain = objective.devices_apart or cluster.num_devices
    domain = min(domain, cluster.devices_per_node)
    needed = params_total(model) * _SIXTEEN_BIT / (room * _WEIGHTS_OF_SHARE)
    fitting = (n for n in range(1, domain + 1) if domain % n == 0 and n >= needed)
    return next(fitting, domain)


def trained_sequences(workload: TrainingWorkload) -> float:
    """Sequences trained for one example of the data: pairs, groups and epochs counted."""
    adapters = adapts(workload.method)
    what = completed(workload.objective, adapters, workload.seq_len)
    if what.generates:
        return float((what.group_size or 1) * (what.ppo_epochs or 1))
    return 2.0 if what.pairs else 1.0


def _companions(what: Objective, model: ModelSpec, compute_bytes: float) -> Scalars:
    copied = what.reference in ("copy", "offloaded")
    judged = what.loss == "ppo" or (what.loss == "grpo" and what.reward_model is not None)
    return {
        "sequences_per_example": 2.0 if what.pairs else 1.0,
        "frozen_bytes": compute_bytes,
        "reference_copies": float(copied),
        "reference_on_device": float(what.reference != "offloaded"),
        "critic_ratio": _ratio(what.critic or model, model) if what.loss == "ppo" else 0.0,
        "reward_ratio": _ratio(what.reward_model or model, model) if judged else 0.0,
        "teacher_ratio": _ratio(what.teacher, model) if what.teacher else 0.0,
        "teacher_logits_copies": _LOG_SOFTMAX if what.teacher else 0.0,
    }


def _passes(what: Objective) -> Scalars:
    """Forward passes without gradients over each trained sequence.

    KTO runs a second batch of mismatched completions through policy and reference [trl-kto];
    policies that generate score their answers once more before the first update [verl-config].
    """
    referenced = what.reference in ("copy", "offloaded", "adapter-off")
    batches = 2.0 if what.loss == "kto" else 1.0
    precomputed = what.reference == "precomputed" and what.loss in PRECOMPUTABLE
    own = 1.0 if what.generates or what.loss == "kto" else 0.0
    return {
        "reference_passes": batches * referenced if not precomputed else 0.0,
        "policy_passes": own,
    }


def _rollout(what: Objective, model: ModelSpec) -> Scalars:
    return {
        "generates": float(what.generates),
        "prompt_len": float(what.prompt_len or 1) if what.generates else 1.0,
        "group_size": float(what.group_size or 1),
        "ppo_epochs": float(what.ppo_epochs or 1),
        "rollout_batch": float(what.rollout_batch or 0),
        "rollout_shared": float(what.generates and what.rollout != "apart"),
        "rollout_asleep": float(bool(what.rollout_sleep)),
        "rollout_memory_share": engine_share(what),
        "rollout_memory_taken": float(what.rollout_memory is not None),
        "most_sequences": _MOST_SEQUENCES,
        "engine_weight_bytes": _SIXTEEN_BIT,
        "cache_value_bytes": _SIXTEEN_BIT,
    } | _cache(model)


@lru_cache(maxsize=1024)
def _cache(model: ModelSpec) -> Scalars:
    """Cached values of one token over all layers, and heads that they divide by."""
    width, heads = 0.0, 1
    for group in model.layers:
        spec = group.attention
        if spec is None or spec.kind == "linear":
            continue
        if spec.kind == "mla":
            width += group.count * (spec.kv_lora_rank + spec.qk_rope_dim)
            continue
        width += group.count * spec.kv_heads * (spec.head_dim + spec.qk_rope_dim + spec.v_dim)
        heads = max(heads, spec.kv_heads)
    return {"cache_width": max(1.0, width), "cache_heads": float(heads)}


def _ratio(other: ModelSpec, model: ModelSpec) -> float:
    return params_total(other) / params_total(model)
