"""Rows of inference measurements as deployments with traffic, from their configuration cells alone.

``value``, ``id``, ``source``, ``source_ref``, ``published``, ``notes`` and ``config_id`` are never
looked at here, nor is the model's name. What a row leaves open is filled by stated rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import inf

from chipwise.catalogue.engines import Engine, recognise_engine
from chipwise.catalogue.hardware import load_accelerator, load_node
from chipwise.catalogue.rows import model_from_row
from chipwise.catalogue.weight_formats import WeightFormat, find_weight_format, known_format
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.physics.serving_model import SERVING
from chipwise.serving_columns import KV_BYTES, ServingSetup, serving_columns
from chipwise.serving_speed_columns import Deployment, Traffic
from chipwise.spec.hardware import Accelerator, Cluster
from chipwise.spec.model import ModelSpec
from chipwise.validation.rows import Cells, SkippedRowError, count_in, number_in, word_in

RATES = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s")
METRICS = (*RATES, "prefill_tokens_per_s", "tpot_ms", "ttft_ms", "tokens_per_s_per_user")
ENGINES = {
    "trtllm": "trt-llm", "vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp",
    "lmdeploy": "lmdeploy", "exllama": "exllama", "jax": "xla", "gaudi": "gaudi",
    "neuron": "neuron", "tgi": "tgi", "mlc": "mlc",
}  # fmt: skip
"""Families of engines as the constants are grouped, by the words of measurement files."""
_EAGER = re.compile(
    r"autoawq|transformers|\bhf\b|eager|accelerate|optimum|bitsandbytes|pytorch|bnb"
)
_STORED = {"fp4": "nvfp4", "w4a4": "awq", "w4a8kv4": "awq", "exl2-2bpw": "awq"}
_GGUF = {"int4": "q4_k_m", "int8": "q8_0"}
_POOL = re.compile(r"(\d+) x (?:tp(\d+) )?dp(\d+) ep(\d+)")
_SHARED = ("server", "offline", "interactive")
"""Scenarios whose lengths a benchmark fixes and a row may leave out."""
_CAPS = {"trt-llm": 2048}
"""Sequences that recent releases decode at once, where that differs from the memory rule's."""
_FULL, _ROOMY = 0.9, 0.6
_SHORT_PROMPT, _SHORT_ANSWER, _PROMPT, _ANSWER = 64.0, 128.0, 512.0, 256.0


@dataclass(frozen=True)
class ServingRow:
    """A row that can be predicted."""

    deployment: Deployment
    traffic: Traffic
    metric: str
    notes: tuple[str, ...]


def serving_row(row: Cells) -> ServingRow:
    """The deployment and traffic that a row describes.

    Raises:
        SkippedRowError: an essential cell is missing or unknown.
    """
    metric = word_in(row, "metric")
    if metric not in METRICS:
        raise SkippedRowError(_("metric {name} is not predicted").format(name=metric))
    missing = [name for name in ("layers", "hidden", "num_devices") if not word_in(row, name)]
    if missing:
        raise SkippedRowError(_("not stated: {names}").format(names=", ".join(missing)))
    try:
        return _Reader(row).read()
    except UsageError as error:
        raise SkippedRowError(error.message) from error


class _Reader:
    """One row on its way to a deployment."""

    def __init__(self, row: Cells) -> None:
        self.row = row
        self.metric = word_in(row, "metric")
        self.model, assumed = model_from_row(row)
        self.notes = list(assumed)
        name = word_in(row, "accelerator")
        self.device, self.node = load_accelerator(name), load_node(name)
        if self.device.kind in ("lpu", "wafer"):
            raise SkippedRowError(_("dataflow machines are not predicted from rows"))
        self.devices = count_in(row, "num_devices") or 1
        self.engine = _family(row)
        self.memory_engine = recognise_engine(row.get("engine") or row.get("engine_family") or "")
        self.scenario = word_in(row, "scenario")

    def read(self) -> ServingRow:
        split = word_in(self.row, "layer_split") == "yes" or self.engine in ("llama.cpp", "exllama")
        stored = self._stored()
        tp, pp, replicas, shards, apart = self._layout(split, stored)
        traffic = self._traffic(apart)
        cluster = Cluster(
            name=f"{self.device.id}:{self.devices}",
            accelerator=self.device,
            node=self.node,
            num_devices=self.devices,
            num_nodes=-(-self.devices // self.node.devices),
        )
        cap = count_in(self.row, "max_num_seqs")
        engine = self.memory_engine
        setup = ServingSetup(
            model=self.model,
            cluster=cluster,
            engine=engine,
            weights=stored,
            kv_dtype=self._kv(stored),
            tp=tp,
            pp=pp,
            context=int(traffic.prompt_tokens + traffic.output_tokens),
            concurrency=1,
            batched_tokens=engine.tokens_on(self.device),
            sequences=cap or engine.sequences_on(self.device),
            utilization=engine.pool_share if engine.pool_share < 1 else engine.utilization,
            expert_shards=shards,
        )
        usual = _CAPS.get(engine.name, engine.sequences_on(self.device))
        traffic = replace(traffic, sequence_cap=float(cap or usual))
        deployment = Deployment(setup, replicas, self.engine, split)
        return ServingRow(deployment, traffic, self.metric, tuple(self.notes))

    # -- layout --------------------------------------------------------------------------

    def _layout(self, split: bool, stored: WeightFormat) -> tuple[int, int, int, int, bool]:
        """tp, pp, replicas, devices that share the experts, and whether pools are apart."""
        row = self.row
        pools = {name: _POOL.match(row.get(name) or "") for name in ("prefill_pool", "decode_pool")}
        wanted = pools["decode_pool" if self.metric == "tpot_ms" else "prefill_pool"]
        if wanted is not None:
            copies, tp, ranks, ep = (int(text or 1) for text in wanted.groups())
            return tp, 1, copies * ranks, max(tp, ep, tp * ranks), True
        pp, ep = count_in(row, "pp") or 1, count_in(row, "ep") or 1
        ranks = count_in(row, "dp") or 1
        if split:
            return 1, self.devices, 1, 1, False
        stated = count_in(row, "tp")
        if stated is None and self.scenario in _SHARED and not count_in(row, "input_len"):
            tp = self._smallest(stored)
            self.notes.append(_("copies of the smallest tensor-parallel group that holds it"))
            return tp, 1, max(1, self.devices // tp), tp, False
        tp = stated or max(1, self.devices // (pp * ranks))
        if self.engine == "neuron":
            tp = min(tp, self.devices)  # cores, two to a chip
        copies = ranks
        if self.devices > tp * pp * ranks and not count_in(row, "dp"):
            copies = max(1, self.devices // (tp * pp))
        shards = max(tp, ep)
        if word_in(row, "attention_dp") == "yes" and ranks > 1:
            shards = max(shards, tp * ranks)
        return tp, pp, copies, shards, False

    def _smallest(self, stored: WeightFormat) -> int:
        size, tp = self._weights(stored), 1
        while tp < self.devices and size > _ROOMY * self.device.memory_bytes * tp:
            tp *= 2
        return min(tp, self.devices)

    # -- number formats ------------------------------------------------------------------

    def _stored(self) -> WeightFormat:
        text = word_in(self.row, "weights_dtype")
        text = _GGUF.get(text, text) if self.engine == "llama.cpp" else text
        stored = find_weight_format(_STORED.get(text, text)) if text else self._guessed()
        bits = number_in(self.row, "gguf_bits_per_weight")
        if bits:
            stored = stored.model_copy(update={"layers": bits, "attention": None})
        return stored

    def _guessed(self) -> WeightFormat:
        """16 bit where it fits, else the next narrower format that the device multiplies."""
        peaks = self.device.peak_flops
        stored = known_format("bf16")
        if self.scenario in _SHARED and not word_in(self.row, "input_len"):
            stored = known_format(
                "nvfp4" if "fp4" in peaks else "fp8" if "fp8" in peaks else "bf16"
            )
        for narrower in ("fp8", "awq"):
            if self._weights(stored) <= _FULL * self.device.memory_bytes * self.devices:
                break
            stored = known_format(narrower)
        self.notes.append(_("weights in {dtype}").format(dtype=stored.name))
        return stored

    def _weights(self, stored: WeightFormat) -> float:
        """Bytes of one copy of the model."""
        return _weights_bytes(self.model, self.device, self.memory_engine, stored)

    def _kv(self, stored: WeightFormat) -> str:
        text = word_in(self.row, "kv_dtype")
        if text in KV_BYTES:
            return text
        if stored.name == "fp32":
            return "fp32"
        packed = self.engine == "trt-llm" and stored.name in ("fp8", "nvfp4", "mxfp4")
        return "fp8" if packed else "fp16"

    # -- traffic -------------------------------------------------------------------------

    def _traffic(self, apart: bool) -> Traffic:
        row, user = self.row, self.metric == "tokens_per_s_per_user"
        answer = number_in(row, "output_len")
        prompt = number_in(row, "input_len")
        if prompt is None:
            prompt = _SHORT_PROMPT if user else answer or _PROMPT
            self.notes.append(_("prompts of {n:.0f} tokens").format(n=prompt))
        if not answer:
            answer = _SHORT_ANSWER if user else _ANSWER
            if self.metric != "prefill_tokens_per_s":
                self.notes.append(_("answers of {n:.0f} tokens").format(n=answer))
        users = number_in(row, "batch_or_concurrency")
        single = self.scenario == "single-stream"
        if users is None and (single or user):
            users = 1.0
        prompts = number_in(row, "num_prompts") or 0.0
        at_once = users is None and prompts > 0
        if users is None and not at_once and self.metric == "ttft_ms":
            raise SkippedRowError(_("not stated: {names}").format(names="batch_or_concurrency"))
        return Traffic(
            prompt_tokens=max(1.0, prompt),
            output_tokens=max(1.0, answer),
            concurrency=users,
            static_batch=single or self.scenario == "static-batch",
            at_once=at_once,
            num_prompts=prompts,
            sequence_cap=inf,
            disaggregated=apart,
        )


def _family(row: Cells) -> str:
    word = word_in(row, "engine_family")
    if word in ENGINES:
        return ENGINES[word]
    return "eager" if _EAGER.search((row.get("engine") or "").lower()) else "other"


def _weights_bytes(
    model: ModelSpec, device: Accelerator, engine: Engine, stored: WeightFormat
) -> float:
    setup = ServingSetup(
        model=model,
        cluster=Cluster(
            name=device.id,
            accelerator=device,
            node=load_node(device.id),
            num_devices=1,
            num_nodes=1,
        ),
        engine=engine,
        weights=stored,
        kv_dtype="fp16",
        tp=1,
        pp=1,
        context=1,
        concurrency=1,
        batched_tokens=1,
        sequences=1,
        utilization=1.0,
    )
    return float(SERVING.evaluate(serving_columns(setup), ("weights_bytes",))["weights_bytes"])
