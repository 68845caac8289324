"""Specs to columns: the one place where specs meet physics.

Each function turns one part of a job into named numbers in SI units; ``stack_columns`` turns many
jobs into arrays. Constants are bound apart (``calibration``), so that a fit can move them without
touching the jobs.
"""

from __future__ import annotations

from chipwise.columns.cost import cost_columns
from chipwise.columns.job import (
    COMPILE_SECONDS,
    NODE_STORAGE_BANDWIDTH,
    cluster_columns,
    matmul_share,
    run_columns,
    stack_columns,
    strategy_columns,
    training_columns,
    workload_columns,
)
from chipwise.columns.keys import calibration_keys
from chipwise.columns.lengths import length_columns
from chipwise.columns.model import Scalars, model_columns
from chipwise.columns.objective import rollout_columns

__all__ = [
    "COMPILE_SECONDS",
    "NODE_STORAGE_BANDWIDTH",
    "Scalars",
    "calibration_keys",
    "cluster_columns",
    "cost_columns",
    "length_columns",
    "matmul_share",
    "model_columns",
    "rollout_columns",
    "run_columns",
    "stack_columns",
    "strategy_columns",
    "training_columns",
    "workload_columns",
]
