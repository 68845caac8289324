"""What would make a job fit: every measure on its own, then the shortest combination that does.

Measures stand in the order in which a person would try them. Those that keep the job as it is
(``keeps``) come before those that change what is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import ceil, inf

from chipwise.app.documents import Remedy
from chipwise.app.evaluation import compare
from chipwise.app.growth import smallest_cluster
from chipwise.app.host import host_holds
from chipwise.app.jobs import Complete, complete
from chipwise.catalogue.clusters import make_cluster
from chipwise.catalogue.hardware import accelerator_ids, load_accelerator
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.hardware import Accelerator, Cluster
from chipwise.spec.job import Strategy, TrainingJob
from chipwise.spec.objective import PRECOMPUTABLE, Objective

Pair = tuple[TrainingJob, Strategy]
_LONGEST_COMBINATION = 4
_MOST_DEVICES = 1024
_SHORTEST_SEQUENCE = 512
TRAINS = ("cuda", "rocm", "xla", "synapse", "cann", "neuron")


@dataclass(frozen=True)
class Measure:
    """One change; ``apply`` gives the changed job."""

    change: str
    flags: str
    apply: Callable[[Pair], Pair]
    keeps: bool = True
    """What is trained, and on how long sequences, stays the same."""


def remedies_for(
    one: Complete, limit: float, overrides: Mapping[str, float], more: Complete | None
) -> tuple[tuple[Remedy, ...], Remedy | None]:
    """All single changes, then a combination where no single one is enough.

    Args:
        one: the job that does not fit.
        limit: share of the usable memory that may be used.
        overrides: values that replace computed ones.
        more: the job on the fewest of the same devices that hold it, if any do.

    Returns:
        The remedies in order, and the cheapest that makes the job fit, if any does.
    """
    measures = list(_measures(one))
    singles = _computed(one, [(measure,) for measure in measures], limit, overrides)
    devices = _more_host_memory(one, limit, overrides) or _more_devices(one, more, limit, overrides)
    best = next((remedy for remedy in singles if remedy.fits_after), None)
    if best:
        return (*singles, *devices), best
    combined = _combination(one, measures, limit, overrides)
    together = (combined,) if combined else ()
    best_device = next((remedy for remedy in devices if remedy.fits_after), None)
    return (*singles, *together, *devices), combined or best_device


def _measures(one: Complete) -> Iterator[Measure]:
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


def _computed(
    one: Complete,
    groups: list[tuple[Measure, ...]],
    limit: float,
    overrides: Mapping[str, float],
) -> list[Remedy]:
    """Each group of measures applied together, evaluated all at once."""
    before: Pair = (one.job, one.strategy)
    changed = []
    for group in groups:
        pair = before
        for measure in group:
            pair = measure.apply(pair)
        changed.append(pair)
    rough = compare([before, *changed], overrides)
    return [
        Remedy(
            change=" + ".join(measure.change for measure in group),
            flags=" ".join(measure.flags for measure in group),
            saves_bytes=float(rough.needed[0] - rough.needed[place]),
            slowdown=None
            if changed[place - 1][1].offload_params
            else float(rough.tokens_per_s[0] / rough.tokens_per_s[place]),
            fits_after=bool(rough.share[place] <= limit)
            and host_holds(one.job, float(rough.host_needed[place])),
        )
        for place, group in enumerate(groups, 1)
    ]


def _combination(
    one: Complete, measures: list[Measure], limit: float, overrides: Mapping[str, float]
) -> Remedy | None:
    """The shortest combination that fits: of what keeps the job on its devices, else of all."""
    keeping = [measure for measure in measures if measure.keeps]
    on_device = [measure for measure in keeping if "--offload" not in measure.flags]
    for pool in (on_device, keeping, measures):
        for length in range(2, min(_LONGEST_COMBINATION, len(pool)) + 1):
            groups = [group for group in combinations(pool, length) if _compatible(group)]
            found = _computed(one, groups, limit, overrides) if groups else []
            fitting = [remedy for remedy in found if remedy.fits_after]
            if fitting:
                return min(fitting, key=_slowdown)
    return None


def _slowdown(remedy: Remedy) -> float:
    """To choose the fastest; what is not known is taken as slow."""
    return inf if remedy.slowdown is None else remedy.slowdown


def _compatible(group: tuple[Measure, ...]) -> bool:
    """No two measures set the same flag, and adapters need no lean optimizer."""
    names = [measure.flags.split()[0] for measure in group]
    if len(set(names)) < len(names):
        return False
    return not ("--method" in names and "--optimizer" in names)


def _more_host_memory(one: Complete, limit: float, overrides: Mapping[str, float]) -> list[Remedy]:
    """The host memory that is enough, where only that lacks."""
    rough = compare([(one.job, one.strategy)], overrides)
    needed = float(rough.host_needed[0])
    if rough.share[0] > limit or host_holds(one.job, needed):
        return []
    size = f"{ceil(needed / 2**30)}GiB"
    return [
        Remedy(
            change=_("{size} of host memory per node").format(size=size),
            flags=f"--host-memory {size}",
            saves_bytes=0.0,
            slowdown=1.0,
            fits_after=True,
        )
    ]


def _more_devices(
    one: Complete, more: Complete | None, limit: float, overrides: Mapping[str, float]
) -> list[Remedy]:
    """The smallest count of the same devices, and the smallest other device, that hold the job."""
    found = []
    if more:
        found.append(_on_other(one, more, limit, overrides))
    if other := smallest_device(one, limit, overrides):
        found.append(_on_other(one, other, limit, overrides))
    return found


def _on_other(
    one: Complete, other: Complete, limit: float, overrides: Mapping[str, float]
) -> Remedy:
    rough = compare([(one.job, one.strategy), (other.job, other.strategy)], overrides)
    held = host_holds(other.job, float(rough.host_needed[1]))
    return Remedy(
        change=_("on {system}").format(system=other.job.cluster.name),
        flags=f"--on {other.job.cluster.name}{_freed(one, other)}",
        saves_bytes=float(rough.needed[0] - rough.needed[1]),
        slowdown=float(rough.tokens_per_s[0] / rough.tokens_per_s[1]),
        fits_after=bool(rough.share[1] <= limit) and held,
    )


def _freed(one: Complete, other: Complete) -> str:
    """The sharding that takes the place of a stated ``none``, as a flag."""
    if one.stated.strategy.shard != "none" or other.strategy.shard == "none":
        return ""
    return f" --shard {other.strategy.shard}"


def moved(one: Complete, cluster: Cluster, overrides: Mapping[str, float]) -> Complete | None:
    """The job as stated on another cluster; degrees that no longer fill it are left open."""
    free = {"dp": None, "shard_group": None}
    if one.stated.strategy.shard == "none":
        free["shard"] = None
    strategy = one.stated.strategy.model_copy(update=free)
    stated = one.stated.model_copy(update={"cluster": cluster, "strategy": strategy})
    try:
        return complete(stated, overrides)
    except UsageError:
        return None


def fits(one: Complete, limit: float, overrides: Mapping[str, float]) -> bool:
    """Whether devices and hosts hold the job."""
    rough = compare([(one.job, one.strategy)], overrides)
    return bool(rough.share[0] <= limit) and host_holds(one.job, float(rough.host_needed[0]))


def smallest_count(one: Complete, limit: float, overrides: Mapping[str, float]) -> Complete | None:
    """The job on the smallest larger count of the same devices that holds it."""

    def is_enough(cluster: Cluster) -> bool:
        other = moved(one, cluster, overrides)
        return other is not None and fits(other, limit, overrides)

    found = smallest_cluster(one.job.cluster, _MOST_DEVICES, is_enough)
    return moved(one, found, overrides) if found else None


def _peak(device: Accelerator) -> float:
    return device.peak_flops.get("bf16") or device.peak_flops.get("fp16", 0.0)


def smallest_device(one: Complete, limit: float, overrides: Mapping[str, float]) -> Complete | None:
    """The job on the same count of the smallest device that holds it; the same software first."""
    own = one.job.cluster.accelerator
    rough = compare([(one.job, one.strategy)], overrides)
    least = float(rough.needed[0]) / limit * 0.6
    devices = (load_accelerator(name) for name in accelerator_ids())
    larger = sorted(
        (device.software != own.software, device.memory_bytes, device.id)
        for device in devices
        if device.memory_bytes > max(own.memory_bytes, least)
        and not device.announced
        and set(device.software) & set(TRAINS)
        and _peak(device) >= _peak(own) / 2
    )
    for _foreign, _size, name in larger:
        try:
            cluster = make_cluster(name, (one.job.cluster.num_devices,))
        except UsageError:
            continue
        other = moved(one, cluster, overrides)
        if other and fits(other, limit, overrides):
            return other
    return None
