"""These tests build real modules; where torch or peft is missing they skip and say so."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

NEEDED = ("torch", "transformers", "peft")
REQUIREMENTS = "requirements/torch.txt"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a package that is not installed, with how to install it."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if not missing:
        return
    reason = f"needs {', '.join(missing)}: pip install -r {REQUIREMENTS}"
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))
