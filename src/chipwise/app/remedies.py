"""What would make a job fit: every measure on its own, then the shortest combination that does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import ceil, inf

from chipwise.app.documents import Remedy, RemedyStep
from chipwise.app.evaluation import compare
from chipwise.app.growth import smallest_cluster
from chipwise.app.host import host_holds
from chipwise.app.jobs import Complete, accumulated, complete
from chipwise.app.measures import Measure, Pair, measures_for
from chipwise.catalogue.clusters import make_cluster
from chipwise.catalogue.hardware import accelerator_ids, load_accelerator
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.hardware import Accelerator, Cluster

_LONGEST_COMBINATION = 4
_MOST_DEVICES = 1024
TRAINS = ("cuda", "rocm", "xla", "synapse", "cann", "neuron")


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
    measures = list(measures_for(one))
    singles = _computed(one, [(measure,) for measure in measures], limit, overrides)
    devices = _more_host_memory(one, limit, overrides) or _more_devices(one, more, limit, overrides)
    best = next((remedy for remedy in singles if remedy.fits_after), None)
    kept = best and next(measure for measure in measures if measure.flags == best.flags).keeps
    combined = None if kept else _combination(one, measures, limit, overrides, keeps=bool(best))
    together = (combined,) if combined else ()
    best_device = next((remedy for remedy in devices if remedy.fits_after), None)
    return (*singles, *together, *devices), best or combined or best_device


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
            slowdown=float(rough.tokens_per_s[0] / rough.tokens_per_s[place]),
            fits_after=bool(rough.share[place] <= limit)
            and host_holds(one.job, float(rough.host_needed[place])),
        )
        for place, group in enumerate(groups, 1)
    ]


def _combination(
    one: Complete,
    measures: Sequence[Measure],
    limit: float,
    overrides: Mapping[str, float],
    *,
    keeps: bool,
) -> Remedy | None:
    """The shortest combination that fits: of what keeps the job on its devices, else of all.

    Args:
        one: the job.
        measures: all single changes.
        limit: share of the usable memory that may be used.
        overrides: values that replace computed ones.
        keeps: only changes that keep what is trained.
    """
    keeping = [measure for measure in measures if measure.keeps]
    on_device = [measure for measure in keeping if "--offload" not in measure.flags]
    for pool in (on_device, keeping) if keeps else (on_device, keeping, measures):
        for length in range(2, min(_LONGEST_COMBINATION, len(pool)) + 1):
            groups = [group for group in combinations(pool, length) if _compatible(group)]
            found = _computed(one, groups, limit, overrides) if groups else []
            fitting = [place for place, remedy in enumerate(found) if remedy.fits_after]
            if fitting:
                place = min(fitting, key=lambda place: found[place].slowdown or inf)
                steps = _steps(one, groups[place], limit, overrides)
                return found[place].model_copy(update={"steps": steps})
    return None


def _steps(
    one: Complete, group: Sequence[Measure], limit: float, overrides: Mapping[str, float]
) -> tuple[RemedyStep, ...]:
    """What each change of a combination saves on top of those before it."""
    prefixes = [tuple(group[:end]) for end in range(1, len(group) + 1)]
    saved = [remedy.saves_bytes for remedy in _computed(one, prefixes, limit, overrides)]
    before = (0.0, *saved[:-1])
    return tuple(
        RemedyStep(change=measure.change, flags=measure.flags, saves_bytes=after - last)
        for measure, after, last in zip(group, saved, before, strict=True)
    )


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
    steps = stated.workload.accumulation
    if steps is not None:  # of each rank, however many there are
        workload = stated.workload.model_copy(update={"global_batch": None})
        stated = accumulated(stated.model_copy(update={"workload": workload}), steps)
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
