from __future__ import annotations

from typing import Any

import pytest

from chipwise.errors import UsageError
from chipwise.report import tidy
from chipwise.report.csv_text import rows_to_csv
from chipwise.report.pictures import picture
from tests.unit.report import hand_made as made


def plans(*numbers: tuple[float, float, float | None]) -> dict[str, Any]:
    """A plan document of plans with these seconds, device hours and USD."""
    found = []
    for rank, (seconds, hours, usd) in enumerate(numbers, 1):
        plan = made.plan(rank, duration_s=made.span(seconds), device_hours=made.span(hours))
        cost = None if usd is None else {"low": usd / 2, "likely": usd, "high": usd * 2}
        found.append(plan.model_dump(mode="json") | {"cost_usd": cost})
    return made.plan_document().model_dump(mode="json") | {"plans": found}


SCALING = [
    {"devices": 8, "nodes": 1, "mode": "strong", "step_time_s": 4.0, "tokens_per_s": 100.0,
     "efficiency": 1.0},
    {"devices": 16, "nodes": 2, "mode": "strong", "step_time_s": 2.5, "tokens_per_s": 160.0,
     "efficiency": 0.8},
]  # fmt: skip


def front(rows: list[tidy.Row]) -> list[object]:
    return [row["rank"] for row in rows if row["on_front"]]


def test_the_front_is_what_no_other_plan_beats_in_time_and_cost() -> None:
    # 2 is slower than 1 and cheaper: stays. 3 is slower than 2 and dearer: beaten by 2.
    # 4 is as fast as 2 and dearer: beaten by 2.
    rows = tidy.pareto_rows(plans((10, 1, 90), (20, 1, 50), (30, 1, 60), (20, 1, 55)))
    assert front(rows) == [1, 2]
    assert {row["expense"] for row in rows} == {"cost_usd"}


def test_equal_plans_are_both_on_the_front() -> None:
    assert front(tidy.pareto_rows(plans((10, 1, 90), (10, 1, 90)))) == [1, 2]


def test_without_any_cost_the_front_is_of_device_hours() -> None:
    rows = tidy.pareto_rows(plans((10, 8, None), (20, 4, None), (30, 6, None)))
    assert {row["expense"] for row in rows} == {"device_hours"}
    assert front(rows) == [1, 2]


def test_a_plan_without_a_price_is_neither_on_the_front_nor_beats_another() -> None:
    rows = tidy.pareto_rows(plans((10, 1, None), (20, 1, 50)))
    assert front(rows) == [2]
    assert rows[0]["cost_usd"] is None


def test_a_document_that_knows_no_cost_at_all_leaves_it_unknown() -> None:
    document = plans((10, 8, None))
    del document["plans"][0]["cost_usd"]
    row = tidy.pareto_rows(document)[0]
    assert (row["cost_usd"], row["cost_low_usd"], row["energy_kwh"]) == (None, None, None)


def test_a_point_of_the_front_that_is_no_plan_is_a_row_with_the_vendor_of_its_system() -> None:
    document = plans((10, 8, None))
    document["plans"][0]["vendor"] = "nvidia"
    point = {"system": "h100-sxm:8", "devices": 8, "duration_s": 20.0, "device_hours": 2.0}
    document["pareto"] = [point | {"rank": 1}, point | {"rank": None}]
    rows = tidy.pareto_rows(document)
    assert [row["rank"] for row in rows] == [1, None]
    assert (rows[1]["vendor"], rows[1]["device_hours"]) == ("nvidia", 2.0)


def test_the_ideal_throughput_is_that_of_efficiency_one() -> None:
    rows = tidy.scaling_rows({"scaling": SCALING})
    # 160 tokens/s at 80 % would be 160 / 0.8 = 200 at 100 %, twice the 100 of half the devices.
    assert [row["ideal_tokens_per_s"] for row in rows] == [100.0, 200.0]
    unknown = tidy.scaling_rows({"scaling": [SCALING[0] | {"efficiency": None}]})
    assert unknown[0]["ideal_tokens_per_s"] is None


def test_memory_has_one_row_per_plan_and_part() -> None:
    document = made.plan_document(made.plan(), made.plan(2)).model_dump(mode="json")
    rows = tidy.memory_rows(document)
    assert [(row["rank"], row["part"], row["bytes"]) for row in rows] == [
        (1, "weights", 2 * 2**30),
        (1, "optimizer", 6 * 2**30),
        (2, "weights", 2 * 2**30),
        (2, "optimizer", 6 * 2**30),
    ]
    assert {row["capacity_bytes"] for row in rows} == {80 * 2**30}


def test_a_plan_has_what_it_has_data_for_and_a_fit_only_memory() -> None:
    document = plans((10, 8, None))
    assert list(tidy.tables_of(document)) == ["pareto", "memory", "time"]
    assert list(tidy.tables_of(document | {"scaling": SCALING})) == list(tidy.PICTURES)
    fit = made.fit_document().model_dump(mode="json")
    assert list(tidy.tables_of(fit)) == ["memory"]
    assert list(tidy.tables_of(made.estimate_document().model_dump(mode="json"))) == [
        "memory",
        "time",
    ]


def test_without_plans_there_is_nothing_to_draw() -> None:
    document = made.plan_document().model_dump(mode="json")
    assert tidy.tables_of(document) == {}
    assert tidy.tables_of(document, wanted="pareto") == {}
    assert picture(document, "csv", tidy.PICTURES) is None


def test_a_picture_without_data_is_refused_with_those_that_have() -> None:
    with pytest.raises(UsageError, match=r"'scaling'; it has pareto, memory, time"):
        tidy.tables_of(plans((10, 8, None)), wanted="scaling")


def test_csv_is_exactly_the_rows() -> None:
    document = plans((10, 8, None)) | {"scaling": SCALING}
    drawn = picture(document, "csv", tidy.PICTURES, "scaling")
    assert drawn == (
        b"picture,mode,devices,nodes,step_time_s,tokens_per_s,ideal_tokens_per_s,efficiency\n"
        b"scaling,strong,8,1,4.0,100.0,100.0,1.0\n"
        b"scaling,strong,16,2,2.5,160.0,200.0,0.8\n"
    )


def test_csv_of_several_pictures_has_all_columns_and_empty_cells() -> None:
    assert rows_to_csv([{"a": 1, "b": None}, {"c": "=SUM(1)"}]) == "a,b,c\n1,,\n,,'=SUM(1)\n"
