"""A space as broadcasting columns: templates down, layouts across."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import Calibration
from chipwise.columns import (
    cluster_columns,
    cost_columns,
    length_columns,
    rollout_columns,
    run_columns,
    stack_columns,
    training_columns,
)
from chipwise.estimate import evaluate_first_stage, evaluate_memory, evaluate_time
from chipwise.quantity import Array
from chipwise.search.measures import agreed
from chipwise.search.space import Index, Space, Vector

Columns = dict[str, Array]


@dataclass(frozen=True)
class Table:
    """The inputs of all candidates of a space, constants bound."""

    space: Space
    same: Mapping[str, float]
    """What all candidates share."""
    by_template: Mapping[str, Vector]
    """Each of shape (templates,)."""
    by_layout: Mapping[str, Vector]
    """Each of shape (layouts,)."""
    host_memory: Vector
    """Host memory of one node, infinite where unknown. Shape (layouts,). [B]"""
    overrides: Mapping[str, float]

    @classmethod
    def of(cls, space: Space, calibration: Calibration, overrides: Mapping[str, float]) -> Table:
        """The columns of a space.

        Args:
            space: templates and layouts.
            calibration: constants.
            overrides: values that replace inputs, constants or quantities of every candidate.
        """
        some = space.templates
        chosen = [some.strategies[place] for place in some.representatives]
        inputs, keys = stack_columns([training_columns(space.jobs[0], one) for one in chosen])
        for name in cost_columns(space.jobs[0]):
            del inputs[name]
        every = {**inputs, **calibration.columns(keys)}
        of_choice = {name: agreed(value) for name, value in every.items()}
        of_template = {
            name: value[some.group] if isinstance(value, np.ndarray) else value
            for name, value in of_choice.items()
        } | some.columns
        of_layout = _cluster_columns(space) | space.degrees | _derived(space)
        kept = {name: value for name, value in of_template.items() if name not in of_layout}
        varied = {name: value for name, value in kept.items() if isinstance(value, np.ndarray)}
        return cls(
            space,
            {name: value for name, value in kept.items() if not isinstance(value, np.ndarray)},
            varied,
            of_layout,
            _host_memory(space),
            overrides,
        )

    def rows(self, templates: Index | slice) -> dict[str, Vector]:
        """Columns of some templates. Each of shape (rows,)."""
        return {name: value[templates] for name, value in self.by_template.items()}

    def share(self, rows: Mapping[str, Vector], layouts: Index) -> Vector:
        """Needed over usable memory, infinite where the host cannot hold its part. (rows, layouts)

        Args:
            rows: template columns.
            layouts: which layouts.
        """
        needed, usable, host = self.memory(rows, layouts)
        return np.where(host <= self.host_memory[layouts], _over(needed, usable), np.inf)

    def least_share(self, rows: Mapping[str, Vector], layouts: Index) -> Vector:
        """Less than the share that is needed or the same, in half the time. (rows, layouts)"""
        names = ("needed_bytes", "usable_bytes")
        values = evaluate_first_stage(self._columns(rows, layouts), names)
        share = _over(*(np.asarray(values[name]) for name in names))
        return np.broadcast_to(share, (_height(rows), len(layouts)))

    def memory(self, rows: Mapping[str, Vector], layouts: Index) -> tuple[Vector, Vector, Vector]:
        """Needed and usable bytes of a device, needed bytes of a host. Shape (rows, layouts)."""
        names = ("needed_bytes", "usable_bytes", "host_needed_bytes")
        values = evaluate_memory(self._columns(rows, layouts), names)
        shape = (_height(rows), len(layouts))
        needed, usable, host = (np.broadcast_to(np.asarray(values[name]), shape) for name in names)
        return needed, usable, host

    def time(self, rows: Mapping[str, Vector], layouts: Index) -> Vector:
        """Step time. Shape (rows, layouts). [s]"""
        value = evaluate_time(self._columns(rows, layouts), ("step_time",))["step_time"]
        return np.broadcast_to(np.asarray(value), (_height(rows), len(layouts)))

    def _columns(self, rows: Mapping[str, Vector], layouts: Index) -> Columns:
        """Columns of shape (), (rows, 1) or (1, layouts)."""
        down: Columns = {name: value[:, None] for name, value in rows.items()}
        across: Columns = {name: value[None, layouts] for name, value in self.by_layout.items()}
        return {**self.same, **down, **across, **self.overrides}


def _over(needed: Vector, usable: Vector) -> Vector:
    """A share; without usable memory nothing fits."""
    known = usable > 0
    return np.where(known, needed / np.where(known, usable, 1.0), np.inf)


def _height(rows: Mapping[str, Vector]) -> int:
    return len(next(iter(rows.values()))) if rows else 1


def _cluster_columns(space: Space) -> dict[str, Vector]:
    """What differs between the clusters, by layout."""
    rows = [
        cluster_columns(one.cluster, one.workload.precision or "bf16", one.power_cap_watts)
        | run_columns(one, space.framework)
        | rollout_columns(one)
        | {"global_batch": float(one.workload.global_batch or 1)}
        for one in space.jobs
    ]
    first = rows[0]
    differing = [name for name in first if any(row[name] != first[name] for row in rows)]
    return {name: np.array([row[name] for row in rows])[space.cluster] for name in differing}


def _derived(space: Space) -> dict[str, Vector]:
    degrees = space.degrees
    found = {"expert_tp": np.where(degrees["ep"] == 1, degrees["tp"], 1.0)}
    workload = space.jobs[0].workload
    if workload.lengths is not None:
        found |= length_columns(workload, degrees["micro_batch"], degrees["dp"])
    return found


def _host_memory(space: Space) -> NDArray[np.float64]:
    sizes = [job.node_memory_bytes or np.inf for job in space.jobs]
    return np.array(sizes)[space.cluster]
