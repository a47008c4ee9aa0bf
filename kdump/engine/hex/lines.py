"""Collect lines of annotated bytes: position, bytes, field name, value, remark.

Everything from the log reaches a line as hex digits or printable ASCII. No line is longer than the
width given, 100 columns at most; long fields are shown by their ends, and a line says how much is
left out between.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import wrap

WIDTH = 100
LEAST_WIDTH = 76
MAX_LINES = 4000
REST_BYTES = 512  # of what could not be decoded
_FIELD_BYTES = 8  # a field this long stands on one line with its name
_ROW_BYTES = 16
_NARROW_ROW_BYTES = 8
_TIME_WIDTH = 24  # a remark that is a time is never broken
_SHOWN_WHOLE = 128
_SHOWN_HEAD, _SHOWN_TAIL = 64, 32
_OWN_MARKS = frozenset("✓✗…·→")
_PLAIN_LINE = re.compile(r"[!-~✓✗…·→](?:[ -~✓✗…·→]*[!-~✓✗…·→])?\Z")
_DOT = ord(".")
_ASCII = bytes(byte if 0x20 <= byte < 0x7F else _DOT for byte in range(256))


class Lines:
    """Collects lines. `mark` goes before each position: + in the entry, = in uncompressed bytes."""

    def __init__(
        self,
        size_bytes: int,
        mark: str = "+",
        out: list[str] | None = None,
        *,
        width: int = WIDTH,
    ) -> None:
        self.lines: list[str] = [] if out is None else out
        self.muted = False
        #: What hides secrets in the value of a record, and whether all other bytes may be secret.
        self.redact: Callable[[bytes], bytes | None] | None = None
        self.hides_rest = False
        self._width = min(max(width, LEAST_WIDTH), WIDTH)
        self._row_bytes = _ROW_BYTES if self._width == WIDTH else _NARROW_ROW_BYTES
        self._mark = mark
        self._digits = max(2, len(str(max(size_bytes, 0))))

    @property
    def full(self) -> bool:
        """Whether so much was written that whole records are to be left out."""
        return len(self.lines) >= MAX_LINES

    def enter(self, size_bytes: int) -> Lines:
        """Go on in uncompressed bytes, whose positions count from their own start."""
        inside = Lines(size_bytes, "=", self.lines, width=self._width)
        inside.redact, inside.hides_rest = self.redact, self.hides_rest
        return inside

    def at(self, position: int) -> str:
        """Write a position as text inside a line."""
        return f"{self._mark}{position:,}"

    def field(
        self, position: int, raw: bytes | memoryview, name: str, value: str = "", remark: str = ""
    ) -> None:
        """Write one field of up to ten bytes."""
        if self.muted:
            return
        head = f"  {self._mark}{position:<{self._digits}}  {raw.hex(' '):<23}   {name:<20}  "
        if len(head) + len(value) > self._width:
            head = f"{head.rstrip()} "
        if not remark:
            self.lines.append(head + value)
            return
        column = len(head) + max(len(value) + 2, 14)
        if column + len(remark) <= self._width:
            self._add(f"{head}{value}".ljust(column) + remark)
            return
        column = len(head) + len(value) + 2
        if column + len(remark) <= self._width:
            self._add(f"{head}{value}  {remark}")
            return
        column = len(head) + 14
        if self._width - column < _TIME_WIDTH:
            column = min(len(head), self._width - _TIME_WIDTH)
        first, *more = wrap(remark, self._width - column) or [""]
        if len(head) + len(value) + 2 <= column:
            self._add(f"{head}{value}".ljust(column) + first)
        else:
            self._add(head + value)
            more = [first, *more]
        for words in more:
            self._add(" " * column + words)

    def data(self, position: int, raw: memoryview, label: str) -> None:
        """Write bytes whose length stood before them: in hex and ASCII, long ones in part."""
        if self.muted:
            return
        if self.redact is not None and label == "value":
            raw = memoryview(self.redact(bytes(raw)) or raw)
        if len(raw) <= _FIELD_BYTES:
            self.field(position, raw, label, bytes(raw).translate(_ASCII).decode("ascii"))
            return
        if len(raw) <= _SHOWN_WHOLE:
            self.rows(position, raw, label)
            return
        self.rows(position, raw[:_SHOWN_HEAD], label)
        tail = len(raw) - _SHOWN_TAIL
        self._add(f"{'':{self._digits + 5}}… {tail - _SHOWN_HEAD:,} bytes …")
        self.rows(position + tail, raw[tail:], "")

    def rows(self, position: int, raw: memoryview, label: str = "") -> None:
        """Write bytes sixteen to a line, or eight where there is less room."""
        for start in range(0, len(raw), self._row_bytes):
            piece = bytes(raw[start : start + self._row_bytes])
            text = piece.translate(_ASCII).decode("ascii")
            at = f"  {self._mark}{position + start:<{self._digits}}  "
            line = f"{at}{piece.hex(' '):<{3 * self._row_bytes - 1}}  {text:<{self._row_bytes}}"
            self._add(f"{line}  {label}" if label and not start else line.rstrip())

    def write_rest(self, position: int, raw: memoryview) -> None:
        """Write the first of some bytes nobody could make sense of, and how many more there are."""
        if self.hides_rest and len(raw):
            self.text(f"… {len(raw):,} bytes that may contain secrets (--show-secrets)")
            return
        self.rows(position, raw[:REST_BYTES])
        if len(raw) > REST_BYTES:
            self.text(f"… {len(raw) - REST_BYTES:,} more bytes")

    def text(self, words: str) -> None:
        """Write a sentence of ours; what it quotes is made harmless."""
        if len(words) <= self._width - 2 and _PLAIN_LINE.match(words):
            self._add("  " + words)
            return
        for line in wrap(to_ascii(words), self._width - 2) or [""]:
            self._add("  " + line)

    def stop(self, position: int, words: str, rest: memoryview | None = None) -> None:
        """Say where decoding ends, and why, and write what it did not come to."""
        self.text(f"✗ decoding stops at {self.at(position)}: {words}")
        if rest is not None:
            self.write_rest(position, rest)

    def _add(self, line: str) -> None:
        self.lines.append(line)


def to_ascii(text: str) -> str:
    """Return text in printable ASCII and a few marks of our own; the rest is spelled out."""
    return "".join(
        character
        if " " <= character <= "~" or character in _OWN_MARKS
        else character.encode("ascii", "backslashreplace").decode("ascii")
        if character > "~" and character != "\x7f"
        else f"\\x{ord(character):02x}"
        for character in text
    )
