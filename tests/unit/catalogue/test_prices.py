"""Price lists and the cheapest way to rent a cluster, each number worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from chipwise.catalogue.check_money import check_money
from chipwise.catalogue.energy import pue, share
from chipwise.catalogue.hardware import accelerator_ids
from chipwise.catalogue.load import use_catalogue
from chipwise.catalogue.names import parse_system
from chipwise.catalogue.prices import age_days, offers, rental
from chipwise.catalogue.sources import sources
from chipwise.errors import DataFileError, UsageError
from chipwise.spec.hardware import Cluster
from chipwise.spec.price import Money

SEPTEMBER = date(2026, 9, 15)
"""The lists of August 2026 are two weeks old then."""
HEADER = (
    "kind,provider,sku,region,accelerator,devices,on_demand,spot,purchase,currency,confidence,"
    "source,seen,retrieved\n"
)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """An empty catalogue folder of one's own."""
    yield tmp_path
    use_catalogue(None)


def cluster(name: str) -> Cluster:
    (one,) = parse_system(name)
    return one


def listed(own: Path, *rows: str) -> None:
    (own / "prices.csv").write_text(HEADER + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    use_catalogue(own)


def row(sku: str, devices: int, usd: str, seen: str = "2026-08", provider: str = "me") -> str:
    start = f"cloud,{provider},{sku},here,gb300,{devices},{usd}"
    return f"{start},,,USD,primary,assumption,{seen},2026-11-30"


def test_a_node_is_one_whole_sku() -> None:
    # Nebius 8 x H100 at 23.60, Lambda 31.92, AWS 55.04: 8 devices in one machine
    found = rental(cluster("h100-sxm:8"), as_of=SEPTEMBER)
    assert found is not None
    assert (found.offer.provider, found.count, found.usd_per_hour) == ("Nebius", 1, 23.6)
    assert found.usd_per_device_hour == pytest.approx(2.95)
    assert (found.low_usd_per_hour, found.high_usd_per_hour) == (23.6, 55.04)
    assert not found.stale


def test_what_is_not_used_is_paid_for() -> None:
    # no SKU of four H100: RunPod's six at 19.74 are the cheapest machine that holds them
    found = rental(cluster("h100-sxm:4"), as_of=SEPTEMBER)
    assert found is not None
    assert (found.offer.devices, found.usd_per_hour) == (6, 19.74)
    assert found.usd_per_device_hour == pytest.approx(19.74 / 4)


def test_nodes_are_rented_one_sku_each() -> None:
    found = rental(cluster("h100-sxm:8x4"), as_of=SEPTEMBER)
    assert found is not None
    assert found.count == 4
    assert found.usd_per_hour == pytest.approx(4 * 23.6)


def test_single_devices_need_no_common_machine() -> None:
    # Verda, one H100 at 2.29; GCP's single one is the dearest at 10.9791
    found = rental(cluster("h100-sxm:1x3"), as_of=SEPTEMBER)
    assert found is not None
    assert found.count == 3
    assert found.usd_per_hour == pytest.approx(6.87)
    assert found.high_usd_per_hour == pytest.approx(3 * 10.9791)


def test_chips_are_paid_by_the_chip() -> None:
    # TPU v5p: 4.20 per chip-hour; 16 chips 67.20, under one year 16 x 2.94
    found = rental(cluster("tpu-v5p:16"), as_of=SEPTEMBER)
    assert found is not None and found.usd_per_hour == pytest.approx(67.2)
    reserved = rental(cluster("tpu-v5p:16"), "1y", SEPTEMBER)
    assert reserved is not None and reserved.usd_per_hour == pytest.approx(47.04)


@pytest.mark.parametrize("name", ["gb200:72", "ascend-910b3:8"])
def test_an_unknown_price_is_none(name: str) -> None:
    assert rental(cluster(name), as_of=SEPTEMBER) is None


def test_a_price_of_another_currency_is_never_a_rental(own: Path) -> None:
    listed(own, row("a", 4, "1.00").replace("USD", "CNY"))
    assert offers("gb300")
    assert rental(cluster("gb300:4")) is None


def test_a_capacity_block_is_listed_and_never_rented(own: Path) -> None:
    listed(own, row("a", 4, "1.00").replace("cloud", "block"))
    assert offers("gb300")
    assert rental(cluster("gb300:4")) is None


def test_the_latest_row_wins_and_last_months_question_keeps_its_answer() -> None:
    # p4d.24xlarge was 32.7726 until the cut of June 2025 to 21.957642
    def p4d(day: date) -> list[float | None]:
        return [o.on_demand for o in offers("a100-sxm-40", day) if o.sku == "p4d.24xlarge"]

    assert p4d(date(2025, 5, 31)) == [32.7726]
    assert p4d(date(2025, 6, 1)) == [21.957642]
    assert p4d(date(2024, 5, 31)) == []


def test_ones_own_row_replaces_ours_of_the_same_month(own: Path) -> None:
    listed(own, row("gpu-h100-sxm_8gpu", 8, "16").replace("gb300", "h100-sxm")
           .replace("me", "Nebius").replace("here", "eu-north1"))  # fmt: skip
    found = rental(cluster("h100-sxm:8"), as_of=SEPTEMBER)
    assert found is not None and found.usd_per_hour == 16


def test_a_price_of_more_than_ninety_days_is_stale() -> None:
    # the month ends on 31 August: 90 days later it is 29 November
    (offer,) = offers("mi300x", date(2026, 11, 29))[:1]
    assert offer.seen == "2026-08"
    assert age_days(offer, date(2026, 8, 3)) == 0
    assert age_days(offer, date(2026, 11, 29)) == 90
    for day, stale in ((date(2026, 11, 29), False), (date(2026, 11, 30), True)):
        found = rental(cluster("mi300x:8"), as_of=day)
        assert found is not None and found.stale is stale


def test_fresh_prices_go_before_cheaper_old_ones(own: Path) -> None:
    listed(own, row("old", 4, "1", seen="2026-01", provider="old"), row("new", 4, "2"))
    fresh = rental(cluster("gb300:4"), as_of=SEPTEMBER)
    assert fresh is not None
    assert (fresh.offer.sku, fresh.low_usd_per_hour) == ("new", 2)
    # in 2027 both are stale, and the one of January 2026 is 212 days older than the newest
    later = rental(cluster("gb300:4"), as_of=date(2027, 3, 1))
    assert later is not None and (later.offer.sku, later.stale) == ("new", True)


def test_a_machine_twice_as_large_says_nothing_about_the_price(own: Path) -> None:
    listed(own, row("one", 1, "3"), row("eight", 8, "80", provider="you"))
    found = rental(cluster("gb300:1"))
    assert found is not None
    assert (found.usd_per_hour, found.high_usd_per_hour) == (3, 3)


def test_unlike_currencies_are_never_added() -> None:
    dollars, yuan = Money(amount=2, currency="USD"), Money(amount=3, currency="CNY")
    assert dollars + dollars == Money(amount=4, currency="USD") == dollars * 2
    with pytest.raises(UsageError, match="USD and CNY"):
        _ = dollars + yuan


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("assumption", "hearsay", "source 'hearsay'"),
        ("gb300", "gb3000", "unknown accelerator 'gb3000'"),
        ("2026-11-30", "yesterday", "no date"),
        ("2026-08", "2026-12", "after it was read"),
        ("4,9.00,", "4,9.00,9.00", "below the one on demand"),
        ("cloud,me", "purchase,me", "price to buy"),
        ("4,9.00,,,", "4,9.00,,5,", "none to buy"),
        ("cloud,me", "cloud,", "no provider"),
        ("9.00", "-9.00", "prices.csv:2: 'on_demand'"),
        ("9.00", "0", "prices.csv:2: 'on_demand'"),
        ("9.00", "nan", "prices.csv:2: 'on_demand'"),
        ("USD", "JPY", "prices.csv:2: 'currency'"),
        ("2026-08", "August", "prices.csv:2: 'seen'"),
        ("here", "here,and,there,and,so,on", "more cells"),
    ],
)
def test_a_fault_in_a_price_is_found(own: Path, old: str, new: str, message: str) -> None:
    listed(own, row("a", 4, "9.00").replace(old, new))
    found = list(check_money(sources(), accelerator_ids()))
    assert any(message in one.message for one in found), found


def test_two_prices_of_one_month_are_found(own: Path) -> None:
    listed(own, row("a", 4, "1"), row("a", 4, "2"))
    (found,) = check_money(sources(), accelerator_ids())
    assert (found.field, "second row" in found.message) == ("line 3", True)


def test_an_unknown_column_is_refused_by_name(own: Path) -> None:
    (own / "prices.csv").write_text("kind,prize\ncloud,1\n", encoding="utf-8")
    use_catalogue(own)
    with pytest.raises(DataFileError, match="unknown column 'prize'"):
        offers()


def test_the_bundled_lists_hold() -> None:
    assert list(check_money(sources(), accelerator_ids())) == []


def test_a_site_nobody_published_lies_among_the_clouds() -> None:
    # AWS 1.135, GCP 1.1, Azure 1.185, Alibaba 1.3, OVH 1.09, Oracle 1.2: middle (1.135+1.185)/2
    assert pue().likely == pytest.approx(1.16)
    assert (pue().low, pue().high) == (1.09, 1.56)
    assert (pue("AWS").low, pue("AWS").likely, pue("AWS").high) == (1.135, 1.135, 1.135)


def test_the_rest_of_a_node_follows_from_measured_and_rated_power() -> None:
    # 8 x 700 W = 5.6 kW of devices; 8.4 kW drawn, 10.2 kW rated, 76 % of that 7.752 kW
    host = share("host-power")
    assert host.likely == pytest.approx((8.4 - 5.6) / 5.6)
    assert host.high == pytest.approx((10.2 - 5.6) / 5.6, abs=0.005)
    assert host.low == pytest.approx((7.752 - 5.6) / 5.6, abs=0.005)


def test_a_fault_in_an_energy_fact_is_found(own: Path) -> None:
    head = "id,quantity,subject,value,low,unit,confidence,source,retrieved\n"
    line = "pue-me,PUE,me,0.9,1.0,W,primary,hearsay,2026-11-30\n"
    (own / "energy.csv").write_text(head + line, encoding="utf-8")
    use_catalogue(own)
    words = " ".join(one.message for one in check_money(sources(), accelerator_ids()))
    for fault in ("'hearsay'", "unit 'W'", "between low and high", "no less than its machines"):
        assert fault in words
