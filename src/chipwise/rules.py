"""What a layout must obey to exist: one function per rule, each with the nearest valid values.

The search builds its candidates so that they obey; stated layouts are checked here. What is
allowed but unwise is a warning, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

from chipwise.errors import LayoutError
from chipwise.i18n import _
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload
from chipwise.spec.model import ModelSpec
from chipwise.spec.objective import Objective
from chipwise.spec.tensors import params_total
from chipwise.spec.tuning_rules import check_optimizer, check_tuning

_SAME_COUNT = 0.01
"""Relative difference of parameter counts that buffers and padding explain."""


def check_layout(job: TrainingJob, strategy: Strategy) -> None:
    """Check every rule of a complete strategy.

    Args:
        job: the job; its workload may leave the batch open.
        strategy: a strategy with all degrees stated.

    Raises:
        LayoutError: names the first rule broken, the value and the nearest valid ones.
    """
    tp, pp, dp, cp, ep, vpp = degrees(strategy)
    check_workload(job.workload, job.model)
    check_optimizer(job.workload, strategy)
    devices = job.cluster.num_devices
    tp_divides_heads(job.model, tp, devices)
    stages_have_layers(job.model, pp, vpp, devices)
    cp_divides_sequence(job.workload.seq_len or cp, cp)
    degrees_fill_cluster(job.cluster, tp, pp, dp, cp)
    experts_divide(job.model, ep, dp * cp * tp)
    if job.workload.global_batch is not None:
        batch_divides(job.workload.global_batch, dp, strategy.micro_batch or 1)


def check_stated(job: TrainingJob) -> None:
    """Check what a person stated, before gaps are filled: no filling could mend it.

    Raises:
        LayoutError: names the first rule broken, the value and the nearest valid ones.
    """
    tp, pp, dp, cp, ep, vpp = degrees(job.strategy)
    devices = job.cluster.num_devices
    tp_divides_heads(job.model, tp, devices)
    stages_have_layers(job.model, pp, vpp if job.strategy.pp else 1, devices)
    recompute_every_layers(job.strategy, job.model)
    check_optimizer(job.workload, job.strategy)
    if job.workload.seq_len is not None:
        cp_divides_sequence(job.workload.seq_len, cp)
    if devices % (tp * pp * cp * dp):
        degrees_fill_cluster(job.cluster, tp, pp, dp, cp)
    if job.strategy.dp is not None and job.strategy.tp is not None and job.strategy.pp is not None:
        degrees_fill_cluster(job.cluster, tp, pp, dp, cp)
    experts_divide(job.model, ep, devices // pp)


def degrees(strategy: Strategy) -> tuple[int, int, int, int, int, int]:
    """tp, pp, dp, cp, ep and vpp, 1 where not stated."""
    split = strategy
    return (
        *(split.tp or 1, split.pp or 1, split.dp or 1),
        *(split.cp or 1, split.ep or 1, split.vpp or 1),
    )


def check_workload(workload: TrainingWorkload, model: ModelSpec) -> None:
    """Rules of what is trained, whatever the layout."""
    check_tuning(workload, model)
    check_objective(workload)


def check_objective(workload: TrainingWorkload) -> None:
    """Rules of what is minimised."""
    what = workload.objective
    if what.reference == "adapter-off" and workload.method == "full":
        text = _("reference adapter-off needs adapters, but method full trains the weights")
        message = _("{text}; use {near}").format(text=text, near="'--reference copy'")
        raise LayoutError("adapter-off-needs-adapters", message, nearest=["copy", "offloaded"])
    if what.generates and workload.seq_len is not None:
        completion_fills_sequence(what, workload.seq_len)
    group, batch = what.group_size or 1, workload.global_batch
    if batch is not None and batch % group:
        below = batch // group * group
        text = _("global batch {batch} is no multiple of the group size {group}").format(
            batch=batch, group=group
        )
        near = [size for size in (below, below + group) if size]
        raise _broken("group-divides-batch", text, "global-batch", batch, near)


def completion_fills_sequence(what: Objective, seq_len: int) -> None:
    """A trained sequence is a prompt and its completion."""
    prompt, completion = what.prompt_len or 0, what.completion_len or 0
    both = what.prompt_len is not None and what.completion_len is not None
    least = prompt + completion if both else prompt + completion + 1
    if seq_len < least or (both and seq_len > least):
        text = _("prompt {prompt} and completion {completion} are no sequence of {seq_len} tokens")
        text = text.format(prompt=prompt or "?", completion=completion or "?", seq_len=seq_len)
        raise _broken("completion-fills-sequence", text, "seq", seq_len, [least])


def attention_heads(model: ModelSpec) -> int:
    """The number that tensor parallelism has to divide: common to the heads of all layers."""
    return gcd(*(group.attention.heads for group in model.layers if group.attention is not None))


def num_experts(model: ModelSpec) -> int:
    """The number that expert parallelism has to divide; 0 for a model without experts."""
    blocks = (group.feed_forward for group in model.layers)
    return gcd(*(block.num_experts for block in blocks if block is not None))


def tp_divides_heads(model: ModelSpec, tp: int, devices: int = 0) -> None:
    """Tensor parallelism gives each device whole attention heads.

    Only what divides the ``devices`` too is offered instead; 0 means any number of them.
    """
    heads = attention_heads(model)
    if heads and heads % tp:
        raise _broken(
            "tp-divides-heads",
            _("tp {tp} does not divide the {heads} attention heads of {model}").format(
                tp=tp, heads=heads, model=model.id
            ),
            "tp",
            tp,
            _nearest(tp, divisors(gcd(heads, devices))),
        )


def stages_have_layers(model: ModelSpec, pp: int, vpp: int, devices: int = 0) -> None:
    """Every pipeline stage has a layer; interleaved chunks are equally large.

    Only what divides the ``devices`` too is offered instead; 0 means any number of them.
    """
    layers = model.num_layers
    if pp > layers:
        raise _broken(
            "pp-within-layers",
            _("pp {pp} is more than the {layers} layers of {model}").format(
                pp=pp, layers=layers, model=model.id
            ),
            "pp",
            pp,
            [max(stages for stages in divisors(devices or layers) if stages <= layers)],
        )
    if vpp > 1 and pp == 1:
        text = _("vpp {vpp} needs a pipeline: pp is 1").format(vpp=vpp)
        raise _broken("vpp-needs-pp", text, "vpp", vpp, [1])
    if vpp > 1 and layers % (pp * vpp):
        valid = [chunks for chunks in range(1, layers // pp + 1) if layers % (pp * chunks) == 0]
        raise _broken(
            "chunks-divide-layers",
            _("pp {pp} × vpp {vpp} does not divide the {layers} layers of {model}").format(
                pp=pp, vpp=vpp, layers=layers, model=model.id
            ),
            "vpp",
            vpp,
            _nearest(vpp, valid or [1]),
        )


def cp_divides_sequence(seq_len: int, cp: int) -> None:
    """Context parallelism cuts the sequence into equal parts."""
    if seq_len % cp:
        raise _broken(
            "cp-divides-sequence",
            _("cp {cp} does not divide the sequence of {seq_len} tokens").format(
                cp=cp, seq_len=seq_len
            ),
            "cp",
            cp,
            _nearest(cp, divisors(seq_len)),
        )


def degrees_fill_cluster(cluster: Cluster, tp: int, pp: int, dp: int, cp: int) -> None:
    """Every device has exactly one place in the layout."""
    devices, model_parallel = cluster.num_devices, tp * pp * cp
    if model_parallel * dp == devices:
        return
    found = _("tp {tp} × pp {pp} × cp {cp} × dp {dp} is {product}, {name} has {devices} devices")
    text = found.format(
        tp=tp, pp=pp, cp=cp, dp=dp, product=model_parallel * dp, name=cluster.name, devices=devices
    )
    if devices % model_parallel == 0:
        raise _broken("degrees-fill-cluster", text, "dp", dp, [devices // model_parallel])
    near = _nearest(model_parallel, divisors(devices))
    raise _broken("degrees-fill-cluster", text, "tp × pp × cp", model_parallel, near)


def experts_divide(model: ModelSpec, ep: int, ranks: int) -> None:
    """Expert parallelism gives each device whole experts, within one pipeline stage."""
    if ep == 1:
        return
    experts = num_experts(model)
    if not experts:
        text = _("ep {ep}: {model} has no experts").format(ep=ep, model=model.id)
        raise _broken("ep-needs-experts", text, "ep", ep, [1])
    valid = [degree for degree in divisors(experts) if ranks % degree == 0]
    if experts % ep:
        text = _("ep {ep} does not divide the {experts} experts of {model}").format(
            ep=ep, experts=experts, model=model.id
        )
        raise _broken("ep-divides-experts", text, "ep", ep, _nearest(ep, valid))
    if ranks % ep:
        text = _("ep {ep} does not divide the {ranks} devices of a stage (dp × cp × tp)").format(
            ep=ep, ranks=ranks
        )
        raise _broken("ep-divides-ranks", text, "ep", ep, _nearest(ep, valid))


def batch_divides(global_batch: int, dp: int, micro_batch: int) -> None:
    """Every rank runs the same whole number of micro-batches."""
    each = dp * micro_batch
    if global_batch % each:
        below = global_batch // each * each
        raise _broken(
            "batch-divides",
            _("global batch {batch} is no multiple of dp {dp} × micro-batch {micro_batch}").format(
                batch=global_batch, dp=dp, micro_batch=micro_batch
            ),
            "global-batch",
            global_batch,
            [size for size in (below, below + each) if size],
        )


def recompute_every_layers(strategy: Strategy, model: ModelSpec) -> None:
    """Only full recompute goes by layers, and at least one layer is recomputed."""
    every, mode = strategy.recompute_every, strategy.recompute
    if every is None:
        return
    if mode not in (None, "full"):
        text = _("recompute-every {every} is for full recompute, but recompute is {mode}")
        message = _("{text}; use {near}").format(
            text=text.format(every=every, mode=mode), near="'--recompute full'"
        )
        raise LayoutError("every-needs-full", message, rule="every-needs-full", value=mode)
    if every > model.num_layers:
        text = _("recompute-every {every} is more than the {layers} layers of {model}")
        text = text.format(every=every, layers=model.num_layers, model=model.id)
        near = [model.num_layers]
        raise _broken("every-within-layers", text, "recompute-every", every, near)


def layout_warnings(cluster: Cluster, strategy: Strategy) -> Iterator[str]:
    """What is allowed but slow."""
    tp, domain = strategy.tp or 1, cluster.devices_per_node
    if tp > domain:
        yield _(
            "tp {tp} reaches beyond the {domain} devices joined by the fast link of {name}: "
            "every layer then waits for the network"
        ).format(tp=tp, domain=domain, name=cluster.name)


def model_warnings(model: ModelSpec, seq_len: int | None) -> Iterator[str]:
    """What the model's own files contradict."""
    if model.max_context and (seq_len or 0) > model.max_context:
        yield _(
            "sequences of {seq_len} tokens are longer than the {most} that {model} is published for"
        ).format(seq_len=seq_len, most=model.max_context, model=model.id)
    described, stated = params_total(model), model.stated_params
    if stated and abs(described / stated - 1) > _SAME_COUNT:
        yield _(
            "the checkpoint beside the configuration of {model} holds {stated:,} parameters, the "
            "configuration describes {described:,}; the numbers are those of the configuration"
        ).format(model=model.id, stated=stated, described=described)


def no_layout(job: TrainingJob) -> LayoutError:
    """That no layout shares the global batch evenly, with the nearest batches that one shares."""
    tp, pp, _dp, cp, _ep, vpp = degrees(job.strategy)
    micro_batch, batch = job.strategy.micro_batch or 1, job.workload.global_batch or 1
    ranks = max(1, job.cluster.num_devices // (tp * pp * cp))
    each = ranks * micro_batch * (pp if vpp > 1 else 1)
    below = batch // each * each
    text = _(
        "no layout of {system} shares a global batch of {batch} evenly in micro-batches of "
        "{micro_batch} with what is stated"
    ).format(system=job.cluster.name, batch=batch, micro_batch=micro_batch)
    near = [size for size in (below, below + each) if size]
    return _broken("batch-divides", text, "global-batch", batch, near)


def smallest_batch(dp: int, micro_batch: int, at_least: int = 1) -> int:
    """The smallest global batch of at least so many sequences that all ranks can share."""
    each = dp * micro_batch
    return -(-at_least // each) * each


def divisors(number: int) -> list[int]:
    """All divisors, rising."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _nearest(value: int, valid: Iterable[int]) -> list[int]:
    """The valid values next below and above."""
    choices = sorted(valid)
    return [n for n in choices if n <= value][-1:] + [n for n in choices if n > value][:1]


def _broken(rule: str, text: str, name: str, value: int, nearest: list[int]) -> LayoutError:
    near = _(" or ").join(str(number) for number in nearest)
    message = _("{text}; nearest valid {name}: {near}").format(text=text, name=name, near=near)
    return LayoutError(rule, message, rule=rule, field=name, value=value, nearest=nearest)
