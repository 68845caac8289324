"""The use case ``fit --task serve``: weights, room for keys and values, and what it is good for."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, floor, isfinite
from shlex import quote

from chipwise.app.documents import (
    Largest,
    Memory,
    MemoryPart,
    Range,
    ServeFitDocument,
    ServeLayout,
    Subject,
    Verdict,
)
from chipwise.app.overrides import read_serving_overrides, require_sound
from chipwise.app.requests import FitRequest
from chipwise.app.serve_remedies import remedies_for
from chipwise.app.serve_setup import Served, served
from chipwise.i18n import _
from chipwise.physics.serving_model import SERVING
from chipwise.quantity import Array
from chipwise.serving_columns import ServingSetup, serving_columns
from chipwise.spec.tensors import params_active, params_total
from chipwise.units import show

_TIGHT = 0.9
"""Above this share of the planned memory a setup that fits is called tight."""
_HALF_WIDTH = 0.10
"""Of the logarithm of the memory held, 80 % interval: assumed."""
_NOTABLE_FORWARD = 0.04
"""Working memory above this share of the device is worth a word."""
_PARTS = {
    "device_weights_bytes": "weights",
    "wanted_kv_bytes": "keys and values",
    "forward_peak_bytes": "forward pass",
    "graph_bytes": "CUDA graphs",
    "runtime_bytes": "context and communicators",
}
Values = Mapping[str, float]


def fit_serve(request: FitRequest) -> ServeFitDocument:
    """Does a model fit for serving, with which context and concurrency, and what would help.

    Raises:
        UsageError: unknown names, several systems, contradictions, or a layout that cannot be.
    """
    found = served(request)
    setup = found.setup
    values = evaluate_setup(setup, read_serving_overrides(request.set))
    layout = layout_of_served(found)
    over = values["serving_share"] > 1
    remedies = remedies_for(setup, evaluate_setup) if over else ()
    context = longest_context(setup, values)
    return ServeFitDocument(
        inputs=request.model_dump(exclude_none=True, exclude_defaults=True) | layout.model_dump(),
        assumptions=found.assumptions,
        warnings=tuple(serving_warnings(found, values)),
        subject=Subject(
            model=setup.model.id,
            system=setup.cluster.name,
            devices=setup.cluster.num_devices,
            understood=setup.cluster.understood,
        ),
        layout=layout,
        verdict=serving_verdict(values["serving_share"]),
        memory=memory_of_setup(setup, values),
        headroom_bytes=(1 - values["serving_share"]) * values["planned_bytes"],
        weights_bytes=values["weights_bytes"],
        device_weights_bytes=values["device_weights_bytes"],
        kv_bytes_per_token=values["kv_bytes_per_token"],
        kv_room_bytes=max(0.0, values["kv_room_bytes"]),
        kv_tokens=_whole_blocks(values["kv_tokens"], setup.engine.block),
        max_context=context,
        max_concurrency=floor(values["sequences_held"] + 1e-9),
        largest=Largest(seq_len=context or None),
        remedies=remedies,
        one_change=next((remedy for remedy in remedies if remedy.fits_after), None),
        engine_command=engine_command(setup, context, request.model),
    )


def evaluate_setup(setup: ServingSetup, overrides: Values | None = None) -> dict[str, float]:
    """Every quantity of the serving memory model for one setup, inputs included.

    Raises:
        UsageError: these overrides leave no sensible result.
    """
    computed: dict[str, Array] = {**serving_columns(setup)}
    columns = computed | dict(overrides or {})
    found = SERVING.evaluate(columns, keep_all=True)
    values = {name: float(value) for name, value in {**columns, **found}.items()}
    if overrides:
        usual = SERVING.evaluate(computed, keep_all=True)
        results = {name: abs(values[name]) for name, value in usual.items() if isfinite(value)}
        require_sound(results, overrides)
    return values


def longest_context(setup: ServingSetup, values: Values) -> int:
    """Longest context of one sequence, in whole blocks, within what the model allows."""
    longest, limit = values["longest_sequence"], setup.model.max_context
    if not isfinite(longest) or (limit and longest >= limit):
        return limit or setup.context
    return _whole_blocks(longest, setup.engine.block)


def _whole_blocks(tokens: float, block: int) -> int:
    return floor(tokens / block + 1e-9) * block


def serving_verdict(share: float) -> Verdict:
    """Whether a share of the planned memory fits."""
    if not share <= 1:
        return "does not fit"
    return "tight" if share > _TIGHT else "fits"


def layout_of_served(found: Served) -> ServeLayout:
    """How the model is spread and what the engine is told."""
    setup = found.setup
    return ServeLayout(
        engine=setup.engine.name,
        tp=setup.tp,
        pp=setup.pp,
        copies=found.copies,
        weights_dtype=setup.weights.name,
        kv_dtype=setup.kv_dtype,
        context=setup.context,
        concurrency=setup.concurrency,
        gpu_memory_utilization=setup.utilization,
        max_num_batched_tokens=setup.batched_tokens,
        max_num_seqs=setup.sequences,
    )


def memory_of_setup(setup: ServingSetup, values: Values) -> Memory:
    """The memory bill of the fullest device."""
    total, held = values["serving_peak_bytes"], values["held_bytes"]
    return Memory(
        parts=tuple(
            MemoryPart(
                name=title,
                bytes=values[name],
                share=values[name] / total,
                formula=SERVING[name].formula,
                source=SERVING[name].source,
            )
            for name, title in _PARTS.items()
            if values[name] > 0
        ),
        total_bytes=total,
        reserved_bytes=held,
        capacity_bytes=setup.cluster.accelerator.memory_bytes,
        usable_bytes=values["planned_bytes"],
        range=Range(
            low=held / exp(_HALF_WIDTH),
            likely=held,
            high=held * exp(_HALF_WIDTH),
            basis="assumed",
        ),
    )


def serving_warnings(found: Served, values: Values) -> list[str]:
    """What a person who serves this should know."""
    setup, said = found.setup, []
    flags, model = setup.engine.flags, setup.model
    if values["forward_peak_bytes"] > _NOTABLE_FORWARD * values["visible_bytes"]:
        text = _(
            "a forward pass of {n:,} tokens works in {bytes}, which grows with {flag}: "
            "a larger one leaves less room for keys and values; long prompts can be prefilled "
            "in chunks instead"
        )
        said.append(
            text.format(
                n=setup.batched_tokens,
                bytes=show(values["forward_peak_bytes"], "B"),
                flag=flags["tokens"],
            )
        )
    total, active = params_total(model), params_active(model)
    if active < total:
        text = _("all {total} parameters are resident, although a token uses {active}")
        said.append(text.format(total=f"{total / 1e9:.4g}B", active=f"{active / 1e9:.3g}B"))
    if setup.tp > values["kv_heads"]:
        text = _(
            "keys and values cannot be divided by {tp}: each device keeps 1/{heads:g} of them "
            "(latent attention all of them), so more devices hold hardly more tokens"
        )
        said.append(text.format(tp=setup.tp, heads=values["kv_heads"]))
    if model.max_context and setup.context > model.max_context:
        text = _("{n:,} tokens are more than the {limit:,} the model was made for")
        said.append(text.format(n=setup.context, limit=model.max_context))
    longest = longest_context(setup, values)
    if setup.engine.pool and 0 < longest < model.max_context:
        text = _("without {flag} the engine plans for {limit:,} tokens and refuses to start")
        said.append(text.format(flag=flags["context"], limit=model.max_context))
    return said


def engine_command(setup: ServingSetup, longest: int, model: str) -> str:
    """The engine's command line: the context asked for, or the longest there is room for.

    Args:
        setup: what is served and how.
        longest: longest context there is room for; 0 when there is none.
        model: the model as it was asked for; of a file or folder the path is what an engine takes.
    """
    name = model.removesuffix("/config.json") if "/" in model else setup.model.id
    engine, flags = setup.engine, setup.engine.flags
    context = min(setup.context, longest) if longest else setup.context
    words = [engine.command]
    words.append(f"-m {quote(f'{name}-{setup.weights.name}.gguf')}" if engine.name == "llama.cpp"
                 else f"--model-path {quote(name)}" if engine.name == "sglang"
                 else quote(name))  # fmt: skip
    if engine.name == "llama.cpp":
        context *= setup.concurrency
        words.append("--n-gpu-layers 999")
    pairs = (
        ("tp", setup.tp if setup.tp > 1 else None),
        ("pp", setup.pp if setup.pp > 1 else None),
        ("utilization", setup.utilization),
        ("context", context),
        ("tokens", setup.batched_tokens),
        ("sequences", _most_sequences(setup)),
        ("kv", engine.kv_words.get(setup.kv_dtype) or None),
    )
    words += [f"{flags[name]} {value}" for name, value in pairs if value and flags[name]]
    return " ".join(words)


def _most_sequences(setup: ServingSetup) -> int:
    """llama.cpp divides its context over its slots; the others share one pool."""
    return setup.concurrency if setup.engine.name == "llama.cpp" else setup.sequences
