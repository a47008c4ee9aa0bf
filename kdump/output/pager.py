"""Show a table that is longer than the terminal in a pager."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from kdump.output.stream import ByteStream, RawWriter

if TYPE_CHECKING:
    from subprocess import Popen

#: What comes more slowly is written as it comes: nobody waits for a screen to be full.
_PATIENCE_SECONDS = 0.5


class PagedStream(ByteStream):
    """A stream over a terminal that starts a pager where there is more than one screen."""

    def __init__(self, raw: RawWriter, name: str, lines: int, before: Callable[[], None]) -> None:
        """`before` makes room on the terminal for a pager."""
        super().__init__(raw, name)
        self._terminal, self._lines, self._before = raw, lines, before
        self._held = bytearray()
        self._held_since = 0.0
        self._is_settled = lines <= 0
        self._process: Popen[bytes] | None = None

    def flush(self) -> None:
        """Write everything gathered, but for what is less than a screen and did not wait long."""
        super().flush()
        if self._held and time.monotonic() - self._held_since > _PATIENCE_SECONDS:
            self._settle()

    def end(self) -> None:
        """Write what is left, and wait until the pager is left."""
        with suppress(BrokenPipeError):
            self.flush()
            self._settle()
        process, self._process = self._process, None
        self._raw = self._terminal
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            while process.poll() is None:
                with suppress(KeyboardInterrupt):  # for the pager
                    process.wait()

    def _write_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_settled:
            super()._write_all(data)
            return
        if not self._held:
            self._held_since = time.monotonic()
        self._held += data
        if self._held.count(b"\n") >= self._lines:
            self._start()
            self._settle()

    def _settle(self) -> None:
        """Write what is held, and hold no more."""
        self._is_settled = True
        held, self._held = self._held, bytearray()
        super()._write_all(held)

    def _start(self) -> None:
        import subprocess

        from kdump.findings.shell import words_of

        command = os.environ.get("KDUMP_PAGER", os.environ.get("PAGER", "less"))
        self._before()
        with suppress(OSError, ValueError):  # the program is missing, or a quote is not closed
            if words := words_of(command):
                self._process = subprocess.Popen(
                    words, stdin=subprocess.PIPE, bufsize=0, env={"LESS": "FRX", **os.environ}
                )
                assert self._process.stdin is not None
                self._raw = self._process.stdin


class PagedErrors:
    """Standard error on the terminal of a paged stream: its lines are among those paged."""

    def __init__(self, file: TextIO, stream: PagedStream) -> None:
        self.encoding, self._stream = file.encoding, stream

    def write(self, text: str) -> None:
        """Write text."""
        self._stream.write(text.encode(self.encoding or "utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Write everything, as far as the stream does."""
        self._stream.flush()


def open_pager(terminal: TextIO, before: Callable[[], None]) -> PagedStream:
    """Return a paged stream over standard output, which is a terminal."""
    terminal.flush()
    raw: RawWriter = getattr(terminal.buffer, "raw", terminal.buffer)
    lines = 0  # not known
    with suppress(OSError):
        lines = os.get_terminal_size(terminal.fileno()).lines
    return PagedStream(raw, "standard output", lines, before)
