"""Work that is shared with other processes of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chipwise.search.helpers import AllCores
from chipwise.search.runner import Here
from tests.unit.search import helper_items


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> AllCores:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]), prepend=os.pathsep)
    monkeypatch.setenv("FIRST_PROCESS", str(os.getpid()))
    return AllCores(others=2, patience=0.0)


def test_results_are_those_of_one_process_in_order(cores: AllCores) -> None:
    items = list(range(40))
    told: list[tuple[int, int]] = []
    found = cores.map(helper_items.doubled, items, lambda done, of: told.append((done, of)))
    assert found == Here().map(helper_items.doubled, items)
    assert len(told) == 40 and max(told) == (40, 40)


def test_others_really_work(cores: AllCores) -> None:
    assert len(set(cores.map(helper_items.where, range(60)))) == 3


def test_a_process_that_dies_loses_nothing(cores: AllCores) -> None:
    assert cores.map(helper_items.deadly, range(60)) == [2 * number for number in range(60)]


def test_what_the_function_raises_is_raised_here(cores: AllCores) -> None:
    with pytest.raises(ValueError, match=r"no \d"):
        cores.map(helper_items.refusing, range(60))


def test_short_work_stays_here() -> None:
    alone = AllCores(others=2, patience=60.0)
    assert set(alone.map(helper_items.where, range(3))) == {os.getpid()}
