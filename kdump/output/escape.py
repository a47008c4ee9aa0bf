"""Send text to a terminal, no wider than it is, and nothing that the terminal would obey."""

from __future__ import annotations

import os
import re
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from kdump.findings.escape import escape_json as escape_json
from kdump.findings.escape import name_text as name_text
from kdump.findings.escape import visible as visible
from kdump.findings.escape import visible_bytes as visible_bytes

#: No line of sentences is longer, however wide the terminal.
SENTENCE_WIDTH = 100


class TerminalDoor:
    """Passes output on to a terminal, with all spelled out that it would obey but our own colours.

    Names and values are spelled out where lines are made of them; what was missed there is stopped
    here, whichever command wrote it.
    """

    def __init__(self, write: Callable[[bytes], object], *, colour: bool) -> None:
        self._write = write
        self._own = re.compile(r"(\x1b\[[0-9;]*m|[\n\t])" if colour else r"([\n\t])")
        self._decode = getincrementaldecoder("utf-8")("backslashreplace").decode
        self._plain = re.compile(rb"[\n\t -~]*")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take some bytes of UTF-8."""
        if self._plain.fullmatch(data):
            self._write(bytes(data))
            return
        parts = self._own.split(self._decode(bytes(data)))
        parts[::2] = map(visible, parts[::2])  # every other one is our own
        self._write("".join(parts).encode())


def terminal_columns() -> int:
    """Return COLUMNS, else the width of the terminal that one of the standard streams is."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given):
        return int(given)
    for descriptor in (1, 2, 0):
        with suppress(OSError):
            if width := os.get_terminal_size(descriptor).columns:
                return width
    return SENTENCE_WIDTH


def is_terminal(file: TextIO | None) -> bool:
    """Say whether a person sits at the other end."""
    try:
        return file is not None and file.isatty()
    except ValueError:  # closed
        return False


#: Signs and lines that kdump draws, and what stands for each of them in ASCII, as wide.
_IN_ASCII = str.maketrans("\u2026·✗→✓∅×▏▎▍▌▋▊▉█▒▲─━│┃–≈", "~|x>+0x   #####:^--||-~")


def encoding_of(file: TextIO | None) -> str:
    """Return the encoding for a person who reads a file; ASCII where the locale of a terminal is C.

    Python itself takes that locale for UTF-8.
    """
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    if locale in ("C", "POSIX") and is_terminal(file):
        return "ascii"
    return getattr(file, "encoding", None) or "utf-8"


def encode(text: str, encoding: str) -> bytes:
    """Encode text for a person; what is drawn is ASCII where the encoding is not Unicode's."""
    if not text.isascii() and not encoding.lower().startswith("utf"):
        text = text.translate(_IN_ASCII)
    return text.encode(encoding, "backslashreplace")


def wants_colour(file: TextIO | None) -> bool:
    """Say whether to send colours: a terminal that is not dumb, or FORCE_COLOR; never NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(file) and os.environ.get("TERM") not in ("dumb", "unknown")


def silence(file: TextIO) -> None:
    """Point a standard file at nothing, so that the flush at exit cannot fail once more."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, file.fileno())
        os.close(nothing)
    except (OSError, ValueError):  # it is closed, or a stand-in without a number
        pass
