"""Sort more than memory holds: sorted runs in scratch files, and their merge.

Entries are bytes, and are sorted as bytes. Those of several buckets begin with four bytes that are
spread evenly, such as a checksum; a bucket is a range of these, so that in every run it lies in one
stretch, and buckets can be merged apart. A run that nobody asks for, such as that of a task which
Spark started twice, is in nobody's way: its name is its own.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import islice, pairwise
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import uuid4

from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import Driver
from kdump.errors import PathError, path_errors

#: Of entries that are held to be sorted, with what Python adds to each.
_HELD_BYTES = 48 << 20
_ENTRY_BYTES = 48
_WRITTEN = 1 << 13
#: What all runs of a merge may read ahead together, and one of them.
_AHEAD_BYTES = 32 << 20
_LEAST_AHEAD, _MOST_AHEAD = 4 << 10, 1 << 20
_SIZE_BYTES = 4


#: Bytes of logs that are one bucket.
_BUCKET_BYTES, _MOST_BUCKETS = 256 << 20, 256


class SortedRun(NamedTuple):
    """A scratch file of sorted entries; bucket b lies from `bounds[b]` to `bounds[b + 1]`."""

    path: str
    bounds: tuple[int, ...]


class Spool:
    """Takes entries in any order, and leaves sorted runs in a directory."""

    def __init__(self, directory: str, buckets: int = 1, held_bytes: int = _HELD_BYTES) -> None:
        self.runs: list[SortedRun] = []
        self._directory = directory
        starts = (-(-(number << 32) // buckets) for number in range(1, buckets))
        self._starts = [start.to_bytes(4, "big") for start in starts]
        self._held: list[bytes] = []
        self._size, self._most = 0, held_bytes

    def add(self, entry: bytes) -> None:
        """Take an entry."""
        self._held.append(entry)
        self._size += len(entry) + _ENTRY_BYTES
        if self._size >= self._most:
            self.flush()

    def flush(self) -> None:
        """Write what is held as a run."""
        held, self._held, self._size = self._held, [], 0
        if not held:
            return
        held.sort()
        firsts = [0, *(bisect_left(held, start) for start in self._starts), len(held)]
        path = os.path.join(self._directory, uuid4().hex)
        bounds = [0]
        try:
            with open(path, "xb") as file:
                for first, end in pairwise(firsts):
                    entries = islice(held, first, end)
                    while some := list(islice(entries, _WRITTEN)):
                        file.write(b"".join([_framed(entry) for entry in some]))
                    bounds.append(file.tell())
        except OSError as error:
            raise PathError(path, f"cannot be written ({error.strerror}); see --scratch") from None
        self.runs.append(SortedRun(path, tuple(bounds)))


def buckets_for(size_bytes: int) -> int:
    """Say how many buckets the entries of so many bytes of logs should have."""
    return min(max(size_bytes // _BUCKET_BYTES, 1), _MOST_BUCKETS)


class Bucket(NamedTuple):
    """A part of the entries, to be looked at alone; `path` is the directory of scratch files."""

    number: int
    runs: tuple[SortedRun, ...]
    path: str
    size_bytes: int


def take_up_buckets(
    runs: Sequence[SortedRun], count: int, directory: str, progress: Progress
) -> list[Bucket]:
    """Make the buckets of all runs, and tell the progress."""
    sizes = [sum(run.bounds[at + 1] - run.bounds[at] for run in runs) for at in range(count)]
    progress.planned_items += count
    progress.planned_bytes += sum(sizes)
    return [Bucket(number, tuple(runs), directory, size) for number, size in enumerate(sizes)]


@contextmanager
def scratch_directory(parent: str | None, driver: Driver) -> Iterator[str]:
    """Give a directory for runs that this process and those of a driver see, and clear it away."""
    with path_errors(parent or "--scratch"):
        scratch = TemporaryDirectory(prefix="kdump-", dir=parent)
    with scratch as directory:
        driver.will_write(os.path.abspath(directory))
        yield os.path.abspath(directory)


def merged(runs: Sequence[SortedRun], bucket: int = 0) -> Iterator[bytes]:
    """Yield the entries of a bucket of all runs, in order."""
    ahead = min(max(_AHEAD_BYTES // max(len(runs), 1), _LEAST_AHEAD), _MOST_AHEAD)
    return merge(*(_entries(run, bucket, ahead) for run in runs))


def _framed(entry: bytes) -> bytes:
    return len(entry).to_bytes(_SIZE_BYTES, "big") + entry


def _entries(run: SortedRun, bucket: int, ahead: int) -> Iterator[bytes]:
    """Yield the entries of one run; it is opened for each read, as there may be very many."""
    position, end = run.bounds[bucket : bucket + 2]
    size_of, data, at = int.from_bytes, b"", 0
    while True:
        following = at + _SIZE_BYTES
        size = size_of(data[at:following], "big") if following <= len(data) else 0
        if following <= len(data) and following + size <= len(data):
            at = following + size
            yield data[following:at]
            continue
        left = data[at:]
        if position >= end and not left:
            return
        wanted = min(max(ahead, _SIZE_BYTES + size - len(left)), end - position)
        try:
            with open(run.path, "rb", buffering=0) as file:
                file.seek(position)
                read = file.read(wanted)
        except OSError as error:
            raise PathError(run.path, f"cannot be read ({error.strerror})") from None
        if not read:
            raise PathError(run.path, "is shorter than it was written")
        data, at = left + read, 0
        position += len(read)
