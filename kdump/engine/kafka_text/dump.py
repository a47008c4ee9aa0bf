"""Dump files one by one as kafka-dump-log 4.1.1 does: `--format kafka` (D1 to D7)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.engine.kafka_text import indexes
from kdump.engine.kafka_text.log import BrokenMessage, InvalidTail, ToolChunk, ToolLog
from kdump.engine.kafka_text.pairs import Pairs, Room
from kdump.errors import KdumpError, PathError, StoreError, UsageError, guard
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, RecordChunk
from kdump.storage.names import FileName, Kind
from kdump.storage.source import Source
from kdump.storage.targets import Target, resolve
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.options import DumpOptions

LOG_KINDS = frozenset({Kind.LOG, Kind.METADATA_SNAPSHOT})
_PARTITION_LOG_KINDS = frozenset({Kind.LOG, Kind.PRE08_LOG})
ENTRY_KINDS = frozenset(
    {Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX, Kind.PRODUCER_SNAPSHOT}
)


class FileStart(NamedTuple):
    """A file is begun; `heading` is what the tool says of its name, empty for most."""

    path: str
    heading: str


class Reports(NamedTuple):
    """What was found wrong, file by file in the order of the run; printed at its end."""

    mismatches: tuple[tuple[str, indexes.Mismatches], ...]
    gaps: tuple[tuple[str, Pairs], ...]


KafkaItem = FileStart | ToolChunk | InvalidTail | BrokenMessage | indexes.IndexItem | Reports


Yielded = KafkaItem | Finding | KdumpError


class KafkaDump:
    """One run of the tool over some files; its reports are gathered until the end."""

    def __init__(self, options: DumpOptions) -> None:
        self._options = options
        self._left = options.limit
        self._mismatches: dict[str, indexes.Mismatches] = {}
        self._gaps: dict[str, Pairs] = {}
        self._room = Room(options.decompress_limit)

    def run(self, targets: Iterable[Target | KdumpError]) -> Iterator[Yielded]:
        """Yield what is printed, in order. A file that cannot be opened is an error for it."""
        for target in targets:
            if isinstance(target, KdumpError):
                yield target
                continue
            wanted = ENTRY_KINDS if self._options.mode == "entries" else _PARTITION_LOG_KINDS
            for file in target.files:
                if self._left == 0:
                    break
                if target.whole and (file.name.kind not in wanted or file.name.is_retired):
                    continue
                try:
                    named = not target.whole
                    items = self._file(file.path, file.name, named=named)
                    yield from self._limit(guard(file.path, items))
                except (PathError, StoreError, UsageError) as error:
                    yield error
        yield Reports(tuple(self._mismatches.items()), tuple(self._gaps.items()))

    def _file(self, path: str, name: FileName, *, named: bool) -> Iterator[Yielded]:
        if name.kind is Kind.PRE08_LOG:
            reason = "kafka-dump-log cannot read files of 0.7 and older"
            if named:
                raise UsageError(f"{path}: {reason}")
            raise PathError(path, reason)  # nobody asked for it, and other files may be damaged
        absolute = str(Path.cwd() / path)
        if name.kind not in LOG_KINDS or name.suffix:
            yield FileStart(path, "")
            found = self._mismatches.setdefault(absolute, indexes.Mismatches(self._room))
            yield from _entries(path, name, self._options.decompress_limit, found)
            return
        gaps = Pairs(self._room)
        with Source(path) as source:
            yield FileStart(path, _heading(name))
            yield from ToolLog(source, name.base_offset, self._options, gaps).walk()
        if gaps.left_out or len(gaps):
            if absolute in self._gaps:
                self._gaps[absolute].extend(gaps)
            else:
                self._gaps[absolute] = gaps

    def _limit(self, items: Iterator[Yielded]) -> Iterator[Yielded]:
        """Yield items until as many records, or lines where none are printed, have gone by."""
        for item in items:
            if self._left is None:
                yield item
                continue
            if isinstance(item, ToolChunk):
                item, count = first_of(item, self._left)
                self._left -= count
            elif isinstance(item, indexes.Entry):
                self._left -= 1
            yield item
            if self._left == 0:
                return


def kafka_dump(paths: Iterable[str], options: DumpOptions) -> Iterator[Yielded]:
    """Yield what `kafka-dump-log` prints for the files under the paths, and then its reports."""
    if options.tail is not None:
        raise UsageError("--format kafka prints whole files and does not allow --tail")
    if options.visible:
        raise UsageError("--format kafka prints what is on disk and does not allow --visible")
    targets = resolve(paths, options.selection, options.server_properties)
    yield from KafkaDump(options).run(targets)


def first_of(chunk: ToolChunk, count: int) -> tuple[ToolChunk, int]:
    """Cut a chunk after some records, or after some entries where no records are printed.

    Returns what is left and how many it has.
    """
    batches, records = chunk
    if records is None:
        assert batches is not None
        rows = batches.rows
        assert rows is not None
        rows = rows[:count]
        return ToolChunk(BatchChunk(batches.place, batches.batches, rows), None), len(rows)
    kept = array("q", range(records.records.count)) if records.rows is None else records.rows
    kept = kept[:count]
    if batches is not None and len(kept) == count:
        last = records.records.batch(kept[-1])
        rows = array("q", (row for row in batches.rows or () if row <= last))
        batches = BatchChunk(batches.place, batches.batches, rows)
    part = RecordChunk(
        records.place, records.data, records.batches, records.records, kept, records.controls
    )
    return ToolChunk(batches, part), len(kept)


def _heading(name: FileName) -> str:
    if name.kind is Kind.LOG:
        return f"Log starting offset: {name.base_offset}"
    if name.kind is Kind.METADATA_SNAPSHOT:
        if name.base_offset is None:
            return "KRaft bootstrap snapshot"
        return f"Snapshot end offset: {name.base_offset}, epoch: {name.epoch}"
    return ""


def _entries(
    path: str, name: FileName, limit: int, mismatches: indexes.Mismatches
) -> Iterator[indexes.IndexItem]:
    if name.kind is Kind.OFFSET_INDEX and not name.suffix:
        yield from indexes.offset_index(path, name, limit, mismatches)
    elif name.kind is Kind.TIME_INDEX and not name.suffix:
        yield from indexes.time_index(path, name, limit, mismatches)
    elif name.kind is Kind.TRANSACTION_INDEX and not name.suffix:
        yield from indexes.transaction_index(path, name)
    elif name.kind is Kind.PRODUCER_SNAPSHOT and not name.suffix:
        yield from indexes.producer_snapshot(path)
    else:
        yield indexes.ToolComplaint(f"Ignoring unknown file {path}")
