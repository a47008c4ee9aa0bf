"""Find the groups of one bucket of entries: the second step of `duplicates`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.duplicates.entries import Copy, DuplicateOptions, Layout, compared
from kdump.engine.duplicates.entries import topic_and_parts as taken_apart
from kdump.engine.work.spool import Bucket, SortedRun, Spool, merged

if TYPE_CHECKING:
    from kdump.engine.work.pace import Pace

#: A group is sorted by its first copy: topic, partition, offset. Two may have one place where
#: replicas differ, so the number of the group in its bucket follows, and then that of the copy, 0
#: for what the group has in common.
_PLACE = Struct(">IIQIQQ")
_HEAD = Struct(">Q??qq")
_COPY = Struct(">Iqqqhii")
_SIGN = 1 << 63
#: Of what is compared, so much is shown.
SHOWN_BYTES = 256
_SHOWN = Struct(">qH")


class GroupCounts(NamedTuple):
    """What was found."""

    groups: int = 0
    copies: int = 0
    groups_across_partitions: int = 0
    groups_of_producers: int = 0  # of several
    replica_copies: int = 0  # the same record under another path

    def plus(self, other: GroupCounts) -> GroupCounts:
        """Add two of them."""
        return GroupCounts(*map(sum, zip(self, other, strict=True)))


class Grouped(NamedTuple):
    """What came of a bucket; `runs` hold what `read_groups` reads."""

    runs: tuple[SortedRun, ...]
    counts: GroupCounts


class Group(NamedTuple):
    """What the copies of a group have in common: `parts` are starts of what is compared, with
    the sizes of the whole.
    """

    topic: int
    copies: int
    across_partitions: bool
    of_producers: bool
    first_timestamp: int
    last_timestamp: int
    parts: tuple[tuple[bytes | None, int], ...]


def group_bucket(bucket: Bucket, pace: Pace, *, options: DuplicateOptions) -> Grouped:
    """Write the groups of a bucket, each under its first copy, as runs of a spool."""
    layout = Layout.of(options)
    spool = Spool(bucket.path)
    counts, chains = GroupCounts(), 0
    for said, entries in groupby(merged(bucket.runs, bucket.number), compared):
        chain: _Chain | None = None
        for entry in entries:
            copy = layout.copy(entry)
            if chain is not None and copy[:3] == chain.last[:3]:
                counts = counts._replace(replica_copies=counts.replica_copies + 1)
            elif chain is not None and _joins(chain.last, copy, options):
                chain.add(copy, spool)
            else:
                if chain is not None:
                    counts = chain.end(spool, counts)
                chains += 1
                chain = _Chain(said, copy, (bucket.number, chains))
        if chain is not None:
            counts = chain.end(spool, counts)
    spool.flush()
    pace(bucket.size_bytes)
    return Grouped(tuple(spool.runs), counts)


def _joins(last: Copy, copy: Copy, options: DuplicateOptions) -> bool:
    """Whether a copy is near enough to the one before it."""
    if options.within_ms is not None:
        return copy.timestamp - last.timestamp <= options.within_ms
    if options.within_records is not None:
        near = copy.offset - last.offset <= options.within_records
        return near and copy.partition == last.partition
    return True


class _Chain:
    """Copies that follow each other near enough; nothing is written while there is only one."""

    def __init__(self, said: bytes, first: Copy, number: tuple[int, int]) -> None:
        self.last = self._first = first
        self._said, self._number = said, number
        self._copies = 1
        self._across = self._producers = False
        self._low = self._high = first.timestamp

    def add(self, copy: Copy, spool: Spool) -> None:
        """Take the next copy."""
        first = self._first
        if self._copies == 1:
            spool.add(self._place(1) + _COPY.pack(*first))
        self._copies += 1
        self._across |= copy.partition != first.partition
        self._producers |= copy[3:5] != first[3:5]
        self._low, self._high = min(self._low, copy.timestamp), max(self._high, copy.timestamp)
        spool.add(self._place(self._copies) + _COPY.pack(*copy))
        self.last = copy

    def end(self, spool: Spool, counts: GroupCounts) -> GroupCounts:
        """Write what the copies have in common, and count it."""
        if self._copies == 1:
            return counts
        head = _HEAD.pack(self._copies, self._across, self._producers, self._low, self._high)
        parts = [
            _SHOWN.pack(-1, 0)
            if part is None
            else _SHOWN.pack(len(part), len(part[:SHOWN_BYTES])) + part[:SHOWN_BYTES]
            for part in taken_apart(self._said)[1]
        ]
        spool.add(self._place(0) + head + b"".join(parts))
        return counts.plus(GroupCounts(1, self._copies, int(self._across), int(self._producers)))

    def _place(self, number: int) -> bytes:
        topic = int.from_bytes(self._said[:4], "big")
        first = self._first
        return _PLACE.pack(topic, first.partition, first.offset + _SIGN, *self._number, number)


def read_groups(runs: list[SortedRun]) -> Iterator[tuple[Group, int, Copy]]:
    """Yield each copy with its group and its number from 1 on; groups by their first copies."""
    group: Group | None = None
    for entry in merged(runs):
        number = _PLACE.unpack_from(entry)[-1]
        if number:
            assert group is not None
            yield group, number, Copy(*_COPY.unpack_from(entry, _PLACE.size))
        else:
            group = _group(entry)


def _group(entry: bytes) -> Group:
    topic = _PLACE.unpack_from(entry)[0]
    copies, across, producers, low, high = _HEAD.unpack_from(entry, _PLACE.size)
    at = _PLACE.size + _HEAD.size
    parts: list[tuple[bytes | None, int]] = []
    while at < len(entry):
        size, shown = _SHOWN.unpack_from(entry, at)
        at += _SHOWN.size
        parts.append((None if size < 0 else entry[at : at + shown], size))
        at += shown
    return Group(topic, copies, across, producers, low, high, tuple(parts))
