"""What readers of recipes share: nearest names, one precision, quantised bases, sharding words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chipwise.configs import words
from chipwise.configs.reading import Reading, Taken, contradiction, flag
from chipwise.errors import nearest_names
from chipwise.i18n import _


def named(what: str, known: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A conversion from many names, case and ``-``/``_`` alike, to values.

    The conversion raises ValueError with the nearest names for one that is not known.
    """
    folded = {_fold(name): value for name, value in known.items()}

    def convert(value: Any) -> Any:
        name = str(value).strip()
        if _fold(name) in folded:
            return folded[_fold(name)]
        near = " or ".join(f"'{one}'" for one in nearest_names(name, known))
        hint = _("; did you mean {names}?").format(names=near) if near else ""
        text = _("'{name}' is no {what} that is known{hint}")
        raise ValueError(text.format(name=name, what=what, hint=hint))

    return convert


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


def optimizer(value: Any) -> Any:
    """An optimizer by any of its names, with or without the Python path before it."""
    known = {**words.OPTIMIZERS, "cpuoffloadoptimizer": "adamw"}
    whole_name = str(value).strip()
    name = whole_name if _fold(whole_name) in known else whole_name.rpartition(".")[2]
    return named(_("optimizer"), known)(name)


def last_name(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A conversion of what stands behind the last dot of a Python path."""
    return lambda value: convert(str(value).rpartition(".")[2])


def place(found: Reading, key: str) -> str:
    """File and line of a key, as an editor understands it."""
    line = found.marked.line(key)
    return f"{found.marked.name}:{line}" if line else found.marked.name


def note(found: Reading, key: str, text: str) -> None:
    """Say something about a key, which counts as understood."""
    found.use(key)
    found.notes.append(f"{place(found, key)} {key}: {text}")


_LOSSES = {
    **{"dpo": "dpo", "ipo": "dpo", "orpo": "orpo", "simpo": "orpo", "cpo": "orpo", "kto": "kto"},
    **{"rm": "reward", "reward": "reward", "ppo": "ppo", "grpo": "grpo", "gkd": "distill"},
}
"""Losses by the tools' words; those without a reference model cost what ORPO does."""
_NEEDS_A_MODEL = ("distill", "ppo")
"""Losses with models of their own, which a configuration of these tools names elsewhere."""


def objective(found: Reading, key: str, stage: str) -> None:
    """What is minimised, beside next-token training."""
    loss = _LOSSES.get(_fold(stage))
    if loss is not None and loss not in _NEEDS_A_MODEL:
        found.take("loss", loss, key)
        return
    text = _(
        "'{stage}' runs more than one sequence or model for each example; what is computed is "
        "plain fine-tuning, a lower bound (state --loss and its models for more)"
    )
    note(found, key, text.format(stage=stage))


_OUTER = {
    **dict.fromkeys(("embed_tokens", "wte", "embed_in", "embeddings"), "embeddings"),
    **dict.fromkeys(("lm_head", "embed_out", "output"), "head"),
}


def trained_beside(found: Reading, key: str) -> None:
    """Modules that adapters leave to be trained themselves."""
    value = found.marked.get(key)
    if not value:
        return
    names = value if isinstance(value, list) else str(value).replace(" ", "").split(",")
    known = [_OUTER[name] for name in names if name in _OUTER]
    if known:
        found.take("modules_to_save", ",".join(dict.fromkeys(known)), key)
    if others := ", ".join(str(name) for name in names if name not in _OUTER):
        text = _("{names} trained in full beside the adapters, and not counted")
        note(found, key, text.format(names=others))


def less_state(found: Reading, key: str) -> None:
    """Optimizers that are not in the catalogue and keep less than AdamW."""
    note(found, key, _("keeps less state than AdamW, which is computed instead: an upper bound"))


def frees_gradients(found: Reading, key: str) -> None:
    """An optimizer that steps while gradients are computed."""
    found.take("optimizer_in_backward", True, key)


def on(found: Reading, key: str) -> bool:
    """Whether a switch is on; a missing one is off.

    Raises:
        DataFileError: neither true nor false.
    """
    found.use(key)
    try:
        return flag(found.marked.get(key) or False)
    except ValueError as error:
        raise found.refused(key, str(error)) from None


def clash(found: Reading, first: str, second: str, why: str) -> None:
    """Refuse two keys of one file that cannot both hold.

    Raises:
        UsageError: always; names both lines.
    """
    one, other = (
        Taken(key, found.marked.get(key), key, found.marked.name, found.marked.line(key))
        for key in (first, second)
    )
    raise contradiction(one, other, why)


def one_precision(found: Reading, switches: Mapping[str, str]) -> None:
    """Take the number format of the one switch that is on, such as ``bf16: true``.

    Raises:
        UsageError: switches of two formats are on.
    """
    before = ""
    for key, word in switches.items():
        if not on(found, key):
            continue
        if before and switches[before] != word:
            clash(found, before, key, _("one of them is on at most"))
        found.take("precision", word, key)
        before = key


def quantised(found: Reading, key: str, method: str, kind: str, *, double: bool) -> None:
    """A base kept in few bits, below adapters.

    Args:
        found: the reading.
        key: the key that says how many bits.
        method: who packs the weights: bnb, hqq, eetq, quanto.
        kind: number format of four bits with bitsandbytes, nf4 or fp4.
        double: whether bitsandbytes packs its scales too.

    Raises:
        DataFileError: bits that are not computed.
    """
    bits = found.marked.get(key)
    if str(bits) not in ("4", "8"):
        raise found.refused(key, _("{bits} bits are not computed; write 4 or 8").format(bits=bits))
    four = kind if method == "bnb" else "int4"
    if found.value("method") != "dora":
        found.take("method", "qlora", key)
    found.take("base_dtype", words.base_dtype(int(bits), kind=four, double=double), key)


def shard_words(found: Reading, key: str) -> None:
    """FSDP as HF Trainer writes it: ``full_shard auto_wrap offload``, as a text or a list."""
    value = found.marked.get(key)
    if not value:
        found.use(key)
        return
    said = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    found.take("shard", "zero2" if "shard_grad_op" in said else "fsdp", key)
    if "offload" in said:
        found.take("offload", "optimizer,params", key)


def other_file(found: Reading, key: str) -> None:
    """A file of another kind that is named here; its name may say how states are sharded."""
    shard, offload = words.sharding_by_name(found.marked.get(key))
    if shard and "shard" not in found.taken:
        found.take("shard", shard, key, hint=True)
    if offload and "offload" not in found.taken:
        found.take("offload", offload, key, hint=True)
    found.named_file(key)


def module_targets(found: Reading, switches: Mapping[str, Iterable[str]]) -> list[str]:
    """Names of the modules whose switches are on, in order."""
    names: list[str] = []
    for key, modules in switches.items():
        if on(found, key):
            names.extend(modules)
    return names
