"""Every byte comes out, in order, whatever the reader does."""

import errno
import os

import pytest

from kdump.errors import PathError
from kdump.output.stream import ByteStream


class Slow:
    """Takes few bytes at a time, and now and then none."""

    def __init__(self) -> None:
        self.taken = bytearray()
        self.calls = 0

    def write(self, data: bytes | memoryview) -> int | None:
        self.calls += 1
        if self.calls % 3 == 0:
            return None
        if self.calls % 3 == 1:
            raise BlockingIOError
        self.taken += data[:7]
        return min(7, len(data))


def test_all_bytes_arrive_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    slow = Slow()
    stream = ByteStream(slow, "slow")
    pieces = [bytes([n]) * n for n in range(60)]
    for piece in pieces:
        stream.write(piece)
    stream.flush()
    assert bytes(slow.taken) == b"".join(pieces)


def test_large_pieces_do_not_overtake_small_ones() -> None:
    slow: list[bytes] = []

    class Raw:
        def write(self, data: bytes | memoryview) -> int:
            slow.append(bytes(data))
            return len(data)

    stream = ByteStream(Raw(), "raw")
    stream.write(b"small")
    stream.write(b"L" * 100_000)
    assert slow == [b"small", b"L" * 100_000]


class Full:
    """Takes nothing."""

    def write(self, data: bytes | memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_is_an_error_of_the_file() -> None:
    stream = ByteStream(Full(), "out.jsonl")
    stream.write(b"x")
    with pytest.raises(PathError, match="No space left"):
        stream.flush()


def test_error_that_a_reader_met_is_raised_once_by_the_writer() -> None:
    stream = ByteStream(Full(), "out.jsonl")
    stream.write(b"x")
    stream.tick(at_once=True)
    stream.tick(at_once=True)
    with pytest.raises(PathError, match="No space left"):
        stream.write(b"y")
    stream.flush()


def test_broken_pipe_is_passed_on() -> None:
    class Gone:
        def write(self, data: bytes | memoryview) -> int:
            raise BrokenPipeError

    stream = ByteStream(Gone(), "pipe")
    stream.write(b"x")
    with pytest.raises(BrokenPipeError):
        stream.flush()
