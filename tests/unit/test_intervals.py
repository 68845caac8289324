"""Interval widths: conformal, and wider where more is unknown."""

from __future__ import annotations

import numpy as np
import pytest

from chipwise.catalogue.models import load_model
from chipwise.catalogue.names import parse_system
from chipwise.intervals import conformal_width, time_risk
from chipwise.spec.job import Strategy, TrainingJob, TrainingWorkload


def job(system: str, model: str = "llama-2-7b", method: str = "full") -> TrainingJob:
    return TrainingJob(
        model=load_model(model),
        cluster=parse_system(system)[0],
        workload=TrainingWorkload.model_validate({"method": method}),
        strategy=Strategy(tp=1, pp=1),
    )


def test_the_width_covers_eighty_percent_of_one_source() -> None:
    errors = np.linspace(0.01, 1.0, 100)
    width = conformal_width(errors, np.ones(100), ["a"] * 100)
    assert np.mean(np.abs(errors) <= width) == pytest.approx(0.8, abs=0.02)


def test_risky_rows_may_be_further_off() -> None:
    errors = np.array([0.1] * 8 + [0.4, 0.4])
    risks = np.array([1.0] * 8 + [4.0, 4.0])
    assert conformal_width(errors, risks, ["a"] * 10) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("system", "model", "method"),
    [
        ("mi300x:8", "llama-2-7b", "full"),
        ("h100-sxm:8", "mixtral-8x7b", "full"),
        ("h100-sxm:8", "llama-2-7b", "lora"),
    ],
)
def test_unseen_families_experts_and_adapters_are_riskier(
    system: str, model: str, method: str
) -> None:
    stated = Strategy(tp=1, pp=1)
    usual = time_risk(job("h100-sxm:8"), stated)
    assert time_risk(job(system, model, method), stated) > usual


def test_an_unstated_layout_and_a_full_device_are_riskier() -> None:
    usual = time_risk(job("h100-sxm:8"), Strategy(tp=1, pp=1))
    assert time_risk(job("h100-sxm:8"), Strategy()) > usual
    assert time_risk(job("h100-sxm:8"), Strategy(tp=1, pp=1), memory_share=0.97) > usual
