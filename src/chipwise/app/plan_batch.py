"""The global batch of a plan: what published laws advise, and what a larger one wastes.

The laws are of pre-training. A fine-tune, or a run of unknown length, gets a usual batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chipwise.app.documents import Range
from chipwise.app.documents_plan import BatchAdvice
from chipwise.columns import training_columns
from chipwise.defaults import resolve
from chipwise.i18n import _
from chipwise.physics import MODEL
from chipwise.physics.batch import extra_tokens_share
from chipwise.spec.job import TrainingJob
from chipwise.units import show

USUAL_TOKENS_PER_STEP = 2**20
"""Where no law applies. Published runs use 1 to 4 million tokens up to 70B parameters."""
TOKENS_PER_DEVICE = 2**10
"""At least so many tokens for each device; published: 16 million on 16,384 devices."""
_WASTEFUL = 1.0
"""Extra tokens over those needed from which a batch is warned of: half of the run is waste."""


@dataclass(frozen=True)
class Law:
    """What the laws say of one run, in tokens per step."""

    critical: float
    optimal: float
    advised: float


def law_of(job: TrainingJob) -> Law | None:
    """The laws applied to a job; None where they say nothing.

    Args:
        job: a job with model and sequence length; the layout does not matter.
    """
    resolved = resolve(job)
    columns, _keys = training_columns(resolved.job, next(iter(resolved.alternatives)))
    pre_training = job.workload.method == "full" and job.workload.objective.loss == "sft"
    if not pre_training or columns["tokens"] <= 0:
        return None
    names = ("critical_batch_tokens", "optimal_batch_tokens", "advised_batch_tokens")
    found = MODEL.evaluate(columns, names)
    return Law(*(float(found[name]) for name in names))


def tokens_per_step(job: TrainingJob, most_devices: int) -> float:
    """Tokens of the step to plan with where no batch is stated: enough work for every device."""
    law = law_of(job)
    return max(law.advised if law else USUAL_TOKENS_PER_STEP, TOKENS_PER_DEVICE * most_devices)


def advice_of(job: TrainingJob, batches: Iterable[int]) -> tuple[BatchAdvice, ...]:
    """What the laws say of each global batch, the smallest first; nothing where none applies."""
    law = law_of(job)
    if law is None:
        return ()
    seq_len = job.workload.seq_len or 1
    return tuple(
        BatchAdvice(
            global_batch=batch,
            step_tokens=batch * seq_len,
            advised_tokens=Range(
                low=law.advised,
                likely=law.advised,
                high=max(law.critical, law.optimal),
                basis="assumed",
            ),
            critical_tokens=law.critical,
            extra_tokens_share=float(extra_tokens_share(batch * seq_len, law.critical)),
        )
        for batch in sorted(set(batches))
    )


def batch_warnings(advice: Iterable[BatchAdvice]) -> Iterator[str]:
    """Batches at which half of the tokens or more are wasted."""
    for one in advice:
        if one.extra_tokens_share > _WASTEFUL:
            yield _(
                "global batch {batch} ({tokens} tokens) is beyond the critical batch of about "
                "{critical} tokens: for the same loss expect {factor:.1f} times the tokens of "
                "small steps, which durations here do not include"
            ).format(
                batch=one.global_batch,
                tokens=show(one.step_tokens, "1"),
                critical=show(one.critical_tokens, "1"),
                factor=1 + one.extra_tokens_share,
            )
