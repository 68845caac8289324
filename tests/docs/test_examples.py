"""Every example of the documentation runs, shows real files, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from chipwise.cli import main
from tests.docs.examples import ROOT, Block, blocks, commands, pages

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def name(block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


@pytest.mark.parametrize("block", commands(), ids=name)
def test_an_example_runs_and_exits_as_the_page_says(
    block: Block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    code = main(block.words)
    said = capsys.readouterr()
    assert code == int(block.options.get("exit", "0")), said.err
    assert said.out


def test_every_console_block_is_an_example() -> None:
    shown = [block for page in pages() for block in blocks(page) if block.kind == "console"]
    assert [name(block) for block in shown if not block.command] == []
    assert len(shown) > 15


def test_files_shown_on_a_page_are_the_files() -> None:
    shown = [block for page in pages() for block in blocks(page) if "file" in block.options]
    assert len(shown) >= 4
    for block in shown:
        assert block.text == (ROOT / block.options["file"]).read_text(encoding="utf-8"), name(block)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    inside = [unquote(target) for target in targets if "://" not in target]
    missing = [target for target in inside if not (page.parent / target).exists()]
    assert missing == []


def test_every_page_is_reached_from_the_index() -> None:
    reached, waiting = set[Path](), [ROOT / "docs" / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        waiting += [page.parent / target for target in LINK.findall(page.read_text("utf-8"))
                    if "://" not in target]  # fmt: skip
    lost = {page.resolve() for page in pages()} - reached - {ROOT / "README.md"}
    assert sorted(str(page.relative_to(ROOT)) for page in lost) == []
