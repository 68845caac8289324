"""The memory model of serving, apart from that of training: the graph and its input columns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from chipwise.physics import serving_memory
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
