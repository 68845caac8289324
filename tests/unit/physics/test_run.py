"""A whole run: steps, compilation, checkpoints and data, against figures worked by hand."""

from __future__ import annotations

import pytest

from chipwise.physics import run


def test_a_checkpoint_of_bloom_is_2_3_terabytes() -> None:
    # 176.2e9 parameters · (2 weights + 4 master + 8 Adam) = 2.47e12 bytes = 2.24 TiB; published
    # as 2.3 TB with optimizer states, 329 GB (328.3 GiB) without [bloom2022]
    whole = run.checkpoint_bytes(176.247e9, 1.0, 1.0, 2.0, 4.0, 8.0, 0.0, 0.0)
    assert whole / 2**40 == pytest.approx(2.3, rel=0.03)
    assert run.checkpoint_bytes(
        176.247e9, 1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0
    ) / 2**30 == pytest.approx(329, rel=0.005)


def test_frozen_weights_are_not_saved_again() -> None:
    assert run.checkpoint_bytes(7e9, 0.0, 0.0, 0.5, 0.0, 8.0, 8e6, 16.0) == 8e6 * 16


def test_a_run_is_its_steps_compilation_checkpoints_and_waiting() -> None:
    # 1000 steps of 2 s; a checkpoint of 30 s every 100 steps; 5 % of the steps' time for data
    steps = run.num_steps(4.0e6, 4000.0)
    stepping = run.stepping_time(4.0e6, 2000.0)
    assert (steps, stepping) == (1000, 2000)
    one = run.checkpoint_time(60e9, 2e9)
    saving = run.checkpoint_stall_time(steps, 1 / 100, one)
    assert saving == pytest.approx(300)
    waiting = run.data_stall_time(0.0, stepping, 0.05)
    assert run.duration(stepping, 300.0, saving, waiting) == pytest.approx(2000 + 300 + 300 + 100)


def test_reading_costs_only_what_it_takes_beyond_the_steps() -> None:
    read = run.data_read_time(1e9, 4.0, 1e6)
    assert read == 4000
    assert run.data_stall_time(read, 5000.0, 0.0) == 0
    assert run.data_stall_time(read, 1000.0, 0.0) == 3000


def test_no_checkpoints_take_no_time() -> None:
    assert run.checkpoint_stall_time(1000.0, 0.0, 80.0) == 0
