"""Flags that say how a model is fine-tuned, in a section of their own."""

from __future__ import annotations

from chipwise.cli.flags import Flag
from chipwise.i18n import _


def tuning_flags() -> tuple[Flag, ...]:
    """Method, targets, and what stays frozen."""
    section = _("Fine-tuning")
    return (
        Flag("method", _("what is trained"), "M", section=section, choices=(
            "full", "lisa", "lora", "rslora", "dora", "qlora", "adalora", "vera", "ia3",
            "ln-tuning", "prompt", "prefix", "adapter")),
        Flag("rank", _("rank of low-rank adapters, or width of bottlenecks"), "R",
             section=section),
        Flag("targets", _("what is adapted: qv, qkv, attention, mlp, qkv+mlp, all-linear, "
             "all-linear+head, or names of modules such as q_proj,down_proj"), "T",
             section=section),
        Flag("base-dtype", _("storage of frozen weights"), "D", section=section, choices=(
            "fp32", "bf16", "fp16", "int8", "int4", "nf4", "nf4-dq", "fp4")),
        Flag("virtual-tokens", _("trained tokens of prompt and prefix tuning"), "N",
             section=section),
        Flag("modules-to-save", _("trained whole beside an adapter: embeddings, head (repeatable)"),
             "WHAT", kind="list", choices=("embeddings", "head"), section=section),
        Flag("train-last", _("only the last N layers are trained"), "N", section=section),
        Flag("freeze", _("not trained with method full: embeddings, head (repeatable)"), "WHAT",
             kind="list", choices=("embeddings", "head"), section=section),
        Flag("active-layers", _("layers that LISA trains at a time"), "N", section=section),
        Flag("optimizer-rank", _("rank of the gradients that GaLore keeps states for"), "R",
             section=section),
    )  # fmt: skip
