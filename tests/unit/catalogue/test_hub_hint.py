"""A hub id that cannot be fetched: the catalogue's model of the same name is offered."""

from __future__ import annotations

import sys

import pytest

from chipwise.catalogue.models import load_model
from chipwise.errors import UsageError


def test_the_catalogue_model_that_a_hub_id_begins_with_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as where it is not installed
    with pytest.raises(UsageError, match="catalogue has 'qwen3-4b'"):
        load_model("Qwen/Qwen3-4B-Instruct-2507")
    with pytest.raises(UsageError) as caught:
        load_model("nobody/entirely-unknown")
    assert "catalogue has" not in caught.value.message
