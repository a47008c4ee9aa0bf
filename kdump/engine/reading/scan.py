"""One scan of a partition: every segment's log read once, every check fed from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.broker.sound_start import sound_start
from kdump.engine.reading.background_source import CourteousSource
from kdump.engine.reading.being_written import was_just_written
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import CATALOGUE, Finding, Severity, finding
from kdump.findings.rows import Place
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Run
from kdump.storage import places
from kdump.storage.file_records import BATCHES_A_RUN, DEFAULT_LIMIT, FileRecords
from kdump.storage.names import Kind
from kdump.storage.offsets import Offsets, end_of
from kdump.storage.segment import LogSegment

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.checks import Check, Reported
    from kdump.engine.reading.background_source import Pace
    from kdump.engine.verify.walked import Walked
    from kdump.record.frames import Oversize
    from kdump.storage.local_log import LocalLog
    from kdump.storage.log_dir import LogDir
    from kdump.storage.source import Source
    from kdump.storage.targets import Target

LeaveOut = Callable[[int, str], "Iterable[Finding] | None"]
_GAPS_KEPT = 1000
_WRITE_SECONDS = 0.01
_FOLLOW_TIMES = 3  # how often a log that grew under us is taken up again
FEW = 512  # batches of a block: with more of them, a call of each check costs little beside
PLAIN = c.COMPRESSED | c.TRANSACTIONAL  # flags that make no check look at a batch's bytes


class SegmentScan:
    """One segment while its log is read. Checks read it and change nothing in it.

    `last_offset` is the last so far that is believed (base offset - 1 before the first; see
    `offsets`); `next_base` the next segment's base offset, None for the newest; `end_offset` what
    no offset in it reaches; `active`: the newest, which a broker may be writing. `gaps` are those
    met so far, without their bytes (see `keep`). `complete`: the log was read to the end it had,
    which one that vanished or shrank was not; `tail_read`: from near there to the end.

    A metadata snapshot (`N-E.checkpoint`) is a log too: `place.segment` is None there, and its
    offsets have nothing to do with its name (X15).
    """

    def __init__(
        self, segment: LogSegment, place: Place, *, next_base: int | None, active: bool
    ) -> None:
        assert segment.log is not None
        self.segment = segment
        self.place = place
        self.path: str = segment.log
        self.base_offset = segment.base_offset
        self.next_base = next_base
        self.active = active
        self.source: Source | None = None  # open while the segment is read
        base_offset = None if place.segment is None else segment.base_offset
        self.end_offset = end_of(base_offset, next_base)
        self._offsets = Offsets(segment.base_offset - 1, self.end_offset)
        self.start_position = 0  # where reading starts: with --quick, near the end
        self.floor_offset = segment.base_offset - 1  # no offset in what is read is as low
        self.end_position = 0  # where what was read so far ends
        self.batches = 0
        self.records_count = 0  # as the headers say; a wrapper's does not
        self.wrappers = 0  # that were not opened
        self.compressed = 0  # batches, wrappers among them
        self.max_timestamp_ms = -1  # of the headers
        self.gaps: list[Gap] = []
        self.complete = False
        self.tail_read = False

    @property
    def last_offset(self) -> int:
        """The last offset so far that is believed."""
        return self._offsets.last

    @last_offset.setter
    def last_offset(self, offset: int) -> None:
        self._offsets = Offsets(offset, self.end_offset)

    def follow(self, batches: RecordBatches) -> None:
        """Take up some batches' offsets."""
        for _ in self._offsets.take(batches):
            pass

    @property
    def is_snapshot(self) -> bool:
        """Whether this is a metadata snapshot, no segment."""
        return self.place.segment is None

    def keep(self, gap: Gap) -> None:
        """Remember a gap; behind the first thousand they are one, with what lies between."""
        if len(self.gaps) < _GAPS_KEPT:
            self.gaps.append(gap._replace(data=b""))
            return
        last = self.gaps[-1]
        end = gap.position + gap.size_bytes
        self.gaps[-1] = last._replace(size_bytes=end - last.position, to_end=gap.to_end)

    def opened(self, messages: int) -> None:
        """Count the messages of a wrapper that was opened, as its header does not."""
        self.records_count += messages
        self.wrappers -= 1

    def count(self, batches: c.RecordBatches) -> None:
        """Add what these headers say to the sums."""
        records, wrappers, compressed, newest = kernels.tally(batches)
        self.batches += batches.count
        self.records_count += records
        self.wrappers += wrappers
        self.compressed += compressed
        self.max_timestamp_ms = max(self.max_timestamp_ms, newest)


class PartitionScan:
    """One partition and what its checks may ask for.

    `directory` is the data directory around it, if it can be listed. `now_ms` is the time of the
    run; `limit` bounds a batch's plain text in bytes; `deep`: records are read too; `quick`: no
    log is read from end to end. `pace` is called with the bytes of each read, and may sleep.
    `leave_out` says of a base offset and path that the log is not to be read, by giving the
    findings already known of it; None: it is read. `left_out` are the base offsets of those.
    `walked` is what is left of logs that were read in pieces, `replayed` how many of these fitted.
    `errors` are paths that could not be read.
    """

    def __init__(
        self,
        target: Target,
        *,
        directory: LogDir | None,
        settings: Settings,
        deep: bool = False,
        quick: bool = False,
        limit: int = DEFAULT_LIMIT,
        now_ms: int | None = None,
        pace: Pace | None = None,
        leave_out: LeaveOut | None = None,
        walked: Mapping[int, Sequence[Walked]] | None = None,
    ) -> None:
        assert target.log is not None
        self.target = target
        self.log: LocalLog = target.log
        self.directory = directory
        self.settings = settings
        self.deep = deep
        self.quick = quick
        self.limit = limit
        self.now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self.pace = pace
        self.leave_out = leave_out
        self.left_out: set[int] = set()
        self.walked = walked or {}
        self.replayed = 0
        self.errors: list[PathError] = []
        logs = [segment for segment in self.log.logs if Kind.LOG in segment.files]
        self.segments = [
            SegmentScan(
                segment,
                Place(target.topic, target.partition, segment.base_offset, str(segment.log)),
                next_base=logs[number + 1].base_offset if number + 1 < len(logs) else None,
                active=number == len(logs) - 1,
            )
            for number, segment in enumerate(logs)
        ]
        self.snapshots = [
            self._snapshot(path)
            for name, path in self.log.others
            if name.kind is Kind.METADATA_SNAPSHOT
        ]

    def known_of(self, base_offset: int, path: str) -> Iterable[Finding] | None:
        """Give the findings known of a segment that is left out, None for one to be read."""
        known = self.leave_out(base_offset, path) if self.leave_out else None
        if known is not None:
            self.left_out.add(base_offset)
        return known

    def _snapshot(self, path: str) -> SegmentScan:
        log = LogSegment(0)
        log.files[Kind.LOG] = path
        place = Place(self.target.topic, self.target.partition, None, path)
        return SegmentScan(log, place, next_base=None, active=False)

    def open(self, path: str) -> CourteousSource:
        """Open a large file that is read from front to back."""
        source = CourteousSource(path, self.pace)
        source.advise_sequential()
        return source


def scan(partition: PartitionScan, checks: Sequence[Check]) -> Iterator[Reported]:
    """Read each segment once and yield what the checks report, in the order in which they do."""
    for segment in partition.segments:
        known = partition.known_of(segment.base_offset, segment.path)
        if known is None:
            yield from _scan_segment(partition, segment, checks)
        else:
            yield from known
            yield from _from_all(check.skip(segment) for check in checks)
    of_snapshots = [check for check in checks if check.reads_snapshots]
    for snapshot in partition.snapshots:
        yield from map(_of_snapshot, _scan_segment(partition, snapshot, of_snapshots))
    for check in checks:
        yield from check.end()


def _of_snapshot(reported: Reported) -> Reported:
    """Tell of damage in a metadata snapshot as what it is: no consumer reads it by offsets."""
    if not isinstance(reported, Finding):
        return reported._replace(finding=_in_snapshot(reported.finding))
    return _in_snapshot(reported)


def _in_snapshot(found: Finding) -> Finding:
    if found.severity is not Severity.DAMAGE or found.code == "unreadable":
        return found._replace(next_offset=None)
    return finding(
        "metadata-snapshot-damaged",
        path=found.path,
        topic=found.topic,
        partition=found.partition,
        position=found.position,
        size_bytes=found.size_bytes,
        expected=found.expected,
        actual=found.actual,
        message=f"{CATALOGUE[found.code].sentence} ({found.code})",
    )


def _scan_segment(
    partition: PartitionScan, segment: SegmentScan, checks: Sequence[Check]
) -> Iterator[Reported]:
    try:
        with partition.open(segment.path) as source:
            segment.source = source
            yield from _from_all(check.begin(segment) for check in checks)
            # Taken again, now that the checks have read the indexes: an entry is written after
            # the batch it names, so that all of them lie inside.
            source.refresh()
            if partition.quick:
                yield from _tail(partition, segment, source, checks)
            else:
                if pieces := _pieces(partition, segment, source):
                    yield from _replay(partition, segment, pieces, checks)
                else:
                    yield from _read(partition, segment, source, checks, 0)
                yield from _from_all(check.finish(segment) for check in checks)
    except PathError as error:
        segment.complete = False
        if places.lexists(segment.path):
            partition.errors.append(error)
        else:
            yield at_place("file-vanished", segment.place)
        yield from _from_all(check.skip(segment) for check in checks)
    finally:
        segment.source = None


def _tail(
    partition: PartitionScan, segment: SegmentScan, source: Source, checks: Sequence[Check]
) -> Iterator[Reported]:
    """Read a segment from its last good index entry on; most checks see nothing of it."""
    closer = [check for check in checks if check.reads_tails]
    index = segment.segment.files.get(Kind.OFFSET_INDEX)
    start = sound_start(source, segment.base_offset, index)
    header = FileRecords(source).header(start)
    segment.start_position = segment.end_position = start
    if start and header is not None and not header.flags & c.WRAPPER:
        segment.floor_offset = segment.last_offset = header.base_offset(0) - 1
    yield from _read(partition, segment, source, closer, start)
    segment.complete, segment.tail_read = False, True
    yield from _from_all(
        check.finish(segment) if check.reads_tails else check.skip(segment) for check in checks
    )


def _read(
    partition: PartitionScan,
    segment: SegmentScan,
    source: Source,
    checks: Sequence[Check],
    position: int,
) -> Iterator[Reported]:
    for turn in range(_FOLLOW_TIMES):
        tail: Gap | None = None
        records = FileRecords(source, limit=partition.limit, next_base=segment.next_base)
        walked = records.walk(position, last_offset=segment.last_offset)
        for item in walked if partition.deep else _joined(walked):
            if isinstance(item, Gap):
                if item.to_end and (item.reason != "zeros" or source.shrank):
                    tail = item
                else:
                    yield from _gap(segment, item, checks)
            else:
                yield from _batches(segment, item, checks)
        if tail is None or source.shrank:
            break
        if turn == _FOLLOW_TIMES - 1 or not (segment.active and _may_be_written(source)):
            yield from _gap(segment, tail, checks)
            break
        # Read in the midst of a broker's write, which takes no time to speak of. A preallocated
        # file does not even grow by it.
        time.sleep(_WRITE_SECONDS)
        position = tail.position
        source.refresh()
    segment.complete = not source.shrank
    if source.shrank:
        size = source.status().st_size
        yield at_place("file-shrank", segment.place, position=size, actual=size)


def _pieces(partition: PartitionScan, segment: SegmentScan, source: Source) -> Sequence[Walked]:
    """Give what stands for a log that others read; nothing if it is not the file it was then.

    One that reaches into the next segment is read, for they knew nothing of that.
    """
    pieces = partition.walked.get(segment.base_offset, ())
    if not pieces or segment.active or segment.is_snapshot or segment.next_base is None:
        return ()
    from kdump.engine.verify.walked import fits, identity_of

    sound = fits(pieces, identity_of(source)) and source.size == pieces[0].identity[1]
    last = max(piece.seam.last for piece in pieces)
    return pieces if sound and last < segment.next_base else ()


def _replay(
    partition: PartitionScan,
    segment: SegmentScan,
    pieces: Sequence[Walked],
    checks: Sequence[Check],
) -> Iterator[Reported]:
    """Hand the checks what a walk over a sound log would; its records were looked at already."""
    from kdump.engine.verify.walked import replayed

    of_headers = [check for check in checks if not check.reads_records]
    for run in replayed(pieces, joined=not partition.deep):
        yield from _batches(segment, run, of_headers)
    for check in checks:
        for piece in pieces:
            if check.reads_records and piece.sums is not None:
                check.add(piece.sums)
    segment.complete = True
    partition.replayed += 1


def _joined(items: Iterable[Run | Oversize | Gap]) -> Iterator[Run | Oversize | Gap]:
    """Join runs of whose batches no check wants the bytes: one call for many blocks of the file."""
    parts: list[RecordBatches] = []
    count = 0
    for item in items:
        plain = None
        if isinstance(item, Run) and not item.batches.flags & ~PLAIN:
            plain = item.batches if len(item.batches) <= FEW else None
        if parts and (plain is None or count + FEW > BATCHES_A_RUN):
            yield Run(bytearray(), 0, RecordBatches.join(parts))
            parts, count = [], 0
        if plain is None:
            yield item
        else:
            parts.append(plain)
            count += len(plain)
    if parts:
        yield Run(bytearray(), 0, RecordBatches.join(parts))


def _may_be_written(source: Source) -> bool:
    """Whether it is worth a moment to see if the file goes on: nobody need hold a lock for that."""
    return not source.in_store and (source.is_growing() or was_just_written(source))


def _gap(segment: SegmentScan, gap: Gap, checks: Sequence[Check]) -> Iterator[Reported]:
    for check in checks:
        yield from check.gap(segment, gap)
    segment.keep(gap)
    segment.end_position = gap.position + gap.size_bytes


def _batches(
    segment: SegmentScan, item: Run | Oversize, checks: Sequence[Check]
) -> Iterator[Reported]:
    for check in checks:
        if isinstance(item, Run):
            yield from check.run(segment, item)
        else:
            yield from check.oversize(segment, item)
    batches = item.batches
    last = batches.count - 1
    segment.count(batches)
    segment.follow(batches)
    segment.end_position = batches.position(last) + batches.size_bytes(last)


def _from_all(reports: Iterable[Iterable[Reported]]) -> Iterator[Reported]:
    return chain.from_iterable(reports)


__all__ = ["PartitionScan", "PathError", "SegmentScan", "scan"]
