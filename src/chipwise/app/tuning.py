"""Fields of a request that say how a model is fine-tuned: method, targets, what stays frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from chipwise.app.fields import Fold, Whole, words
from chipwise.errors import nearest_names
from chipwise.i18n import _
from chipwise.spec.job import BaseDtype, Optimizer
from chipwise.spec.method import METHODS, Method, Option, Outer, Tuning
from chipwise.spec.model import Frozen

_OPTIMIZER_WORDS = {
    "adamw-torch": "adamw",
    "adamw-bnb-8bit": "adamw-8bit",
    "paged-adamw-32bit": "paged-adamw",
    "paged-lion-32bit": "paged-lion",
}
"""Names that trainers use for the same thing."""
_METHOD_WORDS = {"layernorm-tuning": "ln-tuning", "prompt-tuning": "prompt"}
_METHOD_WORDS |= {"prefix-tuning": "prefix"}
_OUTER_WORDS = {
    **dict.fromkeys(("embed-tokens", "wte", "embeddings", "embedding", "embed"), "embeddings"),
    **dict.fromkeys(("word-embeddings", "embed-in"), "embeddings"),
    **dict.fromkeys(("lm-head", "head", "embed-out", "output-layer"), "head"),
}


_NEEDS: Mapping[Option, tuple[Method, ...]] = {
    **dict.fromkeys(("rank", "targets", "modules_to_save"), ("lora", "qlora")),
    "virtual_tokens": ("prompt", "prefix"),
    "active_layers": ("lisa",),
}
"""Usual methods that take an option."""


def _hyphens(value: Any) -> Any:
    """``paged_adamw_8bit`` is ``paged-adamw-8bit``."""
    return value.strip().lower().replace("_", "-") if isinstance(value, str) else value


def _optimizer(value: Any) -> Any:
    word = _hyphens(value)
    return _OPTIMIZER_WORDS.get(word, word) if isinstance(word, str) else word


def _method(value: Any) -> Any:
    word = _hyphens(value)
    return _METHOD_WORDS.get(word, word) if isinstance(word, str) else word


def _outer(value: Any) -> Any:
    """Module names and words for embeddings and head, as a list without repetition."""
    items = words(value)
    if not isinstance(items, tuple):
        return value
    found = []
    for item in items:
        part = _OUTER_WORDS.get(_hyphens(item))
        if part is None:
            near = " or ".join(nearest_names(item, _OUTER_WORDS, 1) or get_args(Outer))
            text = _("'{item}' is neither the embeddings nor the head; use {near}")
            reason = text.format(item=item, near=near)
            raise PydanticCustomError("unknown-part", "{reason}", {"reason": reason})
        found.append(part)
    return tuple(dict.fromkeys(found))


def _targets(value: Any) -> Any:
    """Several texts are one list with commas; blanks around names do not count."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        value = ",".join(value)
    if not isinstance(value, str):
        return value
    return ",".join(name.strip() for name in value.split(",") if name.strip())


OptimizerWord = Annotated[Optimizer, BeforeValidator(_optimizer)]
Parts = Annotated[tuple[Outer, ...], BeforeValidator(_outer)]


class TuningFields(Frozen):
    """How a model is fine-tuned; shared by all training questions."""

    leaves_method_open: ClassVar[bool] = False
    """Whether no stated method means any: what only some methods take then rules out the others."""

    method: Annotated[Method, BeforeValidator(_method)] = "full"
    rank: Whole | None = None
    targets: Annotated[str, BeforeValidator(_targets)] | None = None
    """A short word, or names of modules with commas between them."""
    base_dtype: Annotated[BaseDtype, Fold] | None = None
    virtual_tokens: Whole | None = None
    """Tokens that exist only as trained vectors."""
    modules_to_save: Parts = ()
    """Embeddings, head: trained whole beside an adapter."""
    train_last: Whole | None = None
    """Only the last so many layers are trained."""
    freeze: Parts = ()
    """Embeddings, head: left as they are in full training."""
    active_layers: Whole | None = None
    """Layers that LISA trains at a time."""
    optimizer_rank: Whole | None = None
    """Rank of projected gradients (GaLore)."""

    @property
    def tuning(self) -> Tuning:
        """What is trained beside rank and targets, as a spec."""
        return Tuning(**{name: getattr(self, name) for name in Tuning.model_fields})

    @model_validator(mode="after")
    def _options_need_their_method(self) -> TuningFields:
        """Each option belongs to some methods; the message names one that takes it."""
        if self.leaves_method_open and "method" not in self.model_fields_set:
            return self
        for option, able in _NEEDS.items():
            if getattr(self, option) in (None, ()) or option in METHODS[self.method].takes:
                continue
            reason = _("--{flag} needs --method {methods}").format(
                flag=option.replace("_", "-"), methods=_(" or ").join(able)
            )
            raise _contradiction(reason)
        if self.freeze and not METHODS[self.method].base_trained:
            raise _contradiction(
                _("--freeze is for --method full: method {method} freezes the whole model").format(
                    method=self.method
                )
            )
        if self.active_layers and self.train_last:
            raise _contradiction(_("say either --active-layers or --train-last"))
        return self


def _contradiction(reason: str) -> PydanticCustomError:
    return PydanticCustomError("contradiction", "{reason}", {"reason": reason})
