"""Measure, cut, pad and wrap text to the width of a column on a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

#: Below this no character is wide, and none but the soft hyphen has no width.
_NARROW_BELOW = "\u0300"


@cache
def _cell() -> Callable[[str], int]:
    """Return what knows how wide a character is; most text is ASCII and need not ask."""
    from rich.cells import get_character_cell_size

    return get_character_cell_size


def width_of(text: str) -> int:
    """Return how many cells a line of text takes on a terminal."""
    if text.isascii() or max(text) < _NARROW_BELOW:
        return len(text)
    return sum(map(_cell(), text))


def cut(text: str, width: int) -> str:
    """Cut text to at most `width` cells; a cut is marked with an ellipsis."""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + "…"
    cell = _cell()
    used = 0
    room = width - 1
    behind = 0  # where to cut, if there is a need to
    for index, character in enumerate(text):
        used += cell(character)
        if used <= room:
            behind = index + 1
        elif used > width:
            return text[:behind] + "…"
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad text with spaces to `width` cells."""
    if text.isascii():
        return text.rjust(width) if right else text.ljust(width)
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def fitted(text: str, width: int, *, right: bool = False, last: bool = False) -> str:
    """Cut or pad text to `width` cells; spaces at the end of a line are left out."""
    if text.isascii():
        if len(text) > width:
            return text[: width - 1] + "…"
        if right:
            return text.rjust(width)
        return text if last else text.ljust(width)
    text = cut(text, width)
    return text if last and not right else pad(text, width, right=right)


#: A name or a path may be broken after what joins its parts, but no number is.
_PIECE = re.compile(
    r".+?(?:[/]+|,+(?!\d{3}(?!\d))|[._:;=@-]+(?!\d)|\s+|$)(?![/._:;=@,-])", re.DOTALL
)
_WORD = re.compile(r"\S+\s*|\s+")


def pieces_of(text: str) -> list[str]:
    """Split text into pieces that stay whole where there is room."""
    return _PIECE.findall(text)


def fold(text: str, width: int) -> list[str]:
    """Break the text of a cell into lines of at most `width` cells.

    Words stay whole; one that is wider is broken between its pieces, and a piece only where it is
    wider itself.
    """
    lines: list[str] = []
    line = ""
    for word in _WORD.findall(text):
        for piece in [word] if width_of(word.rstrip()) <= width else pieces_of(word):
            if width_of((line + piece).rstrip()) <= width:
                line += piece
                continue
            if line:
                lines.append(line.rstrip())
                piece = piece.lstrip()
            while width_of(piece.rstrip()) > width:
                at = len(cut(piece, width + 1)) - 1 or 1
                lines.append(piece[:at])
                piece = piece[at:]
            line = piece
    if line.rstrip() or not lines:
        lines.append(line.rstrip())
    return lines


def wrap(text: str, width: int) -> list[str]:
    """Break text into lines; codes, options and paths stay whole, to be found and copied."""
    from textwrap import TextWrapper

    lines = TextWrapper(width, break_on_hyphens=False, break_long_words=False).wrap(text)
    return lines or [""]
