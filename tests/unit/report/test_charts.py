"""Real renderings: what is written in them, that they are whole, that they need no network."""

from __future__ import annotations

import re
import struct
import sys
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from chipwise.app import estimate_train, fit, plan_train
from chipwise.app.requests import EstimateTrainRequest, FitRequest, PlanTrainRequest
from chipwise.errors import UsageError
from chipwise.report import words
from chipwise.report.pictures import form_of, picture
from chipwise.report.tidy import PICTURES

TEXT = "{http://www.w3.org/2000/svg}text"
SYSTEMS = ("rtx-4090:8", "a100-sxm-80:8", "h100-sxm:8", "mi300x:8", "tpu-v5p:16")


def plan() -> dict[str, Any]:
    asked = {"model": "llama-2-7b", "tokens": "2B", "on": ",".join(SYSTEMS)}
    return plan_train(PlanTrainRequest.model_validate(asked)).model_dump(mode="json")


PLAN = plan()
GROWTH = [
    {"devices": 8 * 2**n, "nodes": 2**n, "mode": mode, "step_time_s": 1.0,
     "tokens_per_s": 1e5 * 2**n * each**n, "efficiency": each**n}
    for mode, each in (("strong", 0.85), ("weak", 0.97))
    for n in range(4)
]  # fmt: skip


def priced(**usd_per_hour: float) -> dict[str, Any]:
    """The plan with made-up prices by accelerator; the others have none."""
    plans = []
    for one in PLAN["plans"]:
        rate = next(
            (usd for name, usd in usd_per_hour.items() if one["system"].startswith(name)), 0
        )
        hours = one["device_hours"]
        cost = {key: hours[key] * rate for key in ("low", "likely", "high")} | {"basis": "assumed"}
        plans.append(one | {"cost_usd": cost if rate else None})
    return PLAN | {"plans": plans}


def drawn(document: dict[str, Any], form: str = "svg", name: str | None = None) -> bytes:
    found = picture(document, form, PICTURES, name)
    assert found is not None
    return found


def texts(svg: bytes) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(TEXT)]


@pytest.mark.parametrize(
    ("name", "axis"),
    [("memory", "memory [GiB]"), ("time", "share of the step's time [%]")],
)
def test_every_plan_has_a_bar_with_its_name_and_layout(name: str, axis: str) -> None:
    said = texts(drawn(PLAN, name=name))
    for one in PLAN["plans"]:
        assert f"{one['rank']} · {one['system']}" in said
        assert words.layout(one["layout"]) in said
    assert axis in said
    assert any(text.startswith("llama-2-7b · 2.00 G tokens · sequence 4096") for text in said)


def test_time_and_cost_names_every_system_and_the_units() -> None:
    said = texts(drawn(priced(rtx=0.4, a100=1.5, h100=2.5, mi300x=2.0, tpu=3.0), name="pareto"))
    assert {"time of the run [h]", "cost of the run [USD]", "Time and cost"} <= set(said)
    for system in SYSTEMS:
        assert any(text.endswith(f"· {system}") for text in said), system
    assert {"NVIDIA", "AMD", "Google"} <= set(said)


def test_without_prices_device_hours_stand_in_their_place() -> None:
    said = texts(drawn(priced(), name="pareto"))
    assert {"Time and device hours", "device hours [h]"} <= set(said)


def test_a_system_without_a_price_is_named_and_not_drawn() -> None:
    said = texts(drawn(priced(rtx=0.4, a100=1.5, h100=2.5, mi300x=2.0), name="pareto"))
    assert any(text.endswith("without a price: tpu-v5p:16") for text in said)
    said = [text for text in said if "without a price" not in text]
    assert not any(text.endswith("· tpu-v5p:16") for text in said)
    assert "Google" not in said


def test_where_nothing_costs_anything_device_hours_are_drawn() -> None:
    free = {"low": 0.0, "likely": 0.0, "high": 0.0, "basis": "assumed"}
    plans = [one | {"cost_usd": free} for one in PLAN["plans"]]
    assert "device hours [h]" in texts(drawn(PLAN | {"plans": plans}, name="pareto"))


def test_scaling_shows_throughput_and_efficiency_over_devices() -> None:
    said = texts(drawn(PLAN | {"scaling": GROWTH}, name="scaling"))
    assert {"throughput [tokens/s]", "efficiency [%]", "devices", "64", "100%"} <= set(said)
    assert any(text.startswith("weak") for text in said)


def test_all_pictures_together_have_all_titles() -> None:
    said = texts(drawn(PLAN | {"scaling": GROWTH}))
    titles = ("Time and cost", "Scaling", "Memory of the fullest device",
              "Where the step's time goes")  # fmt: skip
    assert [title for title in titles if title not in said] == []


def test_fit_and_estimate_can_be_drawn_too() -> None:
    asked = {"model": "llama-2-7b", "on": "rtx-4090"}
    held = fit(FitRequest.model_validate(asked | {"task": "serve"})).model_dump(mode="json")
    assert "keys and values" in texts(drawn(held))
    short = fit(FitRequest.model_validate(asked)).model_dump(mode="json")
    assert any("does not fit" in text for text in texts(drawn(short)))
    asked = {"model": "llama-2-7b", "on": "h100-sxm:8"}
    one = estimate_train(EstimateTrainRequest.model_validate(asked)).model_dump(mode="json")
    assert {"memory [GiB]", "matrix products", "h100-sxm:8"} <= set(texts(drawn(one)))


def test_a_picture_is_described_in_words() -> None:
    root = ElementTree.fromstring(drawn(PLAN, name="memory"))
    best = PLAN["plans"][0]
    start = f"Memory of the fullest device: 1 · {best['system']}: "
    assert root.attrib["aria-label"].startswith(start)
    assert f'aria-label="{start}' in drawn(PLAN, "html", "memory").decode()


def test_a_png_is_a_png_of_the_picture_at_double_size() -> None:
    data = drawn(PLAN, "png", "time")
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    root = ElementTree.fromstring(drawn(PLAN, name="time"))
    assert (width, height) == (
        pytest.approx(2 * float(root.attrib["width"]), abs=2),
        pytest.approx(2 * float(root.attrib["height"]), abs=2),
    )


class Page(HTMLParser):
    """What a page would fetch, and how its scripts end."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.scripts += tag == "script"
        self.fetched += [str(given[key]) for key in ("src", "srcset", "data") if key in given]
        if tag in ("link", "base", "iframe", "object"):
            self.fetched.append(tag)


def test_html_fetches_nothing_and_works_without_javascript() -> None:
    text = drawn(PLAN, "html").decode()
    page = Page()
    page.feed(text)
    assert page.fetched == []
    assert page.scripts == 2
    assert "@import" not in text
    assert "vegaEmbed('#picture'" in text
    still = re.search(r"<noscript>(.*?)</noscript>", text, re.DOTALL)
    assert still is not None
    assert "share of the step's time [%]" in texts(still[1].encode())


def test_a_name_cannot_leave_the_script_it_stands_in() -> None:
    hostile = "</script><script>alert(1)</script>"
    plans = [PLAN["plans"][0] | {"system": hostile, "vendor": hostile}]
    text = drawn(PLAN | {"plans": plans}, "html").decode()
    page = Page()
    page.feed(text)
    assert page.scripts == 2
    assert "<script>alert" not in text


@pytest.mark.parametrize("count", [1, 40])
def test_one_plan_and_many_can_be_drawn(count: int) -> None:
    one = PLAN["plans"][0]
    likely = one["duration_s"]["likely"]
    times = [{"low": likely * n, "likely": likely * n, "high": likely * n} for n in range(1, 41)]
    plans = [one | {"rank": n + 1, "duration_s": times[n]} for n in range(count)]
    said = texts(drawn(PLAN | {"plans": plans, "scaling": GROWTH[:1]}))
    assert f"{count} · {one['system']}" in said


@pytest.mark.parametrize("package", ["altair", "vl_convert"])
def test_a_missing_package_is_said_with_what_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"pip install 'chipwise\[charts\]'") as raised:
        form_of("plan.svg")
    assert package in raised.value.message
    assert form_of("plan.csv") == "csv"


@pytest.mark.parametrize("file", ["plan", "plan.jpg", "plan.svg.gz", ".svg", "-"])
def test_a_suffix_there_is_none_of_is_named_with_those_there_are(file: str) -> None:
    with pytest.raises(UsageError, match=r"\.svg, \.png, \.html, \.csv"):
        form_of(file)


def test_the_suffix_counts_in_any_letter_case() -> None:
    assert form_of("a/Plan.SVG") == "svg"
