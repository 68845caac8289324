"""How single things are worded: ranges, shares, verdicts, layouts, memory, assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Any

from chipwise.i18n import _
from chipwise.report.page import Cell, Listing, Tone
from chipwise.units import show

Json = Mapping[str, Any]

LARGEST_PLAIN_COUNT = 100_000

VERDICT_TONES: dict[str, Tone] = {
    "fits": "good",
    "tight": "warn",
    "does not fit": "bad",
    "unknown": "muted",
}


def verdict(word: str) -> Cell:
    """The verdict in words, coloured second."""
    words = {
        "fits": _("fits"),
        "tight": _("tight"),
        "does not fit": _("does not fit"),
        "unknown": _("unknown"),
    }
    return Cell(words.get(word, word), word, VERDICT_TONES.get(word, "plain"))


def amount(value: float | None, unit: str) -> Cell:
    """A value with its unit."""
    return Cell("–") if value is None else Cell(shown(value, unit), value)


def shown(value: float, unit: str) -> str:
    """A value with its unit; small whole counts without decimals."""
    if unit == "1" and float(value).is_integer() and abs(value) < LARGEST_PLAIN_COUNT:
        return f"{value:,.0f}"
    return show(value, unit)


def likely(span: Json, unit: str) -> Cell:
    """A range as its likely value, with the ends below."""
    ends = f"{show(span['low'], unit)} – {show(span['high'], unit)}"
    return Cell(f"{show(span['likely'], unit)}\n{ends}", span["likely"])


def span(value: Json, unit: str) -> str:
    """A range on one line: ``12.3 h (10.1 h – 15.0 h), datasheet``."""
    return _("{likely} ({low} – {high}), {basis}").format(
        likely=show(value["likely"], unit),
        low=show(value["low"], unit),
        high=show(value["high"], unit),
        basis=basis(value["basis"]),
    )


def share_span(value: Json) -> str:
    """A range of a fraction on one line, in percent."""
    return _("{likely} ({low} – {high}), {basis}").format(
        likely=share(value["likely"]),
        low=share(value["low"]),
        high=share(value["high"]),
        basis=basis(value["basis"]),
    )


def bare_span(value: Json, unit: str) -> str:
    """A range on one line without its basis."""
    low, high = show(value["low"], unit), show(value["high"], unit)
    return f"{show(value['likely'], unit)} ({low} – {high})"


def bare_share_span(value: Json) -> str:
    """A range of a fraction in percent, without its basis."""
    return f"{share(value['likely'])} ({share(value['low'])} – {share(value['high'])})"


def peak(performance: Json) -> str:
    """The dense peak that a utilization is measured against, with its number format."""
    return f"{show(performance['peak_flops_per_s'], 'FLOP/s')} {performance['peak_dtype']}"


def basis(word: str) -> str:
    """What a number rests on."""
    words = {
        "measured": _("measured"),
        "calibrated": _("calibrated"),
        "datasheet": _("datasheet"),
        "assumed": _("assumed"),
        "computed": _("computed"),
    }
    return words.get(word, word)


def share(value: float | None) -> str:
    """A fraction in percent."""
    return "–" if value is None else f"{value:.1%}"


def saving(size: float) -> str:
    """What a change saves; a change may also cost memory."""
    if size < 0:
        return _("{bytes} more").format(bytes=show(-size, "B"))
    return show(size, "B")


def formula(text: str) -> str:
    """A formula as the code has it, without the array library's prefix."""
    return text.replace("np.", "")


def part(name: str) -> str:
    """A line of the memory bill in the reader's language."""
    return _parts().get(name, (name, ""))[0]


def part_meaning(name: str) -> str:
    """What a line of the memory bill is, in plain words."""
    return _parts().get(name, (name, ""))[1]


def _parts() -> dict[str, tuple[str, str]]:
    return {
        "weights": (_("weights"), _("all parameters this device keeps")),
        "adapters": (_("adapters"), _("LoRA weights with their gradients and states")),
        "gradients": (_("gradients"), _("one for each trained weight")),
        "optimizer states": (_("optimizer states"), _("moments, and fp32 master weights if kept")),
        "communication buffers": (_("communication buffers"), _("buckets of the collectives")),
        "kept activations": (
            _("kept activations"),
            _("saved by the forward pass for the backward"),
        ),
        "recomputed layer": (_("recomputed layer"), _("working set of the layer computed again")),
        "working memory": (_("working memory"), _("temporaries of the running operator")),
        "logits and loss": (
            _("logits and loss"),
            _("vocabulary × tokens: logits, softmax, gradient"),
        ),
        "gathered weights": (_("gathered weights"), _("sharded weights while they are in use")),
        "gathered gradient": (_("gathered gradient"), _("gradients before they are scattered")),
        "dequantised": (_("dequantised"), _("the quantised matrix that is being multiplied")),
        "optimizer step copies": (
            _("optimizer step copies"),
            _("temporaries of the update, all weights at once"),
        ),
        "checkpoint being loaded": (
            _("checkpoint being loaded"),
            _("a whole copy beside the weights kept"),
        ),
        "reference weights": (_("reference weights"), _("the frozen start of the policy")),
        "reward model weights": (_("reward model weights"), _("frozen, it scores answers")),
        "teacher weights": (_("teacher weights"), _("frozen, the student learns its outputs")),
        "teacher logits": (_("teacher logits"), _("vocabulary × tokens of the frozen teacher")),
        "critic states": (_("critic states"), _("value model: weights and optimizer states")),
        "critic at work": (_("critic at work"), _("its activations and gradients in training")),
        "rollout engine weights": (
            _("rollout engine weights"),
            _("the policy once more, as it generates"),
        ),
        "rollout KV cache": (_("rollout KV cache"), _("keys and values of answers in flight")),
        "keys and values": (_("keys and values"), _("the cache of the sequences asked for")),
        "forward pass": (_("forward pass"), _("the widest moment of one pass")),
        "CUDA graphs": (_("CUDA graphs"), _("recorded launches of the decode steps")),
        "context and communicators": (
            _("context and communicators"),
            _("driver, libraries, channels"),
        ),
    }


def time_part(name: str) -> str:
    """A share of the step's time in the reader's language."""
    names = {
        "matrix products": _("matrix products"),
        "attention": _("attention"),
        "head and loss": _("head and loss"),
        "memory-bound operators": _("memory-bound operators"),
        "gradient accumulation": _("gradient accumulation"),
        "optimizer": _("optimizer"),
        "tensor-parallel communication": _("tensor-parallel communication"),
        "context-parallel communication": _("context-parallel communication"),
        "expert communication": _("expert communication"),
        "pipeline communication": _("pipeline communication"),
        "gathering sharded weights": _("gathering sharded weights"),
        "gradient synchronisation": _("gradient synchronisation"),
        "fetching weights from the host": _("fetching weights from the host"),
        "optimizer on the host": _("optimizer on the host"),
        "fetching activations from the host": _("fetching activations from the host"),
        "pipeline bubble": _("pipeline bubble"),
        "stragglers": _("stragglers"),
        "host launches": _("host launches"),
        "host per micro-batch": _("host per micro-batch"),
        "host per step": _("host per step"),
        "generating answers": _("generating answers"),
        "scoring without gradients": _("scoring without gradients"),
        "training the critic": _("training the critic"),
    }
    return names.get(name, name)


def memory_use(memory: Json) -> Cell:
    """Held at the peak, of what the device has."""
    used, capacity = memory["reserved_bytes"], memory["capacity_bytes"]
    text = _("{used}\nof {capacity}").format(used=show(used, "B"), capacity=show(capacity, "B"))
    return Cell(text, used)


def constraint(name: str) -> str:
    """A limit of a plan as a person says it; resources say themselves."""
    return {
        "memory": _("memory"),
        "deadline": _("deadline"),
        "budget": _("budget"),
        "max-devices": _("devices"),
    }.get(name, name)


def scaling_mode(name: str) -> str:
    """What stays the same over the counts."""
    return {"strong": _("same batch"), "weak": _("same batch per device")}[name]


def layout(split: Json) -> str:
    """The layout in words: degrees above one, then what else was chosen."""
    degrees = [f"{name} {split[name]}" for name in ("dp", "tp", "pp", "cp", "ep")
               if name == "dp" or split[name] > 1]  # fmt: skip
    words = [
        *degrees,
        "" if split["vpp"] == 1 else f"vpp {split['vpp']}",
        "" if split["shard"] == "none" else _sharding(split),
        _("micro-batch {count}").format(count=split["micro_batch"]),
        "" if split["recompute"] == "none" else _recompute(split),
        _("sequence-parallel") if split["sequence_parallel"] else "",
        str(split["other"].get("loss", "")),
        "" if split["method"] == "full" else str(split["method"]),
        "" if split["precision"] == "bf16" else str(split["precision"]),
        "" if split["optimizer"] == "adamw" else str(split["optimizer"]),
        *(_("{what} offloaded").format(what=what) for what in split["offload"]),
    ]
    return " · ".join(word for word in words if word)


def serving_layout(split: Json) -> str:
    """How one copy of a served model is spread, and in which formats."""
    return joined(
        (
            str(split["engine"]),
            f"tp {split['tp']}, pp {split['pp']}",
            _("{n} copies").format(n=split["copies"]) if split["copies"] > 1 else "",
            _("weights {dtype}").format(dtype=split["weights_dtype"]),
            _("KV cache {dtype}").format(dtype=split["kv_dtype"]),
        )
    )


def _sharding(split: Json) -> str:
    whole, group = split["dp"] * split["cp"], split["shard_group"]
    if group == whole:
        return str(split["shard"])
    return _("{shard} over {group} ranks").format(shard=split["shard"], group=group)


def _recompute(split: Json) -> str:
    if split["recompute"] == "full" and split["recompute_every"] > 1:
        return _("recompute every {count}").format(count=split["recompute_every"])
    return _("recompute {mode}").format(mode=split["recompute"])


def command(words: str, split: Json, *changes: str) -> str:
    """A command line that repeats a layout, with some flags changed.

    Args:
        words: the command with model and system.
        split: the layout to repeat.
        changes: further flags as text; a flag that stands twice keeps its last value.
    """
    flags = dict(_layout_flags(split))
    for change in " ".join(changes).split("--"):
        name, _space, value = change.strip().partition(" ")
        if name:
            flags[name] = value
    return " ".join([words, *(f"--{name} {value}".strip() for name, value in flags.items())])


def asked(inputs: Json) -> str:
    """Model and further choices as they were asked for, as words of a command line."""
    words = [quote(str(inputs.get("model", "MODEL")))]
    words += [
        f"--{name.replace('_', '-')} {quote(str(inputs[name]))}"
        for name in _REPEATED
        if inputs.get(name) not in (None, "sft")
    ]
    if inputs.get("rollout_sleep") is not None:
        words.append("--rollout-sleep" if inputs["rollout_sleep"] else "--no-rollout-sleep")
    if inputs.get("power_cap") is not None:
        words.append(f"--power-cap {inputs['power_cap']:g}W")
    return " ".join([*words, *(f"--set {quote(f'{k}={v}')}" for k, v in _set(inputs))])


_REPEATED = (
    *("rank", "targets", "base_dtype", "grad_dtype"),
    *("loss", "reference", "prompt_len", "completion_len", "group_size", "ppo_epochs"),
    *("rollout", "rollout_devices", "rollout_tp", "rollout_batch", "rollout_memory"),
    *("critic", "reward_model", "teacher"),
    *("headroom", "catalogue", "market", "as_of", "pue"),
)
"""What changes an answer and stands in no layout."""


def _set(inputs: Json) -> Iterable[tuple[str, str]]:
    given = inputs.get("set")
    return given.items() if isinstance(given, Mapping) else ()


def _layout_flags(split: Json) -> Iterator[tuple[str, str]]:
    yield "seq", str(split["seq_len"])
    for name in ("dp", "tp", "pp", "cp", "ep", "vpp"):
        chunked = name == "vpp" and split["pp"] > 1
        spread = name == "ep" and split["other"].get("experts")
        if split[name] > 1 or chunked or spread:
            yield name, str(split[name])
    for name in ("shard", "micro_batch", "recompute", "framework"):
        yield name.replace("_", "-"), str(split[name])
    yield from _measure_flags(split)
    if split["offload"]:
        yield "offload", ",".join(split["offload"])
    for name, usual in (("method", "full"), ("optimizer", "adamw"), ("precision", "bf16")):
        if split[name] != usual:
            yield name, str(split[name])


def _measure_flags(split: Json) -> Iterator[tuple[str, str]]:
    """What a stack would choose otherwise by itself."""
    if split["tp"] > 1:
        yield ("" if split["sequence_parallel"] else "no-") + "sequence-parallel", ""
    if split["shard_group"] != split["dp"] * split["cp"]:
        yield "shard-group", str(split["shard_group"])
    if split["recompute_every"] > 1:
        yield "recompute-every", str(split["recompute_every"])
    if split["attention"] == "eager":
        yield "attention", "eager"
    other = split["other"]
    if other.get("chunked_loss") is not None:
        yield "chunked-loss", str(other["chunked_loss"])
    if other.get("compiled") is not None:
        yield "compile" if other["compiled"] else "no-compile", ""


def assumptions(document: Json) -> Listing:
    """What was taken for granted, the largest effect first."""
    return Listing(_("Assumptions"), list(map(_assumption, document["assumptions"])))


def _assumption(item: Json) -> str:
    return f"{item['text']} ({item['effect']})" if item.get("effect") else str(item["text"])


def warnings(document: Json) -> Listing:
    """What the reader should know before trusting the answer."""
    return Listing(_("Warnings"), list(document["warnings"]))


def joined(parts: Iterable[str]) -> str:
    """Facts on one line."""
    return " · ".join(part for part in parts if part)
