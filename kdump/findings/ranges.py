"""Write ranges of offsets for messages and tables."""

from __future__ import annotations


def range_text(first: int, last: int) -> str:
    """Write a range for a sentence; a dash beside a minus sign would be taken for another."""
    return f"{first:,} to {last:,}" if first < 0 or last < 0 else f"{first:,}-{last:,}"


def records_text(count: int) -> str:
    """Write how many records, for a sentence."""
    return "1 record" if count == 1 else f"{count:,} records"


def offsets_text(first: int, last: int) -> str:
    """Write a range of offsets, or one offset, for a sentence."""
    return f"offset {first:,}" if first == last else f"offsets {range_text(first, last)}"


def offsets_clause(first: int, last: int, verb: str, verb_of_one: str) -> str:
    """Begin a sentence about a range of offsets, or about one."""
    words = offsets_text(first, last).capitalize()
    return f"{words} {verb_of_one if first == last else verb}"


def range_cell(first: int | str, last: int | str) -> str:
    """Write a range for a table or a list, without separators; of one number that alone."""
    if first == last:
        return f"{first}"
    dash = " to " if "-" in f"{first}{last}" else "\N{EN DASH}"
    return f"{first}{dash}{last}"
