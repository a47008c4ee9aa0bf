"""Write what was salvaged as a data directory that a broker starts on.

It is built beside its place and put there by one rename, so that a run that is killed leaves
nothing that looks whole. Indexes, snapshots and epochs are built from the logs as they were
written, read back from the disk. The mark of a clean shutdown is left out: a broker that starts
reads the newest segment of each partition once more and finds what recovery would write.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.index_builder import IndexBuilder, Rules
from kdump.broker.producer_state import ProducerStates
from kdump.broker.versions import has, text_of
from kdump.engine.reindex import refusals
from kdump.engine.reindex.epochs import EpochBuilder
from kdump.errors import PathError, RefusedError, path_errors
from kdump.record.frames import Gap
from kdump.storage import checkpoints, names
from kdump.storage.checkpoints import PartitionOffset
from kdump.storage.evidence import refuse_among_evidence, refuse_replacing
from kdump.storage.file_records import walk
from kdump.storage.names import OURS, Kind
from kdump.storage.offsets import RELATIVE_MAX
from kdump.storage.producer_snapshot import snapshot_of
from kdump.storage.source import Source
from kdump.tuples import NamedTuple
from kdump.writing import NewDirectory, NewFile, flush_directory, open_directory, write_file

if TYPE_CHECKING:
    from kdump.engine.salvage.merge import MergedBatch

_PIECE_BYTES = 1 << 20
JSON_ENDING, PAGE_ENDING = ".manifest.json", ".manifest.txt"
#: How the files begin that are written beside the result.
_BESIDE = {
    JSON_ENDING: re.compile(rb'\{\s*"manifest"'),
    PAGE_ENDING: re.compile(rb"Salvaged by kdump "),
}


class WrittenFile(NamedTuple):
    """One file of the result, by its path in it."""

    path: str
    size_bytes: int
    sha256: str


def pieces(taken: MergedBatch) -> Iterator[bytes | memoryview]:
    """Give the bytes of a batch, of a large one piece by piece."""
    if taken.contents.data is not None:
        yield taken.contents.data
        return
    batch = taken.batch
    for position in range(0, batch.size_bytes, _PIECE_BYTES):
        size = min(_PIECE_BYTES, batch.size_bytes - position)
        piece = batch.copy.replica.read(batch.path, batch.position + position, size)
        if len(piece) < size:
            raise PathError(batch.path, "became shorter while it was read")
        yield piece


class DataDirectory:
    """A data directory being built; a context manager that leaves nothing that is not finished."""

    def __init__(self, out: str, sources: list[str], size_bytes: int) -> None:
        self.out = out
        self.files: list[WrittenFile] = []
        self._ends: list[PartitionOffset] = []
        self._starts: list[PartitionOffset] = []
        refuse(out, sources)
        refusals.refuse_space(os.path.dirname(os.path.abspath(out)), size_bytes)
        try:
            self._new = NewDirectory(out, OURS)
        except FileExistsError:
            path = os.path.abspath(out) + OURS
            reason = (
                "exists: another salvage is running, or was killed; if none is running, remove it"
            )
            raise RefusedError(path, reason) from None
        except OSError as error:
            raise PathError.from_os(out, error) from error

    def __enter__(self) -> DataDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self._new.drop()

    def partition(self, topic: str, partition: int, rules: Rules) -> PartitionLog:
        """Begin a partition."""
        name = names.directory_name(topic, partition)
        with path_errors(os.path.join(self.out, name)):
            return PartitionLog(self, name, self._new.directory(name), rules)

    def path(self, *parts: str) -> str:
        """Where a file lies for now."""
        return os.path.join(self._new.path, *parts)

    def write(self, name: str, data: bytes, partition: str = "") -> None:
        """Write one small file."""
        path = os.path.join(partition, name)
        with path_errors(os.path.join(self.out, path)):
            write_file(self._new.directory(partition), name, data, OURS)
        self.files.append(WrittenFile(path, len(data), hashlib.sha256(data).hexdigest()))

    def note_end(self, topic: str, partition: int, start: int, end: int) -> None:
        """Take note of where a partition begins and ends, for the checkpoints."""
        self._starts.append(PartitionOffset(topic, partition, start))
        self._ends.append(PartitionOffset(topic, partition, end))

    def checkpoints(self, rules: Rules, meta_properties: bytes | None) -> None:
        """Write the files of the data directory itself."""
        ends = checkpoints.text_of(self._ends)
        if has(rules.broker, v.RECOVERY_POINTS):
            self.write(names.RECOVERY_POINT_CHECKPOINT, ends)
        self.write(names.REPLICATION_CHECKPOINT, ends)
        if has(rules.broker, v.LOG_START):
            self.write(names.LOG_START_CHECKPOINT, checkpoints.text_of(self._starts))
        if meta_properties is not None:
            self.write(names.META_PROPERTIES, meta_properties)

    def finish(self) -> None:
        """Put it in its place."""
        refuse(self.out, [])
        with path_errors(self.out):
            self._new.rename()


def write_alongside(out: str, files: dict[str, bytes]) -> None:
    """Write files next to the result, each with its name and another ending."""
    _refuse_foreign(out)
    folder, name = os.path.split(os.path.abspath(out))
    with path_errors(folder):
        fd = open_directory(folder)
        try:
            for ending, data in files.items():
                write_file(fd, name + ending, data, OURS)
            flush_directory(fd)
        finally:
            os.close(fd)


def _refuse_foreign(out: str) -> None:
    """Refuse to replace a file next to the result that is not of an earlier salvage."""
    for ending, begin in _BESIDE.items():
        path = os.path.abspath(out) + ending
        refuse_among_evidence(path, "--out")
        refuse_replacing(path, "--out", is_ours=begin.match)


def refuse(out: str, sources: list[str]) -> None:
    """Refuse to write where something is, in what is read, or where a broker works."""
    if os.path.lexists(out) and not os.path.isdir(out):
        raise RefusedError(out, "exists, and is not a directory")
    if os.path.isdir(out) and os.listdir(out):
        raise RefusedError(out, "is not empty")
    parent = os.path.dirname(os.path.abspath(out))
    if not os.path.isdir(parent):
        raise PathError(parent, "does not exist: create it first")
    refuse_among_evidence(out, "--out")
    _refuse_foreign(out)
    for directory in (out, parent):
        refusals.refuse_locked(directory)
    for source in sources:
        refusals.refuse_out(out, source)


class PartitionLog:
    """The log of one partition being written, a segment after the other."""

    def __init__(self, directory: DataDirectory, name: str, fd: int, rules: Rules) -> None:
        self._directory = directory
        self._name = name
        self._fd = fd
        self._rules = rules
        self._open_states = ProducerStates()  # for the transaction indexes
        self._producers = ProducerStates()
        self._epochs = EpochBuilder()
        self._segment: NewFile | None = None
        self._base = self._size = self._next = 0
        self._entries_least = 0
        self._sum = hashlib.sha256()
        self._first: int | None = None

    def take(self, taken: MergedBatch) -> None:
        """Write the next batch, at the end of the segment or in a new one."""
        first, last = taken.contents.first, taken.contents.last
        self._refuse_format(taken)
        if self._segment is not None and self._is_full(taken):
            self._roll(first, last)
        if self._segment is None:
            self._begin(first)
        assert self._segment is not None
        with path_errors(self._at(Kind.LOG)):
            for piece in pieces(taken):
                self._segment.write(piece)
                self._sum.update(piece)
        self._size += taken.batch.size_bytes
        self._entries_least += 1
        self._next = last + 1

    def finish(self, start: int, topic_id: str | None) -> tuple[int, int]:
        """Write what is left of it; give its first offset and its end."""
        if self._segment is None:
            self._begin(start)
        self._end_segment()
        rules, first = self._rules, self._first
        assert first is not None
        start = max(start, first) if start < self._next else first
        if has(rules.broker, v.PRODUCER_STATE) and self._next > first:
            self._snapshot(self._next)
        if has(rules.broker, v.LEADER_EPOCHS):
            self._write(names.LEADER_EPOCH_CHECKPOINT, self._epochs.text(start))
        if topic_id is not None and has(rules.broker, v.TOPIC_IDS):
            data = f"version: 0\ntopic_id: {topic_id}".encode()
            self._write(names.PARTITION_METADATA, data)
        return start, self._next

    def drop(self) -> None:
        """Let go of the segment at hand."""
        if self._segment is not None:
            self._segment.drop()

    def _refuse_format(self, taken: MergedBatch) -> None:
        needed = {1: v.MESSAGE_TIMESTAMPS, 2: v.RECORD_BATCHES}.get(taken.batch.layout)
        if needed is not None and not has(self._rules.broker, needed):
            version = text_of(self._rules.broker)
            raise RefusedError(
                self._directory.out,
                f"offset {taken.contents.first} of {self._name} has a format that a {version} "
                "broker cannot read, and salvage does not convert batches: use a different "
                "--broker-version",
            )

    def _is_full(self, taken: MergedBatch) -> bool:
        settings = self._rules.settings
        most = min(settings.index_size_max_bytes // 12 - 2, RELATIVE_MAX)
        return (
            self._size + taken.batch.size_bytes > settings.segment_bytes
            or taken.contents.last - self._base > RELATIVE_MAX
            # So many entries an index has at the most, however it is spaced.
            or min(self._entries_least, self._size // max(settings.index_interval_bytes, 1) + 1)
            > most
        )

    def _roll(self, first: int, last: int) -> None:
        """Begin a segment where a broker would, at the log end, if the batch fits in it."""
        self._end_segment()
        end = self._next
        if has(self._rules.broker, v.PRODUCER_STATE):
            self._snapshot(end)
            self._producers.reload()  # as recovery does for each segment (R8)
        self._begin(end if last - end <= RELATIVE_MAX else first)

    def _begin(self, base: int) -> None:
        self._base, self._size, self._entries_least = base, 0, 0
        self._sum = hashlib.sha256()
        if self._first is None:
            self._first = self._next = base
        with path_errors(self._at(Kind.LOG)):
            name = names.file_name(Kind.LOG, base)
            self._segment = NewFile(self._fd, name + OURS, mode=0o666)

    def _end_segment(self) -> None:
        assert self._segment is not None
        segment, self._segment = self._segment, None
        name = names.file_name(Kind.LOG, self._base)
        with path_errors(self._at(Kind.LOG)):
            segment.seal()
            segment.rename(name)
        path = os.path.join(self._name, name)
        self._directory.files.append(WrittenFile(path, self._size, self._sum.hexdigest()))
        self._index(self._directory.path(path))

    def _index(self, path: str) -> None:
        """Build the indexes of a segment as recovery does, from what lies on the disk."""
        rules = self._rules
        states = self._open_states if rules.has_transactions else None
        builder = IndexBuilder(self._base, rules, states)
        for item in walk(path, limit=rules.limit, last_offset=self._base - 1):
            goes_on = builder.take(item)
            if not goes_on or isinstance(item, Gap):
                break
            self._producers.replay(item)
            self._epochs.feed(item.batches)
        builder.finish()
        if builder.stop is not None or builder.end_position != self._size:
            what = "differs from what was written" if builder.stop is None else builder.stop.what
            raise RefusedError(
                self._at(Kind.LOG),
                f"a broker of {text_of(rules.broker)} would not accept the log from offset "
                f"{builder.next_offset} on: {what}; use --to-offset to stop before it",
            )
        if (problem := builder.over_limit()) is not None:
            raise RefusedError(self._at(Kind.OFFSET_INDEX), problem)
        self._write_of(Kind.OFFSET_INDEX, bytes(builder.index.offsets))
        if rules.has_time_index:
            self._write_of(Kind.TIME_INDEX, bytes(builder.index.times))
        if rules.has_transactions and builder.aborted:
            self._write_of(Kind.TRANSACTION_INDEX, bytes(builder.aborted))

    def _snapshot(self, offset: int) -> None:
        data = snapshot_of(self._producers.producers_at_end())
        self._write(names.file_name(Kind.PRODUCER_SNAPSHOT, offset), data)

    def _write_of(self, kind: Kind, data: bytes) -> None:
        self._write(names.file_name(kind, self._base), data)

    def _write(self, name: str, data: bytes) -> None:
        self._directory.write(name, data, self._name)

    def _at(self, kind: Kind) -> str:
        name = names.file_name(kind, self._base)
        return os.path.join(self._directory.out, self._name, name)


def file_sum(path: str) -> tuple[int, str]:
    """Read a file for its size and SHA-256."""
    found = hashlib.sha256()
    with Source(path) as source:
        source.advise_sequential()
        for position in range(0, source.size, _PIECE_BYTES):
            found.update(source.read(position, _PIECE_BYTES))
        return source.size, found.hexdigest()
