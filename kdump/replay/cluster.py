"""Read the cluster metadata log of a KRaft node: snapshots, and the log behind them (M1, M6, X15).

A controller loads the newest snapshot and replays the log from there on; so do we, unless the whole
log is asked for, because only it says when things were said. What is missing from the log, at its
begin or in the middle, is bridged by the next snapshot that was made behind it. Where there is none
the state is not `complete`, and nothing may be concluded from what it does not hold.

    state = read_cluster(".../__cluster_metadata-0", until=Until(offset=500))
    state.settings("topic", "orders")      {"retention.ms": "-1"}
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from kdump import kernels
from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.kernels.columns import DecodedRecords
from kdump.messages.records import MALFORMED, DecodedValue, decode_control, decoder
from kdump.record.batch import read_batch
from kdump.record.frames import Gap, Run
from kdump.record.stretches import Data, stretches
from kdump.replay.cluster_facts import Change, Moment, Partition, kind_of
from kdump.replay.cluster_state import ClusterState
from kdump.storage import names
from kdump.storage.file_records import DEFAULT_LIMIT, walk
from kdump.storage.layout import NO_OP_RECORD
from kdump.storage.local_log import LocalLog, with_next_base
from kdump.storage.names import Kind
from kdump.storage.places import read_listed
from kdump.tuples import NamedTuple

SNAPSHOT_HEADER, SNAPSHOT_FOOTER = "snapshot_header", "snapshot_footer"
_NOTHING = DecodedValue("metadata", "no_op_record", 20, 0, {})
#: A record without a value, which no controller writes.
_NULL = DecodedValue("metadata", "no_value", None, None, None, b"", MALFORMED)
_MOST_HOLES = 1000
_MOST_RECORDS = 8192  # of those that are decoded together
_MOST_FOLDS = 1 << 17
_FAR = (1 << 63) - 1
#: Records that say nothing of partitions, nor of what they are part of.
_APART = frozenset(
    """
    no_op_record config_record producer_ids_record client_quota_record topic_record
    register_broker_record broker_registration_change_record fence_broker_record
    unfence_broker_record unregister_broker_record
    """.split()
)
OnChange = Callable[[Change], None]


class Until(NamedTuple):
    """The last record that counts: by offset, or the last before one of a later time."""

    offset: int | None = None
    time_ms: int | None = None

    def admits(self, offset: int, time_ms: int) -> bool:
        """Whether a record counts."""
        if self.offset is not None and offset > self.offset:
            return False
        return self.time_ms is None or time_ms <= self.time_ms


#: All that there is.
END = Until()


class Hole(NamedTuple):
    """Offsets of which the log says nothing.

    `following` is where it goes on, None where nothing tells. `bridged_by` is the end offset of the
    snapshot that says what came of them, and `path` where they should be.
    """

    first: int
    following: int | None
    path: str
    bridged_by: int | None


class SnapshotEnds(NamedTuple):
    """Whether a snapshot begins and ends as it must (X15)."""

    header: bool
    footer: bool
    whole: bool  # nothing in it is broken
    contained_ms: int | None = None  # the time of the newest record that it stands for

    @property
    def is_sound(self) -> bool:
        """Whether a controller could load it, and nothing be missing."""
        return self.header and self.footer and self.whole


class ClusterReplay:
    """What came of reading a metadata log: the state at the moment asked for, and how it came.

    `holes` are what the log does not hold, `snapshot` the end offset of the snapshot that was
    loaded last, `log_start` where the log begins.
    """

    def __init__(
        self,
        log: LocalLog,
        until: Until,
        limit: int,
        on_change: OnChange | None,
        only: frozenset[int] | None = None,
        *,
        tells_first: bool = False,
    ) -> None:
        self.state = ClusterState(on_change, tells_first=tells_first)
        self.path = log.path
        self.holes: list[Hole] = []
        self.snapshot: int | None = None
        self.has_log = bool(log.logs)
        self.log_start = log.logs[0].base_offset if log.logs else None
        self._until = until
        self._limit = limit
        self._only = only
        self._snapshots = log.snapshots(Kind.METADATA_SNAPSHOT)
        self._logs = log.logs
        #: Changes of partitions that are not in the state yet, where nobody asks for each of them.
        tells = on_change is not None or only is not None
        self._folds = None if tells else kernels.folded_changes()
        self._torn: str | None = None  # a file of which a part could not be read

    def run(self, *, whole: bool) -> None:
        """Read the newest snapshot and what is behind it, or as much of the log as there is."""
        if whole:
            self._load_first(0, 0)  # that of a format from 4.4 on, which the log goes on from
        else:
            self._load_newest(-1)
        if self._replay_log():
            self._end()

    # Snapshots.

    def _load_first(self, least: int, most: int | None = None) -> bool:
        """Load the first sound snapshot whose end offset lies between two."""
        return any(
            self._load(end_offset, path)
            for end_offset, path in list(self._snapshots)
            if least <= end_offset and (most is None or end_offset <= most)
        )

    def _load_newest(self, above: int) -> bool:
        """Load the newest sound snapshot, if it stands for more than all below an offset."""
        newest_first = self._snapshots[::-1]
        return any(self._load(end, path) for end, path in newest_first if end > above)

    def _load(self, end_offset: int, path: str) -> bool:
        """Put what a snapshot says in the place of the state; say whether it could be loaded.

        Each is read once, however much the log has lost.
        """
        self._snapshots = [one for one in self._snapshots if one[1] != path]
        if self._until.offset is not None and end_offset > self._until.offset + 1:
            return False
        loaded = ClusterState()
        try:
            ends = replay_snapshot(path, loaded, self._limit, self._only)
        except PathError:
            return False  # brokers delete them while they run
        time_ms = loaded.last_ms if ends.contained_ms is None else ends.contained_ms
        if not ends.is_sound or not self._until.admits(-1, time_ms):
            return False
        loaded.next_offset = end_offset
        epoch = names.parse(os.path.basename(path)).epoch or 0
        loaded.take_over(self.state, Moment(None, time_ms, epoch, end_offset))
        self.state = loaded
        self.snapshot = end_offset
        return True

    # The log.

    def _replay_log(self) -> bool:
        """Replay the segments; say whether the moment asked for is still to come."""
        for segment, following in with_next_base(self._logs):
            if following is not None and following <= self.state.next_offset:
                continue
            path = str(segment.log)
            for item in walk(path, limit=self._limit, next_base=following):
                if isinstance(item, Run):
                    if not self._replay_run(item, path):
                        return False
                elif not isinstance(item, Gap) or not item.to_end or following is not None:
                    self._torn = path  # what ends the log was never written to its end
            self._unfold(path)
        return True

    def _replay_run(self, run: Run, path: str) -> bool:
        batches = run.batches
        parts = stretches(run.data, run.base, batches, limit=self._limit, max_records=_MOST_RECORDS)
        for part in parts:
            records, first = part.records, 0
            if records is None or part.reason != reasons.END or records.flags & c.MARKER:
                records = None  # one by one
            for row in range(part.first, part.behind):
                base, last = batches.base_offset(row), batches.last_offset(row)
                count = 0 if records is None else batches.records_count(row)
                if last >= self.state.next_offset and (
                    base > self.state.next_offset or self._torn is not None
                ):
                    self._bridge(base, self._torn or path)
                if last >= self.state.next_offset:
                    if records is None:
                        goes_on = self._replay_batch(run, row, path)
                    else:
                        epoch = batches.leader_epoch(row)
                        goes_on = self._replay_records(
                            part.data, records, first, first + count, epoch, path
                        )
                    if not goes_on:
                        return False
                    self.state.next_offset = last + 1
                first += count
        return True

    def _replay_batch(self, run: Run, row: int, path: str) -> bool:
        epoch = run.batches.leader_epoch(row)
        for said in _records(run, row, self._limit, self._only):
            if said is None:
                self._torn = path
            elif not self._take(said, epoch, path):
                return False
        return True

    def _replay_records(
        self, data: Data, records: DecodedRecords, first: int, last: int, epoch: int, path: str
    ) -> bool:
        """Replay sound records; changes of partitions are mostly folded."""
        folds, until = self._folds, self._until
        while first < last:
            if folds is not None and not self.state.holds_back:
                first = folds.take(
                    data,
                    records,
                    first,
                    last,
                    self.state.next_offset,
                    _FAR if until.offset is None else until.offset,
                    _FAR if until.time_ms is None else until.time_ms,
                )
                if len(folds) > _MOST_FOLDS:
                    self._unfold(path)
                if first == last:
                    break
            said = _read_content(data, records, first, self._only)
            if not self._take(said, epoch, path):
                return False
            first += 1
        return True

    def _take(self, said: _RecordContent, epoch: int, path: str) -> bool:
        """Take up one record; say whether the moment asked for is still to come."""
        offset, time_ms, record = said
        if offset < self.state.next_offset:
            return True
        is_asked = self._until.admits(offset, time_ms)
        if not is_asked or record.type not in _APART or record.data is None or record.rest:
            self._unfold(path)
        state = self.state
        if not is_asked:
            state.next_offset = offset
            return False
        was_complete = state.complete
        state.add(record, Moment(offset, time_ms, epoch))
        if was_complete and not state.complete:
            self._note(Hole(offset, offset + 1, path, None))
        return True

    def _unfold(self, path: str) -> None:
        """Put the changes that were folded into the state; all were in one file."""
        state, folds = self.state, self._folds
        if folds is None:
            return
        state.last_ms = max(state.last_ms, folds.last_ms)
        if not len(folds):
            return
        was_complete, unknown = state.complete, []
        decode = decoder(names.CLUSTER_METADATA_TOPIC)
        for data, count, leader_changes, first, last, last_ms, placed_ms in folds.drain():
            record = decode(None, data)[1]
            state.complete = True
            if record is not None and record.data is not None:
                at = Moment(last, last_ms, 0)
                state.change_partition(record.data, at, count, leader_changes, placed_ms)
            if not state.complete:
                unknown.append(first)
        state.complete = was_complete and not unknown
        if was_complete and unknown:
            offset = min(unknown)
            self._note(Hole(offset, offset + 1, path, None))

    # What is not in the log.

    def _bridge(self, following: int, path: str) -> None:
        """Make up for what the log has lost below an offset, or note that it cannot be."""
        self._unfold(path)
        first = self.state.next_offset
        self._torn = None
        bridged = following > first and self._load_first(following)
        if not bridged:
            self._load_newest(first)  # better than nothing
            self.state.complete = False
        self._note(Hole(first, following, path, self.snapshot if bridged else None))

    def _end(self) -> None:
        """Load a snapshot that was made behind the end of the log, if there is one.

        Without a log nothing tells what came behind the snapshot.
        """
        last = self._logs[-1] if self._logs else None
        if last is not None and last.base_offset > self.state.next_offset:
            self._bridge(last.base_offset, str(last.log))
        first, torn = self.state.next_offset, self._torn
        if self._load_newest(first):
            self._note(Hole(first, None, torn or self.path, self.snapshot))
        elif torn is not None or last is None:
            self._note(Hole(first, None, torn or self.path, None))
        self.state.complete = self.state.complete and torn is None and last is not None

    def _note(self, hole: Hole) -> None:
        if len(self.holes) < _MOST_HOLES:
            self.holes.append(hole)


class _RecordContent(NamedTuple):
    offset: int
    time_ms: int
    record: DecodedValue


def _records(
    run: Run, row: int, limit: int, only: frozenset[int] | None = None
) -> Iterator[_RecordContent | None]:
    """Yield what the records of a batch say, None where some cannot be taken apart.

    `only`: what records of other API keys say is left out.
    """
    is_control = bool(run.batches.flags_of(row) & c.CONTROL)
    for piece in read_batch(run.data, run.base, run.batches, row, limit=limit):
        records, data = piece.records, piece.data
        for number in range(records.count):
            yield _read_content(data, records, number, only, is_control=is_control)
        if piece.reason not in (reasons.END, reasons.FULL):
            yield None


def _read_content(
    data: Data,
    records: DecodedRecords,
    number: int,
    only: frozenset[int] | None,
    *,
    is_control: bool = False,
) -> _RecordContent:
    value = records.payload(data, number)
    if value == NO_OP_RECORD:
        record = _NOTHING
    elif is_control:
        record = _read_control(records.key(data, number), value)
    elif only is not None and value is not None and not (value[1:2] and value[1] in only):
        record = _NOTHING
    else:
        record = decoder(names.CLUSTER_METADATA_TOPIC)(None, value)[1] or _NULL
    return _RecordContent(records.offset(number), records.timestamp(number), record)


def _read_control(key: bytes | None, value: bytes | None) -> DecodedValue:
    read_key, read = decode_control(key, value)
    if read is None:
        return _NULL if read_key is None else read_key._replace(data=None)
    return read


def replay_snapshot(
    path: str,
    state: ClusterState | None,
    limit: int = DEFAULT_LIMIT,
    only: frozenset[int] | None = None,
) -> SnapshotEnds:
    """Read a snapshot; its records' offsets count from 0 and mean nothing.

    Without a state only the control records are looked at.
    """
    header = footer = False
    whole = first = True
    contained_ms: int | None = None
    for item in walk(path, limit=limit):
        if not isinstance(item, Run):
            whole = False
            continue
        for row in range(item.batches.count):
            kinds = set()
            is_control = item.batches.flags_of(row) & c.CONTROL
            epoch = item.batches.leader_epoch(row)
            asked = is_control or state is not None
            for said in _records(item, row, limit, only) if asked else ():
                if said is None:
                    whole = whole and state is None
                    continue
                if is_control:
                    kinds.add(said.record.type)
                    contained_ms = _last_contained(said.record, contained_ms)
                if state is not None:
                    state.add(said.record, Moment(None, said.time_ms, epoch))
            header |= first and SNAPSHOT_HEADER in kinds
            footer = SNAPSHOT_FOOTER in kinds
            first = False
    is_whole = whole and (state is None or state.complete)
    return SnapshotEnds(header, footer, is_whole, contained_ms)


def _last_contained(record: DecodedValue, before: int | None) -> int | None:
    if record.type != SNAPSHOT_HEADER or record.data is None:
        return before
    time_ms: int = record.data["lastContainedLogTimestamp"]
    return time_ms


def read_replay(
    path: str,
    *,
    until: Until = END,
    whole: bool = False,
    limit: int = DEFAULT_LIMIT,
    on_change: OnChange | None = None,
    only: frozenset[int] | None = None,
    tells_first: bool = False,
) -> ClusterReplay:
    """Replay the metadata log in a partition directory; raise `PathError` if it cannot be read.

    `whole`: go through as much of the log as there is, so that the facts know when they were said,
    and each change is told to `on_change`, with `tells_first` also what a snapshot told before the
    record. `only`: records of other API keys, all below 128, are
    passed over, which is much quicker.
    """
    replay = ClusterReplay(
        LocalLog.open(path), until, limit, on_change, only, tells_first=tells_first
    )
    replay.run(whole=whole)
    return replay


def read_cluster(
    path: str,
    limit: int = DEFAULT_LIMIT,
    *,
    until: Until = END,
    only: frozenset[int] | None = None,
) -> ClusterState | None:
    """Read the state that a metadata log comes to; None where nothing of it can be read."""
    try:
        read = partial(read_replay, path, until=until, limit=limit, only=only)
        return read_listed(read, path).state
    except PathError:
        return None


def changes_in(path: str, parts: Mapping[int, tuple[int, int]]) -> Counter[tuple[str, str]]:
    """Count the changes of some leader epochs, each between two offsets, both included.

    What a change is comes in two pieces, `("topic", "created")`, of which the first has a plural.
    Nothing is counted of a log that cannot be read.
    """
    found: Counter[tuple[str, str]] = Counter()

    def take(change: Change) -> None:
        first, last = parts.get(change.at.epoch, (0, -1))
        if change.at.offset is not None and first <= change.at.offset <= last:
            found[_words(change)] += 1

    try:
        read_replay(path, whole=True, on_change=take)
    except PathError:
        return Counter()
    return found


def _words(change: Change) -> tuple[str, str]:
    before, after = change.before, change.after
    if isinstance(before, Partition) and isinstance(after, Partition):
        if before.leader != after.leader:
            return "leader change", ""
        if before.isr != after.isr:
            return "ISR change", ""
        moved = before.replicas != after.replicas or before.directories != after.directories
        return ("reassignment" if moved else "other partition change"), ""
    kind = kind_of(change.fact).replace("-", " ")
    if kind == "leader":
        return "election of a controller", ""
    if kind == "producer ids":
        return "block of producer ids", "given out"
    return kind, "created" if before is None else "deleted" if after is None else "changed"
