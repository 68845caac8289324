"""``--observed``: own runs move the predictions of their machine, and narrow their ranges."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from chipwise.app import estimate_train, fit, plan_train
from chipwise.app.documents import EstimateDocument, FitDocument, Range
from chipwise.app.documents_plan import PlanDocument
from chipwise.app.observing import read_observed
from chipwise.app.requests import (
    EstimateTrainRequest,
    FitRequest,
    PlanTrainRequest,
    parse_request,
)
from chipwise.calibration import shipped
from chipwise.errors import ChipwiseError, DataFileError, UsageError
from chipwise.intervals import BETWEEN_SITES, WITHIN_SITE
from chipwise.validation.observed import ODD_RUN
from chipwise.validation.table import read_rows, training_table
from chipwise.validation.training import predict

STATED = {"micro_batch": 2, "seq": 2048, "global_batch": 64, "shard": "zero3", "recompute": "full"}
STATED |= {"tp": 1, "pp": 1, "framework": "fsdp"}
BETWEEN, WITHIN = BETWEEN_SITES**2, WITHIN_SITE**2
TRUST = BETWEEN / (BETWEEN + WITHIN)
"""Share of one run's level that is its site's: variance between sites over all variance."""


def estimate(**fields: Any) -> EstimateDocument:
    values = {"model": "llama-2-7b", "on": "a100-sxm-80:8", **STATED, **fields}
    return estimate_train(parse_request(EstimateTrainRequest, values))


def fitted(**fields: Any) -> FitDocument:
    values = {"model": "llama-2-7b", "on": "a100-sxm-80:8", **STATED, **fields}
    document = fit(parse_request(FitRequest, values))
    assert isinstance(document, FitDocument)
    return document


def planned(**fields: Any) -> PlanDocument:
    values = {"model": "llama-2-7b", "on": "a100-sxm-80:8,h100-sxm:8", "tokens": "2B", **fields}
    return plan_train(parse_request(PlanTrainRequest, values))


def width(value: Range) -> float:
    return log(value.high / value.low)


def runs(folder: Path, *rows: Mapping[str, object]) -> str:
    """A measurement file of own runs: a 1.3B-parameter GPT on 8 A100."""
    usual = {
        **{"accelerator": "a100-sxm-80", "num_devices": 8, "devices_per_node": 8, "layers": 24},
        **{"hidden": 2048, "heads": 16, "vocab": 50304, "seq_len": 2048, "global_batch": 64},
        **{"micro_batch": 8, "tp": 1, "pp": 1, "dp": 8, "framework": "megatron-lm"},
        **{"precision": "bf16", "metric": "step_time_s"},
    }
    lines = [{"id": str(n), **usual, **row} for n, row in enumerate(rows)]
    path = folder / "runs.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, sorted({key for line in lines for key in line}))
        writer.writeheader()
        writer.writerows(lines)
    return str(path)


def seconds_of(folder: Path) -> float:
    """What is predicted for a row of ``runs``."""
    rows, _kind = read_rows(Path(runs(folder, {"value": 1.0})))
    return float(predict(training_table(rows), shipped()).value[0])


def shrunk(level: float, runs: int = 1) -> float:
    """What runs of one level move: the trusted share, less the further off and the fewer."""
    trust = BETWEEN / (BETWEEN + WITHIN / runs)
    return trust * level / (1 + level**2 / (ODD_RUN**2 * runs))


@pytest.mark.parametrize("name", ["step_time", "tokens_per_s", "tokens_per_s_per_device", "mfu"])
def test_a_run_as_predicted_moves_nothing_and_narrows_the_range(name: str) -> None:
    before = estimate()
    keys = {"step_time": "step_time_s"}
    value = getattr(before, keys.get(name, name)).likely
    after = estimate(observed=f"{name}={value}{'s' if name == 'step_time' else ''}")
    assert after.observed is not None
    assert after.observed.time_shift == pytest.approx(0, abs=1e-9)
    assert after.step_time_s.likely == pytest.approx(before.step_time_s.likely)
    assert after.memory == before.memory
    assert width(after.mfu) == pytest.approx(width(before.mfu) * after.observed.time_narrowing)
    # what is left of the variance between sites, with that within one, over both
    narrower = ((BETWEEN * (1 - TRUST) + WITHIN) / (BETWEEN + WITHIN)) ** 0.5
    assert after.observed.time_narrowing == pytest.approx(narrower)


def test_a_run_20_percent_slower_moves_another_layout_by_the_trusted_share(
    tmp_path: Path,
) -> None:
    slow = runs(tmp_path, {"value": 1.2 * seconds_of(tmp_path)})
    other = {"shard": "zero1", "micro_batch": 4, "recompute": "none", "seq": 1024}
    before, after = estimate(**other), estimate(**other, observed=slow)
    factor = exp(shrunk(log(1.2)))
    assert after.step_time_s.likely == pytest.approx(before.step_time_s.likely * factor)
    for name in ("tokens_per_s", "tokens_per_s_per_device", "mfu", "hfu"):
        assert getattr(after, name).likely == pytest.approx(getattr(before, name).likely / factor)
        assert width(getattr(after, name)) < width(getattr(before, name))
    assert sum(part.seconds for part in after.time_parts) == pytest.approx(after.step_time_s.likely)
    assert after.step_time_s.basis == "calibrated"
    assert after.observed is not None and after.observed.runs == 1
    assert "1 of your own runs on a100-sxm-80" in after.assumptions[0].text
    assert f"{factor - 1:+.1%}" in after.assumptions[0].text


def test_more_runs_are_trusted_more(tmp_path: Path) -> None:
    value = 1.2 * seconds_of(tmp_path)
    four = estimate(observed=runs(tmp_path, *[{"value": value}] * 4)).observed
    assert four is not None and four.runs == 4
    assert four.time_shift == pytest.approx(shrunk(log(1.2), 4))


def test_two_numbers_of_one_run_are_one_observation() -> None:
    before = estimate()
    step, rate = before.step_time_s.likely * 1.1, before.tokens_per_s.likely / 1.1
    one = estimate(observed=f"step_time={step}s").observed
    both = estimate(observed=[f"step_time={step}s", f"tokens_per_s={rate}"]).observed
    assert one is not None and both is not None
    assert (both.runs, both.time_narrowing) == (one.runs, one.time_narrowing) and both.runs == 1
    assert both.time_shift == pytest.approx(one.time_shift)
    twice = estimate(observed=[f"step_time={step}s", f"step_time={step}s"]).observed
    assert twice is not None and twice.runs == 2


def test_numbers_that_contradict_each_other_are_said() -> None:
    before = estimate()
    values = [f"step_time={before.step_time_s.likely}s",
              f"tokens_per_s={before.tokens_per_s.likely * 2}"]  # fmt: skip
    text = next(one for one in estimate(observed=values).warnings if "not of one run" in one)
    assert "step_time" in text and "tokens_per_s" in text and "100%" in text


def test_a_run_far_from_the_prediction_is_doubted_aloud() -> None:
    before = estimate()
    document = estimate(observed=f"step_time={before.step_time_s.likely * 3}s")
    assert any("3.00 ×" in text for text in document.warnings)


def test_gaps_of_the_configuration_are_named() -> None:
    document = estimate(observed="step_time=2s", micro_batch=None, seq=None)
    text = next(one for one in document.warnings if "not stated" in one)
    assert "--micro-batch" in text and "--seq" in text and "--tp" not in text
    assert not any("not stated" in one for one in estimate(observed="step_time=2s").warnings)


# -- memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_observed_memory_moves_the_bill_and_the_verdict_share(factor: float) -> None:
    before = fitted()
    held = before.memory.reserved_bytes * factor
    after = fitted(observed=f"peak_memory={held / 2**30} GiB")
    moved = exp(shrunk(log(factor)))
    assert after.memory.reserved_bytes == pytest.approx(before.memory.reserved_bytes * moved)
    assert after.memory.total_bytes == pytest.approx(before.memory.total_bytes * moved)
    total = sum(part.bytes for part in after.memory.parts)
    assert total == pytest.approx(after.memory.total_bytes)
    usable = before.memory.usable_bytes
    needed = usable - before.headroom_bytes
    assert after.headroom_bytes == pytest.approx(usable - needed * moved)
    assert before.memory.range is not None and after.memory.range is not None
    assert width(after.memory.range) < width(before.memory.range)
    states = {part.name: part.bytes for part in before.memory.parts}
    assert {part.name: part.bytes for part in after.memory.parts}["weights"] == states["weights"]


def test_what_fits_at_most_obeys_the_observed_memory() -> None:
    before = fitted(global_batch=None)
    held = before.memory.reserved_bytes * 1.3 / 2**30
    after = fitted(global_batch=None, observed=f"peak_memory={held} GiB")
    assert before.largest.seq_len is not None and after.largest.seq_len is not None
    assert after.largest.seq_len < before.largest.seq_len


# -- which machine ---------------------------------------------------------------------------


def test_runs_of_another_accelerator_are_refused(tmp_path: Path) -> None:
    path = runs(tmp_path, {"value": 1.0})
    with pytest.raises(UsageError, match=r"of a100-sxm-80: .* nothing about h100-sxm"):
        estimate(on="h100-sxm:8", observed=path)
    with pytest.raises(UsageError, match="nothing about h100-sxm"):
        planned(on="h100-sxm:8", observed=path)


def test_a_plan_moves_only_the_systems_that_ran(tmp_path: Path) -> None:
    path = runs(tmp_path, {"value": 1.2 * seconds_of(tmp_path)})
    before, after = planned(), planned(observed=path)
    factor = exp(shrunk(log(1.2)))
    old = {plan.system: plan for plan in reversed(before.plans)}
    for plan in {plan.system: plan for plan in reversed(after.plans)}.values():
        moved = factor if plan.system == "a100-sxm-80:8" else 1.0
        was = old[plan.system].duration_s
        assert plan.duration_s.likely == pytest.approx(was.likely * moved)
        assert (plan.observed is not None) == (moved != 1)
        assert (width(plan.duration_s) < width(was)) == (moved != 1)
    assert [one.accelerator for one in after.observed] == ["a100-sxm-80"]
    assert any("h100-sxm:8" in text for text in after.warnings)


def test_the_ranking_is_by_the_moved_times(tmp_path: Path) -> None:
    # 24 A100 are a little faster than 8 H100, until slow runs of theirs are known
    on = "h100-sxm:8,a100-sxm-80:24"
    slow = runs(tmp_path, *[{"value": 1.45 * seconds_of(tmp_path)}] * 8)
    before, after = planned(on=on), planned(on=on, observed=slow)
    factor = exp(after.observed[0].time_shift)
    assert factor > 1.1
    best = {plan.system: plan.duration_s.likely for plan in reversed(before.plans)}
    moved = {
        system: time * (factor if system.startswith("a100") else 1) for system, time in best.items()
    }
    assert after.plans[0].system == min(moved, key=moved.__getitem__)
    times = [plan.duration_s.likely for plan in after.plans]
    assert times == sorted(times)


def test_a_value_in_a_plan_needs_one_configuration_in_full() -> None:
    with pytest.raises(UsageError, match="several systems"):
        planned(observed="step_time=2s", **STATED)
    with pytest.raises(UsageError, match=r"--micro-batch.*CSV"):
        planned(on="a100-sxm-80:8", observed="step_time=2s")
    document = planned(on="a100-sxm-80:8", observed="step_time=2s", **STATED)
    assert document.observed[0].runs == 1


def test_a_plan_and_the_estimate_of_its_layout_move_alike(tmp_path: Path) -> None:
    path = runs(tmp_path, {"value": 1.2 * seconds_of(tmp_path)})
    plan = next(p for p in planned(observed=path).plans if p.system == "a100-sxm-80:8")
    layout = plan.layout
    names = ("tp", "pp", "dp", "cp", "vpp", "shard", "micro_batch", "recompute", "framework",
             "global_batch", "precision", "sequence_parallel", "shard_group")  # fmt: skip
    other = {"chunked_loss": layout.other["chunked_loss"], "compile": layout.other["compiled"]}
    again = estimate(**{name: getattr(layout, name) for name in names}, seq=layout.seq_len,
                     observed=path, offload=layout.offload, **other)  # fmt: skip
    assert again.step_time_s == plan.step_time_s
    assert again.observed == plan.observed


# -- what cannot be read ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("fast", "step_time=quick", "step_time=5", "step_time=0s", "step_time=-2s", "step_time="),
        *("latency=3s", "mfu=41", "mfu=0", "mfu=nan", "mfu=120%", "peak_memory=12", "=3"),
        *("tokens_per_s=-1", "tokens_per_s=1e999", "nowhere.csv"),
    ],
)
def test_garbage_is_a_usage_error_that_names_the_value(text: str) -> None:
    with pytest.raises(ChipwiseError) as caught:
        estimate(observed=text)
    assert caught.value.exit_code == 2
    assert text in str(caught.value)


def test_a_fraction_may_be_in_percent() -> None:
    assert read_observed(["mfu=41%", "mfu=0.41"]).values == (("mfu", 0.41), ("mfu", 0.41))


def test_a_file_that_holds_no_measurements_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="not a measurement file"):
        estimate(observed=str(path))
    with pytest.raises(UsageError, match="no usable observed row"):
        estimate(observed=runs(tmp_path, {"value": 1.0, "layers": ""}))
    with pytest.raises(UsageError, match="no usable observed row"):
        estimate(observed=runs(tmp_path, {"value": "fast"}))
