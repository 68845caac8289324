"""A whole run in the words of the documents: duration, what it consists of, what was assumed."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.app.documents import Assumption, Range, RunReport, TimePart
from chipwise.app.evaluation import Evaluated
from chipwise.app.ranges import time_range
from chipwise.columns import NODE_STORAGE_BANDWIDTH
from chipwise.i18n import _
from chipwise.spec.job import TrainingJob
from chipwise.units import show

COMPILE_FACTOR = 3.0
"""An assumed compile time may be this many times longer or shorter (80 % range)."""
_HOUR = 3600.0
_PARTS = {
    "stepping_time": "training steps",
    "compile_time": "compilation",
    "checkpoint_stall_time": "writing checkpoints",
    "data_stall_time": "waiting for data",
}


def run_of(point: Evaluated) -> RunReport | None:
    """What the run consists of; None where it was not said how much to train on."""
    values = point.time
    if not values["tokens"] > 0:
        return None
    total = sum(values[name] for name in _PARTS)
    parts = [
        TimePart(name=words, seconds=values[name], share=values[name] / total)
        for name, words in _PARTS.items()
        if values[name] > 0
    ]
    return RunReport(
        tokens=values["tokens"],
        num_steps=values["num_steps"],
        parts=tuple(sorted(parts, key=lambda part: -part.seconds)),
        checkpoint_bytes=values["checkpoint_bytes"],
        checkpoint_time_s=values["checkpoint_time"] if values["checkpoints_per_step"] else None,
    )


def duration_of(point: Evaluated) -> Range:
    """The run's duration: the range of its steps, of its compilation, and the rest as it is."""
    values = point.time
    if "duration" in point.overridden:
        return time_range(point, values["duration"])
    steps, compiling = time_range(point, values["stepping_time"]), _compile_range(point)
    fixed = values["duration"] - steps.likely - compiling[1]
    low, likely, high = (
        sum(ends) + fixed
        for ends in zip((steps.low, steps.likely, steps.high), compiling, strict=True)
    )
    return Range(low=low, likely=likely, high=high, basis=steps.basis)


def _compile_range(point: Evaluated) -> tuple[float, float, float]:
    likely = point.time["compile_time"]
    factor = 1.0 if "compile_time" in point.overridden else COMPILE_FACTOR
    return likely / factor, likely, likely * factor


def device_hours_of(point: Evaluated, duration: Range) -> Range:
    """Device-hours of the run."""
    factor = point.job.cluster.num_devices / _HOUR
    return Range(
        low=duration.low * factor,
        likely=duration.likely * factor,
        high=duration.high * factor,
        basis=duration.basis,
    )


def assumed_of_run(job: TrainingJob) -> tuple[str, ...]:
    """Inputs of the run that were not stated."""
    stated = {
        "storage_bandwidth": job.run.storage_bandwidth,
        "data_bandwidth": job.run.data_bandwidth,
    }
    return ("compile_time", "token_bytes", *(name for name, value in stated.items() if not value))


def run_assumptions(point: Evaluated) -> Iterator[Assumption]:
    """What was taken for granted about the run as a whole."""
    values, run = point.time, point.job.run
    if not values["tokens"] > 0:
        return
    workload = point.job.workload
    if run.sequences is not None and workload.tokens is None and workload.packing is None:
        text = _("each of {sequences} sequences fills {seq} tokens: {tokens} tokens in all")
        yield Assumption(
            text=text.format(
                sequences=show(run.sequences, "1"),
                seq=point.job.workload.seq_len,
                tokens=show(values["tokens"], "1"),
            )
        )
    low, likely, high = _compile_range(point)
    if likely > 0 and "compile_time" not in point.overridden:
        text = _("compiling the step once takes {likely} ({low} to {high})")
        yield Assumption(
            text=text.format(likely=show(likely, "s"), low=show(low, "s"), high=show(high, "s"))
        )
    if run.checkpoint_every is not None:
        yield from _checkpoint_assumptions(point)


def _checkpoint_assumptions(point: Evaluated) -> Iterator[Assumption]:
    values = point.time
    size, seconds = show(values["checkpoint_bytes"], "B"), show(values["checkpoint_time"], "s")
    text = _("training waits {seconds} while a checkpoint of {size} is written")
    yield Assumption(text=text.format(seconds=seconds, size=size))
    if point.job.run.storage_bandwidth is None and "storage_bandwidth" not in point.overridden:
        text = _("storage takes {speed} ({each} per node; --storage-bandwidth says otherwise)")
        speed, each = (
            show(values["storage_bandwidth"], "B/s"),
            show(NODE_STORAGE_BANDWIDTH, "B/s", 1),
        )
        yield Assumption(text=text.format(speed=speed, each=each))
