"""Yield the rows of small files: index entries, producer states, checkpoints, properties.

What is damaged stays visible. Slots of an index are rows up to where the written entries end; the
preallocated zeros behind them are none. Old slots that a truncation left before those zeros are
one note; a slot out of order anywhere else is one finding, and reading goes on behind it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import CATALOGUE, Finding
from kdump.findings.rows import Place, Row
from kdump.rows.dump import (
    AbortedTransaction,
    CheckpointOffset,
    LeaderEpoch,
    OffsetIndexEntry,
    ProducerState,
    Property,
    TimeIndexEntry,
)
from kdump.storage import checkpoints, places, producer_snapshot, properties
from kdump.storage.index import OffsetIndex
from kdump.storage.names import FileName, Kind, parse, parse_directory
from kdump.storage.problems import Problem
from kdump.storage.producer_snapshot import ProducerSnapshot
from kdump.storage.source import Source
from kdump.storage.time_index import TimeIndex
from kdump.storage.transaction_index import TransactionIndex
from kdump.tuples import NamedTuple

Item = Row | Finding


class _File(NamedTuple):
    """One small file: what its name and its directory's say, and its bytes."""

    path: str
    name: FileName
    topic: str | None
    partition: int | None
    source: Source

    @property
    def base_offset(self) -> int:
        assert self.name.base_offset is not None  # these kinds have it in the name
        return self.name.base_offset

    @property
    def place(self) -> tuple[str | None, int | None]:
        return self.topic, self.partition

    def find(
        self,
        code: str,
        position: int | None = None,
        size_bytes: int | None = None,
        expected: object = None,
        actual: object = None,
        places: int = 1,
        offset: int | None = None,
    ) -> Finding:
        """Make a finding of a problem's members."""
        sentence = CATALOGUE[code].sentence
        return at_place(
            code,
            Place(self.topic, self.partition, self.name.base_offset, self.path),
            message=None if places == 1 else f"{sentence.rstrip('.')}, in {places} places.",
            position=position,
            size_bytes=size_bytes,
            offset=offset,
            expected=expected,
            actual=actual,
        )

    def report(self, problems: Iterable[Problem]) -> Iterator[Finding]:
        return (self.find(*problem) for problem in problems)


def entries(path: str | os.PathLike[str]) -> Iterator[Item]:
    """Yield the rows of one small file, and what is wrong with it, in file order.

    The name says what the file holds; a file of another kind is a `PathError`.
    """
    given = os.fspath(path)
    name = parse(os.path.basename(given))
    read = _READERS.get(name.kind)
    if read is None:
        raise PathError(
            given, "does not have the name of an index, snapshot, checkpoint, or properties file"
        )
    place = parse_directory(os.path.basename(places.parent(given)))
    topic, partition = (place.topic, place.partition) if place else (None, None)
    with Source(given) as source:
        file = _File(given, name, topic, partition, source)
        for item in read(file):
            # Zeros stand where bytes could not be read: what they seem to break says nothing.
            if not source.unreadable or isinstance(item, Row):
                yield item
        for start, end in source.unreadable:
            yield file.find("unreadable", position=start, size_bytes=end - start)
        if source.shrank:
            yield file.find("file-shrank")


def _bytes(file: _File, limit: int) -> bytes:
    return file.source.read_whole(limit, with_holes=True)


def has_entries(name: str) -> bool:
    """Whether `entries` reads files of that name."""
    return parse(name).kind in _READERS


def _offset_index(file: _File) -> Iterator[Item]:
    return _index(file, OffsetIndex(file.source, file.base_offset), "offset-index")


def _time_index(file: _File) -> Iterator[Item]:
    return _index(file, TimeIndex(file.source, file.base_offset), "time-index")


def _index(file: _File, index: OffsetIndex | TimeIndex, code: str) -> Iterator[Item]:
    kind = OffsetIndexEntry if isinstance(index, OffsetIndex) else TimeIndexEntry
    place = (*file.place, file.base_offset)

    def rows(start: int, end: int) -> Iterator[Row]:
        for slot, entry in index.slots(start, end):
            yield kind(*place, slot, *entry)

    extent, size = index.extent(), index.layout.size
    yield from rows(0, extent.end)
    if extent.is_stale:
        stale = (extent.used - extent.end) * size
        yield file.find(f"{code}-stale", extent.end * size, stale, extent.end, extent.used)
    elif not extent.is_sound:
        # The first slot out of order is shown beside the one before it.
        before = index.entry(extent.end - 1)._asdict() if extent.end else None
        entry = index.entry(extent.end)
        yield file.find(
            f"{code}-order",
            extent.end * size,
            size,
            {"above": before},
            entry._asdict(),
            places=max(1, extent.breaking),
            offset=entry.offset,
        )
        yield from rows(extent.end, extent.used)
    if index.trailing_bytes:
        whole = index.size_bytes - index.trailing_bytes
        yield file.find(f"{code}-size", whole, index.trailing_bytes, whole, index.size_bytes)


def _transaction_index(file: _File) -> Iterator[Item]:
    index = TransactionIndex(file.source, file.base_offset)
    for slot, transaction in index.slots():
        _, *members = transaction
        yield AbortedTransaction(*file.place, file.base_offset, slot, *members)
    yield from file.report(index.problems())


def _producer_snapshot(file: _File) -> Iterator[Item]:
    snapshot = ProducerSnapshot(_bytes(file, producer_snapshot.SIZE_LIMIT))
    yield from _version(file, snapshot.version, snapshot.entries)
    for state in snapshot:
        open_since = state.current_txn_first_offset
        yield ProducerState(
            *file.place,
            file.base_offset,
            state.producer_id,
            state.producer_epoch,
            state.coordinator_epoch,
            state.last_offset,
            state.last_sequence,
            state.last_timestamp_ms,
            open_since if open_since >= 0 else None,
        )
    yield from file.report(snapshot.problems())


def _leader_epochs(file: _File) -> Iterator[Item]:
    found = checkpoints.parse_leader_epochs(_bytes(file, checkpoints.SIZE_LIMIT))
    yield from _version(file, found.version, len(found.entries))
    for epoch, start_offset in found.entries:
        yield LeaderEpoch(*file.place, epoch, start_offset)
    yield from file.report(found.problems)


def _offset_checkpoint(file: _File) -> Iterator[Item]:
    return _offset_rows(file, checkpoints.parse_offsets(_bytes(file, checkpoints.SIZE_LIMIT)))


def _other_checkpoint(file: _File) -> Iterator[Item]:
    """A checkpoint of a name we do not know: offsets if they read as such, else just fields."""
    data = _bytes(file, checkpoints.SIZE_LIMIT)
    offsets = checkpoints.parse_offsets(data)
    if not offsets.problems:
        yield from _offset_rows(file, offsets)
        return
    found = checkpoints.parse_other(data)
    for name, *rest in found.entries:
        yield _property(file, name, " ".join(rest))
    yield from file.report(found.problems)


def _offset_rows(
    file: _File, found: checkpoints.Checkpoint[checkpoints.PartitionOffset]
) -> Iterator[Item]:
    yield from _version(file, found.version, len(found.entries))
    for topic, partition, offset in found.entries:
        yield CheckpointOffset(file.path, topic, partition, offset)
    yield from file.report(found.problems)


def _version(file: _File, version: int | None, entries: int) -> Iterator[Item]:
    """Give the version of a file without entries, which would give nothing at all."""
    if version is not None and not entries:
        yield _property(file, "version", str(version))


def _property(file: _File, name: str, value: str | None) -> Row:
    return Property(file.path, name, value)


def _properties(parse_data: Callable[[bytes], properties.Properties]) -> _Reader:
    def read(file: _File) -> Iterator[Item]:
        found = parse_data(_bytes(file, properties.SIZE_LIMIT))
        for name, value in found.values.items():
            yield _property(file, name, value)
        yield from file.report(found.problems)

    return read


_Reader = Callable[[_File], Iterator[Item]]

_READERS: dict[Kind, _Reader] = {
    Kind.OFFSET_INDEX: _offset_index,
    Kind.TIME_INDEX: _time_index,
    Kind.TRANSACTION_INDEX: _transaction_index,
    Kind.PRODUCER_SNAPSHOT: _producer_snapshot,
    Kind.LEADER_EPOCHS: _leader_epochs,
    Kind.OFFSET_CHECKPOINT: _offset_checkpoint,
    Kind.OTHER_CHECKPOINT: _other_checkpoint,
    Kind.META_PROPERTIES: _properties(properties.parse_meta_properties),
    Kind.PARTITION_METADATA: _properties(properties.parse_partition_metadata),
    Kind.QUORUM_STATE: _properties(properties.parse_quorum_state),
    Kind.CLEAN_SHUTDOWN: _properties(properties.parse_clean_shutdown),
}
