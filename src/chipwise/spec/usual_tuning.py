"""What a competent user states about fine-tuning where nothing is said, in fields and in words."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.i18n import _
from chipwise.spec.job import TrainingWorkload
from chipwise.spec.method import LISA_LAYERS, METHODS


def usual_tuning(given: TrainingWorkload) -> tuple[dict[str, object], tuple[str, ...]]:
    """Fields of a workload to fill, and a sentence for each.

    Args:
        given: the workload as stated.

    Returns:
        Updates of the workload's own fields, and what they say.
    """
    found = tuple(_gaps(given))
    updates: dict[str, object] = {name: value for name, value, _text in found if name in _OWN}
    inner = {name: value for name, value, _text in found if name not in _OWN}
    if inner:
        updates["tuning"] = given.tuning.model_copy(update=inner)
    return updates, tuple(text for _name, _value, text in found)


_OWN = ("lora_rank", "lora_targets")


def _gaps(given: TrainingWorkload) -> Iterator[tuple[str, object, str]]:
    trait, tuning = METHODS[given.method], given.tuning
    counted = bool(given.trainable_params) and given.method not in _LOW_RANK
    if trait.rank and given.lora_rank is None and not counted:
        text = _("bottlenecks {rank} wide") if given.method == "adapter" else _("LoRA rank {rank}")
        yield "lora_rank", trait.rank, text.format(rank=trait.rank)
    if trait.targets and given.lora_targets is None and not counted:
        targets = _("LoRA on the matrices '{targets}'").format(targets=trait.targets)
        yield "lora_targets", trait.targets, targets
    if trait.virtual_tokens and tuning.virtual_tokens is None and not counted:
        text = _("{n} virtual tokens").format(n=trait.virtual_tokens)
        yield "virtual_tokens", trait.virtual_tokens, text
    if "active_layers" in trait.takes and tuning.active_layers is None:
        text = _("{n} layers trained at a time").format(n=LISA_LAYERS)
        yield "active_layers", LISA_LAYERS, text


_LOW_RANK = ("lora", "rslora", "dora", "qlora", "adalora")
"""Methods whose usual rank and targets are filled in even where the count is stated; others are
then known by their count alone."""
