"""Measured memory of serving against the serving memory model, one row at a time.

Only configuration cells are read: never ``value``, ``id``, ``source``, ``source_ref``,
``published``, ``notes`` or ``config_id``, nor the model's name or any other row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

from chipwise.catalogue.engines import Engine, recognise_engine
from chipwise.catalogue.hardware import load_accelerator, load_node
from chipwise.catalogue.rows import model_from_row
from chipwise.catalogue.weight_formats import WeightFormat, find_weight_format, known_format
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.physics.serving_model import SERVING
from chipwise.serving_columns import KV_BYTES, ServingSetup, serving_columns
from chipwise.spec.hardware import Cluster
from chipwise.spec.model import ModelSpec
from chipwise.validation.rows import Cells, SkippedRowError, count_in, word_in

METRIC = "peak_memory_gb"
_SLACK = 1.06
"""Memory the process holds over the memory in use: rounding, caching, workspaces."""
_HALF_WIDTH = 0.25
"""Of the logarithm, 80 % interval."""
_PROMPT = 128
"""Tokens of a prompt whose length is not stated."""
_RESERVED_CONTEXT = 2048
"""Context that llama.cpp's bindings reserve at least."""
_SCORE_BYTES = 8.0
"""Per score where attention is not fused: in 16 bit, in fp32 for the softmax, and cast back."""
_FUSED = ("exllama", "llamacpp", "lmdeploy", "mlc")


@dataclass(frozen=True)
class MemoryPrediction:
    """Peak memory of all devices together, in GB (1e9 bytes), with its 80 % interval."""

    predicted: float
    low: float
    high: float
    fits: bool
    assumptions: tuple[str, ...]


def predict(rows: Sequence[Cells]) -> list[MemoryPrediction | str]:
    """A prediction for each row, or the reason why there is none; rows do not see each other."""
    found: list[MemoryPrediction | str] = []
    for row in rows:
        try:
            found.append(_predict(row))
        except SkippedRowError as reason:
            found.append(str(reason))
    return found


def _predict(row: Cells) -> MemoryPrediction:
    metric = word_in(row, "metric")
    if metric != METRIC:
        raise SkippedRowError(_("metric {name} is not predicted").format(name=metric))
    missing = [name for name in ("layers", "hidden", "num_devices") if not word_in(row, name)]
    if missing:
        raise SkippedRowError(_("not stated: {names}").format(names=", ".join(missing)))
    try:
        return _evaluated(row)
    except UsageError as error:
        raise SkippedRowError(error.message) from error


def _evaluated(row: Cells) -> MemoryPrediction:
    model, assumed = model_from_row(row)
    notes = list(assumed)
    engine = recognise_engine(row.get("engine") or row.get("engine_family") or "")
    notes.append(_("engine family: {name}").format(name=engine.title))
    setup = _setup(row, model, engine, notes)
    batch = setup.concurrency
    prompt = count_in(row, "input_len") or _PROMPT
    columns = serving_columns(setup)
    if engine.name == "eager":
        columns["logit_rows"] = float(batch * prompt)
        if word_in(row, "engine_family") not in _FUSED:
            heads = max(g.attention.heads for g in model.layers if g.attention)
            columns["score_bytes"] = _SCORE_BYTES
            columns["prefill_scores"] = float(batch * heads) * prompt**2
            notes.append(_("attention scores are written to memory"))
    values = {name: float(value) for name, value in SERVING.evaluate(columns).items()}
    held = _held(values, setup)
    return MemoryPrediction(
        predicted=held / 1e9,
        low=held / 1e9 / exp(_HALF_WIDTH),
        high=held / 1e9 * exp(_HALF_WIDTH),
        fits=values["serving_share"] <= 1,
        assumptions=tuple(notes),
    )


def _held(values: Mapping[str, float], setup: ServingSetup) -> float:
    """Bytes that all devices show together."""
    devices = setup.tp * setup.pp
    if setup.engine.pool:
        return devices * values["held_bytes"]
    working = values["forward_peak_bytes"] + values["wanted_kv_bytes"] * devices
    used = values["weights_bytes"] + working
    return _SLACK * used + devices * values["runtime_bytes"]


def _setup(row: Cells, model: ModelSpec, engine: Engine, notes: list[str]) -> ServingSetup:
    devices = count_in(row, "num_devices") or 1
    name = word_in(row, "accelerator")
    cluster = Cluster(
        name=f"{name}:{devices}",
        accelerator=load_accelerator(name),
        node=load_node(name),
        num_devices=devices,
        num_nodes=1,
    )
    split = word_in(row, "layer_split") == "yes" or engine.name == "llama.cpp"
    tp = count_in(row, "tp") or (1 if split else devices)
    batch = count_in(row, "batch_or_concurrency") or 1
    prompt = count_in(row, "input_len") or _PROMPT
    context = prompt + (count_in(row, "output_len") or 0)
    if engine.name == "llama.cpp":
        context = max(context, _RESERVED_CONTEXT)
    stored, wide = _stored(row, engine, notes)
    kv = word_in(row, "kv_dtype")
    most = count_in(row, "max_num_batched_tokens")
    return ServingSetup(
        model=model,
        cluster=cluster,
        engine=engine,
        weights=stored,
        kv_dtype=kv if kv in KV_BYTES else "fp32" if wide else "fp16",
        tp=tp,
        pp=max(1, devices // tp),
        context=context,
        concurrency=batch,
        batched_tokens=most or (batch * prompt if engine.name == "eager"
                                else engine.tokens_on(cluster.accelerator)),
        sequences=count_in(row, "max_num_seqs") or engine.sequences_on(cluster.accelerator),
        utilization=engine.pool_share if engine.pool_share < 1 else engine.utilization,
        compute_bytes=4.0 if wide else 2.0,
    )  # fmt: skip


def _stored(row: Cells, engine: Engine, notes: list[str]) -> tuple[WeightFormat, bool]:
    """The weight format, and whether everything runs in fp32."""
    text = word_in(row, "weights_dtype")
    if not text:
        notes.append(_("weights in {dtype}").format(dtype="bf16"))
        return known_format("bf16"), False
    if engine.name == "llama.cpp" and text in ("int4", "int8"):
        text = {"int4": "q4_k_m", "int8": "q8_0"}[text]
        notes.append(_("weights in {dtype}").format(dtype=text))
    return find_weight_format(text), text == "fp32"
