"""What fine-tuning must obey: one function per rule, each with what would be valid instead."""

from __future__ import annotations

from chipwise.errors import LayoutError
from chipwise.i18n import _
from chipwise.spec.adapters import trained_params
from chipwise.spec.job import Strategy, TrainingWorkload
from chipwise.spec.method import FOUR_BIT, METHODS, PACKED, adapts
from chipwise.spec.model import ModelSpec

_PROJECTED = ("galore-adamw", "galore-adamw-8bit")


def check_tuning(workload: TrainingWorkload, model: ModelSpec) -> None:
    """Every rule of what is trained.

    Raises:
        LayoutError: the rule broken, the value, and valid ones.
        UsageError: the model has no module that the targets name.
    """
    method_suits_base(workload)
    ranks_within_width(workload, model)
    layers_are_there(workload, model)
    virtual_tokens_leave_room(workload)
    if adapts(workload.method):
        trained_params(model, workload)


def check_optimizer(workload: TrainingWorkload, strategy: Strategy) -> None:
    """Rules between the optimizer or recompute and what is trained.

    Raises:
        LayoutError: projected gradients of an adapter, a rank without projection, or prefixes
            under recompute.
    """
    projected = strategy.optimizer in _PROJECTED
    if projected and adapts(workload.method):
        text = _("--optimizer {optimizer} projects gradients of whole matrices, which method "
                 "{method} does not train; use --method full, or --optimizer adamw")  # fmt: skip
        text = text.format(optimizer=strategy.optimizer, method=workload.method)
        raise _error("galore-needs-full", text, workload.method, ["full"])
    if workload.tuning.optimizer_rank is not None and not projected:
        text = _("--optimizer-rank {rank} needs --optimizer {choices}")
        text = text.format(rank=workload.tuning.optimizer_rank, choices=_(" or ").join(_PROJECTED))
        raise _error("rank-needs-galore", text, strategy.optimizer, list(_PROJECTED))
    recompute = strategy.recompute
    if workload.method == "prefix" and recompute not in (None, "none"):
        text = _("prefix tuning hands keys and values to the layers, which recompute {recompute} "
                 "drops; use --recompute none, or --method prompt")  # fmt: skip
        raise _error("prefix-kept", text.format(recompute=recompute), recompute, ["none"])


def method_suits_base(workload: TrainingWorkload) -> None:
    """Only frozen weights can be stored packed; QLoRA is LoRA on packed weights."""
    method, base = workload.method, workload.base_dtype
    if base is None:
        return
    if not adapts(method):
        text = _("base-dtype {base} is for frozen weights, but method {method} trains them")
        raise _other_method(text.format(base=base, method=method), base, ["lora", "qlora"])
    if method == "qlora" and base not in PACKED:
        text = _("method qlora packs the base weights, but base-dtype is {base}")
        raise _other_method(text.format(base=base), base, ["lora"])
    if method == "lora" and base in FOUR_BIT:
        text = _("base-dtype {base} packs the base weights: that is method qlora")
        raise _other_method(text.format(base=base), base, ["qlora"])


def ranks_within_width(workload: TrainingWorkload, model: ModelSpec) -> None:
    """A low rank, or a bottleneck, is no wider than the model."""
    if workload.lora_rank is not None:
        rank_within_width(workload.lora_rank, model.hidden)
    rank = workload.tuning.optimizer_rank
    if rank is not None and rank > model.hidden:
        text = _("GaLore rank {rank} is more than the model width {hidden}")
        text = text.format(rank=rank, hidden=model.hidden)
        raise _nearest("rank-within-width", text, "optimizer-rank", rank, model.hidden)


def rank_within_width(rank: int, hidden: int) -> None:
    """A low-rank adapter is no wider than the model."""
    if rank > hidden:
        text = _("LoRA rank {rank} is more than the model width {hidden}").format(
            rank=rank, hidden=hidden
        )
        raise _nearest("rank-within-width", text, "rank", rank, hidden)


def layers_are_there(workload: TrainingWorkload, model: ModelSpec) -> None:
    """Trained layers are some of the model's; virtual tokens belong to none of them."""
    tuning, layers = workload.tuning, model.num_layers
    for flag, count in (("train-last", tuning.train_last), ("active-layers", tuning.active_layers)):
        if count is not None and count > layers:
            text = _("{flag} {count} is more than the {layers} layers of {model}").format(
                flag=flag, count=count, layers=layers, model=model.id
            )
            raise _nearest("trained-within-layers", text, flag, count, layers)
    if tuning.train_last is not None and METHODS[workload.method].virtual_tokens:
        text = _("method {method} trains no layer, so --train-last says nothing; leave it out")
        text = text.format(method=workload.method)
        raise _error("no-layers-trained", text, tuning.train_last, [])


def virtual_tokens_leave_room(workload: TrainingWorkload) -> None:
    """Trained tokens come before a sequence, not instead of it."""
    tokens, seq_len = workload.tuning.virtual_tokens, workload.seq_len
    if tokens is not None and seq_len is not None and tokens >= seq_len:
        text = _("{tokens} virtual tokens are as many as the sequence has ({seq_len}) or more")
        text = text.format(tokens=tokens, seq_len=seq_len)
        raise _nearest("virtual-below-sequence", text, "virtual-tokens", tokens, seq_len - 1)


def _other_method(text: str, value: str, methods: list[str]) -> LayoutError:
    near = _(" or ").join(f"'--method {name}'" for name in methods)
    message = _("{text}; use {near}").format(text=text, near=near)
    return _error("method-suits-base", message, value, methods)


def _nearest(rule: str, text: str, name: str, value: int, near: int) -> LayoutError:
    message = _("{text}; nearest valid {name}: {near}").format(text=text, name=name, near=near)
    return LayoutError(rule, message, rule=rule, field=name, value=value, nearest=[near])


def _error(rule: str, message: str, value: object, nearest: list[str]) -> LayoutError:
    return LayoutError(rule, message, rule=rule, value=value, nearest=nearest)
