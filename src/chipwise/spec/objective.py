"""What training minimises: next tokens, preferences, rewards of own answers, a teacher's outputs.

Everything but the policy itself is a *companion*: reference, critic, reward model, teacher, and
the engine that generates. ``None`` means "not stated"; ``completed`` fills it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from chipwise.spec.model import Count, Frozen, ModelSpec

Loss = Literal["sft", "dpo", "orpo", "kto", "reward", "ppo", "grpo", "distill"]
Reference = Literal["none", "copy", "offloaded", "adapter-off", "precomputed"]
Rollout = Literal["shared", "apart"]

PAIRED: frozenset[Loss] = frozenset({"dpo", "orpo", "reward"})
"""Losses whose examples are a chosen and a rejected sequence, trained as one batch."""
GENERATING: frozenset[Loss] = frozenset({"ppo", "grpo"})
"""Losses of answers that the policy generates during training."""
REFERENCED: frozenset[Loss] = frozenset({"dpo", "kto", "ppo", "grpo"})
"""Losses that can compare the policy with a frozen reference."""
PRECOMPUTABLE: frozenset[Loss] = frozenset({"dpo", "kto"})
"""Losses over a fixed data set: the reference may score it once, before training."""
SCORED_BY_MODEL: frozenset[Loss] = frozenset({"ppo", "grpo"})
"""Losses that can take rewards from a reward model."""

_LENGTH = 512
"""Tokens of a prompt and of a completion at most [verl-config]."""
_GROUP = 8
"""Completions of one prompt [trl-grpo]."""
_EPOCHS = 1
"""Times each rollout is trained on [verl-config, trl-grpo]."""
_MEMORY = 0.5
"""Share of a device's memory that a rollout engine plans with [verl-config, openrlhf-readme]."""


class Objective(Frozen):
    """The loss, its companions, and how answers are generated."""

    loss: Loss = "sft"
    reference: Reference | None = None
    prompt_len: Count | None = None
    completion_len: Count | None = None
    group_size: Count | None = None
    """Completions of one prompt."""
    ppo_epochs: Count | None = None
    """Times each rollout is trained on."""
    rollout: Rollout | None = None
    """Where answers are generated: on the devices that train, or on others beside them."""
    rollout_devices: Count | None = None
    """Devices that only generate (``apart``)."""
    rollout_tp: Count | None = None
    """Devices that share one copy of the weights when generating."""
    rollout_batch: Count | None = None
    """Sequences generated at once; one global batch when None."""
    rollout_memory: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of a device's memory that an engine plans with."""
    rollout_sleep: bool | None = None
    """The engine gives its memory back while the policy is trained (``shared``)."""
    critic: ModelSpec | None = None
    """Value model of PPO; a copy of the policy when None."""
    reward_model: ModelSpec | None = None
    """For PPO a model of the policy's size when None, for GRPO a function."""
    teacher: ModelSpec | None = None

    @property
    def pairs(self) -> bool:
        """Whether an example is two sequences."""
        return self.loss in PAIRED

    @property
    def generates(self) -> bool:
        """Whether training includes generation."""
        return self.loss in GENERATING

    @property
    def devices_apart(self) -> int:
        """Devices that only generate."""
        return (self.rollout_devices or 0) if self.rollout == "apart" else 0


def usual_reference(loss: Loss, adapters: bool) -> Reference:
    """What keeps the policy near its start when nothing is said.

    Trainers switch adapters off instead of loading a copy [trl-dpo]; GRPO without a KL term, the
    default there, has no reference at all [trl-grpo].
    """
    if loss not in REFERENCED or loss == "grpo":
        return "none"
    return "adapter-off" if adapters else "copy"


def lengths(objective: Objective, seq_len: int | None) -> tuple[int, int]:
    """Tokens of a prompt and of a completion, the unstated ones filled.

    Args:
        objective: what is stated of them.
        seq_len: both together, where that is stated.
    """
    prompt, completion = objective.prompt_len, objective.completion_len
    if seq_len is None:
        return prompt or _LENGTH, completion or _LENGTH
    if prompt is None:
        prompt = seq_len - completion if completion else min(_LENGTH, seq_len // 2)
    return prompt, completion or seq_len - prompt


def completed(objective: Objective, adapters: bool, seq_len: int | None) -> Objective:
    """With nothing left unsaid but the models and the batch.

    Args:
        objective: as stated.
        adapters: whether the base weights are frozen.
        seq_len: tokens of a trained sequence, where stated.
    """
    updates: dict[str, object] = {}
    if objective.reference is None:
        updates["reference"] = usual_reference(objective.loss, adapters)
    if objective.generates:
        prompt, completion = lengths(objective, seq_len)
        updates |= {"prompt_len": prompt, "completion_len": completion}
        updates |= {
            "group_size": objective.group_size or (_GROUP if objective.loss == "grpo" else 1),
            "ppo_epochs": objective.ppo_epochs or _EPOCHS,
            "rollout": objective.rollout or "shared",
        }
        if objective.rollout_sleep is None:
            updates["rollout_sleep"] = updates["rollout"] == "shared"
    return objective.model_copy(update=updates)


def engine_share(objective: Objective) -> float:
    """Share of a device's memory that a rollout engine plans with at most."""
    return objective.rollout_memory or _MEMORY
