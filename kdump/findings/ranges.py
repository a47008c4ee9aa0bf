"""Write ranges of offsets for messages and tables."""

from __future__ import annotations


def range_text(first: int, last: int) -> str:
    """Write a range for a sentence; a dash beside a minus sign would be taken for another."""
    return f"{first:,} to {last:,}" if first < 0 or last < 0 else f"{first:,}-{last:,}"


def range_cell(first: int | str, last: int | str) -> str:
    """Write a range for a table or a list, without separators."""
    dash = " to " if "-" in f"{first}{last}" else "\N{EN DASH}"
    return f"{first}{dash}{last}"
