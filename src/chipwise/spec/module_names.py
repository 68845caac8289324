"""How public classes call the linear modules of each architecture, and what peft makes of them.

One table from our own names of matrices (``spec.tensors``) to module paths within a layer.
Matrices with the same path are one fused module. Paths are those of transformers 5
[transformers-models]; what peft adapts by default, leaves alone or rewrites is read from its
sources [peft].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one architecture."""

    paths: Mapping[str, str]
    """Our matrix → module path within a layer."""
    experts: Literal["linear", "stacked"] = "stacked"
    """One linear module per expert and matrix, or one parameter for all experts of a layer."""
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """Targets of older releases that peft maps to stacked parameters and the router: old name →
    path ending. Such a target then names nothing else, not even a shared expert."""
    router_linear: bool = False
    """The router is a linear module, which ``all-linear`` includes."""
    ia3: tuple[str, ...] = ("attention.key", "attention.value")
    """Matrices whose outputs IA3 scales by default; it scales the inputs of ``down`` too."""
    embedding: str = "embed_tokens"
    head: str = "lm_head"
    cache_heads: Literal["kv", "query"] = "kv"
    """Whose number the key/value cache has."""


_ATTENTION = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "attention.query_down": "self_attn.q_a_proj",
    "attention.query_up": "self_attn.q_b_proj",
    "attention.key_value_down": "self_attn.kv_a_proj_with_mqa",
    "attention.key_value_up": "self_attn.kv_b_proj",
}


def _gated(block: str, ours: str) -> dict[str, str]:
    return {f"{ours}.{matrix}": f"{block}.{matrix}_proj" for matrix in ("gate", "up", "down")}


def _stacked(block: str) -> dict[str, str]:
    fused = {f"expert.{matrix}": f"{block}.gate_up_proj" for matrix in ("gate", "up")}
    return fused | {"expert.down": f"{block}.down_proj"}


def _two(block: str, first: str, second: str) -> dict[str, str]:
    return {"ffn.up": f"{block}.{first}", "ffn.down": f"{block}.{second}"}


def _heads(block: str, output: str, *fused: str) -> dict[str, str]:
    """Attention of another block: one fused input module, or three with the usual names."""
    names = fused * 3 if fused else ("q_proj", "k_proj", "v_proj")
    parts = dict(zip(("query", "key", "value"), names, strict=True))
    return {f"attention.{part}": f"{block}.{name}" for part, name in parts.items()} | {
        "attention.output": f"{block}.{output}"
    }


_SHARED = {"shared_expert.switch": "mlp.shared_expert_gate"}
_LLAMA = {
    **_ATTENTION,
    **_gated("mlp", "ffn"),
    **_stacked("mlp.experts"),
    **_gated("mlp.shared_experts", "shared_expert"),
    "router": "mlp.gate",
}
_QWEN_MOE = {**_LLAMA, **_gated("mlp.shared_expert", "shared_expert"), **_SHARED}
_GENERIC = {**_QWEN_MOE, **_gated("mlp.experts", "expert")}
_FUSED_MLP = {"ffn.gate": "mlp.gate_up_proj", "ffn.up": "mlp.gate_up_proj"}
_QWEN_REWRITTEN = {
    "gate": "mlp.gate",
    "gate_proj": "experts.gate_up_proj",
    "up_proj": "experts.gate_up_proj",
    "down_proj": "experts.down_proj",
}
_MIXTRAL_REWRITTEN = {
    "gate": "mlp.gate",
    "w1": "experts.gate_up_proj",
    "w3": "experts.gate_up_proj",
    "w2": "experts.down_proj",
}
_QUERY_VALUE = ("attention.query", "attention.value")
_GPT = _heads("attn", "c_proj", "c_attn") | _two("mlp", "c_fc", "c_proj")
_NEOX_MLP = _two("mlp", "dense_h_to_4h", "dense_4h_to_h")
_MIXER = {
    **_heads("mixer", "o_proj"),
    **_two("mixer", "up_proj", "down_proj"),
    **{"expert.up": "mixer.experts.up_proj", "expert.down": "mixer.experts.down_proj"},
    "shared_expert.up": "mixer.shared_experts.up_proj",
    "shared_expert.down": "mixer.shared_experts.down_proj",
    "router": "mixer.gate",
    "latent_down": "mixer.fc1_latent_proj",
    "latent_up": "mixer.fc2_latent_proj",
}
_V4 = {
    **_LLAMA,
    "attention.key": "self_attn.kv_proj",
    "attention.output_down": "self_attn.o_a_proj",
    "attention.output_up": "self_attn.o_b_proj",
}
_LLAMA4 = {
    **_ATTENTION,
    **_gated("feed_forward", "ffn"),
    **_stacked("feed_forward.experts"),
    **_gated("feed_forward.shared_expert", "shared_expert"),
    "router": "feed_forward.router",
}
_DBRX = {
    **_heads("attn", "out_proj", "Wqkv"),
    **{"expert.gate": "ffn.experts.mlp.w1", "expert.up": "ffn.experts.mlp.v1"},
    "expert.down": "ffn.experts.mlp.w2",
    "router": "ffn.router.layer",
}

GENERIC = Names(_GENERIC, experts="linear", router_linear=True)
"""A model known only by its sizes: the Llama lineage's names, every expert's matrices apart."""
_PLAIN = Names(_LLAMA)
_DEEPSEEK = Names(_LLAMA, rewritten=_QWEN_REWRITTEN)
_MIXTRAL = Names(_LLAMA, rewritten=_MIXTRAL_REWRITTEN)
_QV = Names(_LLAMA, ia3=_QUERY_VALUE)

NAMES: Mapping[str, Names] = {
    **dict.fromkeys(("qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "mimo"), _QV),
    **dict.fromkeys(("qwen3", "qwen3_vl_text", "gemma", "gemma2", "gemma3_text"), _QV),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"), _DEEPSEEK),
    **dict.fromkeys(("glm_moe_dsa", "glm4_moe", "glm4_moe_lite", "olmoe", "qwen3_moe"), _DEEPSEEK),
    **dict.fromkeys(("mixtral", "minimax", "minimax_text_01", "minimax_m2"), _MIXTRAL),
    **dict.fromkeys(("deepseek", "grok-1", "step3p5", "step3p7", "mimo_v2_flash"), GENERIC),
    "qwen3_next": Names(_QWEN_MOE, rewritten=_QWEN_REWRITTEN),
    **dict.fromkeys(
        ("qwen2_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_vl_moe_text"), Names(_QWEN_MOE)
    ),
    "phi3": Names(
        {**_LLAMA, **_heads("self_attn", "o_proj", "qkv_proj"), **_FUSED_MLP},
    ),
    "glm": Names({**_LLAMA, **_FUSED_MLP}),
    "glm4": Names({**_LLAMA, **_FUSED_MLP}),
    "phi": Names({**_heads("self_attn", "dense"), **_two("mlp", "fc1", "fc2")}, ia3=_QUERY_VALUE),
    "phimoe": Names({**_LLAMA, "router": "mlp.router"}, router_linear=True),
    "starcoder2": Names({**_LLAMA, **_two("mlp", "c_fc", "c_proj")}),
    "gpt_oss": Names({**_LLAMA, "router": "mlp.router"}),
    "granitemoe": Names(
        {**_LLAMA, **_stacked("block_sparse_moe.experts"), "router": "block_sparse_moe.router"}
    ),
    "llama4_text": Names(_LLAMA4, router_linear=True, ia3=_QUERY_VALUE),
    "gemma4_text": Names(
        {**_LLAMA, **_stacked("experts"), "router": "router.proj"},
        router_linear=True,
        ia3=_QUERY_VALUE,
    ),
    "deepseek_v4": Names(_V4),
    "nemotron_h": Names(_MIXER, embedding="embeddings"),
    "dbrx": Names(_DBRX, router_linear=True, embedding="wte"),
    "gpt2": Names(_GPT, embedding="wte"),
    "gpt_bigcode": Names(_GPT, embedding="wte"),
    "gptj": Names(
        _heads("attn", "out_proj") | _two("mlp", "fc_in", "fc_out"),
        embedding="wte",
        ia3=_QUERY_VALUE,
    ),
    "gpt_neo": Names(
        _heads("attn.attention", "out_proj") | _two("mlp", "c_fc", "c_proj"),
        embedding="wte",
        ia3=_QUERY_VALUE,
    ),
    "gpt_neox": Names(
        _heads("attention", "dense", "query_key_value") | _NEOX_MLP, embedding="embed_in"
    ),
    "opt": Names(
        _heads("self_attn", "out_proj") | {"ffn.up": "fc1", "ffn.down": "fc2"},
        ia3=("attention.query", "attention.key"),
    ),
    "bloom": Names(
        _heads("self_attention", "dense", "query_key_value") | _NEOX_MLP,
        embedding="word_embeddings",
    ),
    **dict.fromkeys(
        ("falcon", "RefinedWeb", "RefinedWebModel"),
        Names(
            _heads("self_attention", "dense", "query_key_value") | _NEOX_MLP,
            embedding="word_embeddings",
            cache_heads="query",
        ),
    ),
    "mpt": Names(
        _heads("attn", "out_proj", "Wqkv") | _two("ffn", "up_proj", "down_proj"), embedding="wte"
    ),
    "chatglm": Names(
        {
            **_heads("self_attention", "dense", "query_key_value"),
            **{"ffn.gate": "mlp.dense_h_to_4h", "ffn.up": "mlp.dense_h_to_4h"},
            "ffn.down": "mlp.dense_4h_to_h",
        },
        embedding="word_embeddings",
        head="output_layer",
    ),
    "qwen": Names(
        _heads("attn", "c_proj", "c_attn")
        | {"ffn.gate": "mlp.w2", "ffn.up": "mlp.w1", "ffn.down": "mlp.c_proj"},
        embedding="wte",
    ),
    "baichuan": Names({**_LLAMA, **_heads("self_attn", "o_proj", "W_pack")}),
    "internlm2": Names(
        _heads("attention", "wo", "wqkv")
        | {
            "ffn.gate": "feed_forward.w1",
            "ffn.up": "feed_forward.w3",
            "ffn.down": "feed_forward.w2",
        },
        embedding="tok_embeddings",
        head="output",
    ),
}
"""By ``model_type``; architectures that are not listed use the names of Llama."""


def names_of(architecture: str) -> Names:
    """The names of an architecture; those of a generic decoder where it is unknown (empty)."""
    return NAMES.get(architecture, _PLAIN if architecture else GENERIC)
