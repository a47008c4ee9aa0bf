"""The state of a scan: one partition and its segment at hand, as checks see them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.broker.versions import NEWEST, Version
from kdump.broker.visibility import log_start
from kdump.engine.reading.background_source import BackgroundSource, Pace
from kdump.engine.reading.damage import unread_finding
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place
from kdump.kernels import columns as c
from kdump.kernels.columns import BatchHeader
from kdump.record.frames import Gap
from kdump.storage import names
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.local_log import LocalLog, LogSegment, with_next_base
from kdump.storage.names import Kind
from kdump.storage.offsets import Offsets, end_of
from kdump.storage.source import Source

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.broker.visibility import OpenTransaction
    from kdump.engine.reading.header_columns import PackedHeaders
    from kdump.storage.log_dir import LogDir
    from kdump.storage.targets import Target


LeaveOut = Callable[[int, str], "Iterable[Finding] | None"]
#: Takes the partition, the transaction, and whether a broker runs there.
Judge = Callable[[tuple[str, int], "OpenTransaction", bool], tuple[bool, str]]


_GAPS_KEPT = 1000


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
        self.offsets = Offsets(segment.base_offset - 1, self.end_offset)
        self.start_position = 0  # where reading starts: with --quick, near the end
        self.floor_offset = segment.base_offset - 1  # no offset in what is read is as low
        self.end_position = 0  # where what was read so far ends
        self.batches = 0
        self.records_count = 0  # as the headers say; a wrapper's does not
        self.wrappers = 0  # that were not opened
        self.compressed = 0  # batches, wrappers among them
        self.max_timestamp_ms = -1  # of the headers
        self.has_control = False  # a control batch
        self.first: BatchHeader | None = None  # that of the first batch
        self.gaps: list[Gap] = []
        self.complete = False
        self.tail_read = False

    @property
    def last_offset(self) -> int:
        """The last offset so far that is believed."""
        return self.offsets.last

    @last_offset.setter
    def last_offset(self, offset: int) -> None:
        self.offsets = Offsets(offset, self.end_offset)

    @property
    def next_offset(self) -> int | None:
        """The offset behind the last batch; None where the log was not read to its end."""
        return self.last_offset + 1 if self.complete else None

    @property
    def tail(self) -> Gap | None:
        """What the log ends in, where that is no batch: it has a finding of its own."""
        return self.gaps[-1] if self.gaps and self.gaps[-1].to_end else None

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

    def count_wrapped(self, messages: int) -> None:
        """Count the messages of a wrapper that was opened, as its header does not."""
        self.records_count += messages
        self.wrappers -= 1

    def count(self, batches: c.RecordBatches) -> None:
        """Add what these headers say to the sums."""
        if self.first is None:
            self.first = batches.header(0)
        self.has_control = self.has_control or bool(batches.flags & c.CONTROL)
        records, wrappers, compressed, newest = kernels.tally(batches)
        self.batches += batches.count
        self.records_count += records
        self.wrappers += wrappers
        self.compressed += compressed
        self.max_timestamp_ms = max(self.max_timestamp_ms, newest)


class PartitionScan:
    """One partition and what its checks may ask for.

    `directory` is the data directory around it, if it can be listed. `now_ms` is the time of the
    run; `limit` bounds a batch's uncompressed bytes; `broker` is the version whose lookups count;
    `deep`: records are read too; `quick`: no log is read from end to end. `pace` is called with the
    bytes of each read, and may sleep.
    `leave_out` says of a base offset and path that the log is not to be read, by giving the
    findings already known of it; None: it is read. `left_out` are the base offsets of those.
    `coordinators` says whether a transaction that is open in a partition hangs, and why; None:
    nothing of them is known.
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
        broker: Version = NEWEST,
        now_ms: int | None = None,
        pace: Pace | None = None,
        leave_out: LeaveOut | None = None,
        walked: Mapping[int, Sequence[PackedHeaders]] = MappingProxyType({}),
        coordinators: Judge | None = None,
    ) -> None:
        assert target.log is not None
        self.target, self.directory, self.settings = target, directory, settings
        self.deep, self.quick, self.limit, self.broker = deep, quick, limit, broker
        self.now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self.pace, self.leave_out, self.walked = pace, leave_out, walked
        self.coordinators = coordinators
        self.left_out: set[int] = set()
        self.replayed = 0
        self.errors: list[KdumpError] = []
        self.log: LocalLog = target.log
        self.place = Place(target.topic, target.partition, None, target.log.path)
        logs = [segment for segment in self.log.logs if Kind.LOG in segment.files]
        self.segments = [
            SegmentScan(
                segment,
                Place(target.topic, target.partition, segment.base_offset, str(segment.log)),
                next_base=following,
                active=following is None,
            )
            for segment, following in with_next_base(logs)
        ]
        self.snapshots = [
            self._snapshot(path) for _, path in self.log.snapshots(Kind.METADATA_SNAPSHOT)
        ]

    def judge(self, opened: OpenTransaction, live: bool) -> tuple[bool, str]:
        """Whether a transaction hangs by what its coordinator says, and that in a sentence."""
        target = self.target
        if self.coordinators is None or target.topic is None or target.partition is None:
            return False, ""
        return self.coordinators((target.topic, target.partition), opened, live)

    def log_start(self) -> tuple[int, bool]:
        """The log start offset, and whether disk tells: a checkpoint names those above the base.

        Beside a copy of a partition directory there is none.
        """
        first = self.segments[0].base_offset if self.segments else 0
        directory, name = self.directory, names.LOG_START_CHECKPOINT
        if directory is None:
            return first, False
        known = directory.offsets(name) is not None and directory.checkpoint_time(name) is not None
        return log_start(first, directory, self.target.topic, self.target.partition), known

    def cleaner_offset(self) -> int:
        """The cleaner's checkpoint, 0 where there is none: a cleaner came so far."""
        if self.directory is None:
            return 0
        place = (names.CLEANER_CHECKPOINT, self.target.topic, self.target.partition)
        return self.directory.offset(*place) or 0

    def epochs_start(self) -> int:
        """Where the leader epochs begin, 0 where that is not known.

        A log start that is raised trims them (X2), so in a copy without the data directory's
        checkpoints the first of them says where the log starts.
        """
        starts = self.log.epoch_starts()  # LeaderEpochs reports what is wrong with them
        return starts[0].start_offset if starts else 0

    def note_unread(self, error: PathError, place: Place | None = None) -> Iterable[Finding]:
        """Keep an error; a file that is gone since it was listed is a note instead."""
        reported = unread_finding(error, place or self.place._replace(path=error.path))
        if isinstance(reported, Finding):
            return (reported,)
        self.errors.append(reported)
        return ()

    def known_findings(self, base_offset: int, path: str) -> Iterable[Finding] | None:
        """Give the findings known of a segment that is left out, None for one to be read."""
        known = self.leave_out(base_offset, path) if self.leave_out else None
        if known is not None:
            self.left_out.add(base_offset)
        return known

    def _snapshot(self, path: str) -> SegmentScan:
        log = LogSegment(0, {Kind.LOG: path})
        place = Place(self.target.topic, self.target.partition, None, path)
        return SegmentScan(log, place, next_base=None, active=False)

    def open(self, path: str) -> BackgroundSource:
        """Open a large file that is read from front to back."""
        return BackgroundSource(path, self.pace)
