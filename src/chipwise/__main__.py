"""``python -m chipwise``: the command line."""

from __future__ import annotations

import sys

from chipwise.cli import main

sys.exit(main())
