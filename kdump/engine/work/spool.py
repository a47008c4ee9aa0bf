"""Sort more than memory holds: sorted runs in scratch files, and their merge.

Entries are bytes, and are sorted as bytes. Those of several buckets begin with four bytes that are
spread evenly, such as a checksum; a bucket is a range of these, so that in every run it lies in one
stretch, and buckets can be merged apart. A run that nobody asks for, such as that of a task which
Spark started twice, is in nobody's way: its name is its own.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from tempfile import TemporaryDirectory
from uuid import uuid4

from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import Driver
from kdump.errors import PathError, path_errors
from kdump.kernels import merge_entries, sort_entries
from kdump.kernels.entries import FRAME_BYTES, entry_at, framed
from kdump.tuples import NamedTuple

#: Of entries that are held to be sorted.
_HELD_BYTES = 24 << 20
_LITTLE_BYTES = 64 << 10
#: What all runs of a merge may read ahead together, and one of them.
_AHEAD_BYTES = 32 << 20
_LEAST_AHEAD, _MOST_AHEAD = 4 << 10, 1 << 20

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
        self._starts = array("q", starts)
        self._held, self._most = bytearray(), held_bytes

    def add(self, entry: bytes) -> None:
        """Take an entry."""
        self.add_block(framed(entry))

    def add_block(self, block: bytes) -> None:
        """Take a block of entries, as kernels lay them out."""
        self._held += block
        if len(self._held) >= self._most:
            self.flush()

    def rest(self) -> bytes:
        """End with what is held as a block, for another to take; where it is much, write it."""
        if len(self._held) > _LITTLE_BYTES:
            self.flush()
        held, self._held = self._held, bytearray()
        return bytes(held)

    def flush(self) -> None:
        """Write what is held as a run."""
        held, self._held = self._held, bytearray()
        if not held:
            return
        block, firsts = sort_entries(held, self._starts)
        path = os.path.join(self._directory, uuid4().hex)
        try:
            with open(path, "xb") as file:
                file.write(block)
        except OSError as error:
            raise PathError(path, f"cannot be written ({error.strerror}); see --scratch") from None
        self.runs.append(SortedRun(path, (0, *firsts, len(block))))


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


def merge_runs(runs: Sequence[SortedRun], bucket: int = 0) -> Iterator[bytes]:
    """Yield the entries of a bucket of all runs, in order."""
    return merge(*(_entries(_Window(run, bucket, _read_ahead(runs))) for run in runs))


def find_repeated(
    runs: Sequence[SortedRun],
    bucket: int,
    tail: int,
    *,
    folds: bool = False,
    keys: array[int] | None = None,
) -> Iterator[bytes]:
    """Yield the entries of a bucket, in order, that are equal but for their last bytes.

    `folds` and `keys` are those of `merge_entries`, which passes over all others.
    """
    windows = [_Window(run, bucket, _read_ahead(runs)) for run in runs]
    at, more = array("q", [0] * len(runs)), array("q", (window.more for window in windows))
    counts = array("q") if keys is None else keys
    held, short = None, -1
    while True:
        data = [window.data for window in windows]
        block, short, held = merge_entries(data, at, more, tail, folds, held, counts)
        place = 0
        while (entry := entry_at(block, place)) is not None:
            yield entry
            place += FRAME_BYTES + len(entry)
        if short < 0:
            return
        windows[short].read_on(at[short])
        at[short], more[short] = 0, windows[short].more


def _read_ahead(runs: Sequence[SortedRun]) -> int:
    return min(max(_AHEAD_BYTES // max(len(runs), 1), _LEAST_AHEAD), _MOST_AHEAD)


class _Window:
    """Some of the entries of one run; it is opened for each read, as there may be very many."""

    def __init__(self, run: SortedRun, bucket: int, ahead: int) -> None:
        self.data = b""
        self._path, self._ahead = run.path, ahead
        self._position, self._end = run.bounds[bucket : bucket + 2]

    @property
    def more(self) -> bool:
        """Whether there is more to read."""
        return self._position < self._end

    def read_on(self, at: int) -> None:
        """Forget what lies before a place, and read the next entry behind it, and more."""
        left = self.data[at:]
        size = int.from_bytes(left[:FRAME_BYTES], "big") if len(left) >= FRAME_BYTES else 0
        wanted = max(self._ahead, FRAME_BYTES + size - len(left))
        try:
            with open(self._path, "rb", buffering=0) as file:
                file.seek(self._position)
                read = file.read(min(wanted, self._end - self._position))
        except OSError as error:
            raise PathError(self._path, f"cannot be read ({error.strerror})") from None
        if not read:
            raise PathError(self._path, "is shorter than it was written")
        self.data = left + read
        self._position += len(read)


def _entries(window: _Window) -> Iterator[bytes]:
    at = 0
    while True:
        while (entry := entry_at(window.data, at)) is not None:
            yield entry
            at += FRAME_BYTES + len(entry)
        if not window.more:
            return
        window.read_on(at)
        at = 0
