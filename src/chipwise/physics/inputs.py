"""The input columns of the model: unit and meaning of everything a job has to supply.

``columns`` builds them from specs; calibrated constants fill the last block. The unit test calls
every quantity with arrays that carry these units.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from chipwise.quantity import Given

_MODEL = {
    "layers": ("1", "decoder layers"),
    "hidden": ("1", "model width"),
    "vocab": ("1", "vocabulary rows"),
    "attention_params": ("1", "attention parameters of all layers"),
    "dense_ffn_params": ("1", "dense and shared-expert feed-forward parameters of all layers"),
    "expert_params": ("1", "routed-expert parameters of all layers"),
    "router_params": ("1", "router parameters of all layers"),
    "norm_params": ("1", "norm parameters of all layers and the final norm"),
    "embedding_params": ("1", "input and position embedding parameters"),
    "head_params": ("1", "output head parameters (0 when tied)"),
    "other_params": ("1", "parameters outside layers, embedding and head"),
    "tied_embeddings": ("1", "1 when input and output embedding are shared"),
    "active_expert_share": ("1", "share of the routed experts one token uses"),
    "num_experts": ("1", "routed experts per layer"),
    "top_k": ("1", "experts per token"),
    "has_experts": ("1", "1 when some layers have routed experts"),
    "leading_dense_layers": ("1", "dense layers before the first expert layer"),
    "moe_layer_share": ("1", "share of the layers with routed experts"),
    "attention_full_width": ("1", "heads × (query/key + value width), summed over full layers"),
    "attention_window_width": ("1", "the same, summed over sliding-window layers"),
    "window": ("1", "sliding-window length"),
    "causal_share": ("1", "share of the score matrix that counts: half when causal"),
    "misaligned_heads": ("1", "1 when the head width is no multiple of 8"),
    "score_heads": ("1", "heads, summed over layers"),
    "query_width": ("1", "heads × query width of one layer"),
    "key_value_width": ("1", "key plus value width, summed over layers"),
    "attention_saved_width": ("1", "query, key, value (and latent) widths, summed over layers"),
    "attention_output_width": ("1", "heads × value width, summed over layers"),
    "ffn_saved_width": ("1", "widths kept for the dense activation function, summed over layers"),
    "ffn_output_width": ("1", "inputs of dense down projections, summed over layers"),
    "ffn_width": ("1", "dense feed-forward width of one layer"),
    "widest_ffn": ("1", "widest feed-forward block a token passes"),
    "expert_width": ("1", "width of one expert"),
    "expert_saved_width": ("1", "widths kept in routed experts per token, summed over layers"),
    "routed_width": ("1", "top-k × model width, summed over expert layers"),
    "largest_matrix_params": ("1", "parameters of the largest layer matrix"),
}
_HARDWARE = {
    "num_devices": ("1", "devices of the job"),
    "devices_per_node": ("1", "devices in one fast-link domain"),
    "peak_matmul": ("FLOP/s", "dense peak in the dtype of the matrix products"),
    "peak_16bit": ("FLOP/s", "dense peak in 16 bit"),
    "matmul_fraction_16bit": ("1", "best measured share of the 16-bit peak"),
    "peak_bandwidth": ("B/s", "device-memory bandwidth by datasheet"),
    "visible_bytes": ("B", "memory a program can allocate"),
    "intra_bandwidth": ("B/s", "fast link, one way per device, by datasheet"),
    "network_bandwidth": ("B/s", "network, one way per device, by datasheet"),
    "host_bandwidth": ("B/s", "host link, one way per device"),
    "offload_hidden_share": ("1", "share of offload traffic that computing can hide"),
    "host_update_rate": ("1/s", "parameters per second that a host updates for each device"),
    "tdp": ("W", "board power rating"),
    "power_cap": ("W", "board power limit in force"),
}
_JOB = {
    "seq_len": ("1", "tokens per sequence"),
    "padded_share": ("1", "tokens computed per sequence on average, over those of the longest"),
    "slowest_share": ("1", "the same of the rank that draws the longest sequences"),
    "micro_batch": ("1", "sequences per forward pass and rank"),
    "global_batch": ("1", "sequences per optimizer step"),
    "tokens": ("1", "tokens to train on"),
    "tp": ("1", "tensor-parallel degree"),
    "pp": ("1", "pipeline-parallel degree"),
    "dp": ("1", "data-parallel degree"),
    "cp": ("1", "context-parallel degree"),
    "ep": ("1", "expert-parallel degree"),
    "expert_tp": ("1", "tensor-parallel degree inside one expert"),
    "vpp": ("1", "virtual stages per device"),
    "shard_group": ("1", "devices over which states are sharded at most"),
    "shard_optimizer": ("1", "1 when optimizer states are sharded"),
    "shard_gradients": ("1", "1 when gradients are sharded"),
    "shard_weights": ("1", "1 when weights are sharded"),
    "sequence_parallel": ("1", "1 when norms and dropout are split over tp"),
    "balances_head": ("1", "1 when stages are balanced with the head as work"),
    "fused_accumulation": ("1", "1 when weight-gradient products add to the kept gradient"),
    "reduces_whole": ("1", "1 when a pipeline all-reduces gradients although states are sharded"),
    "hand_over_split": ("1", "1 when pipeline messages are scattered over tp"),
    "schedule_bubble": ("1", "bubble of the pipeline schedule over that of 1F1B"),
    "weight_copies": ("1", "stages whose weights a device keeps for the schedule"),
    "concurrent_stages": ("1", "0 when layers are spread over devices that take turns"),
    "stage_is_first": ("1", "1 for the stage with the embedding"),
    "stage_is_last": ("1", "1 for the stage with the head"),
    "recompute_share": ("1", "share of layers that keep only their input"),
    "recompute_forward_share": ("1", "share of the forward pass that is to be repeated"),
    "head_recompute": ("1", "forward passes of the head that are repeated"),
    "scores_recomputed": ("1", "1 when only attention scores are recomputed"),
    "scores_kept": ("1", "1 when attention scores are kept for the backward pass"),
    "eager_attention": ("1", "1 when scores are written to memory"),
    "base_trained": ("1", "1 when the base weights are trained"),
    "trained_share": ("1", "trained parameters over all parameters"),
    "adapter_params": ("1", "adapter parameters"),
    "linear_inputs_saved": ("1", "1 when inputs of linear layers are kept for weight gradients"),
    "backward_passes": ("1", "matrix-product passes of the backward pass"),
    "low_precision": ("1", "1 when matrix products run in 8 or 4 bit"),
    "quantised_base": ("1", "1 when base weights are unpacked before use"),
    "optimizer_on_device": ("1", "0 when optimizer states live on the host"),
    "weights_on_device": ("1", "0 when weights live on the host"),
    "activations_on_device": ("1", "0 when kept activations live on the host"),
    "bucket_params": ("1", "parameters in communication buckets"),
    "gradients_persist": ("1", "1 when gradients stay between micro-batches"),
    "gradients_freed_early": ("1", "1 when the optimizer steps inside the backward pass"),
    "loads_whole": ("1", "1 when a checkpoint is loaded whole before it is sharded"),
    "loss_chunks": ("1", "parts in which the loss is computed"),
    "tp_blocks_per_layer": ("1", "tensor-parallel blocks per layer and direction"),
    "time_scale": ("s", "unit of time of the host norm"),
    "flop_per_multiply_add": ("FLOP", "operations per multiply-add"),
}
_RUN = {
    "checkpoints_per_step": ("1", "checkpoints over steps; 0 when none are written"),
    "storage_bandwidth": ("B/s", "writing checkpoints, whole job"),
    "data_bandwidth": ("B/s", "reading training data, whole job"),
    "data_stall_share": ("1", "time waiting for data, over the time of the steps"),
    "token_bytes": ("B", "per token in the training data"),
    "compile_time": ("s", "compiling the step once per run"),
}
_COST = {
    "paid_devices": ("1", "devices of the whole SKUs that are rented"),
    "device_rent": ("USD/s", "price of one of them"),
    "board_power": ("W", "board power limit in force; unknown where no rating is published"),
    "load_power_share": ("1", "draw in a step, of the board power"),
    "idle_power_share": ("1", "draw while waiting, of the board power"),
    "host_power_share": ("1", "draw of the rest of the node, of that of its devices"),
    "pue": ("1", "power of the site over that of its machines"),
}
_BYTES = {
    "weight_bytes": ("B", "per resident base parameter"),
    "outer_weight_bytes": ("B", "per resident embedding or head parameter"),
    "compute_bytes": ("B", "per value in the compute dtype"),
    "activation_bytes": ("B", "per kept activation value"),
    "norm_input_bytes": ("B", "per value kept by a norm"),
    "dropout_bytes": ("B", "per value of a kept dropout mask"),
    "grad_bytes": ("B", "per gradient kept"),
    "optimizer_bytes": ("B", "optimizer states per trained parameter"),
    "master_bytes": ("B", "master copy per trained parameter"),
    "step_copy_bytes": ("B", "temporary copies at the step per updated parameter"),
    "adapter_state_bytes": ("B", "all states per adapter parameter"),
    "communication_bytes": ("B", "per activation value on the wire"),
    "grad_communication_bytes": ("B", "per gradient on the wire"),
    "gather_bytes": ("B", "per sharded weight on the wire"),
    "weight_pass_bytes": ("B", "moved per weight and matrix-product pass"),
    "score_bytes": ("B", "per attention score kept"),
}
INPUTS: Mapping[str, Given] = MappingProxyType(
    {
        name: Given(unit, meaning, source, basis)
        for block, source, basis in (
            (_MODEL, "model configuration", "configuration"),
            (_HARDWARE, "catalogue", "datasheet"),
            (_JOB, "the job", "stated"),
            (_RUN, "the job", "stated"),
            (_COST, "catalogue", "assumed"),
            (_BYTES, "software stack", "stated"),
        )
        for name, (unit, meaning) in block.items()
    }
)
"""Columns a job supplies. Calibrated constants are described beside their values."""
