"""Decode keys and values by a program of the user's, one process for each process of kdump.

It is written, for each key and value: the size of what follows (4 bytes, big endian), `k` or `v`,
the size of the topic's name (2 bytes) and the name, and the bytes. It answers with a size and JSON
in UTF-8; with size 0 the bytes stay as they are. A program that ends, or does not answer in time,
is not asked again.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from struct import pack
from typing import IO

from kdump.findings.shell import words_of
from kdump.values.schemas.errors import UndecodedError
from kdump.values.schemas.json_document import document

#: A longer answer is none.
_MOST_BYTES = 64 << 20
ENDED = "the decoder ended"


class Command:
    """A program that decodes."""

    _process: subprocess.Popen[bytes] | None = None

    def __init__(self, command: str, timeout_s: float) -> None:
        self._words, self._timeout_s = words_of(command), timeout_s
        if not self._words:
            raise ValueError("a command is needed")
        self.name = self._words[0]
        #: Why it is not asked any more.
        self.why: str | None = None
        self.said = b'"schema":' + json.dumps({"decoder": self.name}).encode()

    def text(self, topic: str, side: str, data: bytes) -> str | None:
        """Return JSON of a key or a value; None: it stays. Raises Undecoded."""
        if self.why is not None:
            raise UndecodedError(ENDED, self.why)
        name = topic.encode("utf-8", "surrogateescape")
        frame = side[0].encode() + pack(">H", len(name)) + name + data
        try:
            answer = self._ask(pack(">I", len(frame)) + frame)
        except (OSError, ValueError, TimeoutError) as error:
            self.why = str(error) or type(error).__name__
            self.close()
            raise UndecodedError(ENDED, self.why) from None
        if not answer:
            return None
        try:
            return document(answer, 0)
        except UndecodedError as error:
            raise UndecodedError("the decoder's answer is not JSON", str(error)) from None

    def close(self) -> None:
        """End the program."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        pass
            self._process = None

    def __del__(self) -> None:
        self.close()

    def _ask(self, frame: bytes) -> bytes:
        if self._process is None:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        until = time.monotonic() + self._timeout_s
        self._write(process.stdin, frame, until)
        size = int.from_bytes(self._read(process.stdout, 4, until), "big")
        if size > _MOST_BYTES:
            raise ValueError(f"an answer of {size} bytes")
        return self._read(process.stdout, size, until)

    @staticmethod
    def _write(pipe: IO[bytes], data: bytes, until: float) -> None:
        left = memoryview(data)
        while left:
            _wait(pipe, select.POLLOUT, until)
            left = left[os.write(pipe.fileno(), left) :]

    @staticmethod
    def _read(pipe: IO[bytes], size: int, until: float) -> bytes:
        parts = []
        while size:
            _wait(pipe, select.POLLIN, until)
            part = os.read(pipe.fileno(), min(size, 1 << 20))
            if not part:
                raise OSError("it closed its output")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _wait(pipe: IO[bytes], event: int, until: float) -> None:
    """Wait for a pipe; `select` would not take one with a number of 1,024 or more."""
    poll = select.poll()
    poll.register(pipe, event)
    if not poll.poll(max(0, until - time.monotonic()) * 1000):
        raise TimeoutError("no answer in time")
