"""What a measurement row says of the software that ran it."""

from __future__ import annotations

import pytest

from chipwise.validation.rows import training_job

ROW = {
    **{"metric": "step_time_s", "accelerator": "gb200", "num_devices": "8"},
    **{"layers": "32", "hidden": "4096", "heads": "32", "ffn_hidden": "11008", "vocab": "32000"},
    **{"seq_len": "4096", "micro_batch": "1", "global_batch": "8"},
    **{"tp": "1", "pp": "1", "dp": "8", "framework": "NeMo"},
}


@pytest.mark.parametrize(
    ("accelerator", "release", "precision"),
    [
        ("gb200", "25.04", "fp8"),  # before training in 4 bits
        ("gb200", "25.09", None),  # filled in as for a user of today
        ("gb200", "23.09", None),  # no release for this device: not what ran
        ("gb200", "", None),
        ("h100-sxm", "25.04", None),
    ],
)
def test_a_release_before_four_bit_training_ran_eight(
    accelerator: str, release: str, precision: str | None
) -> None:
    row = {**ROW, "accelerator": accelerator, "framework_version": release}
    job, _assumed = training_job(row)
    assert job.workload.precision == precision


def test_a_stated_precision_stays() -> None:
    job, _assumed = training_job({**ROW, "precision": "bf16", "framework_version": "25.04"})
    assert job.workload.precision == "bf16"


@pytest.mark.parametrize(
    ("release", "recorded"),
    [
        ("26.04.01", False),
        ("25.04.rc2", False),
        ("26.06", None),  # what the stack does today
        ("26.08.01", None),
        ("0.8.0", None),  # not a container release
        ("", None),
    ],
)
def test_releases_before_recorded_steps_launched_them(release: str, recorded: bool | None) -> None:
    job, _assumed = training_job({**ROW, "framework_version": release})
    assert job.strategy.recorded is recorded
