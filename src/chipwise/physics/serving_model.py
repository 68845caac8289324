"""The memory model of serving, apart from that of training: the graph and its input columns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from chipwise.physics import serving_load, serving_memory, serving_pass
from chipwise.quantity import Given, Model

SERVING = Model.of(serving_memory)
"""Every quantity of serving memory."""

_MODEL = {
    "layers": ("1", "decoder layers"),
    "hidden": ("1", "model width"),
    "vocab": ("1", "vocabulary rows"),
    "attention_split_params": ("1", "attention parameters divided by tensor parallelism"),
    "attention_kv_params": ("1", "key and value projections, divided by kv head"),
    "attention_whole_params": ("1", "attention parameters that every rank keeps"),
    "block_params": ("1", "feed-forward and expert parameters of all layers"),
    "expert_params": ("1", "of these, those of routed experts"),
    "small_params": ("1", "norms, biases, routers, positions"),
    "table_params": ("1", "vocabulary × model width"),
    "tied_embeddings": ("1", "1 when input and output embedding are shared"),
    "kv_heads": ("1", "key-value heads of a layer (latent attention: 1)"),
    "kv_full_width": ("1", "values kept per token, summed over full-attention layers"),
    "kv_window_width": ("1", "values kept per token, summed over sliding-window layers"),
    "window": ("1", "sliding-window length"),
    "ffn_activation_width": ("1", "gate, up and product widths of the widest dense block"),
    "attention_activation_width": ("1", "query, key, value and output widths of one layer"),
    "top_k": ("1", "routed experts per token"),
    "expert_width": ("1", "width of one expert"),
}
_BYTES = {
    "attention_bytes": ("B", "per attention weight as stored"),
    "block_bytes": ("B", "per feed-forward or expert weight as stored"),
    "table_bytes": ("B", "per input-embedding weight as stored"),
    "head_bytes": ("B", "per head weight as stored"),
    "small_bytes": ("B", "per norm, bias or router weight as stored"),
    "kv_value_bytes": ("B", "per key or value kept"),
    "sequence_state_bytes": ("B", "recurrent state of one sequence, all layers"),
    "compute_bytes": ("B", "per activation value"),
    "logit_bytes": ("B", "per logit of the widest sampling step"),
    "score_bytes": ("B", "per attention score written to memory"),
}
_SYSTEM = {
    "visible_bytes": ("B", "memory a program can allocate"),
    "free_share": ("1", "share of it that may be used at all"),
    "tp": ("1", "tensor-parallel degree"),
    "pp": ("1", "pipeline-parallel degree"),
    "expert_shards": ("1", "devices that share the routed experts"),
    "utilization": ("1", "share of the memory the engine plans with"),
    "pool_share": ("1", "share of the rest that becomes the KV pool"),
    "plans_activations": ("1", "1 when working memory comes from the planned share"),
    "plans_graphs": ("1", "1 when CUDA graphs come from the planned share"),
    "allocates_pool": ("1", "1 when the KV pool is allocated at the start"),
    "table_on_device": ("1", "0 when the input embedding stays in host memory"),
    "context_bytes": ("B", "context, libraries and workspaces of one process"),
    "channel_bytes": ("B", "communicators of a device that works with others"),
    "graph_layer_bytes": ("B", "CUDA graphs per layer"),
}
_JOB = {
    "context": ("1", "tokens of one sequence, prompt and answer"),
    "concurrency": ("1", "sequences at once"),
    "batched_tokens": ("1", "most tokens of one forward pass"),
    "logit_rows": ("1", "most rows whose logits one step computes"),
    "prefill_scores": ("1", "scores of one layer's prefill that are written to memory"),
}
SERVING_INPUTS: Mapping[str, Given] = MappingProxyType(
    {
        name: Given(unit, meaning)
        for block in (_MODEL, _BYTES, _SYSTEM, _JOB)
        for name, (unit, meaning) in block.items()
    }
)
"""Columns a serving job supplies."""


# -- speed --------------------------------------------------------------------------------------

SPEED_OF_PASS, SPEED_UNDER_LOAD = Model.of(serving_pass), Model.of(serving_load)
PASS = Model.of(serving_pass, serving_memory)
"""Every quantity of one forward pass, memory included."""
LOAD = Model.of(serving_load, serving_memory)
"""Every quantity of an engine under load, memory included."""

_CHIP = {
    "flop_per_multiply_add": ("FLOP", "one multiply-add is two"),
    "peak_matmul": ("FLOP/s", "dense peak of the format that weights are multiplied in"),
    "matmul_fraction": ("1", "best measured large product over the peak, in 16 bit"),
    "peak_16bit": ("FLOP/s", "dense peak in 16 bit"),
    "peak_bandwidth": ("B/s", "device memory"),
    "intra_bandwidth": ("B/s", "fast link, one way per device"),
    "network_bandwidth": ("B/s", "between fast-link domains, one way per device"),
    "devices_per_node": ("1", "devices of a fast-link domain"),
}
_SPLIT = {
    "num_experts": ("1", "routed experts of a layer"),
    "moe_layers": ("1", "layers with routed experts"),
    "score_width": ("1", "query and value widths of all heads, summed over layers"),
    "replicas": ("1", "copies of the model side by side, attention-parallel ranks among them"),
    "layer_split": ("1", "1 when devices work one after the other on one group of sequences"),
    "pipelined_prompts": ("1", "1 when pieces of a prompt run through such devices in turn"),
}
_TRAFFIC = {
    "prompt_tokens": ("1", "tokens of a prompt"),
    "output_tokens": ("1", "tokens of an answer"),
    "num_prompts": ("1", "requests of the whole run"),
    "sequence_cap": ("1", "most sequences the engine decodes at once"),
    "static_batch": ("1", "1 when a batch is read and answered together"),
    "at_once": ("1", "1 when all requests come at the start"),
    "disaggregated": ("1", "1 when other devices read prompts than decode"),
}
_PASS = {
    "pass_tokens": ("1", "tokens of the pass"),
    "pass_sequences": ("1", "decoding sequences of the pass"),
    "pass_context": ("1", "tokens each of them has kept"),
    "pass_prompts": ("1", "prompts read in the pass"),
    "pass_logit_rows": ("1", "rows whose logits are computed"),
    "graphed": ("1", "1 for a recorded decode step"),
    "decode_pass_time": ("s", "one decode pass"),
    "prompt_pass_time": ("s", "reading one prompt"),
    "prompts_pass_time": ("s", "reading several prompts together"),
}
SPEED_INPUTS: Mapping[str, Given] = MappingProxyType(
    {
        name: Given(unit, meaning)
        for block in (_CHIP, _SPLIT, _TRAFFIC, _PASS)
        for name, (unit, meaning) in block.items()
    }
)
"""Columns beside ``SERVING_INPUTS`` that the speed of serving needs."""
