"""Model specs refuse what cannot be."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from chipwise.spec.model import AttentionSpec, FeedForwardSpec, LayerGroup, ModelSpec


def test_query_heads_are_a_multiple_of_key_value_heads() -> None:
    with pytest.raises(ValidationError, match="not a multiple"):
        AttentionSpec(kind="gqa", heads=32, kv_heads=5, head_dim=128)


def test_a_mixture_needs_its_top_k_and_width() -> None:
    for bad in ({"top_k": 0}, {"top_k": 9}, {"expert_hidden": 0}):
        values = {"hidden": 0, "num_experts": 8, "top_k": 2, "expert_hidden": 64} | bad
        with pytest.raises(ValidationError, match="mixture of experts"):
            FeedForwardSpec.model_validate(values)


def test_specs_are_frozen_and_closed() -> None:
    spec = FeedForwardSpec(hidden=4)
    with pytest.raises(ValidationError):
        spec.hidden = 5  # type: ignore[misc]
    with pytest.raises(ValidationError):
        FeedForwardSpec.model_validate({"hidden": 4, "unheard_of": 1})


def test_layers_are_counted_over_all_groups() -> None:
    group = LayerGroup(count=3, attention=None, feed_forward=None, norm_params=0)
    other = LayerGroup(count=2, attention=None, feed_forward=None, norm_params=1)
    model = ModelSpec(id="m", family="t", hidden=8, vocab=8, layers=(group, other))
    assert model.num_layers == 5


def test_a_model_has_layers() -> None:
    with pytest.raises(ValidationError):
        ModelSpec(id="m", family="t", hidden=8, vocab=8, layers=())
