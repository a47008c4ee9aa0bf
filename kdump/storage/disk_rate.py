"""Measure how fast a disk gives files, past the page cache and without a change to it."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from contextlib import suppress

from kdump.stores.quiet_open import open_quietly
from kdump.tuples import NamedTuple

_PIECES, _PIECE_BYTES = 16, 32 << 20
_READ_BYTES = 1 << 20
_SECONDS = 3.0
#: Linux's way past the page cache; what needs a buffer at the start of a page.
_DIRECT = getattr(os, "O_DIRECT", 0)
_ENOUGH = 4 << 20  # a piece that is smaller says nothing


class DiskRate(NamedTuple):
    """The slowest and the fastest piece that was read, in bytes a second.

    `cached`: the file system has no way past its cache, so that memory may have been measured.
    """

    low: int
    high: int
    cached: bool


def measure(files: Sequence[tuple[str, int]], seconds: float = _SECONDS) -> DiskRate | None:
    """Read pieces spread evenly over some files, given with their sizes, for so many seconds.

    None where there is too little to read, or nothing of it can be.
    """
    total = sum(size for _, size in files)
    rates: list[float] = []
    cached = False
    ends = time.monotonic() + seconds
    for number in range(_PIECES):
        if time.monotonic() > ends:
            break
        path, position, size = _piece(files, total * number // _PIECES)
        with suppress(OSError):
            read, took, direct = _read(path, position, min(size, total // _PIECES + 1))
            if read >= min(_ENOUGH, total):
                rates.append(read / took)
                cached |= not direct
    if not rates:
        return None
    return DiskRate(int(min(rates)), int(max(rates)), cached)


def _piece(files: Sequence[tuple[str, int]], at: int) -> tuple[str, int, int]:
    """Return the file that has a byte of all of them, the position there, and what follows."""
    for path, size in files:
        if at < size:
            position = at - at % mmap.PAGESIZE
            return path, position, min(size - position, _PIECE_BYTES)
        at -= size
    return "", 0, 0


def _read(path: str, position: int, size: int) -> tuple[int, float, bool]:
    """Read a piece, and say how much it was, how long it took, and whether the disk was asked."""
    try:
        descriptor, direct = open_quietly(path, _DIRECT), bool(_DIRECT)
    except OSError:
        descriptor, direct = open_quietly(path), False
    try:
        with mmap.mmap(-1, _READ_BYTES) as buffer:
            began, read = time.perf_counter(), 0
            while read < size:
                got = os.preadv(descriptor, [buffer], position + read)
                read += got
                if got < _READ_BYTES:
                    break
            return read, max(time.perf_counter() - began, 1e-6), direct
    finally:
        os.close(descriptor)
