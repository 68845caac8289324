"""Words that several tools share: optimizers, attention kernels, number formats, targets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chipwise.configs.reading import one_of
from chipwise.i18n import _

OPTIMIZERS: Mapping[str, str] = {
    **dict.fromkeys(
        ("adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_torch_xla", "adam",
         "adamw_apex_fused", "adamw_torch_npu_fused", "adamw_anyprecision", "fusedadam",
         "torch.optim.adamw", "adamw_torch_4bit"),
        "adamw",
    ),
    **dict.fromkeys(
        ("adamw_bnb_8bit", "adamw_8bit", "adamw8bit", "bitsandbytes.optim.adamw8bit",
         "torchao.optim.adamw8bit", "adamw_torch_8bit"),
        "adamw-8bit",
    ),
    **dict.fromkeys(
        ("paged_adamw_8bit", "pagedadamw8bit", "bitsandbytes.optim.pagedadamw8bit"),
        "paged-adamw-8bit",
    ),
    **dict.fromkeys(
        ("paged_adamw", "paged_adamw_32bit", "pagedadamw", "bitsandbytes.optim.pagedadamw"),
        "paged-adamw",
    ),
    "adafactor": "adafactor",
    **dict.fromkeys(("sgd", "torch.optim.sgd"), "sgd"),
    **dict.fromkeys(("lion", "lion_32bit", "lion_pytorch", "paged_lion_32bit"), "lion"),
    "muon": "muon",
}  # fmt: skip
"""Names as HF Trainer, axolotl, DeepSpeed and torchtune spell them [transformers-trainer]."""
_ATTENTION = {
    **dict.fromkeys(
        ("flash_attention_2", "flash_attention_3", "flash_attn", "flash_attn_2", "fa2", "fa3",
         "flash_attention", "flash", "xformers", "kernels_community/flash_attn",
         "kernels_community/flash_attn2", "kernels_community/flash_attn3",
         "kernels_community/vllm_flash_attn3"),
        "flash",
    ),
    **dict.fromkeys(("sdpa", "flex_attention", "flex"), "sdpa"),
    **dict.fromkeys(("eager", "disabled", "none"), "eager"),
    "auto": None,
}  # fmt: skip
DTYPES: Mapping[str, str] = {
    **dict.fromkeys(("bf16", "bfloat16", "torch.bfloat16", "bf16_mixed", "bf16_true"), "bf16"),
    **dict.fromkeys(("fp16", "float16", "torch.float16", "half", "16_mixed"), "fp16"),
    **dict.fromkeys(("fp32", "float32", "torch.float32", "32_true", "no"), "fp32"),
    "fp8": "fp8",
}  # fmt: skip

_ALL_LAYERS = re.compile(
    r"[\w.\\]*layers\\?\.(?:\[\\d\]|\\d)\+\\?\."  # …layers.[\d]+.
    r"(?:\(\w+\\?\.\)\?)?(?:\([\w|]+\)|\w+)\\?\."  # (wrapped.)?(mlp|self_attn).
    r"\((?P<heads>\w+(?:\|\w+)*)\)(?P<tail>\w*)\$?"  # (up|down|gate|q|k|v|o)_proj
)
"""Patterns of the same modules in every layer, as fine-tuning recipes of several models have."""

attention = one_of(_ATTENTION)
dtype = one_of({**DTYPES, "auto": None})
optimizer = one_of(OPTIMIZERS)


def targets(value: Any) -> str | None:
    """Adapted modules as one text with commas: a list, a text, or a word for all of them.

    Raises:
        ValueError: a pattern other than one of modules in every layer.
    """
    pattern = _ALL_LAYERS.fullmatch(value.strip()) if isinstance(value, str) else None
    if pattern:
        return ",".join(head + pattern["tail"] for head in pattern["heads"].split("|"))
    names = value if isinstance(value, list) else str(value).replace(" ", "").split(",")
    names = [str(name) for name in names if name]
    if not names:
        return None
    if any(name in ("all", "all-linear", "linear") for name in names):
        return "all-linear"
    if any(letter in name for name in names for letter in "*|()^$\\"):
        raise ValueError(_("patterns of module names are not read; list them, or write all-linear"))
    return ",".join(dict.fromkeys(name.rpartition(".")[2] for name in names))


def sharding_by_name(path: Any) -> tuple[str | None, str | None]:
    """What the name of a DeepSpeed file says, such as ``zero3_bf16_cpuoffload_all.json``.

    Returns:
        Sharding and offload as request fields, None where the name does not say.
    """
    name = str(path).rpartition("/")[2].lower()
    stage = re.search(r"(?:zero|ds_z|stage)[_-]?([123])", name)
    if stage is None:
        return None, None
    if "offload" not in name:
        return f"zero{stage[1]}", None
    return f"zero{stage[1]}", "optimizer,params" if stage[1] == "3" else "optimizer"


def base_dtype(bits: int, *, kind: str = "nf4", double: bool = False) -> str:
    """Storage of a quantised base."""
    if bits == 8:
        return "int8"
    return "nf4-dq" if double and kind == "nf4" else kind
