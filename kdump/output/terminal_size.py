"""How wide the terminal is."""

from __future__ import annotations

import os
from contextlib import suppress

#: No line of sentences is longer, however wide the terminal.
SENTENCE_WIDTH = 100


def terminal_columns() -> int:
    """Return COLUMNS, else the width of the terminal that one of the standard streams is."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given):
        return int(given)
    for descriptor in (1, 2, 0):
        with suppress(OSError):
            if width := os.get_terminal_size(descriptor).columns:
                return width
    return SENTENCE_WIDTH
