from __future__ import annotations

from typing import get_args

import pytest

from chipwise.app.requests import JobRequest
from chipwise.catalogue.sources import sources
from chipwise.catalogue.tools import harmless_keys, tools
from chipwise.spec.job import Recompute

_BESIDE = {"accumulation", "epochs", "packing"}
"""Fields of configurations that no training request has."""


@pytest.mark.parametrize("name", tools())
def test_defaults_are_fields_and_have_a_source(name: str) -> None:
    tool = tools()[name]
    assert {*tool.defaults, *tool.adapter_defaults} <= {*JobRequest.model_fields, *_BESIDE}
    assert tool.source in sources()
    assert tool.defaults.get("recompute", "none") in get_args(Recompute)


@pytest.mark.parametrize("name", tools())
def test_no_pattern_hides_what_matters(name: str) -> None:
    # a bare star would
    assert not {"*", "model.*", "training.*", "parallelism.*"} & {*harmless_keys(name)}
