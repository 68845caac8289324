"""Specs to columns: the one place where specs meet physics.

Each function turns one part of a job into named numbers in SI units; ``stack_columns`` turns many
jobs into arrays. Constants are bound apart (``calibration``), so that a fit can move them without
touching the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chipwise.catalogue.frameworks import Stack, stacks
from chipwise.defaults import PEAK_OF
from chipwise.quantity import Array
from chipwise.spec.hardware import Cluster
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload
from chipwise.spec.model import FeedForwardSpec, LayerGroup, ModelSpec
from chipwise.spec.tensors import params_by_part

Scalars = dict[str, float]
_DTYPE_BYTES = {
    **{"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "mxfp8": 1.03, "int8": 1.0},
    **{"mxfp4": 0.53, "nvfp4": 0.56, "int4": 0.53, "fp4": 0.57, "nf4": 0.563, "nf4-dq": 0.516},
}
"""Bytes per stored parameter, block scales included (nf4: 64-value blocks with fp32 scales;
double quantised: 8-bit scales in 256-value blocks) [qlora2023]."""
_OPTIMIZER_BYTES = {
    **{"adamw": 8.0, "adamw-bf16": 4.0, "adamw-8bit": 2.06, "adafactor": 0.1, "sgd": 4.0},
    **{"lion": 4.0, "muon": 4.8},
}
"""State bytes per parameter beside fp32 weights; halved where states are kept in 16 bit."""
_BUCKETS = 2.5e8
_DEEPSPEED_BUCKETS = 1.0e9
"""Parameters in communication buckets; DeepSpeed's stages 2 and 3 keep a gather and a reduce
bucket of 5e8 each by default [deepspeed-zero]."""
_UNMEASURED = {"tpu": 0.92}
"""Share of peak large products reach where nobody published one; 0.80 on other kinds. Systolic
arrays run dense products close to their peak [jouppi2023]."""
_COHERENT_LINK = 200e9
"""Host links above this rate (B/s) belong to superchips whose CPU shares memory coherently."""
NODE_STORAGE_BANDWIDTH = 1e9
"""Writing checkpoints, B/s per node, where nothing is stated."""
COMPILE_SECONDS = {"xla": 300.0, "gaudi": 120.0}
"""Compiling the step before the first one, by stack; others run their kernels as they come.

Assumed: minutes are what users of XLA report, 5 [pytorch/xla issue 3336], 8 for both graphs of a
run [issue 1155], 25 to 30 for unfavourable models [issue 5058]; graph compilers take less.
"""
_TOKEN_BYTES = 4.0
_MATRICES = {
    **{"qv": 0.5, "qkv": 0.5, "attention": 0.75, "mlp": 0.75, "qkv+mlp": 0.9},
    **{"all-linear": 1.0, "all-linear+head": 1.0},
}
"""Share of linear inputs that adapters on these targets keep for their own gradients."""


@lru_cache(maxsize=4096)
def model_columns(model: ModelSpec, gated_saved: int = 2) -> Scalars:
    """Sizes of a model: parameters by part, widths summed over layers.

    Args:
        model: the architecture.
        gated_saved: widths a gated block keeps for its activation function (2 when fused).
    """
    parts = params_by_part(model)
    groups = model.layers
    layers = model.num_layers
    moe = [
        (g.count, g.feed_forward) for g in groups if g.feed_forward and g.feed_forward.num_experts
    ]
    moe_layers = sum(count for count, _ in moe)
    block = moe[0][1] if moe else None
    return (
        {
            "layers": float(layers),
            "hidden": float(model.hidden),
            "vocab": float(model.vocab),
            "attention_params": float(parts["attention"]),
            "dense_ffn_params": float(parts["dense_ffn"] + parts["shared_expert"]),
            "expert_params": float(parts["expert"]),
            "router_params": float(parts["router"]),
            "norm_params": float(parts["norm"]),
            "embedding_params": float(parts["embedding"] + parts["position"]),
            "head_params": float(parts["head"]),
            "other_params": float(parts["other"]),
            "tied_embeddings": float(model.tied_embeddings),
            "num_experts": float(block.num_experts if block else 0),
            "top_k": float(block.top_k if block else 0),
            "active_expert_share": block.top_k / block.num_experts if block else 0.0,
            "has_experts": float(bool(moe)),
            "moe_layer_share": moe_layers / layers,
            "leading_dense_layers": float(_leading_dense(groups)) if moe else 0.0,
            "routed_width": float(sum(n * f.top_k * model.hidden for n, f in moe)),
            "expert_width": float(block.expert_hidden if block else 1),
            "expert_saved_width": float(
                sum(n * f.top_k * f.expert_hidden * (_saved(f, gated_saved) + 1) for n, f in moe)
            ),
        }
        | _attention_columns(model)
        | _ffn_columns(model, gated_saved)
    )


def _leading_dense(groups: Sequence[LayerGroup]) -> int:
    """Layers before the first one with routed experts."""
    count = 0
    for group in groups:
        if group.feed_forward and group.feed_forward.num_experts:
            break
        count += group.count
    return count


def _saved(block: FeedForwardSpec, gated_saved: int) -> int:
    return gated_saved if block.gated else 1


def _attention_columns(model: ModelSpec) -> Scalars:
    total = dict.fromkeys(
        ("full", "window", "heads", "query", "kv", "saved", "output", "window_len"), 0.0
    )
    for group in model.layers:
        spec = group.attention
        if spec is None:
            continue
        rope = spec.qk_rope_dim
        qk, v = spec.head_dim + rope, spec.v_dim
        latent = spec.q_lora_rank + spec.kv_lora_rank + rope if spec.kind == "mla" else 0
        kv_width = spec.kv_heads * (qk + v)
        total["query"] += group.count * spec.heads * qk
        total["kv"] += group.count * (latent if spec.kind == "mla" else kv_width)
        total["saved"] += group.count * (spec.heads * qk + kv_width + latent)
        total["output"] += group.count * spec.heads * v
        if spec.kind == "linear":
            continue
        score_width = group.count * spec.heads * (qk + v)
        total["window" if spec.window else "full"] += score_width
        total["window_len"] = max(total["window_len"], float(spec.window))
        total["heads"] += group.count * spec.heads
    causal = all(group.causal for group in model.layers)
    return {
        "attention_full_width": total["full"],
        "attention_window_width": total["window"],
        "window": total["window_len"],
        "causal_share": 0.5 if causal else 1.0,
        "misaligned_heads": float(
            any(g.attention.head_dim % 8 for g in model.layers if g.attention is not None)
        ),
        "score_heads": total["heads"],
        "query_width": max(1.0, total["query"] / model.num_layers),
        "key_value_width": total["kv"],
        "attention_saved_width": total["saved"],
        "attention_output_width": total["output"],
    }


def _dense_width(group: LayerGroup) -> int:
    block = group.feed_forward
    return block.hidden + block.shared_expert_hidden if block else 0


def _ffn_columns(model: ModelSpec, gated_saved: int) -> Scalars:
    blocks = [(g.count, _dense_width(g), g.feed_forward) for g in model.layers if g.feed_forward]
    width = sum(n * w for n, w, _ in blocks)
    routed = max((f.top_k * f.expert_hidden for _, _, f in blocks), default=0)
    matrices = [w * model.hidden for _, w, _ in blocks]
    matrices += [f.expert_hidden * model.hidden for _, _, f in blocks]
    matrices += [
        g.attention.heads * g.attention.head_dim * model.hidden for g in model.layers if g.attention
    ]
    return {
        "ffn_saved_width": float(sum(n * w * _saved(f, gated_saved) for n, w, f in blocks)),
        "ffn_output_width": float(width),
        "ffn_width": max(1.0, width / model.num_layers),
        "widest_ffn": float(max(max((w for _, w, _ in blocks), default=0), routed)),
        "largest_matrix_params": float(max(matrices, default=0)),
    }


def cluster_columns(cluster: Cluster, precision: str, power_cap: float | None) -> Scalars:
    """Rates and sizes of the machine for a training dtype."""
    device, node = cluster.accelerator, cluster.node
    peaks = device.peak_flops
    peak_16bit = peaks.get("bf16") or peaks.get("fp16") or peaks.get("fp32", 1.0)
    if precision == "fp16":
        peak_16bit = peaks.get("fp16", peak_16bit)
    intra = node.intra_bandwidth or device.scaleup_bandwidth or device.host_bandwidth
    host = device.host_bandwidth or node.host_bandwidth or 16e9
    tdp = device.tdp_watts or 1.0
    return {
        "num_devices": float(cluster.num_devices),
        "devices_per_node": float(cluster.devices_per_node),
        "peak_matmul": peaks[PEAK_OF[precision]],
        "peak_16bit": peak_16bit,
        "matmul_fraction_16bit": device.matmul_fraction or _UNMEASURED.get(device.kind, 0.80),
        "peak_bandwidth": device.peak_bandwidth,
        "visible_bytes": device.visible_bytes or device.memory_bytes,
        "intra_bandwidth": intra or host,
        "network_bandwidth": node.network_bandwidth or 3.0e9,
        "host_bandwidth": host,
        "tdp": tdp,
        "power_cap": min(power_cap or tdp, tdp),
    }


def workload_columns(workload: TrainingWorkload, model: ModelSpec, stack: Stack) -> Scalars:
    """Sequence, precision and method as numbers."""
    precision = workload.precision or "bf16"
    adapters = workload.method != "full"
    compute = 4.0 if precision in ("fp32", "tf32") else 2.0
    base = _DTYPE_BYTES[workload.base_dtype or "bf16"] if adapters else 2.0
    quantised = base < 2.0
    adapter = adapter_params(workload, model) if adapters else 0.0
    total = sum(params_by_part(model).values())
    kept = _MATRICES.get(workload.lora_targets or "", 0.25) if adapters else 1.0
    low = PEAK_OF[precision] in ("fp8", "fp4", "int8")
    return {
        "seq_len": float(workload.seq_len or 1),
        "compute_bytes": compute,
        "activation_bytes": compute,
        "communication_bytes": compute,
        "low_precision": float(low),
        "base_trained": float(not adapters),
        "trained_share": min(1.0, adapter / total) if adapters else 1.0,
        "adapter_params": adapter,
        "adapter_state_bytes": 16.0,
        "quantised_base": float(quantised),
        "backward_passes": 1.0 + (0.03 + adapter / total if adapters else 1.0),
        "linear_inputs_saved": 1.0 if quantised else kept,
        "weight_pass_bytes": base + 2 * compute if quantised else compute,
        "flop_per_multiply_add": 2.0,
        "time_scale": 1e-3,
    }


def adapter_params(workload: TrainingWorkload, model: ModelSpec) -> float:
    """Trained adapter parameters: stated, or from rank and targets (r·(in + out) each)."""
    if workload.trainable_params:
        return float(workload.trainable_params)
    rank = workload.lora_rank or 8
    targets = workload.lora_targets or "qv"
    total = 0
    for group in model.layers:
        spec, block = group.attention, group.feed_forward
        if spec is not None:
            query, value = spec.heads * spec.head_dim, spec.kv_heads * spec.v_dim
            key, out = spec.kv_heads * spec.head_dim, spec.heads * spec.v_dim
            sizes = {"q": model.hidden + query, "v": model.hidden + value}
            sizes |= {"k": model.hidden + key, "o": model.hidden + out}
            wanted = {"qv": "qv", "mlp": "", "qkv": "qkv", "qkv+mlp": "qkv"}.get(targets, "qkvo")
            total += group.count * sum(sizes[name] for name in wanted)
        if block is not None and targets not in ("qv", "qkv", "attention"):
            matrices = 3 if block.gated else 2
            total += group.count * matrices * (model.hidden + _dense_width(group))
    if targets == "all-linear+head":
        total += model.hidden + model.vocab
    return float(rank * total)


def strategy_columns(strategy: Strategy, workload: TrainingWorkload, stack: Stack) -> Scalars:
    """Degrees, sharding, recompute and what the stack keeps per parameter."""
    tp, pp, dp, cp, ep = (getattr(strategy, n) or 1 for n in ("tp", "pp", "dp", "cp", "ep"))
    stage = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}[strategy.shard or "none"]
    adapters = workload.method != "full"
    eager = strategy.attention == "eager"
    full = strategy.recompute == "full"
    selective = strategy.recompute == "selective"
    share = 1.0 / (strategy.recompute_every or 1) if full else 0.0
    deepspeed = stack.launch == "deepspeed"
    micro_batch = float(strategy.micro_batch or 1)
    return {
        "micro_batch": micro_batch,
        "global_batch": float(workload.global_batch or micro_batch * dp),
        **{"tp": float(tp), "pp": float(pp), "dp": float(dp), "cp": float(cp), "ep": float(ep)},
        "expert_tp": float(tp if ep == 1 else 1),
        "vpp": float(strategy.vpp or 1),
        "shard_group": float(strategy.shard_group or dp * cp),
        "shard_optimizer": float(stage >= 1),
        "shard_gradients": float(stage >= 2),
        "shard_weights": float(stage >= 3),
        "sequence_parallel": float(bool(strategy.sequence_parallel)),
        "hand_over_split": float(stack.splits_hand_over),
        "balances_head": float(stack.balances_head),
        "concurrent_stages": float(not strategy.layer_split),
        "recompute_share": share if not selective or eager else 0.4,
        "recompute_forward_share": share if not selective or eager else 0.15,
        "head_recompute": 0.0,
        "scores_recomputed": float(selective and eager),
        "scores_kept": float(eager and not selective),
        "eager_attention": float(eager),
        "optimizer_on_device": float(not strategy.offload_optimizer),
        "weights_on_device": float(not strategy.offload_params),
        "activations_on_device": float(not strategy.offload_activations),
        "gradients_persist": float(stack.persistent_gradients and not adapters),
        "gradients_freed_early": float(bool(strategy.optimizer_in_backward)),
        "bucket_params": _DEEPSPEED_BUCKETS if stage >= 2 and deepspeed else _BUCKETS,
        "loads_whole": float(stack.loads_whole and adapters and not strategy.offload_params),
        "loss_chunks": 8.0 if strategy.chunked_loss == "yes" else 1.0,
        "tp_blocks_per_layer": 2.0,
    } | _state_columns(strategy, workload, stack, stage)


def _state_columns(
    strategy: Strategy, workload: TrainingWorkload, stack: Stack, stage: int
) -> Scalars:
    """Bytes per parameter of weights, gradients, master copies and optimizer states."""
    adapters = workload.method != "full"
    fp32 = workload.precision in ("fp32", "tf32")
    master = bool(strategy.master_weights) and not fp32
    kept_fp32 = fp32 or (master and stack.storage == "fp32")
    compute = 4.0 if fp32 else 2.0
    weight = 4.0 if kept_fp32 else compute
    stated = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}.get(strategy.grad_dtype or "")
    grad = stated or (float(stack.grad_bytes) if master or fp32 else compute)
    if stack.launch == "deepspeed" and not stated:
        grad = 6.0 if stage == 2 else 4.0 if workload.precision == "bf16" else 2.0
    states = _OPTIMIZER_BYTES[strategy.optimizer or "adamw"]
    if not (master or fp32) and strategy.optimizer in ("adamw", "sgd", "lion", "muon"):
        states /= 2
    if adapters:
        weight = _DTYPE_BYTES[workload.base_dtype or "bf16"]
    return {
        "weight_bytes": weight,
        "outer_weight_bytes": max(weight, 2.0) if adapters else weight,
        "master_bytes": 4.0 if master and not kept_fp32 else 0.0,
        "optimizer_bytes": states,
        "grad_bytes": grad,
        "step_copy_bytes": stack.step_copies * (4.0 if kept_fp32 else compute),
        "norm_input_bytes": _norm_input_bytes(strategy, stack, compute, adapters),
        "dropout_bytes": 0.0,
        "score_bytes": 5.0 if stack.dropout else 6.0,
        "grad_communication_bytes": 4.0 if grad >= 4.0 and stack.storage != "fp32" else 2.0,
        "gather_bytes": compute if not adapters else min(weight, compute),
    }


def _norm_input_bytes(strategy: Strategy, stack: Stack, compute: float, frozen: bool) -> float:
    """Compilers and fused norms keep the 16-bit input; eager ones an fp32 copy.

    An eager norm whose weight is trained also keeps its normalised output.
    """
    eager = max(compute, float(stack.norm_input_bytes))
    return compute if strategy.compiled else eager - (2.0 if frozen and eager > 4.0 else 0.0)


def training_columns(job: TrainingJob, strategy: Strategy) -> tuple[Scalars, dict[str, str]]:
    """All input columns of one complete job, and its calibration keys.

    Args:
        job: a resolved job (``defaults.resolve``).
        strategy: a complete strategy of it.
    """
    stack = stacks()[strategy.framework or "other"]
    workload = job.workload
    precision = workload.precision or "bf16"
    gated_saved = 2 if strategy.compiled else stack.gated_saved
    columns = dict(model_columns(job.model, gated_saved))
    columns |= cluster_columns(job.cluster, precision, job.power_cap_watts)
    columns |= workload_columns(workload, job.model, stack)
    columns |= strategy_columns(strategy, workload, stack)
    columns |= run_columns(job, strategy.framework or "other")
    if stack.dropout and columns["ffn_saved_width"] == columns["ffn_output_width"]:
        columns["dropout_bytes"] = 1.0
    return columns, calibration_keys(job, strategy)


def calibration_keys(job: TrainingJob, strategy: Strategy) -> dict[str, str]:
    """The group a job belongs to on each calibration axis."""
    framework = strategy.framework or "other"
    stack = stacks()[framework]
    device = job.cluster.accelerator
    compiled = bool(strategy.compiled)
    precision = job.workload.precision or "bf16"
    usual = {"xla": "xla", "megatron-core": "tuned"}.get(framework, "default")
    overlap = {True: "yes", False: "no", None: usual}
    return {
        "framework": framework,
        "family": device.family,
        "loss": _loss_key(strategy, stack),
        "fusion": "compiled" if compiled else stack.fusion,
        "host": "coherent" if device.host_bandwidth > _COHERENT_LINK else "pcie",
        "lengths": "variable" if job.workload.packing is False else "fixed",
        "launch": "compiled" if compiled and framework != "xla" else stack.launch,
        "low_precision_class": _low_precision_key(precision, device.family, strategy),
        "attention_pairing": _pairing(framework, device.family),
        "tp_overlap": overlap[strategy.tp_overlap],
        "dp_overlap": "no" if strategy.dp_overlap is False else framework,
        "recompute_stack": "xla" if framework == "xla" else "eager",
    }


def _loss_key(strategy: Strategy, stack: Stack) -> str:
    if strategy.chunked_loss == "fused":
        return "fused"
    if strategy.compiled:
        return "compiled"
    return "full" if stack.loss == "fused" else stack.loss


def _low_precision_key(precision: str, family: str, strategy: Strategy) -> str:
    peak = PEAK_OF[precision]
    if peak == "fp4":
        return "fp4"
    if peak != "fp8":
        return "16bit"
    if strategy.fp8_recipe == "rowwise":
        return "fp8-rowwise"
    if family != "nvidia-blackwell":
        return "fp8"
    return "mxfp8" if "mxfp8" in (precision, strategy.fp8_recipe) else "fp8-blackwell"


def _pairing(framework: str, family: str) -> str:
    """FlashAttention-2 level kernels on Hopper and later run at about half of their best.

    Megatron stacks that run on these devices use the vendor's own attention kernels.
    """
    tuned = framework in ("megatron-core", "megatron", "xla", "gaudi", "ascend", "other")
    newer = family in ("nvidia-hopper", "nvidia-blackwell")
    if not newer:
        return "matched"
    return "newest" if tuned else "older"


def run_columns(job: TrainingJob, framework: str) -> Scalars:
    """Length of the run, and what it does beside its steps."""
    run, workload = job.run, job.workload
    storage = run.storage_bandwidth or NODE_STORAGE_BANDWIDTH * job.cluster.num_nodes
    tokens = workload.tokens or (run.sequences or 0.0) * (workload.seq_len or 1)
    return {
        "tokens": float(tokens),
        "checkpoints_per_step": 1.0 / run.checkpoint_every if run.checkpoint_every else 0.0,
        "storage_bandwidth": storage,
        "data_bandwidth": run.data_bandwidth or storage,
        "data_stall_share": run.data_stall or 0.0,
        "token_bytes": _TOKEN_BYTES,
        "compile_time": COMPILE_SECONDS.get(framework, 0.0),
    }


def stack_columns(
    jobs: Sequence[tuple[Scalars, Mapping[str, str]]],
) -> tuple[dict[str, Array], dict[str, NDArray[np.str_]]]:
    """Many jobs as arrays. Each column has shape (jobs,)."""
    names = jobs[0][0]
    axes = jobs[0][1]
    columns: dict[str, Array] = {
        name: np.array([columns[name] for columns, _ in jobs], dtype=np.float64) for name in names
    }
    return columns, {axis: np.array([keys[axis] for _, keys in jobs]) for axis in axes}
