"""List one data directory: sizes and times of its segments, by topic. No log is opened."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from functools import partial

from kdump.engine.work.pace import Pace
from kdump.errors import KdumpError, PathError, StoreError, attempt
from kdump.storage import names, places
from kdump.storage.log_dir import LogDir
from kdump.storage.names import DirectoryName, Kind
from kdump.storage.producer_snapshot import sound_snapshot
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

_LOGS = frozenset({Kind.LOG, Kind.PRE08_LOG})
_SNAPSHOT_OF_NONE = 10  # bytes of a snapshot without producers
_OPEN_MS = 15 * 60_000  # transaction.max.timeout.ms, unless it is set
_ENTRY = 12  # bytes of an entry of a time index: a time, and an offset


class Item(NamedTuple):
    """One data directory; nothing of its logs is read."""

    path: str
    size_bytes: int = 0
    keeps_partitions: bool = False


class TopicFiles(NamedTuple):
    """What the files of a topic's partitions in one directory come to; times in nanoseconds."""

    live: int
    retired: int
    segments: int
    size_bytes: int
    first_ns: int | None
    last_ns: int | None

    def plus(self, other: TopicFiles) -> TopicFiles:
        """Add what lies in another directory."""
        firsts = [one for one in (self.first_ns, other.first_ns) if one is not None]
        lasts = [one for one in (self.last_ns, other.last_ns) if one is not None]
        return TopicFiles(
            self.live + other.live,
            self.retired + other.retired,
            self.segments + other.segments,
            self.size_bytes + other.size_bytes,
            min(firsts, default=None),
            max(lasts, default=None),
        )


class PartitionFiles(NamedTuple):
    """One partition directory: sums over its files, and the base offsets of its segments.

    `first_base` and `last_base` are None for a partition without segments. `ends_empty`: nothing
    is in the last one.
    """

    name: DirectoryName
    path: str
    files: TopicFiles
    first_base: int | None
    last_base: int | None
    ends_empty: bool


class OpenTransaction(NamedTuple):
    """A transaction that a producer snapshot at the end of a log has as open."""

    since_ms: int  # its last record
    offset: int
    partition: str


class Listing(NamedTuple):
    """One data directory, or one partition of it, listed.

    `odd` counts files and directories by what is not ordinary about them: .swap, delete …;
    `examples` are the first partitions of some.
    `unread` are partitions that this user cannot list. `newest_ms` is the largest time in a time
    index of an oldest segment, with its path.
    """

    path: str
    topics: dict[str, TopicFiles]
    odd: Counter[str]
    unread: int
    newest_ms: tuple[int, str]
    errors: list[KdumpError]
    partitions: list[PartitionFiles]
    examples: dict[str, str]
    open_transaction: OpenTransaction | None


def list_directory(item: Item, pace: Pace) -> Listing:
    """List a data directory."""
    whole = _empty_listing(item.path)
    directory = LogDir.open(item.path)
    for name, path in directory.partitions:
        pace(0)
        one = attempt(
            path,
            partial(_partition, name, path),
            _empty_listing(path),
            whole.errors,
            topic=name.topic,
            partition=name.partition,
        )
        for topic, files in one.topics.items():
            known = whole.topics.get(topic)
            whole.topics[topic] = files if known is None else known.plus(files)
        for part in one.partitions:
            if _is_short(part, directory):
                one.odd["short"] += 1
        for what in one.odd:
            whole.examples.setdefault(what, os.path.basename(path))
        whole.odd.update(one.odd)
        if item.keeps_partitions:
            whole.partitions.extend(one.partitions)
        newest = max(whole.newest_ms, one.newest_ms)
        left = [one.open_transaction, whole.open_transaction]
        whole = whole._replace(
            unread=whole.unread + one.unread,
            newest_ms=newest,
            open_transaction=min(filter(None, left), default=None),
        )
    return whole


def _is_short(one: PartitionFiles, directory: LogDir) -> bool:
    """Whether a log ends before the high watermark, as its names and sizes prove."""
    if not one.ends_empty or one.name.retirement is not None or one.last_base is None:
        return False
    name = one.name
    mark = directory.offset(names.REPLICATION_CHECKPOINT, name.topic, name.partition)
    return mark is not None and mark > one.last_base


def _find_left_open(
    path: str, snapshot: tuple[int, str], end: tuple[int, bool]
) -> OpenTransaction | None:
    """Find a transaction that was open for long in a snapshot, if that is of the log's end.

    `end` is the last base offset, and whether its segment is empty.
    """
    base, file = snapshot
    if base < end[0] or (base == end[0] and not end[1]):
        return None
    at = os.path.join(path, file)
    try:
        status = places.stat(at)
    except OSError:
        return None
    found = sound_snapshot(at) if status.st_size > _SNAPSHOT_OF_NONE else None
    until_ms = status.st_mtime * 1000 - _OPEN_MS
    left = [
        (one.last_timestamp_ms, one.current_txn_first_offset)
        for one in found or ()
        if one.current_txn_first_offset >= 0 and 0 <= one.last_timestamp_ms < until_ms
    ]
    return OpenTransaction(*min(left), os.path.basename(path)) if left else None


def _partition(name: DirectoryName, path: str) -> Listing:
    try:
        entries = places.entries(path)
    except (OSError, StoreError):
        return _empty_listing(path)._replace(unread=1)
    odd: Counter[str] = Counter()
    if name.retirement is not None:
        odd[name.retirement.value] += 1
    live = int(name.retirement is None)
    segments: list[tuple[int, int, int]] = []
    snapshot, has_index = (-1, ""), False
    for entry in entries:
        file = names.parse(entry.name)
        if file.is_retired:
            odd[file.suffix] += 1
        elif file.kind is Kind.PRODUCER_SNAPSHOT and file.base_offset is not None:
            snapshot = max(snapshot, (file.base_offset, entry.name))
        elif file.kind in names.INDEX_KINDS:
            has_index = True
        elif file.kind in _LOGS and file.base_offset is not None:
            with suppress(OSError):  # it went just now
                status = entry.stat()
                segments.append((file.base_offset, status.st_size, status.st_mtime_ns))
    times = [one[2] for one in segments] if places.keeps_times(path) else []
    size_bytes = sum(one[1] for one in segments)
    first, last = min(times, default=None), max(times, default=None)
    files = TopicFiles(live, 1 - live, len(segments), size_bytes, first, last)
    newest = (-1, "")
    if len(segments) > 1:
        index = os.path.join(path, names.file_name(Kind.TIME_INDEX, min(segments)[0]))
        newest = _last_time(index), index
    bases = [one[0] for one in segments]
    last_base, last_size = max(segments, default=(-1, 1, 0))[:2]
    if has_index and not segments and live:
        odd["no-log"] += 1
    left = None
    if live and segments and places.keeps_times(path):
        left = _find_left_open(path, snapshot, (last_base, not last_size))
    here = PartitionFiles(
        name, path, files, min(bases, default=None), max(bases, default=None), not last_size
    )
    return Listing(path, {name.topic: files}, odd, 0, newest, [], [here], {}, left)


def _empty_listing(path: str) -> Listing:
    return Listing(path, {}, Counter(), 0, (-1, ""), [], [], {}, None)


def _last_time(index: str) -> int:
    """Return the time of the last entry of a sealed segment's index; -1 where there is none."""
    try:
        with Source(index) as source:
            slots = source.size // _ENTRY
            data = source.read((slots - 1) * _ENTRY, 8) if slots else b""
    except (PathError, StoreError):  # there is none, or verify says what is wrong
        return -1
    return int.from_bytes(data, "big", signed=True) if len(data) == 8 else -1
