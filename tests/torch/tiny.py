"""Tiny configurations of the architectures whose trainable parameters are compared with peft.

Sizes differ from one another wherever the architecture lets them, so that a swapped dimension
shows. Every configuration is read twice: by transformers, which builds the real modules, and by
chipwise, which never sees a module.
"""

from __future__ import annotations

from typing import Any

_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
_DENSE = {
    **{"vocab_size": 96, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 3},
    **_HEADS,
    **{"max_position_embeddings": 128, "tie_word_embeddings": False},
}
_FULL_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 4}
_LATENT = {
    **_DENSE,
    **_FULL_HEADS,
    **{"kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "v_head_dim": 10},
    **{"n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 2},
    **{"moe_intermediate_size": 24, "first_k_dense_replace": 1},
}
_DELTA = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6},
    **{"linear_value_head_dim": 10, "linear_conv_kernel_dim": 4, "full_attention_interval": 2},
}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **_DENSE},
    "mistral": {"model_type": "mistral", **_DENSE, "sliding_window": None},
    "qwen2": {"model_type": "qwen2", **_DENSE},
    "qwen3": {"model_type": "qwen3", **_DENSE, "head_dim": 20},
    "gemma2": {"model_type": "gemma2", **_DENSE, "head_dim": 20, "tie_word_embeddings": True},
    "phi3": {"model_type": "phi3", **_DENSE, "pad_token_id": 0},
    "phi": {"model_type": "phi", **_DENSE},
    "starcoder2": {"model_type": "starcoder2", **_DENSE},
    "glm4": {"model_type": "glm4", **_DENSE, "head_dim": 20, "pad_token_id": 0},
    "gpt_neox": {
        **{"model_type": "gpt_neox", "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3},
        **{"num_attention_heads": 4, "intermediate_size": 112, "tie_word_embeddings": False},
        "max_position_embeddings": 128,
    },
    "gpt2": {
        **{"model_type": "gpt2", "vocab_size": 96, "n_embd": 64, "n_layer": 3, "n_head": 4},
        **{"n_positions": 128, "n_inner": 112},
    },
    "gptj": {
        **{"model_type": "gptj", "vocab_size": 96, "n_embd": 64, "n_layer": 3, "n_head": 4},
        **{"n_positions": 128, "n_inner": 112, "rotary_dim": 8, "tie_word_embeddings": False},
    },
    "gpt_bigcode": {
        **{"model_type": "gpt_bigcode", "vocab_size": 96, "n_embd": 64, "n_layer": 3, "n_head": 4},
        **{"n_positions": 128, "n_inner": 112},
    },
    "opt": {
        **{"model_type": "opt", "vocab_size": 96, "hidden_size": 64, "ffn_dim": 112},
        **{"num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 128},
        "word_embed_proj_dim": 64,
    },
    "bloom": {
        **{"model_type": "bloom", "vocab_size": 96, "hidden_size": 64, "n_layer": 3, "n_head": 4},
    },
    "falcon": {
        **{"model_type": "falcon", "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3},
        **{"num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": True},
        **{"multi_query": True, "bias": False, "alibi": False, "parallel_attn": True},
    },
    "mpt": {
        **{"model_type": "mpt", "vocab_size": 96, "d_model": 64, "n_layers": 3, "n_heads": 4},
        **{"max_seq_len": 128, "expansion_ratio": 4, "no_bias": True},
        "norm_type": "low_precision_layernorm",
    },
    "mixtral": {
        **{"model_type": "mixtral", **_DENSE, "num_local_experts": 5, "num_experts_per_tok": 2},
        "sliding_window": None,
    },
    "qwen2_moe": {
        **{"model_type": "qwen2_moe", **_DENSE, "num_experts": 6, "num_experts_per_tok": 2},
        **{"moe_intermediate_size": 24, "shared_expert_intermediate_size": 40},
        **{"decoder_sparse_step": 1, "mlp_only_layers": [0]},
    },
    "qwen3_moe": {
        **{"model_type": "qwen3_moe", **_DENSE, "head_dim": 20, "num_experts": 6},
        **{"num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 1},
        "mlp_only_layers": [],
    },
    "gpt_oss": {
        **{"model_type": "gpt_oss", **_DENSE, "head_dim": 20, "num_local_experts": 5},
        **{"num_experts_per_tok": 2, "pad_token_id": 0},
    },
    "deepseek_v2": {
        **{"model_type": "deepseek_v2", **_LATENT, "q_lora_rank": None, "topk_method": "greedy"},
        **{"n_group": 1, "topk_group": 1, "norm_topk_prob": False},
    },
    "deepseek_v3": {
        **{"model_type": "deepseek_v3", **_LATENT, "q_lora_rank": 28, "n_group": 1},
        **{"topk_group": 1, "norm_topk_prob": True},
    },
    "qwen3_next": {
        **{"model_type": "qwen3_next", **_DENSE, "num_hidden_layers": 4, "head_dim": 20, **_DELTA},
        **{"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
        **{"shared_expert_intermediate_size": 40, "decoder_sparse_step": 1, "mlp_only_layers": []},
    },
    "nemotron_h": {
        **{"model_type": "nemotron_h", **_DENSE, "num_hidden_layers": 4, "head_dim": 20},
        **{"layers_block_type": ["mamba", "mlp", "attention", "mamba"], "mamba_num_heads": 4},
        **{"mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 6, "conv_kernel": 4},
        **{"use_bias": False, "use_conv_bias": True, "mlp_bias": False},
    },
}
"""Public configuration fields, by name of the architecture."""
