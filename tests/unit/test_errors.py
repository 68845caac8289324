"""Errors say what, why and what to do, with the nearest valid value."""

from __future__ import annotations

import pickle

import pytest

from chipwise.errors import (
    ChipwiseError,
    DataFileError,
    InfeasibleError,
    LayoutError,
    UnitError,
    UnknownNameError,
    UsageError,
    nearest_names,
)

ACCELERATORS = ["h100-sxm", "h100-pcie", "a100-sxm-80", "rtx-4090", "tpu-v5p", "Gaudi-2"]


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (ChipwiseError, 1),
        (UsageError, 2),
        (UnitError, 2),
        (LayoutError, 2),
        (DataFileError, 2),
        (InfeasibleError, 3),
    ],
)
def test_each_kind_of_error_has_its_exit_code(kind: type[ChipwiseError], exit_code: int) -> None:
    assert kind.exit_code == exit_code
    assert UnknownNameError.exit_code == 2


def test_an_error_carries_a_stable_code_its_text_and_the_details() -> None:
    error = LayoutError("tp-heads", "tp 3 does not divide 32 heads", tp=3, nearest=[2, 4])
    assert (error.code, str(error)) == ("tp-heads", "tp 3 does not divide 32 heads")
    assert error.message == str(error)
    assert error.details == {"tp": 3, "nearest": [2, 4]}


def test_all_deliberate_errors_are_caught_as_one() -> None:
    for kind in (UsageError, UnitError, LayoutError, DataFileError, InfeasibleError):
        with pytest.raises(ChipwiseError):
            raise kind("some-code", "text")


def test_an_unknown_name_offers_the_nearest_and_the_listing_command() -> None:
    listing = "chipwise catalogue accelerators"
    error = UnknownNameError("accelerator", "h100-sxm5", ACCELERATORS, listing)
    assert str(error).startswith("unknown accelerator 'h100-sxm5': did you mean 'h100-sxm'")
    assert str(error).endswith("'chipwise catalogue accelerators' shows all.")
    assert error.code == "unknown-accelerator"
    assert error.details["name"] == "h100-sxm5"
    assert error.details["listing"] == listing


def test_an_unknown_name_like_no_other_offers_only_the_listing() -> None:
    error = UnknownNameError("model", "zzzz", ACCELERATORS, "chipwise catalogue models")
    assert str(error) == "unknown model 'zzzz'. 'chipwise catalogue models' shows all."
    assert error.details["nearest"] == []


def test_a_kind_of_several_words_makes_a_code_with_hyphens() -> None:
    assert UnknownNameError("data source", "x", [], "list").code == "unknown-data-source"


def test_nearest_names_ignore_letter_case_and_keep_the_known_spelling() -> None:
    assert nearest_names("GAUDI-2", ACCELERATORS)[0] == "Gaudi-2"
    assert nearest_names("H100-SXM", ACCELERATORS)[0] == "h100-sxm"


def test_nearest_names_find_a_part_of_a_name() -> None:
    assert nearest_names("4090", ACCELERATORS) == ["rtx-4090"]


def test_nearest_names_are_at_most_as_many_as_asked_for_and_none_twice() -> None:
    assert len(nearest_names("h100", ACCELERATORS, 1)) == 1
    found = nearest_names("h100", ACCELERATORS, 5)
    assert len(found) == len(set(found))
    assert set(found) == {"h100-sxm", "h100-pcie"}


def test_nothing_is_near_an_empty_name_or_among_none() -> None:
    assert nearest_names("", ACCELERATORS) == []
    assert nearest_names("h100", []) == []


def test_an_endless_name_does_not_make_an_endless_message() -> None:
    error = UnknownNameError("accelerator", "x" * 100_000, ACCELERATORS, "chipwise catalogue")
    assert len(error.message) < 300


@pytest.mark.parametrize(
    "error",
    [
        UsageError("a-code", "what and why", value=3),
        UnknownNameError("model", "lama", ["llama-2-7b"], "chipwise catalogue models"),
    ],
)
def test_an_error_travels_between_processes(error: UsageError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.code, again.message, again.details, again.exit_code) == (
        error.code, error.message, error.details, error.exit_code)  # fmt: skip
