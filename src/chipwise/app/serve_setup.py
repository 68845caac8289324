"""From a request to a complete serving setup: names looked up, gaps filled and said."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chipwise import rules
from chipwise.app.documents import Assumption
from chipwise.app.jobs import clusters_of
from chipwise.app.requests import FitRequest
from chipwise.catalogue.engines import Engine, engines
from chipwise.catalogue.models import load_model
from chipwise.catalogue.weight_formats import WeightFormat, find_weight_format, known_format
from chipwise.errors import LayoutError, UsageError
from chipwise.i18n import _
from chipwise.serving_columns import ServingSetup
from chipwise.spec.hardware import Accelerator, Cluster
from chipwise.spec.model import ModelSpec

USUAL_CONTEXT = 8192
"""Tokens per sequence when nothing is said: a long chat, or a few pages and the answer."""
_NATIVE = {"gpt-oss": "mxfp4"}
"""Families whose only published checkpoints are packed [gpt-oss-card]."""


@dataclass(frozen=True)
class Served:
    """A complete setup, how many copies of it stand side by side, and what was assumed."""

    setup: ServingSetup
    copies: int
    assumptions: tuple[Assumption, ...]


def served(request: FitRequest) -> Served:
    """The setup a request asks for, gaps filled.

    Raises:
        UsageError: unknown names, several systems, contradictions, or a layout that cannot be.
    """
    clusters = clusters_of(request)
    if len(clusters) > 1:
        names = ", ".join(cluster.name for cluster in clusters)
        raise UsageError(
            "one-system",
            _("one system at a time: '{on}' is {count} ({names})").format(
                on=request.on, count=len(clusters), names=names
            ),
            on=request.on,
        )
    cluster, model = clusters[0], load_model(request.model)
    notes: list[Assumption] = []
    engine = _engine(request, cluster.accelerator, notes)
    tp, pp, copies = _degrees(request, model, cluster, engine, notes)
    compute = 4.0 if request.precision in ("fp32", "tf32") else 2.0
    setup = ServingSetup(
        model=model,
        cluster=cluster,
        engine=engine,
        weights=_weights(request, model, engine, cluster.accelerator, notes),
        kv_dtype=_kv_dtype(request, cluster.accelerator, notes),
        tp=tp,
        pp=pp,
        context=_context(request, model, notes),
        concurrency=request.concurrency or _one(_("one sequence at a time"), notes),
        batched_tokens=1,
        sequences=request.max_num_seqs or engine.sequences_on(cluster.accelerator),
        utilization=_utilization(request, engine, notes),
        headroom=request.headroom or 0.0,
        compute_bytes=compute,
    )
    tokens = _batched_tokens(request, setup, notes)
    return Served(replace(setup, batched_tokens=tokens), copies, tuple(notes))


def _one(text: str, notes: list[Assumption]) -> int:
    notes.append(Assumption(text=text))
    return 1


def _engine(request: FitRequest, device: Accelerator, notes: list[Assumption]) -> Engine:
    if request.engine is not None:
        return engines()[request.engine]
    packed = request.weights_dtype and find_weight_format(request.weights_dtype).gguf
    host = device.vendor.lower() == "apple" or device.kind == "apu"
    chosen = engines()["llama.cpp" if packed or host else "vllm"]
    notes.append(Assumption(text=_("engine {name}").format(name=chosen.title)))
    return chosen


def _weights(
    request: FitRequest,
    model: ModelSpec,
    engine: Engine,
    device: Accelerator,
    notes: list[Assumption],
) -> WeightFormat:
    stated = request.weights_dtype or request.precision
    if stated is not None:
        return _for_engine(find_weight_format(stated), engine)
    native = _NATIVE.get(model.family)
    if native is None and engine.name == "llama.cpp":
        native = "q4_k_m"
    chosen = known_format(native or ("bf16" if "bf16" in device.peak_flops else "fp16"))
    notes.append(Assumption(text=_("weights in {dtype}").format(dtype=chosen.name)))
    return chosen


def _for_engine(stored: WeightFormat, engine: Engine) -> WeightFormat:
    """llama.cpp runs GGUF files and 16- or 32-bit weights."""
    if engine.name != "llama.cpp" or stored.gguf or stored.layers >= 16:
        return stored
    near = "q8_0" if stored.layers >= 8 else "q4_k_m"
    raise UsageError(
        "format-engine",
        _("{engine} does not run {dtype} weights; the nearest GGUF type is {near}").format(
            engine=engine.title, dtype=stored.name, near=near
        ),
        dtype=stored.name,
        nearest=near,
    )


def _kv_dtype(request: FitRequest, device: Accelerator, notes: list[Assumption]) -> str:
    if request.kv_dtype is not None:
        return request.kv_dtype
    chosen = "bf16" if "bf16" in device.peak_flops else "fp16"
    notes.append(Assumption(text=_("keys and values in {dtype}").format(dtype=chosen)))
    return chosen


def _context(request: FitRequest, model: ModelSpec, notes: list[Assumption]) -> int:
    stated = request.context or request.seq
    if stated is not None:
        return stated
    chosen = min(USUAL_CONTEXT, model.max_context or USUAL_CONTEXT)
    text = _("{n:,} tokens per sequence, prompt and answer").format(n=chosen)
    notes.append(Assumption(text=text))
    return chosen


def _utilization(request: FitRequest, engine: Engine, notes: list[Assumption]) -> float:
    if request.gpu_memory_utilization is not None:
        return request.gpu_memory_utilization
    chosen = engine.pool_share if engine.pool_share < 1 else engine.utilization
    flag = engine.flags["utilization"]
    if flag:
        text = _("{flag} {share}, the engine's default").format(flag=flag, share=chosen)
        notes.append(Assumption(text=text))
    return chosen


def _batched_tokens(request: FitRequest, setup: ServingSetup, notes: list[Assumption]) -> int:
    if request.max_num_batched_tokens is not None:
        return request.max_num_batched_tokens
    engine = setup.engine
    chosen = engine.tokens_on(setup.cluster.accelerator)
    text = _("{flag} {n}, the engine's default on this device").format(
        flag=engine.flags["tokens"], n=chosen
    )
    notes.append(Assumption(text=text))
    return chosen


def _degrees(
    request: FitRequest,
    model: ModelSpec,
    cluster: Cluster,
    engine: Engine,
    notes: list[Assumption],
) -> tuple[int, int, int]:
    """Tensor and pipeline degree of one copy, and the number of copies."""
    copies = request.dp or 1
    devices = cluster.num_devices
    if devices % copies:
        rules.degrees_fill_cluster(cluster, request.tp or 1, request.pp or 1, copies, 1)
    each = devices // copies
    tp, pp = request.tp, request.pp
    if tp is None and pp is None:
        tp, pp = _usual_split(model, cluster, engine, each)
        if request.dp is None and pp > model.num_layers:
            tp, pp, copies = _several_copies(model, cluster, engine)
            text = _("{copies} copies, since one has fewer layers than devices: tp {tp}, pp {pp}")
            notes.append(Assumption(text=text.format(copies=copies, tp=tp, pp=pp)))
        elif each > 1:
            text = _("one copy over all devices: tp {tp}, pp {pp}").format(tp=tp, pp=pp)
            notes.append(Assumption(text=text))
    elif tp is None:
        tp = each // (pp or 1)
    elif pp is None:
        pp = each // tp
    tp, pp = max(1, tp or 1), max(1, pp or 1)
    rules.tp_divides_heads(model, tp, cluster.num_devices)
    rules.stages_have_layers(model, pp, 1, cluster.num_devices)
    rules.degrees_fill_cluster(cluster, tp, pp, copies, 1)
    _kv_heads_follow(model, tp)
    return tp, pp, copies


def _usual_split(
    model: ModelSpec, cluster: Cluster, engine: Engine, devices: int
) -> tuple[int, int]:
    """Tensor and pipeline degree of one copy on so many devices."""
    tp = 1 if engine.name == "llama.cpp" else usual_tp(model, cluster, devices)
    return tp, devices // tp


def _several_copies(model: ModelSpec, cluster: Cluster, engine: Engine) -> tuple[int, int, int]:
    """Tensor degree, pipeline degree and number of the fewest copies that have enough layers."""
    devices = cluster.num_devices
    for copies in rules.divisors(devices):
        tp, pp = _usual_split(model, cluster, engine, devices // copies)
        if pp <= model.num_layers:
            return tp, pp, copies
    return 1, 1, devices


def usual_tp(model: ModelSpec, cluster: Cluster, devices: int) -> int:
    """The largest tensor-parallel degree inside a node that the heads allow."""
    inside = min(cluster.devices_per_node, devices)
    heads = rules.attention_heads(model) or 1
    allowed = (n for n in range(1, inside + 1) if devices % n == 0 and heads % n == 0)
    return max(n for n in allowed if not _uneven(model, n))


def _uneven(model: ModelSpec, tp: int) -> list[int]:
    """Counts of kv heads that are neither divided by tp nor divide it."""
    counts = {
        group.attention.kv_heads
        for group in model.layers
        if group.attention is not None and group.attention.kind not in ("mla", "linear")
    }
    return sorted(n for n in counts if n % tp and tp % n)


def _kv_heads_follow(model: ModelSpec, tp: int) -> None:
    if odd := _uneven(model, tp):
        raise LayoutError(
            "tp-kv-heads",
            _(
                "tp {tp} and the {heads} key-value heads of {model}: one must divide the other"
            ).format(tp=tp, heads=odd[0], model=model.id),
            tp=tp,
            kv_heads=odd[0],
        )
