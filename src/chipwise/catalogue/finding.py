"""What the check of the catalogue finds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing that does not hold."""

    file: str
    field: str
    severity: Severity
    message: str


def is_date(text: str) -> bool:
    """Whether a text is a day in ISO 8601."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
