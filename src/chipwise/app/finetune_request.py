"""What ``plan finetune`` can be asked: a plan for training on examples of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from chipwise.app.fields import Fold, Systems, Tokens, Whole, variants
from chipwise.app.length_words import read_lengths
from chipwise.app.requests import VARIED, Objective, PlanTrainRequest
from chipwise.i18n import _
from chipwise.spec.method import Method

Padding = Literal["longest", "max", "free"]
METHODS: tuple[Method, ...] = ("full", "lora", "qlora")
"""Methods that are compared where none is stated."""


class PlanFinetuneRequest(PlanTrainRequest):
    """Hardware ranked for a fine-tune; every method that is not ruled out is tried."""

    use_case: ClassVar[str] = "plan_finetune"
    varied: ClassVar[tuple[str, ...]] = (*VARIED, "method")
    leaves_method_open: ClassVar[bool] = True
    on: Systems = "any"
    objective: Annotated[Objective, Fold] = "cost"

    data: str | None = None
    """File of examples: JSONL, JSON, CSV, TSV or Parquet."""
    text_field: str | None = None
    tokenizer: str | None = None
    """Path of a ``tokenizer.json``."""
    length: Tokens | None = None
    """Mean tokens of an example, where no file is given."""
    lengths: Annotated[Mapping[str, float] | None, BeforeValidator(read_lengths)] = None
    """Quantiles of the tokens of an example: p50, p90 …, and max."""
    packing: bool = False
    """Examples fill sequences one after the other."""
    padding: Annotated[Padding, Fold] | None = None
    """To the longest of a micro-batch, to the sequence length, or not at all."""
    group_by_length: bool = False
    """Examples of like length share a micro-batch."""

    grid: Annotated[Mapping[str, tuple[str, ...]], BeforeValidator(variants)] = Field(
        default_factory=dict
    )
    """Values of each hyperparameter; every combination is a run."""
    instances: Whole | None = None
    """Copies of the chosen system that work on the runs of a grid."""

    @model_validator(mode="after")
    def _one_way_to_say_how_much(self) -> PlanFinetuneRequest:
        said = [self.data is not None, self.length is not None, self.lengths is not None]
        reason = ""
        if self.tokens is not None:
            reason = _("--tokens is counted from the data; say --epochs")
        elif sum(said) > 1:
            reason = _("say one of --data, --length and --lengths")
        elif self.data is None and (self.text_field or self.tokenizer) is not None:
            reason = _("--text-field and --tokenizer need --data")
        if reason:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    @model_validator(mode="after")
    def _a_plan_needs_a_length(self) -> PlanFinetuneRequest:
        described = self.examples is not None and (self.length or self.lengths) is not None
        if self.data is None and not described:
            reason = _("--data FILE is missing (or --examples with --length or --lengths)")
            raise PydanticCustomError("missing-value", "{reason}", {"reason": reason})
        return self

    @model_validator(mode="after")
    def _one_way_to_fill_a_batch(self) -> PlanFinetuneRequest:
        reason = ""
        if self.packing and (self.padding is not None or self.group_by_length):
            reason = _("packed sequences need no --padding and no --group-by-length")
        elif self.group_by_length and self.padding in ("max", "free"):
            reason = _("--group-by-length is of use with --padding longest only")
        elif self.instances is not None and not self.grid:
            reason = _("--instances needs --grid")
        if reason:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods to compare, as words."""
        if "method" in self.vary:
            return self.vary["method"]
        if "method" in self.model_fields_set:
            return (self.method,)
        stated = [self.rank, self.targets, self.base_dtype]
        adapters = any(one is not None for one in stated) or "rank" in self.grid
        return METHODS[1:] if adapters else METHODS
