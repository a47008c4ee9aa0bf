"""`spark.read.format("kdump")`: data directories as tables of Spark's own SQL.

    spark.read.format("kdump").option("view", "records").load("/var/lib/kafka")

A thin layer over the plan and the readers that the commands use. One file is never cut here: only
a merge could tell that the pieces fit, and rows that Spark has been given cannot be taken back. A
segment is 2 GiB at most, so tasks stay short all the same.

The only module that imports PySpark when it is imported: its base classes must be there. Only Spark
imports it, by way of the top-level module `pyspark_kdump`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kdump import __version__
from kdump.engine.dump import DumpOptions
from kdump.engine.pieces import SplitReader
from kdump.engine.splits import SPLIT_BYTES, Split, plan
from kdump.errors import KdumpError, UsageError
from kdump.spark.columns import finding_row, of_items, of_rows
from kdump.spark.pushdown import Bounds, bounds_of
from kdump.spark.schema import VIEWS, types_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: Option of the source -> option of the engine; the values are whole numbers.
_NUMBERS = {
    "partition": "partition",
    "fromOffset": "from_offset",
    "toOffset": "to_offset",
    "fromTimeMs": "from_time_ms",
    "toTimeMs": "to_time_ms",
    "producerId": "producer_id",
    "decompressLimit": "decompress_limit",
}
_SWITCHES = {"retired": "retired", "visible": "visible", "deep": "deep", "control": "control"}
_WORDS = {
    "topic": "topic",
    "serverProperties": "server_properties",
    "isolation": "isolation",
}


class KdumpSource(DataSource):
    """The data source `kdump`. Options: view, and those of `kdump dump` in camel case.

    `pushdown` true uses the conditions of a query; Spark then wants
    `spark.sql.python.filterPushdown.enabled`.
    """

    @classmethod
    def name(cls) -> str:
        """What `format()` is given."""
        return "kdump"

    def schema(self) -> str:
        """All columns of the view; `.schema()` of a reader asks for fewer, and pays for fewer."""
        return VIEWS[self._view()]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Check what is asked for and return what reads it."""
        view = self._view()
        _refuse_other_columns(view, schema)
        pushes = _truth("pushdown", self.options.get("pushdown", "false"))
        kind = PushdownReader if pushes else Reader
        return kind(self._paths(), view, self._asked(view), schema, self._pack_bytes())

    def _view(self) -> str:
        view = self.options.get("view", "records")
        if view not in VIEWS:
            raise UsageError(f"view {view!r}: give one of {', '.join(VIEWS)}")
        return str(view)

    def _paths(self) -> list[str]:
        several = self.options.get("paths")
        paths = json.loads(several) if several else []
        one = self.options.get("path")
        paths += [one] if one else []
        if not paths and not self.options.get("serverProperties"):
            raise UsageError('give a path: .load("/var/lib/kafka")')
        return [_local(path) for path in paths]

    def _pack_bytes(self) -> int:
        return _number("packBytes", self.options.get("packBytes", str(SPLIT_BYTES)))

    def _asked(self, view: str) -> DumpOptions:
        asked: dict[str, Any] = {"mode": "batches" if view == "batches" else "records"}
        for name, member in _NUMBERS.items():
            if name in self.options:
                asked[member] = _number(name, self.options[name])
        for name, member in _SWITCHES.items():
            if name in self.options:
                asked[member] = _truth(name, self.options[name])
        for name, member in _WORDS.items():
            if name in self.options:
                asked[member] = self.options[name]
        if asked.get("isolation") == "read_committed":
            asked["visible"] = True
        return DumpOptions(**asked)


class Piece(InputPartition):
    """What one task reads: splits of whole files, or partitions to be verified."""

    def __init__(self, splits: tuple[Any, ...]) -> None:
        self.splits = splits


class Reader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(
        self,
        paths: list[str],
        view: str,
        options: DumpOptions,
        schema: StructType,
        pack_bytes: int,
    ) -> None:
        self._paths = paths
        self._view = view
        self._options = options
        self._schema = schema
        self._pack_bytes = pack_bytes
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        """Plan: a listing, packed into pieces of a size. A path that cannot be read is an error."""
        if self._view == "findings":
            from kdump.spark.views import finding_items

            items = finding_items(self._paths, self._options)
            return [Piece((item,)) for item in items if self._admits(item)]
        if self._view == "index-entries":
            from kdump.spark.views import entry_targets

            targets = entry_targets(self._paths, self._options)
            return [Piece((target,)) for target in targets if self._admits(target)]
        pieces: list[InputPartition] = []
        packed: list[Split] = []
        for split in plan(self._paths, self._narrowed(), None):
            if isinstance(split, KdumpError):
                raise split
            if not self._admits(split.target):
                continue
            size = sum(one.size_bytes for one in packed)
            if packed and size + split.size_bytes > self._pack_bytes:
                pieces.append(Piece(tuple(packed)))
                packed = []
            packed.append(split)
        if packed:
            pieces.append(Piece(tuple(packed)))
        return pieces

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a piece as Arrow record batches."""
        if not isinstance(partition, Piece):  # Spark makes one up where there is none
            return
        schema = _arrow(self._schema)
        if self._view == "findings":
            from kdump.spark.views import findings_of

            rows = (finding_row(found, __version__) for found in findings_of(partition.splits))
            yield from of_rows(rows, schema)
            return
        if self._view == "index-entries":
            from kdump.spark.views import entries_of

            yield from of_rows(entries_of(partition.splits), schema)
            return
        for split in partition.splits:
            yield from self._rows(split, schema)

    def _rows(self, split: Split, schema: Any) -> Iterator[Any]:
        options = self._narrowed()
        for file, size in zip(split.target.files, split.sizes, strict=True):
            alone = split._replace(target=split.target._replace(files=(file,)), sizes=(size,))
            items = SplitReader(alone, options).items()
            yield from of_items(items, schema, file.path, headers=self._view == "batches")

    def _admits(self, target: Any) -> bool:
        return self._bounds.admits(target.topic, target.partition)

    def _narrowed(self) -> DumpOptions:
        """Return the options with the bounds of the query."""
        from dataclasses import replace

        asked, bounds = self._options, self._bounds
        return replace(
            asked,
            from_offset=_higher(asked.from_offset, bounds.from_offset),
            to_offset=_lower(asked.to_offset, bounds.to_offset),
            from_time_ms=_higher(asked.from_time_ms, bounds.from_time_ms),
            to_time_ms=_lower(asked.to_time_ms, bounds.to_time_ms),
        )


class PushdownReader(Reader):
    """Uses a query's conditions. A class of its own: Spark refuses one that has `pushFilters`
    while `spark.sql.python.filterPushdown.enabled` is off.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take note of conditions, and leave all of them to Spark as well."""
        bounds = bounds_of(filters, self._bounds)
        # Other views have offsets and times too, of other things.
        self._bounds = bounds if self._view == "records" else bounds.of_partitions()
        return filters


def _refuse_other_columns(view: str, schema: StructType) -> None:
    """Say which column of a user's schema the view does not have, or not with that type."""
    known = types_of(view)
    for field in schema.fields:
        if field.name not in known:
            raise UsageError(f"view {view} has no column {field.name!r}, but {', '.join(known)}")
        if field.dataType.simpleString() != known[field.name]:
            raise UsageError(
                f"column {field.name} is {known[field.name]}: read it as such, then cast it"
            )


def _arrow(schema: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before 4.2 the zone was no question
        return to_arrow_schema(schema)


def _local(path: str) -> str:
    """Return a path of this machine as such, where it has Spark's word in front; else a URI."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:/") else path


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"option {name}: {text!r} is no whole number") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"option {name}: {text!r} is neither true nor false")
    return text.lower() == "true"


def _higher(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else max(first, second)


def _lower(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else min(first, second)
