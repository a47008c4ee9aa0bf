"""Judge one partition for `why`: its segments, its space, and what could be freed of it.

Account for every byte under a directory, as `du` does, by what the files are.

Apparent bytes are sizes of files, those of directories among them; allocated ones are what the
file system took for them. A file of several names counts once, under the first of them. Nothing is
followed: a symbolic link is as long as its text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker import rolling
from kdump.broker.log_reader import RefusalError
from kdump.broker.retention import policy_of
from kdump.broker.segment_facts import FROM_FILE, log_facts
from kdump.broker.shutdown_state import stop_of
from kdump.broker.sound_start import count_written_slots
from kdump.broker.versions import TIME_INDEX, has
from kdump.engine.reading.remote_partitions import remote_partition
from kdump.engine.why.compaction import NOT_CLEANED, compaction_of
from kdump.engine.why.fates import PINNED, Fates, Pin, read_pin
from kdump.engine.why.freeable import DeletedFiles, Freeable, RetiredDirectory, freeable
from kdump.engine.why.remote import JudgingContext, remote_rows
from kdump.errors import PathError, path_errors
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.replay.releases import with_oldest
from kdump.rows.why import PartitionSpace, PinnedSegments, SegmentFate
from kdump.storage import lock, names, places
from kdump.storage.file_records import FileRecords
from kdump.storage.index import OffsetIndex
from kdump.storage.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kdump.storage.local_log import LocalLog, LogSegment
from kdump.storage.log_dir import LISTED_SECONDS
from kdump.storage.names import INDEX_KINDS, Kind
from kdump.storage.source import Source
from kdump.storage.targets import Target
from kdump.storage.time_index import TimeIndex
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.broker.retention import LogFacts
    from kdump.broker.settings import Settings
    from kdump.broker.versions import Version
    from kdump.engine.why.options import Item, WhyOptions
    from kdump.engine.work.pace import Pace
    from kdump.kernels.columns import BatchHeader
    from kdump.replay.topic_settings import TopicSettings
    from kdump.storage.places import FileStatus


_BLOCK = 512  # what st_blocks counts in
_LOGS = (Kind.LOG, Kind.PRE08_LOG)


class Space(NamedTuple):
    """Bytes by what they are; the four of them are apparent, and make all."""

    log_bytes: int = 0
    index_bytes: int = 0
    other_bytes: int = 0
    retired_bytes: int = 0
    allocated_bytes: int | None = 0
    deleted_bytes: int = 0  # of the retired ones: files that the broker has deleted already

    @property
    def apparent_bytes(self) -> int:
        """All of it, as `du --apparent-size` counts."""
        return self.log_bytes + self.index_bytes + self.other_bytes + self.retired_bytes

    @property
    def freed_bytes(self) -> int:
        """What its deletion frees: the index space that a broker reserves is not on the disk."""
        used = self.allocated_bytes
        return self.apparent_bytes if used is None else min(self.apparent_bytes, used)

    def plus(self, part: str, one: FileStatus | os.stat_result) -> Space:
        """Add a file to one of the four."""
        assert not isinstance(one, OSError)
        blocks = getattr(one, "st_blocks", None)  # a store has none
        known = self.allocated_bytes
        allocated = None if blocks is None or known is None else known + blocks * _BLOCK
        total = getattr(self, part) + one.st_size
        return self._replace(**{part: total}, allocated_bytes=allocated)


def space_of(path: str, *, retired: bool = False, around: bool = False) -> Space:
    """Add up a directory. `retired`: all of it is; `around`: without its partitions."""
    space = Space()
    seen: set[tuple[int, int]] = set()
    for entry_name, status in _files(path, around=around):
        if getattr(status, "st_nlink", 1) > 1 and not stat.S_ISDIR(status.st_mode):
            identity = status.st_dev, status.st_ino
            if identity in seen:
                continue
            seen.add(identity)
        space = space.plus("retired_bytes" if retired else _part(entry_name), status)
        if entry_name.endswith(names.DELETED):
            space = space._replace(deleted_bytes=space.deleted_bytes + status.st_size)
    return space


def _part(entry_name: str) -> str:
    """Say which part of a partition a file is, by its name; "" is a directory."""
    name = names.parse(entry_name)
    if name.is_retired:
        return "retired_bytes"
    if name.kind in _LOGS:
        return "log_bytes"
    return "index_bytes" if name.kind in INDEX_KINDS else "other_bytes"


def _files(path: str, *, around: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the directory itself under no name, and all that is in it; what vanishes is left."""
    if places.is_uri(path):
        yield from _files_in_store(path, around=around)
        return
    waiting = [(path, True)]
    while waiting:
        directory, is_top = waiting.pop()
        try:
            yield "", os.lstat(directory)
            entries = places.entries(directory)
        except OSError as error:
            if is_top:
                raise PathError.from_os(path, error) from error
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)  # type: ignore[call-arg]
            except OSError:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield entry.name, status  # type: ignore[misc]
            elif not (around and is_top and names.parse_directory(entry.name)):
                waiting.append((os.path.join(directory, entry.name), False))


def _files_in_store(path: str, *, around: bool) -> Iterator[tuple[str, os.stat_result]]:
    for name, status in places.statuses(path).items():
        is_partition = around and names.parse_directory(name) is not None
        if not isinstance(status, OSError) and not is_partition:
            yield name, status  # type: ignore[misc]


def count_reserved(segment: LogSegment) -> int:
    """Count the bytes of a segment's indexes that are reserved and hold no entry yet (I2)."""
    reserved = 0
    for kind, read in ((Kind.OFFSET_INDEX, OffsetIndex), (Kind.TIME_INDEX, TimeIndex)):
        if (path := segment.files.get(kind)) is None:
            continue
        try:
            with Source(path) as source:
                index = read(source, segment.base_offset, slotwise=True)
                if index.entries and index.raw(index.entries - 1) == (0, 0):
                    written = count_written_slots(index)
                    reserved += source.size - written * index.layout.size
        except PathError:
            continue
    return reserved


TIMESTAMP = "timestamp"
#: What the rows call what `rolling` tells apart.
_WORDS = {rolling.APPEND_SIZE: rolling.SIZE}


class Rolls:
    """Explains the ends of segments by their sizes and the first header of each."""

    def __init__(self, segments: list[LogSegment], facts: LogFacts, settings: Settings) -> None:
        self._segments = segments
        self._facts = facts
        self._settings = settings
        self._last: tuple[int, BatchHeader | None] = (-1, None)

    def name_rule(self, number: int) -> str:
        """Name the rule that ended a segment behind which there is another.

        `timestamp` is `time` by a record that came stamped later than its file was written: not
        the clock has moved on, but what one producer took for it.
        """
        if number + 1 >= len(self._segments):
            return "active"
        first, behind = self._first(number), self._first(number + 1)
        if first is None or behind is None:
            return rolling.UNEXPLAINED
        sealed = rolling.SealedSegment(
            self._segments[number].base_offset,
            self._facts.segments[number].size_bytes,
            first.max_timestamp,
            self._entries(number, Kind.OFFSET_INDEX, OFFSET_INDEX_ENTRY.size),
            self._entries(number, Kind.TIME_INDEX, TIME_INDEX_ENTRY.size),
        )
        following = self._facts.segments[number + 1]
        incoming = rolling.NextBatch(
            behind.size_bytes, following.size_bytes, behind.max_timestamp, behind.last_offset
        )
        rule = rolling.explain(sealed, incoming, self._settings).rule
        if rule == rolling.TIME and behind.max_timestamp > following.modified_ms:
            return TIMESTAMP
        return _WORDS.get(rule, rule)

    def _first(self, number: int) -> BatchHeader | None:
        """Read the first header of a segment; each is asked for twice in a row."""
        if self._last[0] != number:
            self._last = number, self._read(number)
        return self._last[1]

    def _read(self, number: int) -> BatchHeader | None:
        segment = self._segments[number]
        if segment.is_pre08 or segment.log is None:
            return None
        try:
            with Source(segment.log) as source:
                header = FileRecords(source).header(0)
        except PathError:
            return None
        return None if header is None else header.header(0)

    def _entries(self, number: int, kind: Kind, entry_bytes: int) -> int:
        path = self._segments[number].files.get(kind)
        return 0 if path is None else places.size_or_zero(path) // entry_bytes


_LISTINGS = 3


class ItemVerdict(NamedTuple):
    """What came of one item: rows, and what a plan may make of it, if one is asked for."""

    rows: tuple[Row, ...] = ()
    freeable: Freeable | None = None
    retired: RetiredDirectory | None = None
    going: DeletedFiles | None = None
    findings: tuple[Finding, ...] = ()


def judge(item: Item, pace: Pace, *, options: WhyOptions, topics: TopicSettings) -> ItemVerdict:
    """Judge one partition, or account for a directory that is none in use."""
    if item.kind == "partition":
        judged = _judge_again(item, options, topics)
    else:
        try:
            space = space_of(
                item.path, retired=item.kind == "retired", around=item.kind == "around"
            )
        except PathError:
            if item.kind != "retired" or places.lexists(item.path):
                raise
            return ItemVerdict()  # the broker deleted it meanwhile
        row = _space_row(item, space)
        retired = None
        if item.kind == "retired" and options.free:
            directory = item.directory
            why = str(row.retired)
            retired = RetiredDirectory(
                directory, item.path, why, space.freed_bytes, _is_in_use(directory)
            )
        judged = ItemVerdict((row,), retired=retired)
    pace(item.size_bytes)
    return judged


def _judge_again(item: Item, options: WhyOptions, topics: TopicSettings) -> ItemVerdict:
    """Judge a partition, once more where files went between listing and reading: a broker runs."""
    for _ in range(_LISTINGS - 1):
        try:
            return _partition(item, options, topics)
        except PathError:
            if not places.isdir(item.path):
                return ItemVerdict()  # deleted meanwhile
    return _partition(item, options, topics)


def _partition(item: Item, options: WhyOptions, topics: TopicSettings) -> ItemVerdict:
    with path_errors(item.path):
        log = LocalLog(item.path, places.statuses(item.path))
    target = topics.with_tier(Target(item.topic, item.partition, item.path, log, (), whole=True))
    directory = target.log_dir(LISTED_SECONDS)
    settings = topics.of(item.path, item.topic)
    segments = [segment for segment in log.logs if segment.log is not None]

    read: dict[tuple[bool, bool], LogFacts] = {}  # what two releases read alike is read once

    def fates_by(broker: Version) -> Fates:
        try:
            clean = stop_of(log, directory, broker).clean
        except RefusalError:  # a start ends at a checkpoint that it cannot read
            clean = False
        timed = has(broker, TIME_INDEX)
        facts = read.get((timed, clean)) or log_facts(target, broker, clean=clean)
        read[timed, clean] = facts
        policy = policy_of(settings, item.topic, broker)

        def pin_of(number: int) -> Pin:
            one = facts.segments[number]
            return read_pin(segments[number], one, options.now_ms, broker, settings)

        return Fates(facts, policy, settings, options.now_ms, pin_of)

    oldest, broker = topics.releases.range_of(item.directory)
    judged = fates_by(broker)
    facts, policy = judged.log, judged.policy
    fates = judged.fates()
    older = None if oldest == broker else fates_by(oldest)
    older_fates = fates if older is None else older.fates()
    rolls = Rolls(segments, facts, settings) if options.rolls else None
    sizes = _sizes(log, segments)
    rows: list[SegmentFate] = []
    reserved = count_reserved(segments[-1]) if segments else 0
    compaction = compaction_of(target, facts, policy, settings, options, broker)
    if older is not None:
        before = compaction_of(target, older.log, older.policy, settings, options, oldest)
        compaction = compaction.with_oldest(oldest, before)
    for number, (segment, fate) in enumerate(zip(segments, fates, strict=True)):
        if item.bases is not None and segment.base_offset not in item.bases:
            continue
        one = facts.segments[number]
        by_file = bool(policy.why_file_time(one, options.now_ms))
        is_active = number == len(segments) - 1
        removed = compaction.segments.get(segment.base_offset, NOT_CLEANED)
        row = SegmentFate(
            topic=item.topic,
            partition=item.partition,
            segment=segment.base_offset,
            size_bytes=sizes[number],
            active=is_active,
            largest_timestamp_ms=one.modified_ms if by_file else one.time_ms,
            time_source=FROM_FILE if by_file else one.time_source,
            rolled_by="active" if is_active else rolls.name_rule(number) if rolls else None,
            verdict=fate.verdict,
            rule=fate.rule,
            deletable_at_ms=fate.deletable_at_ms,
            pinned_by=fate.pinned_by and fate.pinned_by.to_member(),
            text=fate.text,
            kept_by=fate.kept_by,
            reserved_index_bytes=reserved if is_active else 0,
            dead_records=removed.dead_records,
            dead_bytes=removed.dead_bytes,
            tombstones=removed.tombstones,
            tombstones_removable=removed.tombstones_removable,
        )
        old = older_fates[number]
        instead = row.replaced(verdict=old.verdict, deletable_at_ms=old.deletable_at_ms)
        rows.append(with_oldest(row, oldest, instead, ("verdict", "deletable_at_ms")))
    # What is reserved takes no room: to delete it frees none.
    freed = (*sizes[:-1], *(size - reserved for size in sizes[-1:]))
    gone = len(judged.next_pass.deleted)
    space = space_of(item.path)
    space_row = _space_row(item, space, sum(freed[:gone]), reserved)
    remote = remote_partition(target, topics)
    by = JudgingContext(facts, settings, broker, options.now_ms)
    remotes = () if remote is None or item.bases is not None else remote_rows(remote, by)
    all_rows = (*rows, *sum_pinned(rows), *compaction.rows, space_row, *remotes)
    free = going = None
    if options.free:
        around = item.directory
        known = topics.find_topic(item.path, item.topic)
        free = freeable(item.topic, item.partition, judged, freed, known, broker, around)
        if space.deleted_bytes:
            going = DeletedFiles(around, space.deleted_bytes, _is_in_use(around))
    return ItemVerdict(all_rows, free, going=going, findings=compaction.findings)


def sum_pinned(rows: Iterable[SegmentFate]) -> Iterable[PinnedSegments]:
    """Sum up the segments of a partition by the record that keeps them."""
    found: dict[tuple[int | None, int], PinnedSegments] = {}
    for row in rows:
        if row.verdict == PINNED and (pin := row.pinned_by) is not None:
            key = pin["offset"], pin["timestamp_ms"]
            known = found.get(key) or PinnedSegments(
                row.topic, row.partition, row.segment, 0, 0, pin, row.text
            )
            size = known.size_bytes + row.size_bytes
            found[key] = known.replaced(segments=known.segments + 1, size_bytes=size)
    return found.values()


def _is_in_use(directory: str) -> bool:
    """Whether a broker runs on a data directory, or may."""
    return lock.is_held(directory) is not False


def _sizes(log: LocalLog, segments: list[LogSegment]) -> tuple[int, ...]:
    """Add up the files that go with each segment: log, indexes, the snapshot at its base offset."""
    snapshots = dict(log.snapshots())
    sizes = []
    for segment in segments:
        paths = [*segment.files.values(), *filter(None, [snapshots.get(segment.base_offset)])]
        sizes.append(sum(_size(log, path) for path in paths))
    return tuple(sizes)


def _size(log: LocalLog, path: str) -> int:
    status = log.statuses.get(path.rpartition("/")[2])
    return 0 if status is None or isinstance(status, OSError) else status.st_size


def _space_row(item: Item, space: Space, deletable: int = 0, reserved: int = 0) -> PartitionSpace:
    name = names.parse_directory(item.path.rstrip("/").rpartition("/")[2])
    retirement = name.retirement if name is not None else None
    return PartitionSpace(
        topic=item.topic,
        partition=item.partition,
        log_bytes=space.log_bytes,
        index_bytes=space.index_bytes,
        other_bytes=space.other_bytes,
        retired_bytes=space.retired_bytes,
        deletable_bytes=deletable,
        reserved_index_bytes=reserved,
        apparent_bytes=space.apparent_bytes,
        allocated_bytes=space.allocated_bytes,
        retired=None if retirement is None else retirement.value,
        path=item.path,
    )
