"""Scan a partition: read every segment's log once and feed every check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from kdump.broker.sound_start import sound_start
from kdump.engine.reading.check import Check, is_unneeded, join_headers
from kdump.engine.reading.damage import at_place
from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
from kdump.engine.reading.segment_pass import SegmentPass
from kdump.errors import PathError
from kdump.findings.finding import CATALOGUE, Finding, Severity
from kdump.findings.rows import Place
from kdump.kernels import columns as c
from kdump.record.frames import Gap, Oversize, Run
from kdump.storage.file_records import FileRecords
from kdump.storage.names import Kind
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.engine.reading.check import Reported, Reports
    from kdump.engine.reading.header_columns import PackedHeaders


def scan(partition: PartitionScan, checks: Sequence[Check]) -> Iterator[Reported]:
    """Read each segment once and yield what the checks report, in the order in which they do."""
    for segment in partition.segments:
        known = partition.known_findings(segment.base_offset, segment.path)
        if known is None:
            yield from _scan_segment(partition, segment, checks)
        else:
            yield from known
            yield from _run_hooks(_hooks(checks, "skip"), segment)
    for snapshot in partition.snapshots:
        of_snapshots = [check for check in checks if check.reads_snapshots]
        yield from map(_of_snapshot, _scan_segment(partition, snapshot, of_snapshots))
    for end in _hooks(checks, "end"):
        yield from end() or ()


@lru_cache(maxsize=64)
def _that_have(kinds: tuple[type[Check], ...], hook: str) -> tuple[int, ...]:
    """Say which of some checks do anything where a hook is called; most have few hooks."""
    names = (hook, "headers") if hook in ("run", "oversize") else (hook,)
    return tuple(
        number
        for number, kind in enumerate(kinds)
        if any(getattr(kind, name) is not getattr(Check, name) for name in names)
    )


def _hooks(checks: Sequence[Check], hook: str) -> list[Callable[..., Reports]]:
    """Give one hook of all checks that do something there, in their order."""
    numbers = _that_have(tuple(map(type, checks)), hook)
    return [getattr(checks[number], hook) for number in numbers]


def _of_snapshot(reported: Reported) -> Reported:
    """Tell of damage in a metadata snapshot as what it is: no consumer reads it by offsets."""
    if isinstance(reported, Finding):
        return _in_snapshot(reported)
    return reported._replace(finding=_in_snapshot(reported.finding))


def _in_snapshot(found: Finding) -> Finding:
    if found.severity is not Severity.DAMAGE or found.code == "unreadable":
        return found._replace(next_offset=None)
    return at_place(
        "metadata-snapshot-damaged",
        Place(found.topic, found.partition, None, found.path),
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
            if partition.quick:
                _leave_out_front(segment, source)
            yield from _run_hooks(_hooks(checks, "begin"), segment)
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
                yield from _run_hooks(_hooks(checks, "finish"), segment)
    except PathError as error:
        segment.complete = False
        yield from partition.note_unread(error, segment.place)
        yield from _run_hooks(_hooks(checks, "skip"), segment)
    finally:
        segment.source = None


def _leave_out_front(segment: SegmentScan, source: Source) -> None:
    """Let reading start at the last index entry whose batch is sound; what precedes it counts not.

    Where damage follows, that batch says where its offsets start.
    """
    index = segment.segment.files.get(Kind.OFFSET_INDEX)
    start = sound_start(source, segment.base_offset, index, whole=True)
    header = FileRecords(source).header(start)
    segment.start_position = segment.end_position = start
    if start and header is not None and not header.flags & c.WRAPPER:
        segment.floor_offset = segment.last_offset = header.base_offset(0) - 1


def _tail(
    partition: PartitionScan, segment: SegmentScan, source: Source, checks: Sequence[Check]
) -> Iterator[Reported]:
    """Read a segment from where its tail starts; most checks see nothing of it."""
    closer = [check for check in checks if check.reads_tails]
    yield from _read(partition, segment, source, closer, segment.start_position)
    segment.complete, segment.tail_read = False, True
    for check in checks:
        yield from (check.finish(segment) if check.reads_tails else check.skip(segment)) or ()


def _read(
    partition: PartitionScan,
    segment: SegmentScan,
    source: Source,
    checks: Sequence[Check],
    position: int,
) -> Iterator[Reported]:
    log = SegmentPass(
        source,
        segment.offsets,
        limit=partition.limit,
        next_base=segment.next_base,
        active=segment.active,
    )
    run = _hooks(checks, "run")
    for item in log.items(position, joins=None if partition.deep else is_unneeded):
        if isinstance(item, Gap):
            yield from _gap(segment, item, checks)
        else:
            yield from _batches(
                segment, item, run if isinstance(item, Run) else _hooks(checks, "oversize")
            )
    segment.complete = not source.shrank
    if source.shrank:
        size = source.status().st_size
        yield at_place("file-shrank", segment.place, position=size, actual=size)


def _pieces(
    partition: PartitionScan, segment: SegmentScan, source: Source
) -> Sequence[PackedHeaders]:
    """Give what stands for a log that others read; nothing if it is not the file it was then.

    One that reaches into the next segment is read, for they knew nothing of that.
    """
    pieces = partition.walked.get(segment.base_offset, ())
    if not pieces or segment.active or segment.is_snapshot or segment.next_base is None:
        return ()
    from kdump.engine.reading.header_columns import fits, identity_of

    sound = fits(pieces, identity_of(source)) and source.size == pieces[0].identity[1]
    last = max(piece.seam.last for piece in pieces)
    return pieces if sound and last < segment.next_base else ()


def _replay(
    partition: PartitionScan,
    segment: SegmentScan,
    pieces: Sequence[PackedHeaders],
    checks: Sequence[Check],
) -> Iterator[Reported]:
    """Hand the checks what a walk over a sound log would; its records were looked at already."""
    from kdump.engine.reading.header_columns import replay

    run = _hooks([check for check in checks if not check.reads_records], "run")
    runs = replay(pieces)
    for item in runs if partition.deep else join_headers(runs):
        assert isinstance(item, Run)
        yield from _batches(segment, item, run)
    for check in checks:
        for piece in pieces:
            if check.reads_records and piece.sums is not None:
                check.add(piece.sums)
    segment.complete = True
    partition.replayed += 1


def _gap(segment: SegmentScan, gap: Gap, checks: Sequence[Check]) -> Iterator[Reported]:
    yield from _run_hooks(_hooks(checks, "gap"), segment, gap)
    segment.keep(gap)
    segment.end_position = gap.position + gap.size_bytes


def _batches(
    segment: SegmentScan, item: Run | Oversize, hooks: Iterable[Callable[..., Reports]]
) -> Iterator[Reported]:
    yield from _run_hooks(hooks, segment, item)
    batches = item.batches
    segment.count(batches)
    segment.offsets.follow(batches)
    segment.end_position = batches.end_position(batches.count - 1)


def _run_hooks(hooks: Iterable[Callable[..., Reports]], *event: object) -> Iterator[Reported]:
    for hook in hooks:
        if reports := hook(*event):
            yield from reports
