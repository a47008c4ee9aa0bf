"""Read one replica of a partition: its batches, unusable ranges and leader epochs.

What comes out are blocks of headers whose offsets rise from one to the next, whatever the bytes
say, and between them the places at which nothing can be used. Nothing is decompressed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import sub
from typing import TYPE_CHECKING

from kdump.broker.visibility import log_start
from kdump.engine.compare.epochs import Epochs, records_in
from kdump.engine.reading.background_source import BackgroundSource, Pace
from kdump.engine.reading.damage import BatchAt, at_place, gap_finding, past_code
from kdump.engine.reading.segment_pass import SegmentPass
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Gap, Oversize, Run
from kdump.record.read_ahead import RecordsAhead
from kdump.storage import names, places
from kdump.storage.checkpoints import load_epochs
from kdump.storage.directory_facts import owner_of
from kdump.storage.local_log import with_next_base
from kdump.storage.names import Kind
from kdump.storage.offsets import Offsets, end_of
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.log_dir import LogDir
    from kdump.storage.targets import Target

_NOT_BELIEVED = c.OFFSET_NOT_RISING | c.MAGIC_UNKNOWN


class Block(NamedTuple):
    """Headers of one segment; offsets rise from row to row and from block to block."""

    place: Place
    batches: RecordBatches


class UnusableRange(NamedTuple):
    """Bytes that hold nothing of use, or a batch whose offsets or magic cannot be right."""

    place: Place
    finding: Finding
    header: RecordBatches | None


class Replica:
    """A replica's place on disk, what is written beside its log, and what reading it tells.

    `start` is its log start offset; `end` is known when it was read. `cleaned_to` is the offset
    below which its broker compacted it: 0 for not at all, None where that is not on disk.
    `claims` are offsets that the log must once have reached, by what says so. `gone` are logs that
    were listed and were not there any more.
    """

    def __init__(
        self, number: int, target: Target, directory: LogDir | None, *, pace: Pace, limit: int
    ) -> None:
        assert target.log is not None
        log, around = target.log, places.parent(target.path)
        self.number = number
        self.path = target.path
        self.limit = limit
        self.segments = [each for each in log.logs if Kind.LOG in each.files]
        self.node_id = owner_of(around)[0] if directory is None else directory.node_id
        self._target = target
        self._pace = pace
        bases = [segment.base_offset for segment in self.segments]
        first = bases[0] if bases else 0
        self.start = log_start(first, directory, target.topic, target.partition)
        self.high_watermark = self._offset(directory, names.REPLICATION_CHECKPOINT)
        self.cleaned_to = self._cleaner_offset(directory)
        self.claims = self._claims(directory)
        self.end = bases[-1] if bases else self.start
        self.gone: list[str] = []
        self._source: Source | None = None
        self.ahead = RecordsAhead(limit)
        self.epochs = Epochs()
        # As a broker takes them up from the checkpoint; none where it cannot.
        self.written_epochs = [
            (at.epoch, at.start_offset) for at in load_epochs(log.epoch_starts())
        ]
        self.batches = 0
        self.records_count = 0
        self.bytes = 0
        self.holes = 0  # but for those of a log being written
        self.compacted = False  # batches with fewer records than offsets

    def blocks(self) -> Iterator[Block | UnusableRange]:
        """Read the log. Each block and hole stands for itself, and may be kept."""
        last = self.segments[0].base_offset - 1 if self.segments else -1
        for item in self._items(0, self._pace):
            if isinstance(item, Block):
                self._count(item.batches, last)
                last = item.batches.last_offset(item.batches.count - 1)
            elif not item.finding.entry.ends_log:
                self.holes += 1
            yield item
        self.end = max(self.end, last + 1, self.start)

    def reread(self, from_offset: int) -> Iterator[Block | UnusableRange]:
        """Read the log once more, from the segment on that holds an offset."""
        following = [segment.base_offset for segment in self.segments[1:]]
        return self._items(sum(base <= from_offset for base in following), None)

    def read(self, path: str, position: int, size: int) -> bytes:
        """Read a batch again; less than asked for where it is not there any more."""
        try:
            if self._source is None or self._source.path != path:
                self.close()
                self._source = Source(path)
            return bytes(self._source.read(position, size))
        except PathError:
            return b""

    def close(self) -> None:
        """Give the file back from which batches were read again."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def _items(self, first: int, pace: Pace | None) -> Iterator[Block | UnusableRange]:
        last = -1
        for segment, following in with_next_base(self.segments[first:]):
            last = max(last, segment.base_offset - 1)
            path = segment.files[Kind.LOG]
            place = Place(self._target.topic, self._target.partition, segment.base_offset, path)
            try:
                with BackgroundSource(path, pace) as source:
                    for item in self._segment(source, place, last, following):
                        if isinstance(item, Block):
                            last = item.batches.last_offset(item.batches.count - 1)
                        yield item
            except PathError:
                if places.lexists(path):
                    raise
                # Retention took it meanwhile, from the front of the log.
                self.gone.append(path)
                self.start = max(self.start, self.end if following is None else following)

    def _segment(
        self, source: Source, place: Place, last: int, following: int | None
    ) -> Iterator[Block | UnusableRange]:
        offsets = Offsets(last, end_of(place.segment, following))
        log = SegmentPass(source, offsets, limit=self.limit, next_base=following)
        # The bytes are read again where they are wanted.
        items = map(_drop_bytes, log.items(joins=lambda _: True))
        held = next(items, None)
        while held is not None:
            after = next(items, None)
            if isinstance(held, Gap):
                offsets = Offsets(last, offsets.end)
                released = list(offsets.add_gap(held))
                if after is not None and not isinstance(after, Gap):
                    released += offsets.take(after.batches)
                released += offsets.release(None)
                reported = gap_finding(released[0], place, source, active=following is None)
                yield UnusableRange(place, reported, held.header)
            else:
                for item in _sort_out(held.batches, place, last, _first_of(after), following):
                    if isinstance(item, Block):
                        last = item.batches.last_offset(item.batches.count - 1)
                    yield item
            held = after
        if source.shrank:
            size = source.status().st_size
            shrank = at_place("file-shrank", place, position=size, actual=size, offset=last + 1)
            yield UnusableRange(place, shrank, None)

    def _count(self, batches: RecordBatches, before: int) -> None:
        records, wrappers = records_in(batches, before)
        self.batches += batches.count
        self.bytes += sum(batches.sizes)
        self.records_count += records
        if not wrappers and not self.compacted:
            last, base = batches.last_offsets, batches.base_offsets
            self.compacted = sum(map(sub, last, base)) + batches.count > records
        self.epochs.feed(batches, before)

    def _offset(self, directory: LogDir | None, checkpoint: str) -> int | None:
        if directory is None:
            return None
        return directory.offset(checkpoint, self._target.topic, self._target.partition)

    def _cleaner_offset(self, directory: LogDir | None) -> int | None:
        name = names.CLEANER_CHECKPOINT
        if directory is None or directory.checkpoint_time(name) is None:
            return None
        return None if directory.offsets(name) is None else self._offset(directory, name) or 0

    def _claims(self, directory: LogDir | None) -> dict[str, int]:
        """Collect offsets up to which there were records once, as other files say (X3, X9)."""
        assert self._target.log is not None
        found = {
            "high watermark": self.high_watermark,
            "recovery point": self._offset(directory, names.RECOVERY_POINT_CHECKPOINT),
        }
        snapshots = self._target.log.snapshots()
        if snapshots:
            found["producer snapshot"] = snapshots[-1][0]
        return {what: offset for what, offset in found.items() if offset is not None}


#: Bytes of a damaged batch that are searched for the one flipped bit.
_KEPT_OF_GAP = 4 << 20


def _drop_bytes(item: Run | Oversize | Gap) -> Run | Oversize | Gap:
    """Let go of most of a gap's bytes: it waits for what follows."""
    return item._replace(data=item.data[:_KEPT_OF_GAP]) if isinstance(item, Gap) else item


def first_offset(batches: RecordBatches, row: int, last_offset: int) -> int:
    """Where a batch begins; a wrapper at the earliest behind the batch before it (F18)."""
    if batches.flags_of(row) & c.WRAPPER:
        return last_offset + 1
    return batches.base_offset(row)


def _first_of(item: Run | Oversize | Gap | None) -> int | None:
    """The first offset of what follows, as far as it says one."""
    return None if item is None or isinstance(item, Gap) else item.batches.known_offset(0)


def _sort_out(
    batches: RecordBatches, place: Place, last: int, after: int | None, following: int | None
) -> Iterator[Block | UnusableRange]:
    """Sort out batches whose offsets or magic cannot be right: no checksum covers these.

    One that lies above the batch behind it, which fits the one before, is wrong itself; any other
    that does not rise repeats what is there. `after` is the first offset behind these batches,
    `following` the next segment's base offset.
    """
    count = batches.count
    end, most = batches.last_offset(count - 1), end_of(place.segment, following)
    rises = not batches.flags & _NOT_BELIEVED and batches.known_offset(0) > last
    fits = (after is None or after > end) and end < most
    if rises and fits:
        yield Block(place, batches)
        return
    start = 0
    for row in range(count):
        own_first, own_last = batches.known_offset(row), batches.last_offset(row)
        then = batches.known_offset(row + 1) if row + 1 < count else after
        lies_above = then is not None and last < then < own_first
        past_end = own_last >= most
        misplaced = own_first <= last or own_last < own_first or lies_above
        unknown = batches.flags_of(row) & c.MAGIC_UNKNOWN
        if not (misplaced or past_end or unknown):
            last = own_last
            continue
        if start < row:
            yield Block(place, batches.slice(start, row))
        start = row + 1
        code = past_code(following) if past_end else "offset-not-rising"
        code = "magic-unknown" if unknown else code
        yield _unbelievable(code, batches.slice(row, row + 1), place, last)
    if start < count:
        yield Block(place, batches.slice(start, count))


def _unbelievable(code: str, one: RecordBatches, place: Place, last: int) -> UnusableRange:
    of_magic = code == "magic-unknown"
    reported = BatchAt(place, one, 0).finding(
        code,
        offset=last + 1,
        expected=None if of_magic else last + 1,
        actual=one.magic(0) if of_magic else one.last_offset(0),
    )
    return UnusableRange(place, reported, one)
