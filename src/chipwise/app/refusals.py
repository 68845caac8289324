"""Why a request is refused, in words: the flag, the value, and what would be valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import ErrorDetails

from chipwise.errors import UsageError, nearest_names, shortened
from chipwise.i18n import _


def usage_error(kind: type[BaseModel], problems: list[ErrorDetails]) -> UsageError:
    """The error of a request: its first problem, said by flag and value."""
    first = problems[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    code, text = _described(kind, field, first)
    return UsageError(code, text, field=field, value=_plain(first["input"]))


def _plain(value: object) -> object:
    return value if isinstance(value, (str, int, float, bool, list)) else None


def flag_of(field: str) -> str:
    """The flag or argument that carries a field, as a person writes it."""
    if field in ("model", "quantity", "file", "id"):
        return field.upper()
    return f"--{field.replace('_', '-')}"


def _described(kind: type[BaseModel], field: str, problem: ErrorDetails) -> tuple[str, str]:
    flag, given = flag_of(field), problem["input"]
    match problem["type"]:
        case "missing" if field:
            return "missing-value", _("{flag} is missing").format(flag=flag)
        case "extra_forbidden":
            near = nearest_names(field, kind.model_fields, 1)
            hint = _("; did you mean '{name}'?").format(name=near[0]) if near else ""
            return "unknown-field", _("unknown field '{field}'{hint}").format(
                field=field, hint=hint
            )
        case "literal_error":
            known = choices_of(kind, field)
            near = nearest_names(str(given), known, 1)
            hint = _("; did you mean '{name}'?").format(name=near[0]) if near else ""
            return "unknown-choice", _("{flag} '{given}' is not one of {known}{hint}").format(
                flag=flag, given=given, known=", ".join(known), hint=hint
            )
        case "int_type" | "int_parsing" | "int_from_float":
            return "not-a-whole-number", _("{flag} '{given}' is not a whole number").format(
                flag=flag, given=given
            )
        case "greater_than_equal" | "greater_than" | "less_than" | "less_than_equal":
            return "out-of-range", _("{flag} {given} is out of range: {rule}").format(
                flag=flag, given=given, rule=_bounds(problem)
            )
        case "date_from_datetime_parsing" | "date_parsing" | "date_type":
            return "not-a-date", _("{flag} '{given}' is no date; write it like 2026-08-31").format(
                flag=flag, given=shortened(str(given))
            )
        case "float_parsing" | "float_type":
            return "not-a-number", _("{flag} '{given}' is not a number").format(
                flag=flag, given=shortened(str(given))
            )
        case "bool_parsing" | "bool_type":
            return "not-yes-or-no", _("{flag} '{given}' is neither yes nor no").format(
                flag=flag, given=given
            )
    context = problem.get("ctx", {})
    plain = _("'{given}' is nothing that can be meant here").format(given=shortened(str(given)))
    reason = str(context.get("reason", plain))
    own_code = problem["type"] if "reason" in context else "invalid-value"
    code = str(context.get("code", own_code))
    return code, f"{flag}: {reason}" if field else reason


def _bounds(problem: ErrorDetails) -> str:
    context = problem.get("ctx", {})
    for key, sign in (("ge", "≥"), ("gt", ">"), ("lt", "<"), ("le", "≤")):
        if key in context:
            return _("must be {sign} {limit}").format(sign=sign, limit=context[key])
    return problem["msg"]


def choices_of(kind: type[BaseModel], field: str) -> tuple[str, ...]:
    """The words a field allows, read from its type; empty for numbers and free text."""
    annotation: Any = kind.model_fields[field].annotation
    schema = TypeAdapter(annotation).json_schema()
    found: list[str] = []

    def collect(part: Any) -> None:
        if isinstance(part, Mapping):
            found.extend(str(word) for word in part.get("enum", ()))
            if "const" in part:
                found.append(str(part["const"]))
            for inner in part.values():
                collect(inner)
        elif isinstance(part, list):
            for inner in part:
                collect(inner)

    collect(schema)
    return tuple(dict.fromkeys(found))
