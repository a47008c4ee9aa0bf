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
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kdump import __version__
from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.splits import SPLIT_BYTES, Split, plan
from kdump.errors import KdumpError, UsageError
from kdump.spark.columns import finding_row, of_items, of_rows
from kdump.spark.schema import VIEWS, columns_of

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
#: The options that leave files and batches unread.
_NARROWING = ("topic", "partition", "fromOffset", "toOffset", "fromTimeMs", "toTimeMs")


class KdumpSource(DataSource):
    """The data source `kdump`. Options: view, and those of `kdump dump` in camel case.

    Only they leave files and batches unread, a query's conditions do not: Spark up to 4.3 keeps
    what a reader with `pushFilters` planned for one query in the relation, and every other use of
    the frame reads that, with rows missing and without a word (apache/spark pull request 57752,
    for 5.0.0).
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        if _truth("pushdown", options.get("pushdown", "false")):
            raise UsageError(
                "option pushdown is refused: Spark would keep what one query leaves unread from "
                f"the frame's other queries too; give {', '.join(_NARROWING)} instead"
            )

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
        return Reader(self._paths(), view, self._asked(view), schema, self._pack_bytes())

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

    def partitions(self) -> list[InputPartition]:
        """Plan: a listing, packed into pieces of a size. A path that cannot be read is an error."""
        if self._view == "findings":
            from kdump.spark.views import finding_items

            return [Piece((item,)) for item in finding_items(self._paths, self._options)]
        if self._view == "index-entries":
            from kdump.spark.views import entry_targets

            return [Piece((target,)) for target in entry_targets(self._paths, self._options)]
        pieces: list[InputPartition] = []
        packed: list[Split] = []
        for split in plan(self._paths, self._options, None):
            if isinstance(split, KdumpError):
                raise split
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
        for file, size in zip(split.target.files, split.sizes, strict=True):
            alone = split._replace(target=split.target._replace(files=(file,)), sizes=(size,))
            items = SplitReader(alone, self._options).items()
            yield from of_items(items, schema, file.path, headers=self._view == "batches")


def _refuse_other_columns(view: str, schema: StructType) -> None:
    """Say which column of a user's schema the view does not have, or not with that type."""
    known = columns_of(view)
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
