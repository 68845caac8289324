"""Measurement rows to jobs, from their configuration cells alone.

``value``, ``id``, ``source``, ``source_ref``, ``published``, ``notes`` and ``config_id`` are never
looked at here, nor is the model's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import get_args

from chipwise.catalogue.frameworks import normalise_framework
from chipwise.catalogue.hardware import load_accelerator, load_node
from chipwise.catalogue.rows import model_from_row
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import Dtype, Framework, Strategy, TrainingJob, TrainingWorkload
from chipwise.spec.method import METHODS, PACKED
from chipwise.spec.model import Frozen
from chipwise.spec.targets import WORDS

Cells = Mapping[str, str]


def _words_of(spec: type[Frozen], field: str) -> tuple[str, ...]:
    """The words that an optional field of a spec allows."""
    options = (get_args(option) for option in get_args(spec.model_fields[field].annotation))
    return tuple(word for option in options for word in option)


_OPTIMIZERS = (
    ("8bit", "adamw-8bit"),
    ("adafactor", "adafactor"),
    ("muon", "muon"),
    ("lion", "lion"),
)
_CHOICES = {
    "shard": _words_of(Strategy, "shard"),
    "recompute": _words_of(Strategy, "recompute"),
    "attention": _words_of(Strategy, "attention"),
    "grad_dtype": _words_of(Strategy, "grad_dtype"),
    "chunked_ce": _words_of(Strategy, "chunked_loss"),
    "pp_schedule": _words_of(Strategy, "pp_schedule"),
    "fp8_recipe": _words_of(Strategy, "fp8_recipe"),
    "base_weights_dtype": _words_of(TrainingWorkload, "base_dtype"),
}
"""Cells that hold one of a few words."""
_LARGEST_CELL = 1e15


class SkippedRowError(Exception):
    """A row that cannot be predicted, with the reason."""


def training_job(row: Cells) -> tuple[TrainingJob, tuple[str, ...]]:
    """The job a training row describes, and what had to be assumed about its model.

    Raises:
        SkippedRowError: an essential cell is missing or unknown.
    """
    _require(row)
    try:
        model, assumed = model_from_row(row)
    except UsageError as error:
        raise SkippedRowError(error.message) from error
    cluster = _cluster(row)
    row, unknown = _with_known_words(row)
    strategy = _strategy(row, cluster.num_devices)
    return (
        TrainingJob(
            model=model,
            cluster=cluster,
            workload=_workload(row, strategy),
            strategy=strategy,
            power_cap_watts=number_in(row, "power_cap_w") or None,
        ),
        (*assumed, *unknown),
    )


def _with_known_words(row: Cells) -> tuple[Cells, tuple[str, ...]]:
    """The row with words that no field knows taken as not stated, and a sentence for each."""
    unknown = [
        name
        for name, choices in _CHOICES.items()
        if (word := word_in(row, name)) and word not in choices
    ]
    if not unknown:
        return row, ()
    text = _("{name} '{word}' is not known and taken as not stated")
    said = tuple(text.format(name=name, word=word_in(row, name)) for name in unknown)
    return {**row, **dict.fromkeys(unknown, "")}, said


def _require(row: Cells) -> None:
    missing = [name for name in ("layers", "hidden", "num_devices", "seq_len") if not row.get(name)]
    if not row.get("global_batch") and not row.get("micro_batch"):
        missing.append("global_batch")
    if missing:
        raise SkippedRowError(_("not stated: {names}").format(names=", ".join(missing)))


def number_in(row: Cells, name: str) -> float | None:
    """A cell as a number from 0 on; None where it is empty.

    Raises:
        SkippedRowError: the cell holds anything else.
    """
    text = (row.get(name) or "").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _LARGEST_CELL:
        reason = _("{name} is no number from 0 on: {text}").format(name=name, text=text)
        raise SkippedRowError(reason)
    return number


def count_in(row: Cells, name: str) -> int | None:
    """A cell as a whole number from 1 on; None where it is empty or 0."""
    number = number_in(row, name)
    return max(1, round(number)) if number else None


def _flag(row: Cells, name: str) -> bool | None:
    text = (row.get(name) or "").strip().lower()
    return None if not text else text in ("1", "1.0", "yes", "true")


def word_in(row: Cells, name: str) -> str:
    """A cell in lower case; empty where it is absent."""
    return (row.get(name) or "").strip().lower()


def _cluster(row: Cells) -> Cluster:
    devices = count_in(row, "num_devices") or 1
    domain = count_in(row, "devices_per_node")
    network = number_in(row, "internode_gbps_per_device")
    return _build_cluster(row.get("accelerator", "").strip().lower(), devices, domain, network)


@lru_cache(maxsize=2048)
def _build_cluster(
    accelerator: str, devices: int, domain: int | None, network_gbps: float | None
) -> Cluster:
    try:
        device, node = load_accelerator(accelerator), load_node(accelerator)
    except UsageError as error:
        raise SkippedRowError(error.message) from error
    updates: dict[str, object] = {}
    if domain:
        updates["devices"] = domain
    if network_gbps:
        updates["network_bandwidth"] = network_gbps * 1e9 / 8
    node = node.model_copy(update=updates)
    return Cluster(
        name=f"{accelerator}:{devices}",
        accelerator=device,
        node=node,
        num_devices=devices,
        num_nodes=-(-devices // node.devices),
    )


def framework_in(row: Cells) -> Framework:
    """The family of the row's software stack."""
    return normalise_framework(f"{row.get('framework', '')} {row.get('framework_family', '')}")


def _strategy(row: Cells, devices: int) -> Strategy:
    degrees = {name: count_in(row, name) for name in ("tp", "pp", "dp", "cp", "ep", "vpp")}
    if degrees["cp"] is None and degrees["tp"] and degrees["pp"] and degrees["dp"]:
        degrees["cp"] = max(1, devices // (degrees["tp"] * degrees["pp"] * degrees["dp"]))
    if word_in(row, "pp_schedule") == "1f1b" and degrees["vpp"] is None:
        degrees["vpp"] = 1
    offload = word_in(row, "offload")
    return Strategy.model_validate(
        {
            **degrees,
            "framework": framework_in(row),
            "shard": word_in(row, "shard") or None,
            "sequence_parallel": _flag(row, "sequence_parallel"),
            "micro_batch": count_in(row, "micro_batch"),
            "recompute": word_in(row, "recompute") or None,
            "attention": word_in(row, "attention") or None,
            "optimizer": _optimizer(word_in(row, "optimizer")),
            "optimizer_in_backward": _flag(row, "optimizer_in_backward"),
            "offload_optimizer": offload.startswith("cpu") if offload else None,
            "offload_params": "params" in offload if offload else None,
            "offload_activations": "activation" in offload if offload else None,
            "master_weights": {"fp32": True, "none": False}.get(word_in(row, "master_dtype")),
            "grad_dtype": word_in(row, "grad_dtype") or None,
            "chunked_loss": word_in(row, "chunked_ce") or None,
            "compiled": _flag(row, "torch_compile"),
            "pp_schedule": word_in(row, "pp_schedule") or None,
            "tp_overlap": _flag(row, "tp_overlap"),
            "dp_overlap": _flag(row, "dp_overlap"),
            "fp8_recipe": word_in(row, "fp8_recipe") or None,
            "layer_split": _flag(row, "layer_split"),
        }
    )


def _optimizer(text: str) -> str | None:
    if not text:
        return None
    return next((name for part, name in _OPTIMIZERS if part in text), "adamw")


def _workload(row: Cells, strategy: Strategy) -> TrainingWorkload:
    method = word_in(row, "method") or "full"
    base = word_in(row, "base_weights_dtype") or None
    targets = word_in(row, "lora_targets").replace(" ", "") or None
    rank = count_in(row, "lora_rank")
    if rank is None and (found := re.search(r"r=(\d+)", method)):
        rank = int(found[1])
    return TrainingWorkload.model_validate(
        {
            "seq_len": count_in(row, "seq_len"),
            "global_batch": _global_batch(row, strategy),
            "precision": _precision(row),
            "method": _method(method, base),
            "base_dtype": base,
            "lora_rank": rank,
            "lora_targets": targets if targets in WORDS else None,
            "trainable_params": count_in(row, "trainable_params"),
            "packing": _flag(row, "packing"),
        }
    )


def _method(text: str, base: str | None) -> str:
    """The method whose counts and memory a row's words stand for; ``adapter`` for other makes."""
    if text == "full":
        return "full"
    if text.startswith("q") or base in PACKED:
        return "qlora"
    word = text.split(" ", maxsplit=1)[0].replace("_", "-").removesuffix("-tuning")
    word = "ln-tuning" if word in ("ln", "layernorm") else word
    return word if word in METHODS else "adapter"


def _precision(row: Cells) -> str | None:
    text = word_in(row, "precision").split("/")[0]
    return text if text in get_args(Dtype) else None


def _global_batch(row: Cells, strategy: Strategy) -> int | None:
    if stated := count_in(row, "global_batch"):
        return stated
    accumulation = count_in(row, "grad_accum") or 1
    return (strategy.micro_batch or 1) * accumulation * (strategy.dp or 1)
