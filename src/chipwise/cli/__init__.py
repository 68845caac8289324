"""The command line: flags in, documents out, no arithmetic.

``flags`` and ``commands`` are tables; ``parser`` turns them into a typer application;
``settings`` joins flags, environment and run file; ``run`` calls the use case and writes the
document. Nothing here imports NumPy, pydantic or rich before a command needs it.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (the console script's entry)."""
    from chipwise.cli.run import run

    return run(argv)
