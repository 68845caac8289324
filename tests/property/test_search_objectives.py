"""Bounds of the search under every loss: nothing that could be among the best is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.app.evaluation import evaluate
from chipwise.calibration import shipped
from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.search.field import Field
from chipwise.search.rank import search, search_all
from chipwise.search.space import Space, spaces
from chipwise.search.table import Table
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload
from chipwise.spec.method import Method
from chipwise.spec.objective import Objective

SYSTEMS = ("h100-sxm:8", "a100-sxm-80:8x2", "rtx-3090:4", "tpu-v5p:16")
MODELS = ("llama-2-7b", "mixtral-8x7b", "llama-3.2-1b")


def objectives() -> st.SearchStrategy[Objective]:
    small, same = load_model("llama-3.2-1b"), load_model("llama-2-7b")
    fixed: list[dict[str, Any]] = [
        *({"loss": loss} for loss in ("orpo", "reward")),
        *({"loss": "dpo", "reference": kind} for kind in ("copy", "offloaded", "precomputed")),
        {"loss": "kto", "reference": "copy"},
        {"loss": "distill", "teacher": same},
    ]
    generating = st.fixed_dictionaries(
        {
            "loss": st.sampled_from(["ppo", "grpo"]),
            "reference": st.sampled_from(["copy", "offloaded", "none"]),
            "prompt_len": st.sampled_from([128, 1024]),
            "ppo_epochs": st.sampled_from([1, 4]),
            "rollout_sleep": st.booleans(),
            "rollout_memory": st.sampled_from([None, 0.3]),
            "rollout_batch": st.sampled_from([None, 256]),
            "critic": st.sampled_from([None, small]),
            "reward_model": st.sampled_from([None, small]),
        }
    )
    apart = st.builds(
        lambda some, count: {**some, "rollout": "apart", "rollout_devices": count,
                             "rollout_sleep": False},
        generating, st.sampled_from([2, 8]),
    )  # fmt: skip
    return st.one_of(st.sampled_from(fixed), generating, apart).map(Objective.model_validate)


@st.composite
def jobs(draw: st.DrawFn) -> TrainingJob:
    method: Method = draw(st.sampled_from(["full", "full", "lora"]))
    objective = draw(objectives())
    return TrainingJob(
        model=load_model(draw(st.sampled_from(MODELS))),
        cluster=parse_system(draw(st.sampled_from(SYSTEMS)))[0],
        workload=TrainingWorkload(
            seq_len=2048, global_batch=draw(st.sampled_from([16, 64])), precision="bf16",
            method=method, objective=objective,
        ),
        strategy=Strategy(),
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(jobs(), st.sampled_from([0.3, 0.6, 0.9]))
def test_bounds_lose_nothing_under_any_loss(one: TrainingJob, limit: float) -> None:
    short, long = search(one, limit), search_all([one], limit, exhaustive=True)[0]
    assert short.best == long.best
    assert short.counts.candidates == long.counts.evaluated


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_candidate_is_leaner_or_faster_than_its_bounds(data: st.DataObject) -> None:
    space: Space = data.draw(st.sampled_from(spaces([data.draw(jobs())])))
    table = Table.of(space, shipped(), {})
    field = Field.of(table, 0, float("inf"))
    layouts = np.array(sorted({data.draw(st.integers(0, space.num_layouts - 1)) for _ in range(8)}))
    rows = table.rows(np.arange(len(space.templates)))
    needed, usable, _host = table.memory(rows, layouts)
    group = field.bounds.group
    able = space.allowed[:, space.stage_choice[layouts]]
    lean, fast = field.lean[group][:, layouts], field.fast[group][:, layouts]
    assert np.all((needed / usable >= lean * (1 - 1e-12)) | ~able)
    assert np.all((table.time(rows, layouts) >= fast * (1 - 1e-12)) | ~able)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_candidate_in_an_array_equals_the_same_job_alone(data: st.DataObject) -> None:
    space: Space = data.draw(st.sampled_from(spaces([data.draw(jobs())])))
    table = Table.of(space, shipped(), {})
    template = data.draw(st.integers(0, len(space.templates) - 1))
    layout = data.draw(st.integers(0, space.num_layouts - 1))
    rows, at = table.rows(np.array([template])), np.array([layout])
    alone = evaluate(space.jobs[0], space.strategy(template, layout))
    needed, usable, host = table.memory(rows, at)
    assert table.time(rows, at)[0, 0] == pytest.approx(alone.time["step_time"], rel=1e-12)
    assert needed[0, 0] / usable[0, 0] == pytest.approx(alone.share, rel=1e-12)
    assert host[0, 0] == pytest.approx(alone.memory["host_needed_bytes"], rel=1e-12, abs=1e-6)


def test_counts_searched_together_are_as_good_as_each_alone() -> None:
    together = [
        TrainingJob(
            model=load_model("llama-2-7b"),
            cluster=parse_system(name)[0],
            workload=TrainingWorkload(
                seq_len=2048, global_batch=192, precision="bf16", objective=Objective(loss="grpo")
            ),
            strategy=Strategy(),
        )
        for name in ("h100-sxm:2", "h100-sxm:8", "h100-sxm:8x3")
    ]
    found = search_all(together, 0.9)
    assert [one.best for one in found] == [search(one, 0.9).best for one in together]


@settings(max_examples=20, deadline=None)
@given(jobs(), st.sampled_from(["peak_bandwidth", "intra_bandwidth", "host_bandwidth"]))
def test_more_bandwidth_is_never_slower_under_any_loss(one: TrainingJob, name: str) -> None:
    slow, fast = (search(one, 0.9, 1, {name: rate}).best for rate in (50e9, 1000e9))
    assert not slow or fast[0].step_time <= slow[0].step_time * (1 + 1e-9)
