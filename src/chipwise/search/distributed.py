"""The shards of a search on a Ray cluster: one started here for the occasion, or one that runs.

The only module that loads Ray, which is an extra.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.search.runner import Progress, Runner

S = TypeVar("S")
T = TypeVar("T")
LOCAL = "local"
RETRIES = 5
"""Attempts at a shard whose worker died."""
_IN_FLIGHT = 4
"""Shards sent ahead for each processor of the cluster."""
_REACH_SECONDS = 5.0


@contextmanager
def on_ray(address: str) -> Iterator[Runner]:
    """A runner on a Ray cluster, connected while the context lasts.

    Args:
        address: ``local`` to start a cluster on this machine and stop it again; ``auto``,
            ``HOST:PORT`` or ``ray://HOST:PORT`` for one that runs.

    Raises:
        UsageError: Ray is not installed, or nothing answers at the address.
    """
    ray = _ray()
    if address != LOCAL:
        _require_answer(address)
    where = {} if address == LOCAL else {"address": address}
    try:
        ray.init(
            **where,
            include_dashboard=False if address == LOCAL else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
        )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise _unreachable(address, error) from None
    try:
        yield _OnRay(ray)
    finally:
        ray.shutdown()


class _OnRay:
    """Items as Ray tasks, a few ahead of the workers; those of workers that die are sent again."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def map(
        self, function: Callable[[S], T], items: Sequence[S], progress: Progress | None = None
    ) -> list[T]:
        """See ``Runner.map``."""
        ray = self._ray
        task = ray.remote(max_retries=RETRIES)(function)
        limit = _IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
        places: dict[Any, int] = {}
        found: dict[int, T] = {}
        waiting = iter(enumerate(items))
        while len(found) < len(items):
            for place, item in waiting:
                places[task.remote(item)] = place
                if len(places) >= limit:
                    break
            ready, _rest = ray.wait(list(places), num_returns=1)
            for reference in ready:
                found[places.pop(reference)] = ray.get(reference)
            if progress:
                progress(len(found), len(items))
        return [found[place] for place in range(len(items))]


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        text = _("--ray needs Ray: pip install 'chipwise[ray]'")
        raise UsageError("extra-missing", text, extra="ray") from None
    return ray


def _require_answer(address: str) -> None:
    """Look before Ray does, which tries for minutes.

    Raises:
        UsageError: no such address, or nothing listens there.
    """
    if address == "auto":
        return
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if not parts.hostname or port is None:
        text = _("'{address}' is no Ray address; write local, auto, HOST:PORT or ray://HOST:PORT")
        raise UsageError("ray-address", text.format(address=address), address=address)
    try:
        socket.create_connection((parts.hostname, port), _REACH_SECONDS).close()
    except OSError as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> UsageError:
    text = _(
        "no Ray cluster answers at '{address}' ({reason}); check that 'ray start --head' runs "
        "there and the port is open, or say --ray local"
    )
    reason = str(error).partition("\n")[0]
    return UsageError(
        "ray-unreachable", text.format(address=address, reason=reason), address=address
    )
