"""The use case ``estimate serve``: what users of one deployment see, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import exp, floor, isfinite, log

from chipwise.app.documents import Assumption, Range, Subject
from chipwise.app.documents_serve import EstimateServeDocument, StepPart, TrafficUsed
from chipwise.app.fit_serve import (
    engine_command,
    evaluate_setup,
    layout_of_served,
    longest_context,
    memory_of_setup,
    serving_verdict,
    serving_warnings,
)
from chipwise.app.serve_request import USUAL_ANSWER, USUAL_PROMPT, EstimateServeRequest
from chipwise.app.serve_setup import Served, served
from chipwise.calibration import shipped_serving, shipped_serving_widths
from chipwise.catalogue.prices import rental
from chipwise.errors import InfeasibleError, UsageError
from chipwise.i18n import _
from chipwise.physics.serving_model import PASS
from chipwise.serving_estimate import serving_speed
from chipwise.serving_speed_columns import Deployment, Traffic, speed_columns, speed_keys
from chipwise.units import show

Values = Mapping[str, float]
_LAYERS = "layers_time"
_PASS_PARTS = {
    _LAYERS: "weights and products",
    "cache_read_time": "keys and values",
    "prompt_attention_time": "attention of the prompt",
    "reduce_time": "tensor-parallel communication",
    "expert_exchange_time": "sending tokens to experts",
    "launch_time": "kernel launches",
}
_WAITS_FOR = {
    "keys and values": "memory bandwidth",
    **dict.fromkeys(("kernel launches", "host per step", "host per sequence"), "host"),
}
_NEEDED = (
    *("time_per_output_token", "time_to_first_token", "output_rate", "cycle_time", "step_time"),
    *("resident_sequences", "single_prompt_time", "sequence_limit"),
)


def estimate_serve(request: EstimateServeRequest) -> EstimateServeDocument:
    """Time to first token, time per token, throughput and memory of one deployment.

    Raises:
        UsageError: unknown names, several systems, contradictions, or a layout that cannot be.
        InfeasibleError: the weights leave no room for one sequence of these lengths.
    """
    found = served(request.setup_request())
    if found.setup.cluster.accelerator.kind in ("lpu", "wafer", "rdu"):
        text = _("the speed of dataflow machines is not computed yet: {name}")
        name = found.setup.cluster.accelerator.name
        raise UsageError("not-computed", text.format(name=name), name=name)
    memory = evaluate_setup(found.setup)
    if memory["sequences_held"] < 1:
        raise _no_room(found, memory)
    engine = found.setup.engine.name
    deployment = Deployment(found.setup, found.copies, engine, layer_split=engine == "llama.cpp")
    traffic = Traffic(
        float(request.input_len),
        float(request.output_len),
        request.concurrency,
        sequence_cap=float(found.setup.sequences),
    )
    values = _evaluated(deployment, traffic)
    if request.concurrency is None:  # as many as fit, in whole sequences
        users = max(1, floor(values["resident_sequences"] + 1e-9)) * found.copies
        traffic = replace(traffic, concurrency=float(users))
        values = _evaluated(deployment, traffic)
    held = max(1, floor(min(values["resident_sequences"], memory["sequences_held"])))
    found = replace(found, setup=replace(found.setup, concurrency=held))
    memory = evaluate_setup(found.setup)
    return _document(request, found, deployment, traffic, values, memory)


def _evaluated(deployment: Deployment, traffic: Traffic) -> dict[str, float]:
    columns = speed_columns(deployment, traffic)
    constants = shipped_serving().columns(speed_keys(deployment))
    found = serving_speed({**columns, **constants}, _NEEDED, keep_all=True)
    return {name: float(value) for name, value in found.items()}


def _no_room(found: Served, memory: Values) -> InfeasibleError:
    text = _("no sequence of {n:,} tokens fits: {room} are left for keys and values, one needs "
             "{need}; 'chipwise fit … --task serve' says what would help")  # fmt: skip
    return InfeasibleError(
        "no-room",
        text.format(
            n=found.setup.context,
            room=show(max(0.0, memory["kv_room_bytes"]), "B"),
            need=show(memory["device_sequence_bytes"], "B"),
        ),
    )


def _document(
    request: EstimateServeRequest,
    found: Served,
    deployment: Deployment,
    traffic: Traffic,
    values: Values,
    memory: Values,
) -> EstimateServeDocument:
    setup, width = found.setup, _widths(deployment)
    token, first = values["time_per_output_token"], values["time_to_first_token"]
    rate = values["output_rate"]
    share = (traffic.prompt_tokens + traffic.output_tokens) / traffic.output_tokens
    rates = {
        "output_tokens_per_s": rate,
        "total_tokens_per_s": rate * share,
        "requests_per_s": rate / traffic.output_tokens,
        "output_tokens_per_s_per_device": rate / setup.cluster.num_devices,
    }
    latency = first + (traffic.output_tokens - 1) * token
    layout = layout_of_served(found)
    money = rental(setup.cluster, request.market, request.as_of)
    return EstimateServeDocument(
        inputs=request.model_dump(exclude_none=True) | layout.model_dump(),
        assumptions=(*_traffic_words(request, traffic), *found.assumptions),
        warnings=(*serving_warnings(found, memory), *_load_warnings(traffic, values, found)),
        subject=Subject(
            model=setup.model.id,
            system=setup.cluster.name,
            devices=setup.cluster.num_devices,
            understood=setup.cluster.understood,
        ),
        layout=layout,
        traffic=TrafficUsed(
            input_len=request.input_len,
            output_len=request.output_len,
            concurrency=int(traffic.concurrency or 1),
            resident=values["resident_sequences"],
        ),
        verdict=serving_verdict(memory["serving_share"]),
        ttft_s=_range(first, width["first"]),
        tpot_s=_range(token, width["token"]),
        e2e_latency_s=_range(latency, max(width["token"], width["rate"])),
        tokens_per_s_per_user=_range(1 / token, width["token"]),
        **{name: _range(value, width["rate"]) for name, value in rates.items()},
        max_concurrency=floor(values["sequence_limit"] + 1e-9),
        bound_by=_bound(values),
        step_parts=tuple(_step_parts(values)),
        prompt_parts=tuple(_prompt_parts(deployment, traffic, values)),
        memory=memory_of_setup(setup, memory),
        usd_per_hour=money.usd_per_hour if money else None,
        usd_per_million_output_tokens=(
            _price(money.usd_per_hour, money.low_usd_per_hour, money.high_usd_per_hour, rate,
                   width["rate"]) if money else None
        ),
        price_seen=money.offer.seen if money else None,
        engine_command=engine_command(setup, longest_context(setup, memory), request.model),
    )  # fmt: skip


# -- ranges -------------------------------------------------------------------------------------


def _widths(deployment: Deployment) -> dict[str, float]:
    """Half-widths in ln: wider for young stacks and experts."""
    blocks = (group.feed_forward for group in deployment.setup.model.layers)
    risk = 1.5 if speed_keys(deployment)["stack"] != "usual" else 1.0
    if any(block is not None and block.num_experts for block in blocks):
        risk *= 1.3
    return {name: half * risk for name, half in shipped_serving_widths().items()}


def _range(value: float, width: float) -> Range:
    return Range(low=value * exp(-width), likely=value, high=value * exp(width), basis="calibrated")


def _price(usd: float, low: float, high: float, rate: float, width: float) -> Range:
    """Rent over tokens: the spread of providers and that of the rate, as independent."""
    likely = usd / 3600 / rate * 1e6
    one = exp((width**2 + log(low / usd) ** 2) ** 0.5)
    other = exp((width**2 + log(high / usd) ** 2) ** 0.5)
    return Range(low=likely / one, likely=likely, high=likely * other, basis="calibrated")


# -- where the time goes ------------------------------------------------------------------------


def _step_parts(values: Values) -> Iterator[StepPart]:
    """Parts of one decode step; they add up to it."""
    sums = sum(values[name] for name in _PASS_PARTS)
    scale = values["decode_pass_time"] / sums
    parts = {title: values[name] * scale for name, title in _PASS_PARTS.items()}
    parts["host per step"] = values["step_host_time"]
    parts["host per sequence"] = values["sequence_host_time"] * values["step_sequences"]
    yield from _ranked(parts, values["step_time"])


def _prompt_parts(deployment: Deployment, traffic: Traffic, values: Values) -> Iterator[StepPart]:
    """Parts of reading one prompt alone."""
    names = (*_PASS_PARTS, "pass_time")
    alone = {**values, "pass_tokens": traffic.prompt_tokens, "pass_prompts": 1.0,
             "pass_logit_rows": 1.0, "pass_sequences": 0.0, "pass_context": 0.0,
             "graphed": 0.0}  # fmt: skip
    kept = {name: value for name, value in alone.items() if name not in PASS or name in _GIVEN}
    found = {name: float(value) for name, value in PASS.evaluate(kept, names).items()}
    scale = values["single_prompt_time"] / sum(found[name] for name in _PASS_PARTS)
    parts = {title: found[name] * scale for name, title in _PASS_PARTS.items()}
    yield from _ranked(parts, values["single_prompt_time"])


_GIVEN = ("decode_pass_time", "prompt_pass_time", "prompts_pass_time")


def _ranked(parts: Mapping[str, float], total: float) -> Iterator[StepPart]:
    for title, seconds in sorted(parts.items(), key=lambda pair: -pair[1]):
        if seconds > 0:
            yield StepPart(name=title, seconds=seconds, share=seconds / total)


def _bound(values: Values) -> str:
    """What a decode step waits for most."""
    first = max(_step_parts(values), key=lambda part: part.seconds).name
    if first != _PASS_PARTS[_LAYERS]:
        return _WAITS_FOR.get(first, "communication")
    streamed = values["weight_stream_time"] + values["expert_stream_time"]
    computed = values["shared_product_time"] + values["expert_product_time"]
    return "memory bandwidth" if streamed >= computed else "compute"


# -- words --------------------------------------------------------------------------------------


def _traffic_words(request: EstimateServeRequest, traffic: Traffic) -> Iterator[Assumption]:
    stated = request.model_fields_set
    if "input_len" not in stated or "output_len" not in stated:
        text = _("prompts of {n:,} and answers of {m:,} tokens").format(
            n=request.input_len or USUAL_PROMPT, m=request.output_len or USUAL_ANSWER
        )
        yield Assumption(text=text)
    if request.concurrency is None:
        text = _("{n:,} users at once: as many as the engine takes")
        yield Assumption(text=text.format(n=int(traffic.concurrency or 1)))
    yield Assumption(
        text=_("each user sends the next prompt when the answer is complete; all lengths are alike")
    )


def _load_warnings(traffic: Traffic, values: Values, found: Served) -> Iterator[str]:
    users = (traffic.concurrency or 1.0) / found.copies
    if isfinite(users) and users > values["sequence_limit"] + 1:
        text = _("{n:,.0f} of {users:,.0f} users wait for a place in each copy at any time")
        yield text.format(n=users - values["resident_sequences"], users=users)
