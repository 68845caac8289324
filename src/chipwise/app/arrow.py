"""The one door to pyarrow, which is an extra."""

from __future__ import annotations

from typing import Any

from chipwise.errors import UsageError
from chipwise.i18n import _


def load_arrow(extra: str) -> tuple[Any, Any]:
    """The modules ``pyarrow`` and ``pyarrow.parquet``.

    Args:
        extra: name of the extra that brings them.

    Raises:
        UsageError: not installed; says how to.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        text = _("Parquet files need pyarrow: pip install 'chipwise[{extra}]'")
        raise UsageError("extra-missing", text.format(extra=extra), extra=extra) from None
    return pyarrow, pyarrow.parquet
