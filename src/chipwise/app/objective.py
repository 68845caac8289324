"""The objective of a request: its flags, which of them go together, and the models it names."""

from __future__ import annotations

from typing import Annotated

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from chipwise.app.fields import Fold, Share, Whole
from chipwise.catalogue.models import load_model
from chipwise.i18n import _
from chipwise.spec.model import Frozen, ModelSpec
from chipwise.spec.objective import (
    GENERATING,
    PRECOMPUTABLE,
    REFERENCED,
    SCORED_BY_MODEL,
    Loss,
    Objective,
    Reference,
    Rollout,
)

_ROLLOUT = (
    *("prompt_len", "completion_len", "ppo_epochs", "rollout", "rollout_devices", "rollout_tp"),
    *("rollout_batch", "rollout_memory", "rollout_sleep"),
)
_LOSSES: dict[str, frozenset[Loss]] = {
    **dict.fromkeys(_ROLLOUT, GENERATING),
    **{"group_size": frozenset({"grpo"}), "critic": frozenset({"ppo"})},
    **{"reward_model": SCORED_BY_MODEL, "teacher": frozenset({"distill"})},
    "reference": REFERENCED,
}
"""Fields that only some losses have."""


class ObjectiveFields(Frozen):
    """Flags of the objective, shared by all training questions."""

    loss: Annotated[Loss, Fold] = "sft"
    reference: Annotated[Reference, Fold] | None = None
    prompt_len: Whole | None = None
    completion_len: Whole | None = None
    group_size: Whole | None = None
    """Completions of one prompt."""
    ppo_epochs: Whole | None = None
    """Times each rollout is trained on."""
    rollout: Annotated[Rollout, Fold] | None = None
    rollout_devices: Whole | None = None
    """Devices beside the system that only generate."""
    rollout_tp: Whole | None = None
    rollout_batch: Whole | None = None
    rollout_memory: Share | None = None
    rollout_sleep: bool | None = None
    critic: str | None = None
    reward_model: str | None = None
    teacher: str | None = None

    @model_validator(mode="after")
    def _objective_flags_go_together(self) -> ObjectiveFields:
        reason = _misplaced(self) or _incomplete(self)
        if reason:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self


def _misplaced(stated: ObjectiveFields) -> str:
    """A flag that the loss does not have."""
    for name, losses in _LOSSES.items():
        if getattr(stated, name) is not None and stated.loss not in losses:
            return _("--{flag} needs --loss {losses}, but the loss is {loss}").format(
                flag=name.replace("_", "-"), losses=_(" or ").join(sorted(losses)), loss=stated.loss
            )
    return ""


def _incomplete(stated: ObjectiveFields) -> str:
    """Flags of one loss that contradict or need each other."""
    if stated.loss == "distill" and stated.teacher is None:
        return _("--loss distill needs --teacher MODEL: whose outputs to learn")
    if stated.reference == "precomputed" and stated.loss not in PRECOMPUTABLE:
        return _("--reference precomputed needs a fixed data set: --loss dpo or kto")
    if stated.rollout == "apart" and stated.rollout_devices is None:
        return _("--rollout apart needs --rollout-devices N: how many devices only generate")
    if stated.rollout != "apart" and stated.rollout_devices is not None:
        return _("--rollout-devices needs --rollout apart")
    if stated.rollout == "apart" and stated.rollout_sleep:
        return _("--rollout-sleep is for --rollout shared: engines apart share no memory")
    if stated.rollout_memory == 0:
        return _("--rollout-memory 0 leaves the engine no memory; write it like 0.5")
    return ""


def objective_of(request: ObjectiveFields) -> Objective:
    """The objective of a request, with the models it names.

    Raises:
        UsageError: a model is unknown.
    """
    same = {name: getattr(request, name) for name in Objective.model_fields if name not in _MODELS}
    return Objective(**same, **{name: _model(getattr(request, name)) for name in _MODELS})


_MODELS = ("critic", "reward_model", "teacher")


def _model(name: str | None) -> ModelSpec | None:
    return load_model(name) if name else None
