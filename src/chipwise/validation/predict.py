"""Predictions for a table of measurement rows, in each row's own metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chipwise.calibration import Calibration
from chipwise.estimate import Chosen, choose, evaluate_memory, evaluate_time
from chipwise.quantity import Array
from chipwise.validation.table import Table, counting

Vector = NDArray[np.float64]
_TIMES = (
    "step_time",
    "microbatch_time",
    "tokens_per_s_per_device",
    "linear_flop_per_token",
    "attention_flop_per_token",
    "params_total",
)


@dataclass(frozen=True)
class Predictor:
    """A table whose strategies are chosen: predictions are then a function of the constants."""

    table: Table
    chosen: Chosen

    @classmethod
    def of(cls, table: Table, calibration: Calibration) -> Predictor:
        """Choose each row's strategy with the memory model of a calibration."""
        return cls(table, choose(table.resolved, calibration))

    @cached_property
    def _metric(self) -> dict[str, NDArray[np.bool_]]:
        metrics = self.table.metrics
        return {name: metrics == name for name in np.unique(metrics)}

    @cached_property
    def _memory_kind(self) -> NDArray[np.str_]:
        kinds = [row.get("memory_kind", "").strip().lower() for row in self.table.rows]
        return np.array(["allocated" if kind == "active" else kind for kind in kinds])

    @cached_property
    def _is_microbatch(self) -> NDArray[np.bool_]:
        cells = [row.get("step_is_microbatch", "").strip().lower() for row in self.table.rows]
        return np.array([cell == "yes" for cell in cells])

    @cached_property
    def _counting(self) -> tuple[Vector, Vector, Vector, Vector]:
        each = [counting(row) for row in self.table.rows]
        factor = np.array([one.attention_factor for one in each])
        again = np.array([float(one.recompute) for one in each])
        bare = np.array([one.per_param for one in each])
        return factor, again, bare, np.array([one.peak for one in each])

    def columns(self, constants: Mapping[str, Array]) -> dict[str, Array]:
        """Job columns with constants bound."""
        return self.chosen.columns | dict(constants)

    def memory(self, constants: Mapping[str, Array]) -> dict[str, Vector]:
        """Allocated, reserved, process, needed and usable bytes per row."""
        found = evaluate_memory(self.columns(constants))
        size = len(self.table.rows)
        return {name: np.broadcast_to(np.asarray(v), (size,)) for name, v in found.items()}

    def memory_gb(self, constants: Mapping[str, Array]) -> Vector:
        """Peak memory in GB (1e9) as each row reads it; reserved where it does not say."""
        found = self.memory(constants)
        kind = self._memory_kind
        read = np.where(kind == "allocated", found["allocated_bytes"], found["reserved_bytes"])
        return np.where(kind == "process", found["process_bytes"], read) / 1e9

    def speed(self, constants: Mapping[str, Array]) -> Vector:
        """Step time, throughput or utilization, by each row's metric."""
        columns = self.columns(constants)
        found = evaluate_time(columns, _TIMES)
        one = np.where(self._is_microbatch, found["microbatch_time"], found["step_time"])
        rate = np.asarray(found["tokens_per_s_per_device"], dtype=np.float64)
        flops = rate * self._flop_per_token(columns, found)
        peak = np.where(self._counting[3] > 0, self._counting[3], columns["peak_matmul"])
        result = np.where(self._metric.get("step_time_s", False), one, rate)
        result = np.where(self._metric.get("model_tflops_per_device", False), flops / 1e12, result)
        utilization = self._metric.get("mfu", False) | self._metric.get("hfu", np.False_)
        return np.where(utilization, flops / peak, result)

    def _flop_per_token(self, columns: Mapping[str, Array], found: Mapping[str, Array]) -> Array:
        """FLOP per token as the row's source counts them."""
        factor, again, bare, _ = self._counting
        linear, attention = found["linear_flop_per_token"], found["attention_flop_per_token"]
        forward = linear + factor * attention
        backward = columns["backward_passes"] * linear + 2 * factor * attention
        counted = forward + backward + again * columns["recompute_share"] * forward
        return np.where(bare > 0, bare * found["params_total"], counted)
