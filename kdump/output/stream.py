"""Write bytes in large pieces, without losing any to a slow reader.

Small pieces are gathered, large ones pass straight through, and what is gathered never waits long:
a rare hit of a long search appears when it is found.
"""

from __future__ import annotations

import time
from typing import BinaryIO, Protocol

from kdump.errors import PathError

_GATHER_BYTES = 256 * 1024
_PATIENCE_SECONDS = 0.2


class RawWriter(Protocol):
    """What can take bytes: a file, or a stand-in in a test."""

    def write(self, data: bytes | memoryview, /) -> int | None:
        """Write some of the bytes and say how many; None: the reader cannot take any now."""


class ByteStream:
    """A buffered writer over a raw one.

    It is not `io.BufferedWriter` because that copies large pieces, closes what lies below, and
    gives up when standard output was made non-blocking by the program at the other end.
    """

    def __init__(self, raw: RawWriter, name: str) -> None:
        self._raw = raw
        self._name = name
        self._gathered = bytearray()
        self._since = 0.0
        self._failure: OSError | PathError | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes; they may be written later, at the latest by `flush`."""
        if len(data) >= _GATHER_BYTES // 4:
            self.flush()
            self._write_all(data)
            return
        if not self._gathered:
            self._since = time.monotonic()
        self._gathered += data
        if len(self._gathered) >= _GATHER_BYTES or self._failure is not None:
            self.flush()

    def tick(self, *, at_once: bool = False) -> None:
        """Write what has waited long enough, or all.

        What goes wrong is raised by the next `write` or `flush`: whoever reads a file calls this,
        too, and would take it for an error of that file.
        """
        waited = time.monotonic() - self._since > _PATIENCE_SECONDS
        if self._gathered and self._failure is None and (waited or at_once):
            try:
                self.flush()
            except (OSError, PathError) as error:
                self._failure = error

    def flush(self) -> None:
        """Write everything gathered."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._gathered.clear()
            raise failure
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            self._write_all(gathered)

    def _write_all(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        while view:
            try:
                written = self._raw.write(view)
            except BlockingIOError:
                written = None
            except BrokenPipeError:
                raise  # the reader has seen enough: no error to speak of
            except OSError as error:
                raise PathError.from_os(self._name, error) from error
            if written is None:
                self._wait()
            else:
                view = view[written:]

    def _wait(self) -> None:
        import select

        fileno = getattr(self._raw, "fileno", None)
        if fileno is None:
            time.sleep(0.01)
        else:
            poll = select.poll()  # `select` takes no number of 1,024 or more
            poll.register(fileno(), select.POLLOUT)
            poll.poll()


def standard_output(binary: BinaryIO) -> ByteStream:
    """Return a stream over standard output, below its own buffer if it has one."""
    binary.flush()
    return ByteStream(getattr(binary, "raw", binary), "standard output")
