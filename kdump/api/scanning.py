"""Scan rows of one kind as Arrow record batches: some columns of those for which a filter holds.

`Pruner` says which partitions and ranges a filter can match. The others are skipped; a range is
read as `dump` reads it, by the indexes of segments. Each row read then goes through the filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

from kdump.api.columns import Items, Tell, find_kind, row_batches, table_name, types_of_rows
from kdump.api.pruning import Pruner, Range, filter_rows
from kdump.engine.dump.headers import header_items
from kdump.engine.dump.run import entry_items, log_items
from kdump.engine.reading.filters import Filters
from kdump.engine.reading.log_files import logs_of
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.ranges import logs_within
from kdump.engine.reading.schemas import with_schemas
from kdump.engine.registry import COMMANDS, command_of
from kdump.errors import KdumpError, PathError, StoreError, UsageError, guard
from kdump.output.arrow import ArrowBatches, need_arrow
from kdump.output.arrow_columns import as_kafka
from kdump.output.arrow_counts import OF_PLACES, CountedRecords
from kdump.output.arrow_schema import arrow_type
from kdump.output.escape import name_text
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.targets import Selection, Target, resolve
from kdump.tuples import NamedTuple

#: Kinds of rows that lie in the directory of the partition that they name.
_IN_PLACE = frozenset(
    "record batch offset-index-entry time-index-entry aborted-transaction producer-state"
    " leader-epoch".split()
)
_US = 1000
#: The columns by whose numbers a range is found: of offsets from and to, of times from and to.
_BOUNDS = {
    "record": ("offset", "offset", "timestamp_ms", "timestamp_ms"),
    "batch": ("last_offset", "base_offset", "max_timestamp_ms", ""),
}
_NARROWED = ("from_offset", "to_offset", "from_time_ms", "to_time_ms")
#: Options that change no number of records.
_HARMLESS = frozenset(("mode", "decode", "show_secrets", "decompress_limit"))


class ScanTarget(NamedTuple):
    """What is read, and how the rows of any command are had of it."""

    paths: tuple[str, ...]
    selection: Selection
    server_properties: str | None
    items: Items


class Table:
    """The rows of a kind under some paths, with their columns.

    Texts out of few are texts here, and records have their time a second time, as a time.
    `tell` takes findings and errors; where there is none an error is raised when all is given.
    """

    def __init__(
        self, under: ScanTarget, name: str, options: dict[str, Any], tell: Tell | None = None
    ) -> None:
        need_arrow("arrow")
        self.kind = find_kind(name)
        self._command, needed = command_of(self.kind)
        if COMMANDS[self._command].asks:
            raise UsageError(
                f"{name}: {self._command} returns a single answer, so it has no tables"
            )
        self._under, self._tell = under, tell
        self._options = {**needed, **options}
        self._types = types_of_rows(self.kind, decode=bool(options.get("decode")))
        #: What was left out, and why, as lines; noted where it is set to a list.
        self.skipped: list[str] | None = None

    @cached_property
    def schema(self) -> Any:
        """The columns."""
        import pyarrow as pa

        fields = []
        for name, word in self._types.items():
            fields.append(pa.field(name, arrow_type("string" if word == "dictionary" else word)))
            if self.kind == "record" and name == "timestamp_ms":
                fields.append(pa.field("timestamp", pa.timestamp("us", tz="UTC")))
        return pa.schema(fields)

    def scan(self, columns: Iterable[str] | None = None, condition: Any = None) -> Any:
        """Return a reader, which reads as far as it is asked to."""
        import pyarrow as pa

        names = self.schema.names if columns is None else list(columns)
        for name in names:
            if name not in self.schema.names:
                raise UsageError(f"{name}: rows of kind {self.kind} have no such column")
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, self._scan_rows(names, condition))

    def _scan_rows(self, names: list[str], condition: Any) -> Iterator[Any]:
        import pyarrow as pa

        pruner = Pruner(condition, self.schema)
        needed = pruner.columns.union(names) or {self.schema.names[0]}
        wanted = [name for name in self.schema.names if name in needed]
        for batch in self._batches(pruner, wanted):
            fitted = self._cast(batch, wanted)
            if condition is None:
                yield fitted.select(names)
                continue
            kept = filter_rows(pa.Table.from_batches([fitted]), condition)
            yield from (one.select(names) for one in kept.to_batches() if one.num_rows)

    def _batches(self, pruner: Pruner, wanted: list[str]) -> Iterator[Any]:
        """Yield all rows that the filter leaves possible."""
        stored = frozenset("timestamp_ms" if name == "timestamp" else name for name in wanted)
        decode = bool(self._options.get("decode"))
        if self.kind not in _IN_PLACE or "limit" in self._options:
            items = self._under.items(self._command, **self._options)
            return row_batches(items, {self.kind}, ArrowBatches(stored, decode=decode), self._tell)
        if self.kind == "record" and stored <= OF_PLACES and _HARMLESS.issuperset(self._options):
            items = self._scan_placed(pruner, counted=True)
            return row_batches(items, {"record", "batch"}, CountedRecords(stored), self._tell)
        items = self._scan_placed(pruner, counted=False)
        return row_batches(items, {self.kind}, ArrowBatches(stored, decode=decode), self._tell)

    def _cast(self, batch: Any, wanted: list[str]) -> Any:
        """Give a batch the types of this table."""
        import pyarrow as pa

        schema = pa.schema([self.schema.field(name) for name in wanted])
        columns = []
        for field in schema:
            if field.name == "timestamp":
                column = as_kafka("timestamp", batch.column("timestamp_ms"))
            else:
                column = batch.column(field.name)
            columns.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _scan_placed(self, pruner: Pruner, *, counted: bool) -> Iterator[Any]:
        """Yield what lies in the directories of partitions that the filter leaves possible."""
        options: DumpOptions = COMMANDS["dump"].options(
            **{
                "selection": self._under.selection,
                "server_properties": self._under.server_properties,
                **self._options,
            }
        )
        options = with_schemas(self._under.paths, options)
        ranged = self._narrow(options, pruner)
        for target in resolve(self._under.paths, options.selection, options.server_properties):
            if isinstance(target, KdumpError):
                yield target
                continue
            topic = None if target.topic is None else name_text(target.topic)
            place: dict[str, object] = {"topic": topic, "partition": target.partition}
            if not pruner.columns.isdisjoint(place) and not pruner.among([place]):
                self._skip(target.path, "a different topic or partition")
                continue
            if options.mode == "entries":
                items = entry_items(target)
            elif any(file.name.kind is Kind.PRE08_LOG for file in target.files):
                items = log_items(target, options)  # offsets are positions there
            else:
                within = self._prune_logs(target, ranged, pruner)
                items = header_items(within, ranged) if counted else log_items(within, ranged)
            yield from guard(target.path, items, topic=target.topic, partition=target.partition)

    def _prune_logs(self, target: Target, options: DumpOptions, pruner: Pruner) -> Target:
        """Leave out the logs whose names say that the filter leaves nothing of them possible.

        The next name says where a log ends, unless it ends in a wrapper: `logs_within` looks.
        """
        if self.kind != "record" or pruner.columns.isdisjoint(("offset", "segment")):
            self._note_skipped(target, target, options)
            return target
        files = [
            file
            for file in logs_of(target)
            if file.name.kind is Kind.LOG and not file.name.is_retired
        ]
        places: list[dict[str, object]] = []
        for file in files:
            base, end = file.name.base_offset, file.next_base
            offsets = Range(base, None if end is None else end - 1)
            places.append({"segment": base, "offset": offsets})
        possible = pruner.among(places)
        left_out = {
            file.path
            for number, file in enumerate(files)
            if number not in possible
            and (
                file.next_base is None
                or not logs_within([file], Filters(from_offset=file.next_base))
            )
        }
        kept = tuple(file for file in target.files if file.path not in left_out)
        self._note_skipped(target, target._replace(files=kept), options)
        return target._replace(files=kept)

    def _narrow(self, options: DumpOptions, pruner: Pruner) -> DumpOptions:
        """Narrow options to the offsets and times that the filter leaves possible."""
        columns = _BOUNDS.get(self.kind, ())
        found = {name: pruner.range_of(name) for name in columns if name}
        if "timestamp" in pruner.columns and found.get("timestamp_ms") == Range():
            times = (None if one is None else one // _US for one in pruner.range_of("timestamp"))
            found["timestamp_ms"] = Range(*times)
        given = dict(vars(options))
        for number, (bound, name) in enumerate(zip(_NARROWED, columns, strict=False)):
            end = found[name][number % 2] if name else None
            if end is not None:
                nearer, end = (min, end + 1) if number % 2 else (max, end)
                asked = getattr(options, bound)
                given[bound] = end if asked is None else nearer(asked, end)
        return DumpOptions(**given)

    def _note_skipped(self, target: Target, within: Target, options: DumpOptions) -> None:
        """Note the logs that are not read, as the engine decides it."""
        if self.skipped is None:
            return
        from kdump.engine.reading.seek import ends_before

        kept = {file.path for file in logs_within(logs_of(within), options.filters)}
        for file in logs_of(target):
            if file.path not in kept:
                self._skip(file.path, "other offsets")
            elif options.from_time_ms is not None and file.name.kind is Kind.LOG:
                with suppress(PathError, StoreError), Source(file.path) as source:
                    if ends_before(source, file, options.from_time_ms):
                        self._skip(file.path, "earlier times")

    def _skip(self, path: str, reason: str) -> None:
        if self.skipped is not None:
            self.skipped.append(f"{table_name(self.kind)}: {path} skipped: {reason}")
