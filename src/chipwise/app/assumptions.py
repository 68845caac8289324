"""What was taken for granted: every gap that was filled, and what another choice would change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log

from chipwise import rules
from chipwise.app.documents import Assumption
from chipwise.app.evaluation import Rough, compare
from chipwise.app.jobs import Complete
from chipwise.catalogue.frameworks import stacks
from chipwise.columns import matmul_share, training_columns
from chipwise.i18n import _
from chipwise.spec.job import Strategy, TrainingJob
from chipwise.spec.method import adapts
from chipwise.spec.objective import REFERENCED, engine_share
from chipwise.spec.usual_tuning import usual_tuning
from chipwise.units import show

Pair = tuple[TrainingJob, Strategy]
_NOTABLE = 0.005
"""Changes of memory and time below this are not worth a word."""


@dataclass(frozen=True)
class Gap:
    """One filled gap: what was taken, and another choice to compare with."""

    text: str
    other: Pair | None = None
    other_words: str = ""


def assumptions_of(one: Complete) -> tuple[Assumption, ...]:
    """All filled gaps of a job, largest effect first; those without a computed effect last."""
    gaps = [*_workload_gaps(one), *_objective_gaps(one)]
    gaps += [*_strategy_gaps(one), *_hardware_gaps(one)]
    compared = [gap for gap in gaps if gap.other is not None]
    pairs = [gap.other for gap in compared if gap.other is not None]
    rough = compare([(one.job, one.strategy), *pairs])
    effects = {gap.text: _effect(gap, rough, place) for place, gap in enumerate(compared, 1)}
    ranked = sorted(gaps, key=lambda gap: -effects.get(gap.text, (0.0, None))[0])
    return tuple(
        Assumption(text=gap.text, effect=effects.get(gap.text, (0.0, None))[1]) for gap in ranked
    )


def _effect(gap: Gap, rough: Rough, place: int) -> tuple[float, str | None]:
    """Size of the effect (logarithm) and its sentence."""
    more_memory = rough.needed[place] / rough.needed[0]
    more_time = rough.tokens_per_s[0] / rough.tokens_per_s[place]
    size = max(abs(log(more_memory)), abs(log(more_time)))
    if size < _NOTABLE:
        return size, None
    text = _("{other}: {memory} memory, {time} time per token").format(
        other=gap.other_words, memory=_signed(more_memory), time=_signed(more_time)
    )
    return size, text


def _signed(factor: float) -> str:
    return f"{factor - 1:+.0%}"


def _changed(one: Complete, words: str, text: str, **updates: object) -> Gap:
    """A gap whose other choice is the same job with some strategy fields changed."""
    strategy = one.strategy.model_copy(update=updates)
    return Gap(text, (one.job, strategy), words)


def _workload_gaps(one: Complete) -> Iterator[Gap]:
    stated, used = one.stated.workload, one.job.workload
    if stated.seq_len is None and used.seq_len:
        half = max(1, used.seq_len // 2)
        workload = used.model_copy(update={"seq_len": half})
        other = (one.job.model_copy(update={"workload": workload}), one.strategy)
        text = _("sequence length {n} tokens").format(n=used.seq_len)
        yield Gap(text, other, _("{n} tokens").format(n=half))
    if stated.precision is None:
        yield Gap(_("precision {dtype}").format(dtype=used.precision))
    if adapts(used.method) and stated.base_dtype is None:
        yield Gap(_("frozen base weights in {dtype}").format(dtype=used.base_dtype))
    for text in usual_tuning(stated)[1]:
        yield Gap(text)
    if stated.global_batch is None and used.global_batch:
        text = _("global batch {batch} sequences ({tokens} tokens)").format(
            batch=used.global_batch, tokens=show(used.global_batch * (used.seq_len or 1), "1")
        )
        yield Gap(text)


def _objective_gaps(one: Complete) -> Iterator[Gap]:
    """What is taken for granted of models beside the policy and of generation."""
    stated, used = one.stated.workload.objective, one.job.workload.objective
    if stated.reference is None and used.loss in REFERENCED:
        yield Gap(_("reference: {kind}").format(kind=used.reference))
    if not used.generates:
        return
    if stated.prompt_len is None or stated.completion_len is None:
        text = _("prompts of {prompt} tokens, answers of {completion} tokens, all that long")
        yield Gap(text.format(prompt=used.prompt_len, completion=used.completion_len))
    if stated.group_size is None and (used.group_size or 1) > 1:
        yield Gap(_("{n} answers to each prompt").format(n=used.group_size))
    if stated.rollout is None:
        yield Gap(_("answers are generated on the devices that train"))
    if stated.rollout_memory is None and used.rollout == "shared":
        text = _("the rollout engine takes what its answers need, up to {share:.0%} of the memory")
        yield Gap(text.format(share=engine_share(used)))
    if used.loss == "ppo" and stated.critic is None:
        yield Gap(_("a critic like the policy"))
    if used.loss == "ppo" and stated.reward_model is None:
        yield Gap(_("a reward model like the policy"))
    yield Gap(_("generation as fast as memory and products allow: engines are slower"))


def _strategy_gaps(one: Complete) -> Iterator[Gap]:
    stated, used = one.stated.strategy, one.strategy
    if stated.framework is None and used.framework:
        text = _("software stack: {name}").format(name=stacks()[used.framework].title)
        yield Gap(text)
    yield from _split_gaps(one)
    if stated.micro_batch is None:
        text = _("micro-batch {n}").format(n=used.micro_batch)
        yield _micro_batch_gap(one, text)
    if stated.recompute is None:
        if used.recompute == "full":
            text = _("activations are recomputed in full")
            yield _changed(one, _("kept instead"), text, recompute="none")
        else:
            text = _("activations are kept, not recomputed")
            yield _changed(one, _("recomputed in full"), text, recompute="full")
    if stated.optimizer is None:
        text = _("optimizer {name}").format(name=used.optimizer)
        other = "adamw-8bit" if used.optimizer == "adamw" else "adamw"
        yield _changed(one, other, text, optimizer=other)
    if stated.attention is None:
        text = _("attention kernel {name}").format(name=used.attention)
        yield _changed(one, "eager", text, attention="eager")


def _micro_batch_gap(one: Complete, text: str) -> Gap:
    doubled = 2 * (one.strategy.micro_batch or 1)
    batch = rules.smallest_batch(one.strategy.dp or 1, doubled, one.job.workload.global_batch or 1)
    workload = one.job.workload.model_copy(update={"global_batch": batch})
    job = one.job.model_copy(update={"workload": workload})
    strategy = one.strategy.model_copy(update={"micro_batch": doubled})
    return Gap(text, (job, strategy), _("micro-batch {n}").format(n=doubled))


def _split_gaps(one: Complete) -> Iterator[Gap]:
    stated, used = one.stated.strategy, one.strategy
    if one.job.cluster.num_devices == 1:
        return
    if stated.tp is None or stated.pp is None:
        tp, pp, dp, cp, _ep, vpp = rules.degrees(used)
        degrees = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "vpp": vpp}
        shown = " × ".join(f"{name} {n}" for name, n in degrees.items() if n > 1 or name == "dp")
        yield Gap(_("parallel layout {degrees}").format(degrees=shown))
    if stated.shard is None:
        text = _("sharding {stage}").format(stage=used.shard)
        other = "zero3" if used.shard != "zero3" else "zero1"
        yield _changed(one, other, text, shard=other)


def _hardware_gaps(one: Complete) -> Iterator[Gap]:
    cluster = one.job.cluster
    if cluster.num_nodes > 1:
        used = training_columns(one.job, one.strategy)[0]["network_bandwidth"]
        text = _("network {speed} one way per device")
        if not cluster.node.network_bandwidth:
            text = _("network {speed} one way per device: no speed is known of this system's")
        yield Gap(text.format(speed=show(float(used), "B/s")))
    if not cluster.accelerator.matmul_fraction:
        text = _("no matrix-product benchmark of {name}: {share:.0%} of its peak as the best rate")
        share = matmul_share(cluster.accelerator)
        yield Gap(text.format(name=cluster.accelerator.id, share=share))
