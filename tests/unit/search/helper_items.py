"""Functions that other processes can import."""

from __future__ import annotations

import os
import time


def doubled(number: int) -> int:
    """Twice the number, after a while."""
    time.sleep(0.02)
    return 2 * number


def where(_number: int) -> int:
    """The process that works on it."""
    time.sleep(0.05)
    return os.getpid()


def deadly(number: int) -> int:
    """Twice the number; a process other than the first dies of the fourth."""
    if number >= 3 and str(os.getpid()) != os.environ["FIRST_PROCESS"]:
        os._exit(1)
    return doubled(number)


def refusing(number: int) -> int:
    """Twice the number, but for the sixth and those behind it."""
    if number >= 5:
        raise ValueError(f"no {number}")
    return doubled(number)
