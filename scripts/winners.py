"""Published layouts that won, beside the best the search finds: the table of the accuracy page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from chipwise.spec.job import Strategy
from chipwise.validation.winners import CLOSE, Winner

_NAMES = ("tp", "pp", "vpp", "cp", "dp", "ep")


def layout(strategy: Strategy) -> str:
    """Degrees above one, micro-batch and recompute."""
    degrees = [(name, getattr(strategy, name) or 1) for name in _NAMES]
    words = [f"{name} {degree}" for name, degree in degrees if degree > 1]
    words.append(f"micro-batch {strategy.micro_batch}")
    if strategy.recompute in ("selective", "full"):
        every = strategy.recompute_every or 1
        words.append(f"{strategy.recompute} recompute" + (f" of 1 in {every}" * (every > 1)))
    return " ".join(words)


def headline(found: Sequence[Winner], percent: Callable[[float], str]) -> str:
    """How many are close, in words that ``--check`` compares."""
    close = sum(one.close for one in found)
    slack = percent(CLOSE - 1)
    return (
        f"{close} of {len(found)} ({percent(close / len(found))}) published layouts are predicted "
        f"to take at most {slack} longer than the best layout found."
    )


def winner_table(found: Sequence[Winner]) -> Iterator[str]:
    """One line per published layout, the furthest from the best first."""
    yield "| System | Model | Precision | Published | Best found | Published / best |"
    yield "|---|---|---|---|---|--:|"
    for one in sorted(found, key=lambda one: (-one.ratio, one.row["id"])):
        best = layout(one.best) if one.best else "nothing fits"
        yield (
            f"| {one.row['num_devices']} × {one.row['accelerator']} | {one.row['model']} "
            f"| {one.job.workload.precision} | {layout(one.published)} | {best} "
            f"| {one.ratio:.2f} |"
        )
    yield ""
