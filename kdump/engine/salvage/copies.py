"""Find the copies of a partition, and read the batches of each in the order of their offsets.

A copy is a partition directory, live or retired, or one log that lies apart: a `.deleted`, `.swap`
or `.cleaned` file, or a file that was named by itself.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import repeat
from operator import gt, lt, sub
from typing import TYPE_CHECKING, Protocol

from kdump.broker.leader_epochs import NO_EPOCH, EpochSpans, Span, spans_in
from kdump.engine.compare.replica import Block, Replica, UnusableRange, first_offset
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding, finding
from kdump.kernels import columns as c
from kdump.kernels.columns import RecordBatches
from kdump.record.frames import Run
from kdump.record.layout import LARGEST_HEADER
from kdump.record.partial_batch import last_inside
from kdump.storage import names, places, zookeeper_files
from kdump.storage.file_records import walk
from kdump.storage.held_files import size_of
from kdump.storage.local_log import LocalLog, LogSegment
from kdump.storage.log_dir import LOG_DIRS
from kdump.storage.names import Kind, Retirement
from kdump.storage.problems import Problem
from kdump.storage.properties import read_partition_metadata
from kdump.storage.targets import Selection, Target, resolve
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.salvage.options import SalvageOptions
    from kdump.engine.work.pace import Pace
    from kdump.record.header_repair import MendedEntry

_UNSOUND = c.WRONG & ~c.OFFSET_NOT_RISING  # a replica has sorted those out
_TORN_KEPT = 10_000  # between two sound batches
_PRODUCERS_KEPT = 100_000
_ROWS_KEPT = 1 << 17  # headers of one copy
_LIKELY_OFFSETS = 1 << 20  # a broken batch that claims more is not believed


@dataclass(frozen=True)
class CopySource:
    """Where a copy lies: a partition directory, or one log in it.

    `listed` is the directory as it was when the copy was found: a broker may rename it, or delete
    it, while other copies are read.
    """

    path: str
    directory: str
    topic: str | None
    partition: int | None
    listed: LocalLog | None = field(default=None, compare=False, repr=False, kw_only=True)
    is_carved = False

    @property
    def is_file(self) -> bool:
        """Whether it is one log that lies apart."""
        return self.path != self.directory

    @property
    def retirement(self) -> Retirement | None:
        """Why its directory is not that of a live partition; None where it is."""
        name = names.parse_directory(os.path.basename(self.directory))
        return None if name is None else name.retirement

    def log(self) -> LocalLog:
        """The directory as it was listed, without directories in the place of files."""
        return (self.listed or LocalLog.open(self.directory)).without_directories()

    def files(self) -> list[str]:
        """The logs that are read."""
        if self.is_file:
            return [self.path]
        return [str(segment.log) for segment in self.log().logs]

    def small_files(self) -> list[str]:
        """The other files that are read, but for those of the data directory."""
        if self.is_file or self.listed is None:
            return []
        kinds = (Kind.LEADER_EPOCHS, Kind.PARTITION_METADATA)
        return [path for name, path in self.listed.others if name.kind in kinds]

    def count_bytes(self) -> int:
        """Return how many bytes the logs have, for a plan."""
        return sum(map(places.size_or_zero, self.files()))

    def open(self, pace: Pace, limit: int) -> Copy:
        """Open it for reading."""
        return Copy(self, pace, limit)


#: Copies of partitions, each by where it lies.
Groups = dict[tuple[str | None, int | None], dict[str, CopySource]]


class Nameless(Protocol):
    """Copies that do not say of which partition they are; `has_others`: paths of copies that do.

    `failed`: copies that do, and of which nobody foresaw that they could not be read.
    """

    has_others: bool
    failed: list[KdumpError]

    def name_copies(self, copies: Groups, selection: Selection) -> Iterator[CopySource]:
        """Yield them with names, by what the copies at hand tell."""


class Item(NamedTuple):
    """One partition and its copies, in the order in which they were named."""

    path: str
    topic: str | None
    partition: int | None
    copies: tuple[CopySource, ...]
    size_bytes: int


def plan(
    paths: Iterable[str], options: SalvageOptions, carved: Nameless | None = None
) -> Iterator[Item | KdumpError]:
    """Yield errors, then the partitions that have a copy under the paths, by topic and number.

    What was `carved` out of images is a copy too. What no name tells the partition of is taken for
    the one that the others are of. The metadata log of a cluster is left out, which is nothing
    without its snapshots.
    """
    selection = options.selection._replace(retired=True)
    groups: Groups = {}
    targets = resolve(paths, selection, options.server_properties, listed=False)
    for target in targets if carved is None or carved.has_others else ():
        if isinstance(target, KdumpError):
            yield target
            continue
        if zookeeper_files.is_folder(target.path):
            continue
        found = list(_find_copies(target))
        if not found:
            yield PathError(target.path, "is neither a partition nor a log")
        for one in found:
            group = groups.setdefault((one.topic, one.partition), {})
            group.setdefault(places.real(one.path), one)
    if carved is not None:
        for number, copy in enumerate(carved.name_copies(groups, selection)):
            groups.setdefault((copy.topic, copy.partition), {})[f"{number} {copy.path}"] = copy
        yield from carved.failed
    metadata = groups.pop((names.CLUSTER_METADATA_TOPIC, 0), None)
    if metadata is not None and not groups:
        reason = "is the metadata log of a cluster; copy it from another controller"
        yield PathError(next(iter(metadata.values())).path, reason)
    unnamed = groups.pop((None, None), None)
    if unnamed is not None and len(groups) == 1:
        next(iter(groups.values())).update(unnamed)
    elif unnamed is not None:
        for one in unnamed.values():
            reason = (
                "does not show which partition it belongs to: add a directory named TOPIC-PARTITION"
            )
            yield PathError(one.path, reason)
    for (topic, partition), group in sorted(groups.items(), key=_order):
        copies = tuple(group.values())
        size = sum(one.count_bytes() for one in copies)
        yield Item(copies[0].path, topic, partition, copies, size)


def _order(
    group: tuple[tuple[str | None, int | None], object],
) -> tuple[list[tuple[int, str]], int]:
    """Sort by topic, numbers in its name as numbers, then by partition."""
    topic, partition = group[0]
    parts = re.findall(r"\d+|\D+", topic or "")
    numbered = [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
    return numbered, -1 if partition is None else partition


def _find_copies(target: Target) -> Iterator[CopySource]:
    topic, partition = target.topic, target.partition
    if not target.whole:
        if target.files[0].name.kind is Kind.LOG:
            yield CopySource(target.path, os.path.dirname(target.path), topic, partition)
        return
    if (log := target.log) is None:
        return
    yield CopySource(target.path, target.path, topic, partition, listed=log)
    for name, path in log.retired:
        if name.kind is Kind.LOG:
            yield CopySource(path, target.path, topic, partition, listed=log)


class Batch(NamedTuple):
    """One batch of a copy. Of a wrapper `first` is the lowest offset that it may begin at.

    `mended`: header fields are wrong that no checksum covers; those inferred stand in their place.
    `sound_from`: from there up to `first` the copy lawfully has nothing; -1: that is not known.
    """

    first: int
    rank: int
    copy: Copy
    path: str
    position: int
    size_bytes: int
    last: int
    epoch: int
    crc: int
    layout: int
    is_wrapper: bool
    records_count: int
    sound_from: int
    producer_id: int
    producer_epoch: int
    mended: MendedEntry | None = None

    @property
    def identity(self) -> tuple[int, ...]:
        """What tells it from others, but for the leader epoch, which no checksum covers."""
        first = -1 if self.is_wrapper else self.first
        return first, self.last, self.crc, self.size_bytes, self.layout

    @property
    def place(self) -> tuple[str, int]:
        """Where it lies."""
        return self.path, self.position


class TornEntry(NamedTuple):
    """An entry with a wrong checksum or no end.

    It lies behind the offset `last` and not behind `before`, None where nothing sound follows.
    `after` is the offset right before its first, None where that is not known.
    """

    copy: Copy
    path: str
    position: int
    size_bytes: int
    last: int
    after: int | None
    before: int | None = None

    def is_misplaced(self, first: int) -> bool:
        """Whether a batch there cannot begin at an offset, in a log that has each offset."""
        return self.after is not None and not self.copy.is_sparse and first != self.after + 1


class Stretch(NamedTuple):
    """Sound batches of one format: rows `start` to before `stop` of a block of a copy.

    None is a wrapper, and between them the copy lawfully has nothing, nor from `sound_from` up to
    the first.
    """

    copy: Copy
    path: str
    block: RecordBatches
    start: int
    stop: int
    sound_from: int

    @property
    def batch_count(self) -> int:
        """How many batches they are."""
        return self.stop - self.start

    @property
    def first(self) -> int:
        """The first offset."""
        return self.block.base_offset(self.start)

    @property
    def last(self) -> int:
        """The last offset."""
        return self.block.last_offset(self.stop - 1)

    @property
    def rank(self) -> int:
        """The rank of the copy."""
        return self.copy.rank

    def rows(self) -> RecordBatches:
        """The headers."""
        return self.block.slice(self.start, self.stop)

    def cut(self, count: int) -> Stretch:
        """Return the first `count` of them; a negative count leaves out that many at the end."""
        return self._replace(stop=(self.stop if count < 0 else self.start) + count)

    def rest_after(self, count: int) -> Stretch:
        """What is left of them behind the first."""
        start = self.start + count
        return self._replace(start=start, sound_from=self.block.last_offset(start - 1) + 1)

    def batches(self) -> Iterator[Batch]:
        """Yield them one by one."""
        yield from self.make_batches(self.start, self.stop)

    def make_batches(self, start: int, stop: int) -> list[Batch]:
        """Make batches of some rows."""
        block = self.block
        lasts = block.last_offsets[start:stop].tolist()
        before = self.sound_from if start == self.start else block.last_offset(start - 1) + 1
        has_epoch, has_producer = block.has_leader_epoch(start), block.has_producer_fields(start)
        none = repeat(-1)
        return list(
            map(
                Batch,
                block.base_offsets[start:stop],
                repeat(self.copy.rank),
                repeat(self.copy),
                repeat(self.path),
                block.positions[start:stop],
                block.sizes[start:stop],
                lasts,
                block.leader_epochs[start:stop] if has_epoch else repeat(NO_EPOCH),
                block.crcs[start:stop],
                block.layouts[start:stop],
                repeat(False),
                block.records_counts[start:stop],
                [before, *(last + 1 for last in lasts[:-1])],
                block.producer_ids[start:stop] if has_producer else none,
                block.producer_epochs[start:stop] if has_producer else none,
            )
        )


class Copy:
    """One copy: what reading its headers once told, and its batches as often as asked for.

    `rank` is 0 for the copy that leads. `end` is behind its last sound batch; `tail` is the offset
    that unreadable bytes behind that batch may hold at least, None where there are none: so says an
    entry that begins at `tail_first`, which another copy may have as it was. `torn` are entries of
    which a part may be had, as far as `batches` has come, and not yet taken from it. `holes` has,
    by the offset at which a damaged entry says that it begins, or a wrapper that it ends, the one
    behind the sound entry right before it: of use where another copy has that entry.
    """

    def __init__(self, found: CopySource, pace: Pace, limit: int) -> None:
        self.found = found
        self.path = found.path
        self.limit = limit
        self.rank = 0
        self._pace = pace
        self.left_out: list[Finding] = []  # files that no result gets
        self.gone: list[str] = []  # logs that were deleted since, as the last reading found
        self.topic_id, self.bases = self._open()
        self.replica = self._replica()
        self.written_epochs = self.replica.written_epochs
        self.start = self.replica.segments[0].base_offset if self.replica.segments else None
        self.missing: list[int] = []  # base offsets of segments whose log is not in this copy
        self._epochs = EpochSpans()
        self.spans = self._epochs.spans
        self.end = self.start or 0
        self.tail: int | None = None
        self.tail_first: int | None = None
        self.is_compacted = bool(self.replica.cleaned_to)
        self.unsound: set[tuple[str, int]] = set()  # batches whose header cannot be right
        self.diverged: list[list[int]] = []
        self.torn: list[TornEntry] = []
        self.holes: dict[int, int] = {}
        self.unused: list[UnusableRange] = []  # since the last batch
        self._tearing: list[TornEntry] = []  # with nothing sound behind them yet
        self._inside = -1  # what is up to that offset lies in the last of them
        self.producers: set[tuple[int, int]] = set()  # ids and epochs in sound batches
        self._holes = 0
        self._followed = -1  # the offset that a damaged entry says it comes right behind
        self._held: Batch | None = None
        self._is_shared = False
        self._kept: list[Stretch] = []  # all that is in the log
        # What puts batches among them whose header is wrong where no checksum covers it.
        self.mend: Callable[[Copy, Iterator[Batch]], Iterator[Batch]] | None = None

    def pieces(self, batch: Batch) -> Sequence[tuple[int, int]]:
        """Say where in an image a batch lies; nothing of a copy whose logs are files."""
        return ()

    def _open(self) -> tuple[str | None, set[int]]:
        """Find its files; return the topic's id and the base offsets."""
        found = self.found
        log = found.log()
        if found.is_file:
            base = names.parse(os.path.basename(found.path)).base_offset or 0
            log = LocalLog(found.directory, [])
            log.segments = log.logs = [LogSegment(base, {Kind.LOG: found.path})]
        if any(segment.is_pre08 for segment in log.segments):
            raise PathError(found.path, "is from 0.7 or earlier, where offsets are byte positions")
        self._directory = None if found.is_file else LOG_DIRS.find_parent(found.path)
        self._log = log
        read = None if found.is_file else read_partition_metadata(found.path)
        if read is not None and read.problems:
            path = os.path.join(found.path, names.PARTITION_METADATA)
            self.left_out.append(left_out_finding(path, read.problems[0], found))
            read = None
        topic_id = None if read is None else read.values.get("topic_id")
        return topic_id, {segment.base_offset for segment in log.segments}

    def _replica(self) -> Replica:
        found = self.found
        target = Target(found.topic, found.partition, found.path, self._log, (), whole=True)
        return Replica(0, target, self._directory, pace=self._pace, limit=self.limit)

    def high_watermark(self) -> int:
        """The offset up to which everything was committed, as far as this copy's broker knew."""
        return self.replica.high_watermark or 0

    @property
    def is_empty(self) -> bool:
        """Whether its logs hold no byte, as those of a topic that was just created."""
        return not any(size_of(str(segment.log)) for segment in self.replica.segments)

    def first_times(self) -> Iterator[int]:
        """Yield the oldest time in the first block of each log that has one."""
        for segment in self.replica.segments:
            if segment.log is None:
                continue
            for item in walk(segment.log, limit=self.limit):
                if isinstance(item, Run):
                    yield from sorted(at for at in item.batches.base_timestamps if at > 0)[:1]
                    break

    def find_claimed_end(self) -> int:
        """The offset that the log has reached once, as the files beside it say."""
        return max(self.replica.claims.values(), default=0)

    def batches(self) -> Iterator[Batch]:
        """Read the batches that are sound as far as headers and checksums tell."""
        for item in self.items():
            yield from (item,) if isinstance(item, Batch) else item.batches()

    def items(self) -> Iterator[Batch | Stretch]:
        """Read them, many together where nothing is wrong around them.

        What a log without damage has is kept, if it is not too much, and not read again.
        """
        if self._kept and not self.unsound:
            for stretch in self._kept:
                self._pace(sum(stretch.block.sizes))
                yield stretch
        elif self.mend is None:
            yield from self._read()
        else:
            yield from self.mend(self, (one for one in self._read() if isinstance(one, Batch)))

    def _read(self) -> Iterator[Batch | Stretch]:
        last = self.start - 1 if self.start is not None else -1
        segment, is_clean, tail, self.tail_first = self.start, True, None, None
        self.torn, self._tearing, self._inside, self.holes = [], [], -1, {}
        self.unused = []
        kept: list[Stretch] | None = []
        rows = 0
        replica = self._replica()
        self.gone = replica.gone
        for item in replica.blocks():
            if not isinstance(item, Block):
                kept = None
                self.unused.append(item)
                self._tear(item, last, is_clean=is_clean)
                is_clean = False
                if not item.finding.entry.empty:
                    claimed = -1 if item.header is None else item.header.last_offset(0)
                    is_likely = last < claimed < last + _LIKELY_OFFSETS
                    reach = claimed if is_likely else last + 1
                    if tail is None or reach > tail:
                        tail = reach
                        self.tail_first = item.header.base_offset(0) if item.header else None
                continue
            batches = item.batches
            if item.place.segment != segment:
                segment = item.place.segment
                # A hole between segments: compaction, or a segment that is not there any more.
                is_clean = is_clean and self._joins(last, segment)
            is_plain = self._is_plain(batches, item.place.path)
            for row in range(batches.count):
                if is_plain and is_clean and not self._tearing:
                    stretch = Stretch(self, item.place.path, batches, row, batches.count, last + 1)
                    rows += batches.count
                    if kept is not None:
                        kept = [*kept, stretch] if rows <= _ROWS_KEPT else None
                    yield stretch
                    last = batches.last_offset(batches.count - 1)
                    self.unused, tail, self.tail_first = [], None, None
                    break
                kept = None
                flags = batches.flags_of(row)
                where = item.place.path, batches.position(row)
                if flags & _UNSOUND or where in self.unsound:
                    if is_clean and flags & _UNSOUND:
                        self._hole(*where, last)
                    is_clean = False
                    continue
                if self._is_inside(batches, row, item.place.path):
                    is_clean = False
                    continue
                batch = batch_at(batches, row, self, item.place.path, last + 1)
                if is_clean:
                    batch = batch._replace(sound_from=last + 1)
                self._end_torn(batch)
                yield batch
                self.unused = []
                last, is_clean, tail, self.tail_first = batch.last, True, None, None
        self.tail = tail
        self._end_torn(None)
        self._kept = kept or []

    def _is_plain(self, batches: RecordBatches, path: str) -> bool:
        """Whether some batches need no look at each, and all have one format."""
        if self.mend is not None or batches.flags & (_UNSOUND | c.WRAPPER):
            return False
        layouts = batches.layouts
        is_one = layouts.tobytes() == layouts[:1].tobytes() * batches.count
        return is_one and not any(place == path for place, _ in self.unsound)

    def _tear(self, item: UnusableRange, last: int, *, is_clean: bool) -> None:
        """Take note of an entry of which a part may be had; not of one whose offset is wrong."""
        where = item.finding
        is_wrong = item.header is None or item.header.flags & c.CRC_BAD
        if where.entry.empty or not is_wrong or len(self._tearing) >= _TORN_KEPT:
            return
        if where.position is None or where.size_bytes is None:
            return
        last = max(last, (item.place.segment or 0) - 1)
        after = last if is_clean else None
        place = item.place.path, where.position
        self._tearing.append(TornEntry(self, *place, where.size_bytes, last, after))
        if is_clean:
            self._hole(*place, last)
        head = self.replica.read(*place, min(where.size_bytes, LARGEST_HEADER))
        inside = last_inside(head)
        self._inside = self._inside if inside is None else inside

    def _hole(self, path: str, position: int, last: int) -> None:
        """Take note of where a damaged entry, right behind a sound one, says that it begins.

        Of a wrapper it is where it ends.
        """
        first = int.from_bytes(self.replica.read(path, position, 8), "big", signed=True)
        if first == last + 1:
            self._followed = last
        elif first > last + 1 and len(self.holes) < _TORN_KEPT:
            self.holes[first] = last + 1

    def _is_inside(self, batches: RecordBatches, row: int, path: str) -> bool:
        """Whether what looks like a message is one in a torn wrapper, at a number of its own."""
        if not self._tearing or self._tearing[-1].path != path:
            return False
        of_batch = not batches.is_legacy(row) or batches.flags_of(row) & c.WRAPPER
        if of_batch or batches.last_offset(row) > self._inside:
            return False
        torn = self._tearing[-1]
        size = batches.end_position(row) - torn.position
        self._tearing[-1] = torn._replace(size_bytes=max(size, torn.size_bytes))
        return True

    def _end_torn(self, batch: Batch | None) -> None:
        """Take note of how far the entries can go that no sound one followed so far."""
        if self._tearing:
            ends = None if batch is None else (batch.last if batch.is_wrapper else batch.first) - 1
            self.torn += (torn._replace(before=ends) for torn in self._tearing)
            self._tearing = []
        self._inside = -1

    def _joins(self, last: int, segment: int | None) -> bool:
        """Whether no segment is missing between an offset and the next segment that is here.

        In a log with holes there may be none; where any copy has a file of one, there was one.
        """
        if segment is None or segment == last + 1:
            return True
        at = bisect_left(self.missing, last + 1)
        none_between = at == len(self.missing) or self.missing[at] >= segment
        return none_between and self.is_sparse

    def count(self, batch: Batch, *, shared: bool) -> None:
        """Take note of its next sound batch, which others may have too; the last is held back."""
        if self._held is not None:
            self._count(self._held)
        self._held, self._is_shared = batch, shared

    def count_all(self, stretch: Stretch, *, shared: bool) -> None:
        """Take note of its next sound batches; the last is held back."""
        before, last = stretch.cut(-1), stretch.stop - 1
        if before.batch_count:
            if self._held is not None:
                self._count(self._held)
                self._held = None
            part = before.rows()
            firsts, lasts = part.base_offsets.tolist(), part.last_offsets.tolist()
            starts = [stretch.sound_from, *(end + 1 for end in lasts)]
            self._holes += sum(map(gt, firsts, starts))
            offsets = map(sub, starts[1:], firsts)
            self.is_compacted |= any(map(lt, part.records_counts, offsets))
            self.end = starts[-1]
            if part.has_producer_fields(0):
                for producer in set(zip(part.producer_ids, part.producer_epochs, strict=True)):
                    if producer[0] >= 0 and len(self.producers) < _PRODUCERS_KEPT:
                        self.producers.add(producer)
            for span in spans_in(part):
                known = span.epoch if part.has_leader_epoch(0) else NO_EPOCH
                self._epochs.add(Span(known, span.first_offset, span.last_offset, span.batches))
        self.count(stretch.make_batches(last, last + 1)[0], shared=shared)

    def end_count(self, ends: Set[int]) -> None:
        """Take note that there is no further batch; `ends`: where files of any copy end the log."""
        held, self._held = self._held, None
        if held is None:
            return
        has_hole = held.first > held.sound_from >= 0 and not held.is_wrapper
        is_one_bit = (held.first ^ held.sound_from).bit_count() == 1
        is_borne_out = self._is_shared or held.last + 1 in ends or held.last == self._followed
        is_sparse = self._holes or self.is_compacted or not self.spans
        if has_hole and is_one_bit and not (is_sparse or is_borne_out):
            # The only hole of this log, before its last batch: a bit of the offset that changed.
            self.unsound.add(held.place)
            self.tail = max(self.tail or 0, self.end)
        else:
            self._count(held)

    def forget_alone(self, batch: Batch) -> None:
        """Hold a batch for unsound that is the only one of its epoch where it stands."""
        at = bisect_left(self.spans, batch.first, key=lambda span: span.first_offset)
        if at == len(self.spans) or self.spans[at].first_offset != batch.first:
            return
        if self.spans[at].batches != 1:
            return
        self.unsound.add(batch.place)
        del self.spans[at]
        if 0 < at < len(self.spans) and self.spans[at - 1].epoch == self.spans[at].epoch:
            self.spans[at - 1 : at + 1] = [self.spans[at - 1].join(self.spans[at])]

    def _count(self, batch: Batch) -> None:
        self._holes += batch.first > batch.sound_from >= 0
        records = batch.records_count
        if not batch.is_wrapper and records < batch.last - batch.first + 1:
            self.is_compacted = True
        self.end = batch.last + 1
        if batch.producer_id >= 0 and len(self.producers) < _PRODUCERS_KEPT:
            self.producers.add((batch.producer_id, batch.producer_epoch))
        self._epochs.add(Span(batch.epoch, batch.first, batch.last, 1))

    @property
    def is_sparse(self) -> bool:
        """Whether it has offsets without records, as far as is known."""
        return bool(self.is_compacted or self._holes)

    def fits(self, prefer: str) -> bool:
        """Whether it lies under a path."""
        real = places.real(self.path)
        under = places.real(prefer)
        return real == under or real.startswith(os.path.join(under, ""))

    def close(self) -> None:
        """Give back the file from which batches were read again."""
        self.replica.close()


def left_out_finding(path: str, problem: Problem, found: CopySource | None = None) -> Finding:
    """Say that a file is not taken over, because no broker could read it."""
    topic, partition = (None, None) if found is None else (found.topic, found.partition)
    return finding(
        problem.code,
        path=path,
        topic=topic,
        partition=partition,
        expected=problem.expected,
        actual=problem.actual,
        message=f"{path} is malformed and was not copied to the result.",
    )


def batch_at(batches: RecordBatches, row: int, copy: Copy, path: str, lowest: int) -> Batch:
    """Make a batch of a header; a wrapper begins at the `lowest` offset or behind it."""
    has_producer = batches.has_producer_fields(row)
    return Batch(
        first_offset(batches, row, lowest - 1),
        copy.rank,
        copy,
        path,
        batches.position(row),
        batches.size_bytes(row),
        batches.last_offset(row),
        batches.leader_epoch(row) if batches.has_leader_epoch(row) else NO_EPOCH,
        batches.crc(row),
        batches.layout(row),
        bool(batches.flags_of(row) & c.WRAPPER),
        batches.records_count(row),
        -1,
        batches.producer_id(row) if has_producer else -1,
        batches.producer_epoch(row) if has_producer else -1,
    )
