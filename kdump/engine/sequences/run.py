"""Run `sequences`: gaps and repeats in producers' sequence numbers, from batch headers.

A partition is one item: numbers are followed from segment to segment. The rules are those of
`reading/sequence_rules.py`, the state is that of `broker/producer_state.py`, and the log is read as
`verify` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.settings import Settings, read_settings
from kdump.engine.checks.folding import fold
from kdump.engine.checks.framing import Framing
from kdump.engine.checks.ordering import in_parts
from kdump.engine.reading.check import Check
from kdump.engine.reading.damage import unread_finding
from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan
from kdump.engine.reading.scan import scan
from kdump.engine.sequences.replay import SequenceReplay, SequenceSums
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, Row
from kdump.rows.sequences import SequenceSummary
from kdump.storage import names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind
from kdump.storage.targets import Selection, Target, resolve
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.record.frames import Gap, Oversize, Run


class SequenceResult(NamedTuple):
    """What came of one partition: rows, findings and errors met on the way, sums."""

    rows: tuple[Row, ...] = ()
    reported: tuple[Finding | KdumpError, ...] = ()
    sums: SequenceSums = SequenceSums()


def follow(
    target: Target, settings: Settings, *, segment: int | None, explained: bool, pace: Pace
) -> SequenceResult:
    """Read a partition, or one segment of it.

    `explained`: rows also for what has an innocent explanation.
    """

    def leave_out(base_offset: int, path: str) -> tuple[Finding, ...] | None:
        return None if segment in (None, base_offset) else ()

    partition = PartitionScan(
        target, directory=None, settings=settings, pace=pace, leave_out=leave_out
    )
    check = SequenceCheck(partition, explained=explained)
    findings = fold(scan(partition, [Framing(partition), check]))
    replay = check.replay
    return SequenceResult(tuple(replay.rows), (*findings, *partition.errors), replay.sums())


class SequenceCheck(Check):
    """Follows the producers of a log."""

    def __init__(self, partition: PartitionScan, *, explained: bool) -> None:
        super().__init__(partition)
        expiration_ms = partition.settings.producer_id_expiration_ms
        topic = partition.target.topic
        self.replay = SequenceReplay(topic, expiration_ms, explained=explained, sent=False)

    def run(self, segment: SegmentScan, run: Run | Oversize) -> None:
        """Follow the producers of a run; batches out of order have some other place in truth."""
        if not self.replay.counts(run.batches):
            return
        for part, ordered in in_parts(segment, run):
            if ordered:
                self.replay.take(segment.place, part)
            else:
                self.replay.forget()

    def oversize(self, segment: SegmentScan, one: Oversize) -> None:
        """Follow a batch that is too large to be held."""
        self.run(segment, one)

    def gap(self, segment: SegmentScan, gap: Gap) -> None:
        """Forget: batches were in it. What ends the log has nothing behind it."""
        if not (gap.to_end and segment.active):
            self.replay.forget()

    def skip(self, segment: SegmentScan) -> None:
        """Forget: this segment is not read."""
        self.replay.forget(damaged=False)


class SequenceOptions(NamedTuple):
    """What is asked for; `explained`: rows also for what has an innocent explanation."""

    selection: Selection = Selection()
    server_properties: str | None = None
    explained: bool = False


class Item(NamedTuple):
    """One partition, or the one segment of it that was named; the size is that of its logs.

    Or a capture of requests, with many.
    """

    path: str
    topic: str | None
    partition: int | None
    segment: int | None
    size_bytes: int
    capture: Kind | None = None  # what kind of capture it is instead


def sequences(
    paths: Iterable[str],
    options: SequenceOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Finding | KdumpError]:
    """Yield `sequence-gap` and `sequence-duplicate` rows in the order of the paths and of the log,
    findings and errors in between, and last a `sequence-summary`.

    They are the same for any number of workers, and for any driver.
    """
    progress = progress or Progress()
    settings = read_settings(options.server_properties)
    items: list[Item] = []
    unfinished = 0
    for error in take_up(plan(paths, options), items, progress):
        unfinished += 1
        yield error
    sums = SequenceSums()
    step = partial(follow_item, options=options, settings=settings)
    for _, result in driver(items, step, progress):
        if isinstance(result, KdumpError):
            unfinished += 1
            yield result
            continue
        unfinished += sum(isinstance(reported, KdumpError) for reported in result.reported)
        sums = sums.plus(result.sums)
        yield from result.reported
        yield from result.rows
    yield SequenceSummary(*sums, paths_unfinished=unfinished)


def plan(paths: Iterable[str], options: SequenceOptions) -> Iterator[Item | KdumpError]:
    """Yield an item for each partition under the paths, and an error for each that is none."""
    for target in resolve(paths, options.selection, options.server_properties, listed=False):
        if isinstance(target, KdumpError):
            yield target
            continue
        kind = target.files[0].name.kind if target.files else None
        if kind in (Kind.CAPTURE, Kind.FRAMES):
            size = places.size_or_zero(target.path)
            yield Item(target.path, None, None, None, size, capture=kind)
            continue
        log = target.log
        name = None if target.whole else target.files[0].name
        if log is None or (name and (name.kind not in names.SEGMENT_KINDS or name.is_retired)):
            yield PathError(target.path, "is neither a partition nor a segment")
            continue
        segment = name and name.base_offset
        logs = [one for one in log.logs if segment in (None, one.base_offset)]
        size = sum(places.size_or_zero(str(one.log)) for one in logs)
        yield Item(log.path, target.topic, target.partition, segment, size)


def follow_item(
    item: Item, pace: Pace, *, options: SequenceOptions, settings: Settings
) -> SequenceResult:
    """Follow the producers of one partition, which is listed again, or of one capture."""
    if item.capture is not None:
        from kdump.engine.sequences.captures import follow_capture

        return SequenceResult(
            *follow_capture(
                item.path,
                item.capture,
                options.selection,
                settings.producer_id_expiration_ms,
                explained=options.explained,
            )
        )
    try:
        log = LocalLog.open(item.path)
    except PathError as error:
        place = Place(item.topic, item.partition, None, item.path)
        return SequenceResult(reported=(unread_finding(error, place),))
    target = Target(item.topic, item.partition, item.path, log, (), whole=True)
    return follow(target, settings, segment=item.segment, explained=options.explained, pace=pace)
