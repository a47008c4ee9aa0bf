"""Run `duplicates`: records of a topic that say the same, wherever they lie.

Three steps, so that no topic is too large: each split leaves what is compared of its records as
sorted runs in scratch files; each bucket of these is merged, and its groups are written under their
first copies; these runs are merged once more and become rows. Equality is that of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from struct import Struct

from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.duplicates.entries import Copy, Counts, DuplicateOptions, Layout
from kdump.engine.reading.split_edges import SplitEdges
from kdump.engine.work.pace import Pace, Progress, ReadProgress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.engine.work.splits import Split, of_whole_logs, plan
from kdump.engine.work.spool import (
    Bucket,
    SortedRun,
    Spool,
    buckets_for,
    find_repeated,
    merge_runs,
    scratch_directory,
    take_up_buckets,
)
from kdump.errors import KdumpError
from kdump.findings.finding import CATALOGUE, Finding
from kdump.findings.rows import Place, RecordChunk, RecordRow, Row
from kdump.kernels.entries import WHERE_BYTES, compared
from kdump.kernels.entries import topic_and_parts as taken_apart
from kdump.rows.duplicates import Duplicate, DuplicatesSummary
from kdump.storage import names
from kdump.storage.layout import NO_OP_RECORD
from kdump.tuples import NamedTuple
from kdump.values.secrets import redactor

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


class BucketGroups(NamedTuple):
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


def group_bucket(
    bucket: Bucket, pace: Pace, *, options: DuplicateOptions, idle: bytes | None = None
) -> BucketGroups:
    """Write the groups of a bucket, each under its first copy, as runs of a spool.

    Entries of `idle`, as `compared` gives it, are equal by design and make no group.
    """
    layout = Layout.of(options)
    spool = Spool(bucket.path)
    counts, chains = GroupCounts(), 0
    alike = find_repeated(bucket.runs, bucket.number, WHERE_BYTES)
    for said, entries in groupby(alike, compared):
        if said == idle:
            continue
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
    return BucketGroups(tuple(spool.runs), counts)


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
    for entry in merge_runs(runs):
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


_SPLIT_BYTES = 256 << 20


class SplitSpool(NamedTuple):
    """What came of a split: runs of entries, findings and errors met on the way, counts."""

    runs: tuple[SortedRun, ...]
    reported: tuple[Finding | KdumpError, ...]
    seam: SplitEdges | None
    counts: Counts


def duplicates(
    paths: Iterable[str],
    options: DuplicateOptions,
    *,
    driver: Driver = ONE_BY_ONE,
    progress: Progress | None = None,
    split_bytes: int = _SPLIT_BYTES,
) -> Iterator[Row | Finding | KdumpError]:
    """Yield errors and findings in the order of the paths, a `duplicates-summary`, and a
    `duplicate` row for each copy: groups in the order of their first copies.

    The rows are the same for any driver and number of workers.
    """
    progress = progress or Progress()
    splits: list[Split] = []
    unfinished = 0
    for error in take_up(plan(paths, options, split_bytes), splits, progress):
        unfinished += 1
        yield error
    topics = sorted({split.target.topic or "" for split in splits})
    numbers = {topic: number for number, topic in enumerate(topics)}
    size_bytes = sum(split.size_bytes for split in splits)
    buckets = buckets_for(size_bytes)
    with scratch_directory(options.scratch, driver) as directory:
        spool = partial(
            spool_split, options=options, topics=numbers, directory=directory, buckets=buckets
        )
        counts, runs = Counts(), list[SortedRun]()
        for result in of_whole_logs(splits, spool, driver, progress):
            if isinstance(result, KdumpError):
                unfinished += 1
                yield result
                continue
            unfinished += sum(isinstance(reported, KdumpError) for reported in result.reported)
            yield from result.reported
            counts = counts.plus(result.counts)
            runs += result.runs
        items = take_up_buckets(runs, buckets, directory, progress)
        found, grouped = GroupCounts(), list[SortedRun]()
        idle = _idle_records(options, numbers.get(names.CLUSTER_METADATA_TOPIC))
        group_them = partial(group_bucket, options=options, idle=idle)
        for _, done in driver(items, group_them, progress):
            if isinstance(done, KdumpError):
                unfinished += 1
                yield done
                continue
            found = found.plus(done.counts)
            grouped += done.runs
        yield _summary(options, counts, found, unfinished)
        group = 0
        for head, number, copy in read_groups(grouped):
            group += number == 1
            yield _row(options, topics[head.topic] or None, group, head, number, copy)


def spool_split(
    split: Split,
    pace: Pace,
    *,
    options: DuplicateOptions,
    topics: dict[str, int],
    directory: str,
    buckets: int,
) -> SplitSpool:
    """Write what is compared of the records of a split to sorted runs."""
    layout = Layout.of(options)
    spool = Spool(directory, buckets)
    reader = SplitReader(split, options, as_stored=True)
    going = ReadProgress(split.size_bytes, pace, split.start)
    topic = topics[split.target.topic or ""]
    reported: list[Finding | KdumpError] = []
    counts = Counts()
    for item in reader.items():
        if isinstance(item, RecordChunk):
            going.advance(item)
            if item.controls is not None:
                counts = counts.plus(Counts(control_records=len(item)))
                continue
            block, of_chunk = layout.entries(item, topic)
            spool.add_block(block)
            counts = counts.plus(of_chunk)
        elif isinstance(item, RecordRow):
            entry = _of_message(layout, topic, item)
            untimed = entry is not None and layout.timed
            counts = counts.plus(Counts(1, 0, int(entry is None), int(untimed)))
            if entry is not None and not untimed:
                spool.add(entry)
        elif isinstance(item, (Finding, KdumpError)):
            reported.append(item)
    going.end()
    spool.flush()
    return SplitSpool(tuple(spool.runs), tuple(reported), reader.seam, counts)


def _of_message(layout: Layout, topic: int, row: RecordRow) -> bytes | None:
    """Lay out a message of 0.6 or 0.7, which has a value alone."""
    if "value" not in layout.by or row.value is None:
        return None
    parts = [row.value if part == "value" else None for part in layout.by]
    copy = Copy(row.partition or 0, row.offset, -1, -1, -1, -1, len(row.value))
    return layout.entry(topic, parts, copy)


def _idle_records(options: DuplicateOptions, topic: int | None) -> bytes | None:
    """Give what is compared of the records that an idle controller writes twice a second."""
    if topic is None:
        return None
    layout = Layout.of(options)
    parts = [NO_OP_RECORD if part == "value" else None for part in layout.by]
    return compared(layout.entry(topic, parts, Copy(0, 0, 0, 0, 0, 0, 0)))


def _by(options: DuplicateOptions) -> str:
    name = (options.header or b"").decode(errors="replace")
    return ",".join(f"header:{name}" if part == "header" else part for part in options.by)


def _summary(
    options: DuplicateOptions, counts: Counts, found: GroupCounts, unfinished: int
) -> DuplicatesSummary:
    return DuplicatesSummary(
        by=_by(options),
        within_ms=options.within_ms,
        within_records=options.within_records,
        groups=found.groups,
        copies=found.copies,
        extra_copies=found.copies - found.groups,
        groups_across_partitions=found.groups_across_partitions,
        groups_of_several_producers=found.groups_of_producers,
        records_count=counts.records,
        records_without=counts.without,
        records_without_time=counts.without_time,
        control_records=counts.control_records,
        replica_copies=found.replica_copies,
        paths_unfinished=unfinished,
    )


def _row(
    options: DuplicateOptions, topic: str | None, group: int, head: Group, number: int, copy: Copy
) -> Duplicate:
    starts: dict[str, tuple[bytes | None, int | None]] = {
        "value": (None, None if copy.value_size < 0 else copy.value_size)
    }
    redact = None if options.show_secrets else redactor(Place(topic, None, None, ""))
    for part, (start, size) in zip(options.by, head.parts, strict=True):
        if part == "value" and start is not None and redact is not None:
            start = redact(start) or start
        starts[part] = start, None if start is None else size
    nothing = None, None
    key, value, header = (starts.get(part, nothing) for part in ("key", "value", "header"))
    is_timed = copy.timestamp >= 0
    is_behind = is_timed and head.first_timestamp >= 0
    return Duplicate(
        topic=topic,
        group=group,
        copies=head.copies,
        copy=number,
        severity=CATALOGUE["sequence-duplicate"].severity.value,
        key=key[0],
        key_size_bytes=key[1],
        value=value[0],
        value_size_bytes=value[1],
        header=header[0],
        header_size_bytes=header[1],
        partition=copy.partition,
        offset=copy.offset,
        timestamp_ms=copy.timestamp if is_timed else None,
        after_ms=copy.timestamp - head.first_timestamp if is_behind else None,
        producer_id=None if copy.producer_id < 0 else copy.producer_id,
        producer_epoch=None if copy.producer_epoch < 0 else copy.producer_epoch,
        sequence=None if copy.sequence < 0 else copy.sequence,
        asked_=("value_size_bytes", *_members(options)),
    )


def _members(options: DuplicateOptions) -> Iterator[str]:
    """Name the members that rows have of what is compared."""
    for part in options.by:
        yield from (part, f"{part}_size_bytes")
