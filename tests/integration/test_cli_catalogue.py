"""The catalogue commands as a process: formats, files, settings, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from tests.integration.test_cli import chipwise

BROKEN = 'id = "my-card"\nname = \n'


def own_catalogue(folder: Path) -> Path:
    (folder / "accelerators").mkdir()
    (folder / "accelerators" / "my-card.toml").write_text(BROKEN, encoding="utf-8")
    return folder


def test_json_is_one_document_and_nothing_else() -> None:
    done = chipwise("catalogue", "show", "h100-sxm", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["command"] == "catalogue show"
    assert document["inputs"] == {"kind": "show", "id": "h100-sxm"}


def test_csv_has_a_header_and_a_row_per_entry() -> None:
    done = chipwise("catalogue", "systems", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {"id", "devices"} <= set(rows[0])
    assert float(rows[0]["devices"]) >= 1


def test_a_table_fits_the_width_it_is_given() -> None:
    for width in ("80", "120"):
        done = chipwise("catalogue", "accelerators", COLUMNS=width)
        lines = done.stdout.splitlines()
        assert max(map(len, lines)) <= int(width)


def test_out_writes_a_file_and_leaves_stdout_empty(tmp_path: Path) -> None:
    done = chipwise("catalogue", "systems", "--format", "md", "--out", "s.md", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "s.md").read_text(encoding="utf-8").startswith("## systems\n")


def test_out_into_a_folder_that_is_not_there_exits_2(tmp_path: Path) -> None:
    done = chipwise("catalogue", "systems", "--out", "none/s.md", cwd=tmp_path)
    assert done.returncode == 2
    assert "none/s.md" in done.stderr


def test_flag_beats_environment_beats_run_file(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text('format = "md"\n', encoding="utf-8")
    words = ("catalogue", "systems", "--config", "job.toml")
    assert chipwise(*words, cwd=tmp_path).stdout.startswith("## systems")
    assert chipwise(*words, cwd=tmp_path, CHIPWISE_FORMAT="csv").stdout.startswith("id,")
    flagged = chipwise(*words, "--format", "html", cwd=tmp_path, CHIPWISE_FORMAT="csv")
    assert flagged.stdout.startswith("<!doctype html>")


def test_an_unknown_format_names_those_there_are() -> None:
    done = chipwise("catalogue", "systems", "--format", "xml")
    assert done.returncode == 2
    assert "html" in done.stderr


def test_an_unknown_entry_exits_2_with_the_nearest() -> None:
    done = chipwise("catalogue", "show", "hgx-h10", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["details"]["nearest"][0] == "hgx-h100"


def test_a_broken_file_of_ones_own_is_found_with_exit_code_4(tmp_path: Path) -> None:
    done = chipwise("catalogue", "check", "--catalogue", str(own_catalogue(tmp_path)), "--json")
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 4
    assert any("my-card.toml" in finding["message"] for finding in findings)


def test_prices_are_listed_as_known_on_a_day() -> None:
    def p4d(day: str) -> list[str]:
        done = chipwise("catalogue", "prices", "--as-of", day, "--format", "csv")
        rows = csv.DictReader(io.StringIO(done.stdout))
        return [row["on_demand"] for row in rows if row["sku"] == "p4d.24xlarge"]

    assert p4d("2024-12-31") == ["32.7726"]  # the cut came in June 2025
    assert p4d("2026-11-30") == ["21.957642"]


def test_ones_own_prices_are_checked_and_used(tmp_path: Path) -> None:
    head = "kind,provider,sku,region,accelerator,devices,on_demand,currency,confidence,source,"
    good = "cloud,us,rack,here,gb300,72,360,USD,primary,assumption,2026-11,2026-11-30\n"
    (tmp_path / "prices.csv").write_text(f"{head}seen,retrieved\n{good}", encoding="utf-8")
    words = ("--catalogue", str(tmp_path))
    assert chipwise("catalogue", "check", *words).returncode == 0
    asked = ("plan", "train", "llama-2-7b", "--tokens", "2B", "--on", "gb300:72", "--json")
    plan = json.loads(chipwise(*asked, *words).stdout)["plans"][0]
    assert plan["price"]["usd_per_device_hour"] == 5
    (tmp_path / "prices.csv").write_text(
        f"{head}seen,retrieved\n{good.replace('gb300', 'gb3')}", encoding="utf-8"
    )
    broken = chipwise("catalogue", "check", *words)
    assert broken.returncode == 4
    assert "unknown accelerator 'gb3'" in " ".join(broken.stdout.split())
