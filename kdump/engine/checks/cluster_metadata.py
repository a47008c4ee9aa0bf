"""Read the cluster metadata log of a KRaft node: which replicas are where (M1, X15).

The newest whole snapshot is loaded and the log from there on replayed. Only where nothing in
between is missing may anything be said of what the log does not know.
"""

from __future__ import annotations

from typing import NamedTuple

from kdump.errors import PathError
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record import control, metadata_records
from kdump.record.batch import read_batch
from kdump.record.frames import Gap, Run
from kdump.storage.file_records import DEFAULT_LIMIT, walk
from kdump.storage.local_log import LocalLog, with_next_base
from kdump.storage.names import Kind

SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4


class Replicas(NamedTuple):
    """Who holds a partition; `directories` are parallel to `replicas`, or empty."""

    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    since_ms: int


class ClusterMetadata:
    """What the records so far come to.

    `removed` are topic ids and when they went; `log_dirs` the directory ids each broker last
    registered; `last_ms` is the time of the newest record. `complete`: nothing is missing.
    """

    def __init__(self) -> None:
        self.topics: dict[str, str] = {}  # id -> name
        self.ids: dict[str, str] = {}  # name -> id
        self.partitions: dict[str, dict[int, Replicas]] = {}  # by topic id
        self.removed: dict[str, int] = {}
        self.log_dirs: dict[int, tuple[str, ...]] = {}
        self.last_ms = -1
        self.next_offset = 0
        self.complete = True
        self._pending: list[tuple[metadata_records.MetadataRecord, int]] | None = None

    def add(self, record: metadata_records.MetadataRecord | None, time_ms: int) -> None:
        """Take up one record; those of a transaction take effect at its end."""
        self.last_ms = max(self.last_ms, time_ms)
        if record is None:
            self.complete = False
        elif isinstance(record, metadata_records.TransactionRecord):
            pending, self._pending = self._pending or [], None
            if record.type_id == metadata_records.BEGIN:
                self._pending = []
            elif record.type_id == metadata_records.END:
                for held, then_ms in pending:
                    self._apply(held, then_ms)
        elif self._pending is not None:
            self._pending.append((record, time_ms))
        else:
            self._apply(record, time_ms)

    def _apply(self, record: metadata_records.MetadataRecord, time_ms: int) -> None:
        if isinstance(record, metadata_records.TopicRecord):
            self.topics[record.topic_id] = record.name
            self.ids[record.name] = record.topic_id
        elif isinstance(record, metadata_records.RemoveTopicRecord):
            name = self.topics.pop(record.topic_id, None)
            if name is not None and self.ids.get(name) == record.topic_id:
                del self.ids[name]
            self.partitions.pop(record.topic_id, None)
            self.removed[record.topic_id] = time_ms
        elif isinstance(record, metadata_records.PartitionRecord):
            of_topic = self.partitions.setdefault(record.topic_id, {})
            of_topic[record.partition] = Replicas(record.replicas, record.directories, time_ms)
        elif isinstance(record, metadata_records.PartitionChangeRecord):
            self._change(record, time_ms)
        elif isinstance(record, metadata_records.BrokerRecord):
            if record.log_dirs is not None:
                self.log_dirs[record.broker_id] = record.log_dirs
        elif isinstance(record, metadata_records.UnregisterBrokerRecord):
            self.log_dirs.pop(record.broker_id, None)

    def _change(self, record: metadata_records.PartitionChangeRecord, time_ms: int) -> None:
        of_topic = self.partitions.get(record.topic_id, {})
        before = of_topic.get(record.partition)
        if before is None:
            self.complete = False
            return
        if record.replicas is None and record.directories is None:
            return
        replicas = before.replicas if record.replicas is None else record.replicas
        directories = before.directories if record.directories is None else record.directories
        of_topic[record.partition] = Replicas(replicas, directories, time_ms)


class SnapshotEnds(NamedTuple):
    """Whether a snapshot begins and ends as it must (X15)."""

    header: bool
    footer: bool
    whole: bool  # nothing in it is broken


def read_cluster_metadata(path: str, limit: int = DEFAULT_LIMIT) -> ClusterMetadata | None:
    """Read the metadata log in a partition directory; None where nothing of it can be read."""
    try:
        log = LocalLog.open(path)
        for end_offset, snapshot in reversed(log.snapshots(Kind.METADATA_SNAPSHOT)):
            state = ClusterMetadata()
            ends = replay_snapshot(snapshot, state, limit)
            if ends == SnapshotEnds(header=True, footer=True, whole=True):
                state.next_offset = end_offset
                break
        else:
            state = ClusterMetadata()
        _replay_log(log, state, limit)
    except PathError:
        return None
    return state


def replay_snapshot(
    path: str, state: ClusterMetadata | None, limit: int = DEFAULT_LIMIT
) -> SnapshotEnds:
    """Read a snapshot; its records' offsets count from 0 and mean nothing.

    Without a state only the control records are looked at.
    """
    header = footer = False
    whole = first = True
    for item in walk(path, limit=limit):
        if not isinstance(item, Run):
            whole = False
            continue
        for row in range(item.batches.count):
            kinds = _replay_batch(item, row, state, limit, from_offset=None)
            header |= first and SNAPSHOT_HEADER in kinds
            footer = SNAPSHOT_FOOTER in kinds
            first = False
    return SnapshotEnds(header, footer, whole and (state is None or state.complete))


def _replay_log(log: LocalLog, state: ClusterMetadata, limit: int) -> None:
    logs = log.logs
    if not logs or logs[0].base_offset > state.next_offset:
        state.complete = False
        return
    for segment, following in with_next_base(logs):
        if following is not None and following <= state.next_offset:
            continue
        for item in walk(str(segment.log), limit=limit, next_base=following):
            if isinstance(item, Run):
                _replay_run(item, state, limit)
            elif not isinstance(item, Gap) or not item.to_end or following is not None:
                state.complete = False


def _replay_run(run: Run, state: ClusterMetadata, limit: int) -> None:
    for row in range(run.batches.count):
        last = run.batches.last_offset(row)
        if last < state.next_offset:
            continue
        if run.batches.base_offset(row) > state.next_offset:
            state.complete = False
        _replay_batch(run, row, state, limit, from_offset=state.next_offset)
        state.next_offset = last + 1


def _replay_batch(
    run: Run, row: int, state: ClusterMetadata | None, limit: int, *, from_offset: int | None
) -> set[int | None]:
    """Add the records of one batch; give the types of its control records."""
    is_control = run.batches.flags_of(row) & c.CONTROL
    kinds: set[int | None] = set()
    if not is_control and state is None:
        return kinds
    for piece in read_batch(run.data, run.base, run.batches, row, limit=limit):
        if state is not None and piece.reason not in (reasons.END, reasons.FULL):
            state.complete = False
        records, data = piece.records, piece.data
        for number, offset in enumerate(records.offsets):
            if is_control:
                kinds.add(control.control_type(records.key(data, number)))
            elif state is not None and (from_offset is None or offset >= from_offset):
                record = metadata_records.parse(records.payload(data, number))
                state.add(record, records.timestamp(number))
    return kinds
