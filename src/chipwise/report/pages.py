"""Which page a document becomes."""

from __future__ import annotations

from collections.abc import Callable

from chipwise.report.page import Page
from chipwise.report.pages_choice import study_page
from chipwise.report.pages_facts import catalogue_page, explain_page, validate_page
from chipwise.report.pages_finetune import finetune_page
from chipwise.report.pages_memory import fit_page
from chipwise.report.pages_plan import estimate_page, plan_page
from chipwise.report.pages_serve import serve_fit_page
from chipwise.report.pages_speed import serve_speed_page
from chipwise.report.words import Json


def page_of(document: Json) -> Page:
    """The page of a document, chosen by its command, else by the first word of it, and its task."""
    if document.get("task") == "serve":
        return serve_fit_page(document)
    command = str(document["command"])
    return (_PAGES.get(command) or _PAGES[command.split(maxsplit=1)[0]])(document)


_PAGES: dict[str, Callable[[Json], Page]] = {
    "plan": plan_page,
    "plan finetune": finetune_page,
    "plan study": study_page,
    "fit": fit_page,
    "estimate": estimate_page,
    "estimate serve": serve_speed_page,
    "explain": explain_page,
    "validate": validate_page,
    "catalogue": catalogue_page,
}
