from __future__ import annotations

import json
from typing import Any

import pytest

from chipwise.app import documents as d
from chipwise.app.schema import json_schema
from chipwise.errors import UnknownNameError
from tests.unit.report import hand_made as made

EXAMPLES: tuple[d.Document, ...] = (
    made.plan_document(made.plan()),
    made.fit_document(),
    made.estimate_document(),
    made.explain_document(),
    made.validate_document(),
    made.listing_document(),
)


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda item: item.command)
def test_every_document_starts_with_schema_and_command(document: d.Document) -> None:
    written = json.loads(document.model_dump_json())
    assert list(written)[:5] == ["schema", "command", "inputs", "assumptions", "warnings"]
    assert written["schema"] == 1


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda item: item.command)
def test_a_document_reads_back_as_itself(document: d.Document) -> None:
    assert type(document).model_validate_json(document.model_dump_json()) == document


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (made.fit_document("fits"), 0),
        (made.fit_document("tight"), 0),
        (made.fit_document("does not fit"), 3),
        (made.estimate_document("does not fit"), 3),
        (made.plan_document(made.plan()), 0),
        (made.plan_document(), 3),
        (made.check_document(None), 0),
        (made.check_document("warning"), 0),
        (made.check_document("error"), 4),
        (made.validate_document(), 0),
    ],
)
def test_the_exit_code_is_the_answer(document: d.Document, code: int) -> None:
    assert document.exit_code == code


def test_a_skipped_row_carries_nothing_but_the_reason() -> None:
    rows = json.loads(made.validate_document().model_dump_json())["rows"]
    assert rows[2] == {"id": "c", "skipped": "no batch size"}


def test_a_number_that_is_not_finite_is_null_in_json() -> None:
    part = d.TimePart(name="x", seconds=float("inf"), share=0.0)
    assert json.loads(part.model_dump_json())["seconds"] is None


# -- schemas


def refs(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*map(refs, part.values()))
    return set().union(*map(refs, part)) if isinstance(part, list) else set()


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_every_schema_is_closed_and_its_references_resolve(side: str) -> None:
    for name, schema in json_schema(side).items():
        defined = {f"#/$defs/{key}" for key in schema.get("$defs", {})}
        assert refs(schema) <= defined, name
        assert schema.get("additionalProperties", "$ref" in schema) in (False, True)


def test_the_schema_of_an_output_calls_its_version_schema() -> None:
    assert "schema" in json_schema("fit")["properties"]
    assert "additionalProperties" in json_schema("fit-request")


def test_all_schemas_are_inputs_and_outputs() -> None:
    both = json_schema()
    assert both["inputs"] == json_schema("inputs")
    assert both["outputs"] == json_schema("outputs")


def test_an_unknown_schema_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'plan-train-request'"):
        json_schema("plan-train-reqest")
