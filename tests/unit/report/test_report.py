from __future__ import annotations

import csv
import io
import shlex
from html.parser import HTMLParser
from typing import Any

import pytest

from chipwise.app.documents import Document, Price, Range
from chipwise.app.documents_plan import NoFit, ParetoPoint
from chipwise.errors import UnknownNameError
from chipwise.report import render
from tests.unit.report import hand_made as made


def shown(document: Document, form: str = "table", **options: Any) -> str:
    return render(document.model_dump(mode="json"), form, **options)


DOCUMENTS = {
    "plan": made.plan_document(made.plan(), made.plan(2, system="a100-sxm-80:8")),
    "plan-none": made.plan_document(no_fit=(NoFit(system="rtx-4090:1", reason="too small"),)),
    "fit": made.fit_document(),
    "estimate": made.estimate_document(),
    "explain": made.explain_document(),
    "validate": made.validate_document(),
    "listing": made.listing_document(),
    "check": made.check_document("error"),
}


@pytest.mark.parametrize("form", ["table", "csv", "md", "html"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_document_has_every_format(name: str, form: str) -> None:
    text = shown(DOCUMENTS[name], form)
    assert text.endswith("\n")
    assert "None" not in text
    assert "nan" not in text.lower().split()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_text_without_colour_has_no_escapes(name: str) -> None:
    assert "\x1b" not in shown(DOCUMENTS[name], width=120)


def test_colour_is_escapes_around_the_same_text() -> None:
    import re

    document = made.fit_document()
    coloured = shown(document, colour=True, width=120)
    assert "\x1b[" in coloured
    plain = [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", coloured).splitlines()]
    assert plain == shown(document, width=120).splitlines()


def test_an_unknown_format_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'html'"):
        shown(made.fit_document(), "htm")


# -- plan


def test_the_first_plan_is_the_recommendation_and_the_last_line_the_next_command() -> None:
    lines = shown(DOCUMENTS["plan"], width=200).splitlines()
    assert lines[0].startswith("Recommended: h100-sxm:8, dp 8 · fsdp · micro-batch 2")
    assert lines[-1].startswith("Next: chipwise estimate train llama-2-7b --on h100-sxm:8")
    assert "--micro-batch 2" in lines[-1]


def test_the_next_command_is_accepted_by_the_command_line() -> None:
    from chipwise.app.requests import EstimateTrainRequest
    from chipwise.cli.commands import COMMANDS

    command = next(c for c in COMMANDS if c.request == EstimateTrainRequest.__name__)
    known = {spelling for flag in command.flags() for spelling in flag.spelled}
    last = shown(DOCUMENTS["plan"], width=200).splitlines()[-1]
    used = [word for word in last.split() if word.startswith("--")]
    assert len(used) > 5
    assert set(used) <= known


def test_a_plan_row_shows_time_with_its_range_and_memory_with_capacity() -> None:
    text = shown(DOCUMENTS["plan"], width=200)
    # 36,000 s are 10 h, half and double of it 5 h and 20 h; 10 GiB of 80 GiB
    assert "10.0 h" in text
    assert "5.00 h – 20.0 h" in text
    assert "10.0 GiB" in text
    assert "of 80.0 GiB" in text
    assert "40.0%" in text


def test_a_plan_that_misses_the_deadline_says_so() -> None:
    late = made.plan_document(made.plan(meets_deadline=False))
    assert "late" in shown(late, width=200)
    assert "late" not in shown(DOCUMENTS["plan"], width=200).replace("related", "")


def test_the_recommendation_shows_step_and_utilization_with_ranges_and_what_bounds_it() -> None:
    text = shown(DOCUMENTS["plan"], width=200)
    # half and double of 2 s and of 40 %
    assert "step 2.00 s (1.00 s – 4.00 s)" in text
    assert "MFU 40.0% (20.0% – 80.0%) of 989 TFLOP/s bf16 dense" in text
    assert "bound by compute" in text.splitlines()[1]
    assert "deadline" not in text


def test_a_deadline_is_answered_beside_the_recommendation() -> None:
    kept = made.plan_document(made.plan(meets_deadline=True))
    missed = made.plan_document(made.plan(meets_deadline=False))
    assert "within the deadline" in shown(kept, width=200)
    assert "later than the deadline" in shown(missed, width=200)


def test_plans_that_trade_time_for_device_hours_are_named_above_the_table() -> None:
    first, second = made.plan(), made.plan(2, system="a100-sxm-80:8")
    point = {"system": "a100-sxm-80:8", "devices": 8, "rank": 2, "duration_s": 72000.0}
    front = (
        ParetoPoint(**{**point, "system": "h100-sxm:8", "rank": 1, "device_hours": 90.0}),
        ParetoPoint(**point, device_hours=80.0),
    )
    text = shown(made.plan_document(first, second).model_copy(update={"pareto": front}), width=200)
    assert "a100-sxm-80:8 (no. 2): 20.0 h, 80 device hours" in text
    assert "(no. 1)" not in text


def test_systems_without_a_plan_are_listed_with_the_reason() -> None:
    text = shown(DOCUMENTS["plan-none"])
    assert "rtx-4090:1: too small" in text
    assert "Next:" not in text


def test_plan_csv_carries_plain_si_numbers() -> None:
    rows = list(csv.DictReader(io.StringIO(shown(DOCUMENTS["plan"], "csv"))))
    assert [row["system"] for row in rows] == ["h100-sxm:8", "a100-sxm-80:8"]
    assert float(rows[0]["duration_s"]) == 36000.0
    assert float(rows[0]["duration_high_s"]) == 72000.0
    assert float(rows[0]["mfu"]) == 0.4
    assert float(rows[0]["capacity_bytes"]) == 80 * 2**30


def test_assumptions_keep_their_order_and_effect() -> None:
    text = shown(DOCUMENTS["plan"], width=200)
    first = text.index("- network 50 GB/s per device (half of it: +8 % time)")
    assert first < text.index("- sequences are packed")


def test_a_narrow_terminal_leaves_out_spare_columns_and_says_which() -> None:
    text = shown(DOCUMENTS["plan"], width=80)
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert "Not shown, for want of width: tokens/s, bound by" in text
    assert "5.00 h – 20.0 h" in text
    assert "of 80.0 GiB" in text
    assert "Not shown" not in shown(DOCUMENTS["plan"], width=200)


def test_a_table_wider_than_the_terminal_even_so_becomes_records_of_the_same_facts() -> None:
    text = shown(DOCUMENTS["plan"], width=60)
    assert "system: a100-sxm-80:8" in text
    assert "layout: dp 8 · fsdp · micro-batch 2 · recompute full" in text
    assert "time 80 % range: 10.0 h; 5.00 h – 20.0 h" in text
    assert "tokens/s: " in text


# -- fit and estimate


def test_what_does_not_fit_says_by_how_much_and_the_one_change() -> None:
    text = shown(made.fit_document(), width=140)
    assert text.startswith("does not fit: 5.00 GiB too much per device")
    assert (
        "The one change: recompute full (saves 12.0 GiB, 1.30 × the time): --recompute full" in text
    )
    assert text.index("The one change") < text.index("Memory of the fullest device")
    assert text.rstrip().splitlines()[-1].count("--recompute full") == 1


def test_what_fits_says_what_is_left_and_the_largest() -> None:
    text = shown(made.fit_document("fits"), width=140)
    assert text.startswith("fits: 5.00 GiB left per device")
    assert "micro-batch 4, or sequence 8192" in text
    assert "The one change" not in text


def test_each_line_of_the_bill_says_what_it_is_and_csv_keeps_formula_and_source() -> None:
    text = shown(made.fit_document(), width=140)
    assert "all parameters this device keeps" in text
    assert "2 · params" not in text
    rows = list(csv.DictReader(io.StringIO(shown(made.fit_document(), "csv"))))
    assert rows[0]["formula"] == "2 · params"
    assert rows[1]["source"] == "kingma2014"


def test_every_line_that_a_bill_can_have_is_worded() -> None:
    from chipwise.app import bill, fit_serve
    from chipwise.estimate import MEMORY_PARTS
    from chipwise.report import words

    names = {*map(bill.part_name, MEMORY_PARTS), bill.LOADED, *fit_serve._PARTS.values()}
    assert [name for name in sorted(names) if not words.part_meaning(name)] == []


def test_a_change_that_costs_memory_is_not_shown_as_a_negative_saving() -> None:
    remedy = made.REMEDY.model_copy(update={"saves_bytes": -(2.0**30)})
    text = shown(made.fit_document().model_copy(update={"remedies": (remedy,)}), width=140)
    assert "1.00 GiB more" in text


def test_blocks_are_parted_by_one_empty_line() -> None:
    for document in DOCUMENTS.values():
        assert "\n\n\n" not in shown(document, width=140)


def test_the_memory_bill_ends_with_the_total() -> None:
    rows = list(csv.DictReader(io.StringIO(shown(made.fit_document(), "csv"))))
    assert [row["part"] for row in rows] == ["weights", "optimizer", "total"]
    assert float(rows[-1]["bytes"]) == float(rows[0]["bytes"]) + float(rows[1]["bytes"])


def test_mfu_is_said_beside_its_peak() -> None:
    assert "MFU of 989 TFLOP/s bf16 dense" in shown(made.estimate_document(), width=140)


# -- explain, validate, catalogue


def test_a_quantity_that_stands_above_is_not_unfolded_again() -> None:
    text = shown(made.explain_document(), width=140)
    assert text.count("6 · n · d") == 1
    assert "see above" in text
    assert "└─ work" in text


def test_validate_csv_carries_every_row_with_the_skipped_reason() -> None:
    rows = list(csv.DictReader(io.StringIO(shown(made.validate_document(), "csv"))))
    assert [row["id"] for row in rows] == ["a", "b", "c"]
    assert rows[2]["skipped"] == "no batch size"
    assert rows[1]["predicted"] == "does not fit"


def test_a_missing_value_is_a_dash_in_a_listing_and_empty_in_csv() -> None:
    assert "–" in shown(made.listing_document())
    assert shown(made.listing_document(), "csv").splitlines()[-1] == "x,"


# -- hostile text


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)


def hostile() -> Document:
    return made.plan_document(made.plan(system="<script>alert(1)</script>|`x`", bound_by="=1+1"))


def test_html_escapes_what_it_is_given_and_needs_no_script_or_network() -> None:
    tags = Tags()
    page = shown(hostile(), "html")
    tags.feed(page)
    assert "script" not in tags.seen
    assert "http" not in page.replace("charset", "")


def test_markdown_escapes_pipes_so_that_rows_keep_their_columns() -> None:
    lines = [line for line in shown(hostile(), "md").splitlines() if line.startswith("| ")]
    counts = {line.replace("\\|", "").count("|") for line in lines}
    assert len(counts) == 1


def test_csv_does_not_start_a_cell_with_a_formula() -> None:
    assert ",'=1+1" in shown(hostile(), "csv")


def test_rich_markup_in_names_is_text() -> None:
    assert "[red]x[/red]" in shown(
        made.plan_document(made.plan(bound_by="[red]x[/red]")), width=250
    )


def test_a_command_to_copy_names_the_model_as_asked_and_runs_nothing_else() -> None:
    document = made.fit_document().model_copy(
        update={"inputs": {"model": "models/a; rm -rf x", "rank": 64, "set": {"mfu": "0.4 1"}}}
    )
    text = shown(document, width=400)
    (line,) = [line for line in text.splitlines() if line.startswith("Next: ")]
    words = shlex.split(line.removeprefix("Next: "))
    assert "models/a; rm -rf x" in words
    assert words[words.index("--rank") + 1] == "64"
    assert words[words.index("--set") + 1] == "mfu=0.4 1"


def test_cost_and_energy_are_shown_with_the_price_behind_them() -> None:
    span = {"low": 100.0, "likely": 236.0, "high": 300.0, "basis": "datasheet"}
    price = Price(
        **{"provider": "Nebius", "sku": "gpu-8", "region": "eu", "market": "on-demand"},
        **{"count": 1, "usd_per_hour": 23.6, "usd_per_device_hour": 2.95, "seen": "2026-08"},
        **{"low_usd_per_device_hour": 2.95, "high_usd_per_device_hour": 6.88},
        **{"age_days": 15, "stale": False, "source": "list", "confidence": "primary"},
    )
    known = made.plan().model_copy(
        update={"cost_usd": Range(**span), "price": price, "meets_budget": False}
    )
    text = shown(made.plan_document(known, made.plan(2)), width=200)
    assert "cost 236.00 USD (100.00 USD – 300.00 USD)" in text
    assert "energy unknown" in text
    assert "prices: Nebius gpu-8, seen 2026-08" in text
    assert "over budget" in text
