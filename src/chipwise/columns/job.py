"""A machine, a workload and a strategy as columns, and all columns of one job together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from chipwise.catalogue.frameworks import Stack, stacks
from chipwise.catalogue.optimizers import optimizers
from chipwise.columns.adapters import trains_norms, tuning_columns
from chipwise.columns.cost import cost_columns
from chipwise.columns.keys import calibration_keys
from chipwise.columns.lengths import length_shares
from chipwise.columns.model import Scalars, model_columns
from chipwise.columns.objective import head_columns, objective_columns, trained_sequences
from chipwise.defaults import PEAK_OF
from chipwise.quantity import Array
from chipwise.spec.hardware import Accelerator, Cluster
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload
from chipwise.spec.method import adapts

_DTYPE_BYTES = {
    **{"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "mxfp8": 1.03, "int8": 1.0},
    **{"mxfp4": 0.53, "nvfp4": 0.56, "int4": 0.53, "fp4": 0.57, "nf4": 0.563, "nf4-dq": 0.516},
}
"""Bytes per stored parameter, block scales included (nf4: 64-value blocks with fp32 scales;
double quantised: 8-bit scales in 256-value blocks) [qlora2023]."""
_BUCKETS = 2.5e8
_DEEPSPEED_BUCKETS = 1.0e9
"""Parameters in communication buckets; DeepSpeed's stages 2 and 3 keep a gather and a reduce
bucket of 5e8 each by default [deepspeed-zero]."""
_UNMEASURED_SHARE = 0.80
_UNMEASURED_SHARES = {"tpu": 0.92}
"""Share of peak large products reach where nobody published one, by kind of device. Systolic
arrays run dense products close to their peak [jouppi2023]."""
_HOST_UPDATE_RATE = 2e9
"""Parameters per second that the processors of one host update with Adam [deepspeed-pr7474].

Two thirds of a 2.4 s step for 3.1e9 parameters there; a host has eight devices at most here.
"""
_DEVICES_PER_HOST = 8
_OFFLOAD_HIDDEN = 0.5
"""Share of the traffic of offloaded activations that hides behind computing. Assumed: no published
run tells how much of it shows."""
NODE_STORAGE_BANDWIDTH = 1e9
"""Writing checkpoints, B/s per node, where nothing is stated."""
COMPILE_SECONDS = {"xla": 300.0, "gaudi": 120.0}
"""Compiling the step before the first one, by stack; others run their kernels as they come.

Assumed: minutes are what users of XLA report, 5 [pytorch/xla issue 3336], 8 for both graphs of a
run [issue 1155], 25 to 30 for unfavourable models [issue 5058]; graph compilers take less.
"""
_SCHEDULE_BUBBLE = {"zero-bubble": 1 / 3, "dualpipe": 1 / 3}
"""Bubble over that of 1F1B with backward twice the forward time: (F + B - 2W)/(F + B) for ZB-H1
[qi2023]; DualPipe leaves (p/2 - 1)·(F&B + B - 3W), about the same [deepseek-v3-report]."""
_TOKEN_BYTES = 4.0


def matmul_share(device: Accelerator) -> float:
    """Share of its peak a large 16-bit product reaches: measured, else usual for its kind."""
    return device.matmul_fraction or _UNMEASURED_SHARES.get(device.kind, _UNMEASURED_SHARE)


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
        "matmul_fraction_16bit": matmul_share(device),
        "peak_bandwidth": device.peak_bandwidth,
        "visible_bytes": device.visible_bytes or device.memory_bytes,
        "intra_bandwidth": intra or host,
        "network_bandwidth": node.network_bandwidth or 3.0e9,
        "host_bandwidth": host,
        "offload_hidden_share": _OFFLOAD_HIDDEN,
        "host_update_rate": _HOST_UPDATE_RATE / min(cluster.devices_per_node, _DEVICES_PER_HOST),
        "tdp": tdp,
        "power_cap": min(power_cap or tdp, tdp),
    }


def workload_columns(workload: TrainingWorkload) -> Scalars:
    """Sequence, precision and the format of the base as numbers."""
    precision = workload.precision or "bf16"
    compute = 4.0 if precision in ("fp32", "tf32") else 2.0
    base = _DTYPE_BYTES[workload.base_dtype or "bf16"] if adapts(workload.method) else 2.0
    quantised = base < 2.0
    return {
        "seq_len": float(workload.seq_len or 1),
        "compute_bytes": compute,
        "activation_bytes": compute,
        "communication_bytes": compute,
        "low_precision": float(PEAK_OF[precision] in ("fp8", "fp4", "int8")),
        "quantised_base": float(quantised),
        "weight_pass_bytes": base + 2 * compute if quantised else compute,
        "flop_per_multiply_add": 2.0,
        "time_scale": 1e-3,
    }


def strategy_columns(strategy: Strategy, workload: TrainingWorkload, stack: Stack) -> Scalars:
    """Degrees, sharding, recompute and what the stack keeps per parameter."""
    tp, pp, dp, cp, ep = (getattr(strategy, n) or 1 for n in ("tp", "pp", "dp", "cp", "ep"))
    stage = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}[strategy.shard or "none"]
    adapters = adapts(workload.method)
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
        "schedule_bubble": _SCHEDULE_BUBBLE.get(strategy.pp_schedule or "1f1b", 1.0),
        "weight_copies": 2.0 if strategy.pp_schedule == "dualpipe" and pp > 1 else 1.0,
        "hand_over_split": float(stack.splits_hand_over),
        "reduces_whole": float(deepspeed and workload.precision == "bf16"),
        "fused_accumulation": float(stack.fuses_accumulation),
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
        "loads_on_host": float(stack.loads_on_host),
        "loss_chunks": 8.0 if strategy.chunked_loss == "yes" else 1.0,
        "tp_blocks_per_layer": 2.0,
    } | _state_columns(strategy, workload, stack, stage)


def _state_columns(
    strategy: Strategy, workload: TrainingWorkload, stack: Stack, stage: int
) -> Scalars:
    """Bytes per parameter of weights, gradients, master copies and optimizer states."""
    adapters = adapts(workload.method)
    fp32 = workload.precision in ("fp32", "tf32")
    master = bool(strategy.master_weights) and not fp32
    kept_fp32 = fp32 or (master and stack.storage == "fp32")
    compute = 4.0 if fp32 else 2.0
    weight = 4.0 if kept_fp32 else compute
    stated = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}.get(strategy.grad_dtype or "")
    grad = stated or (float(stack.grad_bytes) if master or fp32 else compute)
    if stack.launch == "deepspeed" and not stated:
        grad = 6.0 if stage == 2 else 4.0 if workload.precision == "bf16" else 2.0
    facts = optimizers()[strategy.optimizer or "adamw"]
    states = facts.state_bytes
    if not (master or fp32) and facts.halved and strategy.optimizer:
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
        "norm_input_bytes": _norm_input_bytes(strategy, stack, compute, not trains_norms(workload)),
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
    columns |= head_columns(workload.objective, job.model)
    columns |= cluster_columns(job.cluster, precision, job.power_cap_watts)
    columns |= workload_columns(workload)
    columns |= tuning_columns(workload, job.model, strategy, columns["compute_bytes"])
    if columns["quantised_base"]:
        columns["linear_inputs_saved"] = 1.0
    columns |= strategy_columns(strategy, workload, stack)
    columns |= run_columns(job, strategy.framework or "other")
    columns |= cost_columns(job)
    columns |= objective_columns(job, columns["compute_bytes"])
    columns |= _length_columns(workload, strategy)
    if stack.dropout and columns["ffn_saved_width"] == columns["ffn_output_width"]:
        columns["dropout_bytes"] = 1.0
    return columns, calibration_keys(job, strategy)


def _length_columns(workload: TrainingWorkload, strategy: Strategy) -> Scalars:
    """Sequences of unlike length in this layout."""
    if workload.lengths is None:
        return {"padded_share": 1.0, "slowest_share": 1.0}
    return length_shares(workload, strategy.micro_batch or 1, strategy.dp or 1)


def run_columns(job: TrainingJob, framework: str) -> Scalars:
    """Length of the run, and what it does beside its steps."""
    run, workload = job.run, job.workload
    storage = run.storage_bandwidth or NODE_STORAGE_BANDWIDTH * job.cluster.num_nodes
    sequences = (run.sequences or 0.0) * trained_sequences(workload)
    tokens = workload.tokens or sequences * (workload.seq_len or 1)
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
