"""Print a report in lines of text for a person: what `verify` and `compare` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from kdump.output.column_widths import wrap
from kdump.output.escape import wants_colour
from kdump.output.messages import SGR
from kdump.output.sink import Sink
from kdump.tuples import NamedTuple

#: No line is longer, however wide the terminal: sentences are read.
_WIDEST = 100


class Page(NamedTuple):
    """Where a report is printed, how wide, and whether in colours."""

    write: Callable[[bytes], object]
    width: int = _WIDEST
    colour: bool = False

    @classmethod
    def on(cls, terminal: TextIO, write: Callable[[bytes], object]) -> Page:
        """Return the page of a terminal, to which `write` leads."""
        from shutil import get_terminal_size  # it brings every compression of the library

        return cls(write, get_terminal_size((_WIDEST, 24)).columns, wants_colour(terminal))


class TextReport(Sink):
    """Writes lines, what is too long for one on several; `quiet` leaves only findings."""

    def __init__(self, page: Page, *, quiet: bool) -> None:
        self._write = page.write
        self._width = min(page.width, _WIDEST)
        self._colour = page.colour
        self._quiet = quiet

    def _line(self, text: str = "") -> None:
        self._write(text.encode("utf-8", "backslashreplace") + b"\n")

    def _lines(self, lines: Iterable[str], indent: str = "") -> None:
        for line in lines:
            self._line(indent + line if line else "")

    def _wrapped(self, text: str, indent: str = "", mark: str = "") -> None:
        """Write text behind an indent and a mark; what goes on below stands under its begin."""
        for number, line in enumerate(wrap(text, self._width - len(indent) - len(mark))):
            self._line(indent + (" " * len(mark) if number else mark) + line)

    def _word(self, word: str, kind: str | None) -> str:
        """Colour a word as a severity is; None: green."""
        return f"\x1b[{SGR[kind] if kind else '32'}m{word}\x1b[0m" if self._colour else word
