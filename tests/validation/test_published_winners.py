"""Layouts that won at their authors' are nearly the best that the search finds."""

from __future__ import annotations

import pytest

from chipwise.validation.report import BUNDLED
from chipwise.validation.table import read_rows
from chipwise.validation.winners import CLOSE, Winner, tuned, winners


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return read_rows(BUNDLED / "training.csv")[0]


@pytest.fixture(scope="module")
def found(rows: list[dict[str, str]]) -> list[Winner]:
    """About two seconds."""
    return winners(rows)


def test_nearly_four_of_five_published_winners_are_within_a_tenth_of_the_best_found(
    found: list[Winner],
) -> None:
    assert len(found) >= 85
    close = [one for one in found if one.published_time <= CLOSE * one.best_time]
    assert len(close) / len(found) >= 0.78


def test_no_published_winner_is_far_behind(found: list[Winner]) -> None:
    assert max(one.ratio for one in found) <= 1.4


def test_the_best_known_runs_are_among_them(found: list[Winner]) -> None:
    layouts = {
        (
            one.row["accelerator"],
            one.job.cluster.num_devices,
            one.published.tp,
            one.published.pp,
            one.published.cp,
        )
        for one in found
    }
    # Llama 3 405B [llama3-herd, Table 4] in 8K and 128K context; Korthikanti 2022, Table 5.
    assert ("h100-sxm", 8192, 8, 16, 1) in layouts
    assert ("h100-sxm", 16384, 8, 16, 16) in layouts
    assert {("a100-sxm-80", 64, 8, 8, 1), ("a100-sxm-80", 280, 8, 35, 1)} <= layouts
    assert ("a100-sxm-80", 512, 8, 64, 1) in layouts


def test_what_is_no_layout_stays_as_published(found: list[Winner]) -> None:
    for one in found:
        assert one.best is not None
        for name in ("framework", "optimizer", "attention", "tp_overlap", "offload_optimizer"):
            assert getattr(one.best, name) == getattr(one.published, name)


def test_a_slower_answer_to_the_same_question_is_no_winner(rows: list[dict[str, str]]) -> None:
    kept = tuned(rows)
    first = kept[0]
    factor = 2.0 if first["metric"] == "step_time_s" else 0.5
    slower = {**first, "id": "slower", "value": str(float(first["value"]) * factor)}
    assert tuned([slower, *kept]) == kept
