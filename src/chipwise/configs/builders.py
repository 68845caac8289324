"""Models as torchtune, torchtitan and litgpt name their builders, and their catalogue ids."""

from __future__ import annotations

from collections.abc import Mapping

_SIZED: Mapping[str, Mapping[str, str]] = {
    "llama2": {"7b": "llama-2-7b", "13b": "llama-2-13b", "70b": "llama-2-70b"},
    "llama3": {"8b": "llama-3-8b", "70b": "llama-3-70b"},
    "llama3_1": {"8b": "llama-3.1-8b", "70b": "llama-3.1-70b", "405b": "llama-3.1-405b"},
    "llama3_2": {"1b": "llama-3.2-1b", "3b": "llama-3.2-3b"},
    "llama3_3": {"70b": "llama-3.3-70b"},
    "llama4": {
        "scout_17b_16e": "llama-4-scout-17b-16e",
        "maverick_17b_128e": "llama-4-maverick-17b-128e",
    },
    "mistral": {"7b": "mistral-7b-v0.1"},
    "gemma": {"2b": "gemma-2b", "7b": "gemma-7b"},
    "gemma2": {"2b": "gemma-2-2b", "9b": "gemma-2-9b", "27b": "gemma-2-27b"},
    "phi3": {"mini": "phi-3-mini"},
    "phi4": {"14b": "phi-4"},
    "qwen2": {"0_5b": "qwen2-0.5b", "1_5b": "qwen2-1.5b", "7b": "qwen2-7b"},
    "qwen2_5": {
        "0_5b": "qwen2.5-0.5b", "1_5b": "qwen2.5-1.5b", "3b": "qwen2.5-3b", "7b": "qwen2.5-7b",
        "14b": "qwen2.5-14b", "32b": "qwen2.5-32b", "72b": "qwen2.5-72b",
    },
    "qwen3": {
        "0_6b": "qwen3-0.6b", "1_7b": "qwen3-1.7b", "4b": "qwen3-4b", "8b": "qwen3-8b",
        "14b": "qwen3-14b", "32b": "qwen3-32b",
    },
}  # fmt: skip

TORCHTUNE: Mapping[str, str] = {
    f"{family}_{size}{ending}": model
    for family, sizes in _SIZED.items()
    for size, model in sizes.items()
    for ending in ("", "_base", "_instruct")
    if not ending or family in ("qwen2_5", "qwen3")
}
"""Functions of ``torchtune.models`` without ``lora_`` or ``qlora_`` before them [torchtune]."""

TORCHTITAN: Mapping[str, str | None] = {
    "llama2 7B": "llama-2-7b", "llama2 13B": "llama-2-13b", "llama2 70B": "llama-2-70b",
    "llama3 8B": "llama-3.1-8b", "llama3 70B": "llama-3.1-70b", "llama3 405B": "llama-3.1-405b",
    "llama4 17bx16e": "llama-4-scout-17b-16e", "llama4 17bx128e": "llama-4-maverick-17b-128e",
    "deepseek_v3 16B": "deepseek-v2-lite", "deepseek_v3 671B": "deepseek-v3",
    "qwen3 0.6B": "qwen3-0.6b", "qwen3 1.7B": "qwen3-1.7b", "qwen3 4B": "qwen3-4b",
    "qwen3 8B": "qwen3-8b", "qwen3 14B": "qwen3-14b", "qwen3 32B": "qwen3-32b",
    "qwen3 30B-A3B": "qwen3-30b-a3b", "qwen3 235B-A22B": "qwen3-235b-a22b",
    "gpt_oss 20b": "gpt-oss-20b", "gpt_oss 120b": "gpt-oss-120b",
}  # fmt: skip
"""``model.name`` and ``model.flavor`` of torchtitan [torchtitan-config]."""
