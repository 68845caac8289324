from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.validation.score import Scored
from chipwise.validation.worst import RULES, UNEXPLAINED, Seen, evidence, look, reasons

STATED = {
    **{"id": "1", "source": "s", "metric": "step_time_s", "accelerator": "chip", "value": "1"},
    **{"num_devices": "16", "devices_per_node": "8", "internode_gbps_per_device": "400"},
    **{"tp": "8", "pp": "2", "dp": "1", "micro_batch": "1", "global_batch": "64"},
    **{"recompute": "full", "method": "full", "notes": "", "framework_family": "megatron"},
}
GOOD = Scored("1", "step_time_s", "s", "chip", True, 1.0, 0.9, 1.1, 1.0, "fits")


def seen(**cells: str) -> Seen:
    return Seen({**STATED, **cells}, GOOD, spread=0.0, family_sources=2)


def wrong_by(error: float, **cells: str) -> Seen:
    return replace(seen(**cells), scored=replace(GOOD, predicted=1.0 + error))


def holding(one: Seen) -> list[str]:
    return [rule.sentence for rule in RULES if rule.holds(one)]


def test_nothing_is_unusual_about_a_fully_stated_run() -> None:
    assert holding(seen()) == []


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"tp": "", "pp": "", "dp": ""}, "layout is not stated"),
        ({"internode_gbps_per_device": ""}, "network between nodes"),
        ({"recompute": ""}, "recompute is not stated"),
        ({"micro_batch": ""}, "micro-batch is not stated"),
        ({"tp": "16", "pp": "1"}, "crosses nodes"),
        ({"padded": "yes"}, "unequal length"),
        ({"method": "lora r=8"}, "adapter"),
        ({"num_experts": "64"}, "mixture of experts"),
        ({"notes": "seq_len inferred from the text"}, "inferred"),
        ({"dp": "128"}, "fewer sequences than data-parallel ranks"),
        ({"offload": "cpu"}, "host"),
    ],
)
def test_a_rule_reads_the_cells(cells: dict[str, str], words: str) -> None:
    assert [sentence for sentence in holding(seen(**cells)) if words in sentence] != []


@pytest.mark.parametrize("name", ["id", "source", "source_ref", "model", "config_id", "value"])
def test_no_rule_knows_a_name(name: str) -> None:
    assert holding(seen(**{name: "anything"})) == []


def test_equal_configurations_far_apart_are_found() -> None:
    rows = [replace(GOOD, id=str(i), measured=m) for i, m in enumerate((1.0, 1.2, 1.0))]
    cells = {row.id: {**STATED, "id": row.id, "value": str(row.measured)} for row in rows}
    cells["2"]["micro_batch"] = "2"
    spreads = [one.spread for one in look(rows, cells)]
    assert spreads == [pytest.approx(0.2), pytest.approx(0.2), 0.0]


def test_a_rule_whose_rows_are_no_worse_is_not_given_as_a_reason() -> None:
    worse, better = wrong_by(0.5, recompute=""), wrong_by(0.05, micro_batch="")
    rows = [worse, better, wrong_by(0.1), wrong_by(0.1)]
    known = evidence(rows)
    assert reasons(worse, known) == ["recompute is not stated"]
    assert reasons(better, known) == [UNEXPLAINED]
