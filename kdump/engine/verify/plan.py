"""Plan a run of verify: one item a partition, and the segments it leaves out.

The plan only lists. A partition is listed again when its turn comes, so that a long run judges
what is there then, and an item stays small.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kdump.engine.verify.options import (
    NOT_NAMED,
    OUT_OF_TIME,
    OUT_OF_TIME_BYTES,
    OUTSIDE_SUBSET,
    Item,
    Skip,
)
from kdump.errors import KdumpError, PathError
from kdump.storage import names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.targets import Selection, Target, resolve

if TYPE_CHECKING:
    from kdump.engine.verify.options import VerifyOptions
    from kdump.engine.verify.state import VerifyState
    from kdump.engine.work.pipeline import Driver
    from kdump.findings.finding import Finding

#: Log bytes of a piece, at least and at most: some tenths of a second of work, and some seconds.
_LEAST_SPLIT_BYTES = 256 << 20
_MOST_SPLIT_BYTES = 1 << 30
_PIECES_A_JOB = 4  # so that no worker is long idle at the end


def plan(
    paths: Iterable[str], options: VerifyOptions, state: VerifyState | None
) -> Iterator[Item | KdumpError]:
    """Yield an item for each partition under the paths, and an error for each that is none."""
    for target in resolve(paths, options.selection, options.server_properties, listed=False):
        yield target if isinstance(target, KdumpError) else _item(target, options, state)


def split_bytes_for(items: Collection[Item], options: VerifyOptions, driver: Driver) -> int | None:
    """Say from which size on a partition is read in pieces, of that size; None: none is.

    What pieces leave is read once more, so it has to be worth it: one partition must be so much
    larger than a worker's share of all that the others would wait for it. With a rate or a time to
    keep there is nothing to gain, and the time would go into pieces of what is then not finished.
    Nor is there by workers beside each other on one machine, unless records are decoded or a store
    is waited for: to judge what pieces leave takes as long as to read a log once.
    """
    if options.max_duration_s is not None or driver.bytes_per_second is not None:
        return None
    near = driver.jobs is not None and not options.deep and not places.is_any_store_open()
    if driver.jobs == 1 or near:
        return None
    size, share = _MOST_SPLIT_BYTES, 0
    if driver.jobs is not None:
        share = sum(item.size_bytes for item in items) // driver.jobs
        size = min(max(share // _PIECES_A_JOB, _LEAST_SPLIT_BYTES), size)
    most = max(2 * size, share * 3 // 2)
    return size if any(item.size_bytes > most for item in items) else None


def _item(target: Target, options: VerifyOptions, state: VerifyState | None) -> Item:
    named = None
    if not target.whole:
        name = target.files[0].name
        of_a_segment = name.kind in names.SEGMENT_KINDS and not name.is_retired
        named = name.base_offset if of_a_segment else -1
    sizes: dict[int, int] = {}
    skips: dict[int, Skip] = {}
    segments = target.log.logs if target.log is not None else []
    for segment in segments:
        base = segment.base_offset
        if named is not None and base != named:
            skips[base] = Skip(NOT_NAMED)
        elif not in_subset(target.topic, target.partition, base, options.subset):
            skips[base] = Skip(OUTSIDE_SUBSET)
        else:
            sizes[base] = places.size_or_zero(str(segment.log))
    item = Item(target.path, target.topic, target.partition, target.whole, sizes, skips, {})
    if state is None or not target.whole or target.log is None:
        return item
    return state.narrow(item, target.log, deep=options.deep, recheck_s=options.recheck_s)


def in_subset(
    topic: str | None, partition: int | None, base: int, subset: tuple[int, int] | None
) -> bool:
    """Whether a segment is in slice N of T: always the same one, on whichever broker it lies."""
    if subset is None:
        return True
    import zlib

    number, slices = subset
    name = f"{topic}-{partition}-{base}".encode("utf-8", "surrogateescape")
    return zlib.crc32(name) % slices == number - 1


def target_of(item: Item) -> Target | KdumpError:
    """List an item's partition again."""
    if item.whole:
        try:
            log = LocalLog(item.path, places.statuses(item.path))
        except OSError as error:
            return PathError.from_os(item.path, error)
        return Target(item.topic, item.partition, item.path, log, (), whole=True)
    return next(resolve([item.path], Selection(retired=True), listed=False))


class LeftOut:
    """Asked before each segment: gives what is known of it, or None if it is to be read.

    `deadline` is a moment of the monotonic clock; a segment that was begun is read to its end.
    """

    def __init__(self, skips: Mapping[int, Skip], deadline: float | None) -> None:
        self._skips = skips
        self._deadline = deadline
        self.counts: Counter[str] = Counter()

    @property
    def planned_bases(self) -> frozenset[int]:
        """The base offsets that were not to be read from the start."""
        return frozenset(self._skips)

    @property
    def late(self) -> bool:
        """Whether there is no time left."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def __call__(self, base_offset: int, path: str) -> Iterable[Finding] | None:
        """Say whether to leave a segment out."""
        skip = self._skips.get(base_offset)
        if skip is not None:
            if skip.why != NOT_NAMED:
                self.counts[skip.why] += 1
            return skip.known
        if self.late:
            self.counts[OUT_OF_TIME] += 1
            self.counts[OUT_OF_TIME_BYTES] += places.size_or_zero(path)
            return ()
        return None
