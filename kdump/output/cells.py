"""Text in fixed-width columns: how wide it is on a terminal, cut and padded to fit."""

from __future__ import annotations

from unicodedata import category, east_asian_width

_ZERO_WIDTH = frozenset(("Mn", "Me", "Cf"))


def _cell(character: str) -> int:
    if category(character) in _ZERO_WIDTH:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def width_of(text: str) -> int:
    """Return how many cells a line of text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def cut(text: str, width: int) -> str:
    """Cut text to at most `width` cells; a cut is marked with an ellipsis."""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + "…"
    if width_of(text) <= width:
        return text
    used = 0
    for index, character in enumerate(text):
        used += _cell(character)
        if used > width - 1:
            return text[:index] + "…"
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad text with spaces to `width` cells."""
    if text.isascii():
        return text.rjust(width) if right else text.ljust(width)
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces
