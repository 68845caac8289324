"""Searching on a real Ray cluster: the same answers, killed workers included."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chipwise.app.requests import PlanTrainRequest, parse_request
from chipwise.errors import UsageError
from chipwise.search.distributed import LOCAL, on_ray
from chipwise.search.runner import Here, Runner
from tests.integration.test_use_cases import answer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning",
                                        "ignore::FutureWarning")  # fmt: skip
"""Ray itself warns; ours would still be errors."""
JOB = ("plan", "train", "llama-3.2-1b", "--tokens", "1B", "--on", "rtx-4090,h100-sxm,tpu-v5p",
       "--max-devices", "16")  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Runner]:
    with on_ray(LOCAL) as runner:
        yield runner


def test_a_plan_on_ray_is_the_plan_made_here() -> None:
    here, there = answer(*JOB), answer(*JOB, "--ray", "local")
    for document in (here, there):
        del document["search"]["elapsed_s"], document["inputs"]
    assert there == here


def squared_unless_killed(item: tuple[int, str]) -> int:
    """The first attempt at the item 3 dies as a worker does that runs out of memory."""
    number, folder = item
    mark = Path(folder) / "died"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return number * number


def test_a_killed_worker_costs_nothing_but_time(cluster: Runner, tmp_path: Path) -> None:
    items = [(number, str(tmp_path)) for number in range(40)]
    seen: list[tuple[int, int]] = []
    found = cluster.map(squared_unless_killed, items, lambda *done: seen.append(done))
    assert (tmp_path / "died").exists()
    assert found == [number * number for number in range(40)]
    assert seen[-1] == (40, 40)


def fails_on_two(number: int) -> int:
    if number == 2:
        raise UsageError("two", "two is refused")
    return number


@pytest.mark.parametrize("where", ["here", "ray"])
def test_what_a_shard_raises_comes_through(where: str, cluster: Runner) -> None:
    runner: Runner = Here() if where == "here" else cluster
    with pytest.raises(UsageError, match="two is refused"):
        runner.map(fails_on_two, [1, 2, 3])


def refused(address: str) -> UsageError:
    values: dict[str, Any] = {"model": "gpt2", "on": "rtx-4090", "tokens": "1B", "ray": address}
    from chipwise.app import plan_train

    with pytest.raises(UsageError) as error:
        plan_train(parse_request(PlanTrainRequest, values))
    return error.value


def test_an_address_where_nobody_answers_is_said_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.perf_counter()
    error = refused(f"127.0.0.1:{port}")
    assert error.code == "ray-unreachable" and "--ray local" in error.message
    assert time.perf_counter() - began < 15


def test_what_is_no_address_names_the_forms() -> None:
    assert refused("nonsense").code == "ray-address"
