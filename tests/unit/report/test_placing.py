from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.report import placing
from chipwise.report.palette import DARK, LIGHT, MEMORY, TIME, VENDORS, in_order, ink

PLACES = st.tuples(st.floats(0, 400), st.floats(0, 300))


def box_of(spot: placing.Spot, label: str) -> placing.Box:
    width = placing.width_of(label)
    left = spot.x - {"left": 0.0, "center": width / 2, "right": width}[spot.align]
    return placing.Box(left, spot.y - 7, left + width, spot.y + 7)


@given(st.lists(PLACES, max_size=12))
def test_labels_overlap_neither_each_other_nor_points_and_stay_inside(
    points: list[tuple[float, float]],
) -> None:
    names = [f"{n} · h100-sxm:8" for n in range(len(points))]
    spots = placing.place_labels(points, names, (400, 300))
    boxes = [box_of(spot, name) for spot, name in zip(spots, names, strict=True) if spot]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    dots = [placing.Box(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    assert not any(box.overlaps(dot) for box in boxes for dot in dots)
    assert all(box.left >= 0 and box.right <= 400 for box in boxes)
    assert all(box.bottom >= 0 and box.top <= 300 for box in boxes)


def test_a_lone_label_is_always_placed_and_one_without_room_is_left_out() -> None:
    assert placing.place_labels([(200, 150)], ["a name"], (400, 300)) != [None]
    assert placing.place_labels([(10, 10)], ["a name longer than that"], (20, 20)) == [None]


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=8))
def test_an_axis_holds_its_values_and_has_marks_within(values: list[float]) -> None:
    axis = placing.log_axis(values, 500)
    assert axis.low < min(values) <= max(values) < axis.high
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 40
    assert all(axis.low <= tick <= axis.high for tick in ticks)


def test_marks_are_round() -> None:
    assert placing.LogAxis(8, 600, 500).ticks() == [10, 20, 50, 100, 200, 500]


def test_place_and_value_are_inverse_and_decades_equally_long() -> None:
    axis = placing.LogAxis(1, 100, 500)
    assert axis.place(10) == pytest.approx(250)
    assert axis.value(250) == pytest.approx(10)


def test_no_two_vendors_and_no_two_parts_of_a_bar_look_the_same() -> None:
    assert len(set(VENDORS.values())) == len(VENDORS)
    assert len({colour for colour, _shape in VENDORS.values()}) == len(VENDORS)
    assert len(set(TIME.values())) == len(TIME)
    serving = ("weights", "keys and values", "forward pass", "CUDA graphs",
               "context and communicators")  # fmt: skip
    training = [name for name in MEMORY if name not in serving[1:3]]
    for names in (serving, training):
        assert len({MEMORY[name] for name in names}) == len(names)


def test_known_names_come_in_the_order_of_the_table_and_others_last() -> None:
    assert in_order(["new", "gradients", "weights", "new"], MEMORY) == [
        "weights",
        "gradients",
        "new",
    ]


def test_text_on_a_dark_colour_is_white_and_on_a_light_one_black() -> None:
    assert (ink("#000000"), ink("#0072B2")) == (LIGHT, LIGHT)
    assert (ink("#FFFFFF"), ink("#F0E442")) == (DARK, DARK)


def test_every_vendor_and_part_has_a_colour() -> None:
    from chipwise.app import bill, describe, fit_serve
    from chipwise.catalogue.hardware import accelerator_ids, load_accelerator

    assert {load_accelerator(name).vendor for name in accelerator_ids()} <= set(VENDORS)
    assert set(describe._NAMES.values()) <= set(TIME)
    parts = {*bill._NAMES.values(), bill.OTHER, bill.LOADED, *fit_serve._PARTS.values()}
    assert parts <= set(MEMORY)
