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
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from glob import glob, has_magic
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.splits import SPLIT_BYTES
from kdump.errors import PathError, UsageError
from kdump.spark import replays
from kdump.spark.schema import VIEWS, arrow_schema, columns_of, ddl_of
from kdump.spark.views import planned_by, rows_of
from kdump.storage import places
from kdump.storage.targets import Selection

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
        if _OF_TABLES & self.options.keys():
            raise UsageError(_NO_TABLES)
        view = self._view()
        return ddl_of(view, decode=self._decodes(view))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Check what is asked for and return what reads it."""
        view = self._view()
        options = self._asked(view)
        _refuse_other_columns(view, columns_of(view, decode=self._decodes(view)), schema)
        compiled = _truth("requireCompiled", self.options.get("requireCompiled", "false"))
        return Reader(self._paths(), view, options, schema, self._pack_bytes(), compiled)

    def _view(self) -> str:
        view = self.options.get("view", "records")
        if view not in VIEWS:
            raise UsageError(f"view {view!r}: give one of {', '.join(VIEWS)}")
        return str(view)

    def _paths(self) -> list[str]:
        """Return what is to be read; executors may run elsewhere than in this directory."""
        several = self.options.get("paths")
        paths = json.loads(several) if several else []
        one = self.options.get("path")
        paths += [one] if one else []
        if not paths and not self.options.get("serverProperties"):
            raise UsageError('give a path: .load("/var/lib/kafka")' if self.options else _NO_TABLES)
        return [places.absolute(each) for path in paths for each in _matching(_local(path))]

    def _pack_bytes(self) -> int:
        return _number("packBytes", self.options.get("packBytes", str(SPLIT_BYTES)))

    def _decodes(self, view: str) -> bool:
        return view not in replays.VIEWS and self._asked(view).decode

    def _asked(self, view: str) -> Any:
        of_view = _OPTIONS | (_REPLAY_OPTIONS if view in replays.VIEWS else _DUMP_OPTIONS)
        _refuse_other_options(self.options, view, of_view)
        asked: dict[str, Any] = {
            member: read(name, self.options[name])
            for name, (member, read) in of_view.items()
            if name in self.options
        }
        if view in replays.VIEWS:
            return replays.options_of(view, asked | {"selection": Selection.taken(asked)})
        asked["mode"] = "batches" if view == "batches" else "records"
        if asked.get("isolation") == "read_committed":
            asked["visible"] = True
        return DumpOptions(selection=Selection.taken(asked), **asked)


class Piece(InputPartition):
    """What one task reads, as it was planned."""

    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        self.pieces = pieces


class Reader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(
        self,
        paths: list[str],
        view: str,
        options: Any,
        schema: StructType,
        pack_bytes: int,
        needs_compiled: bool,
    ) -> None:
        self._paths = paths
        self._view = view
        self._options = options
        self._schema = schema
        self._pack_bytes = pack_bytes
        self._needs_compiled = needs_compiled

    def partitions(self) -> list[InputPartition]:
        """Plan: a listing, packed into pieces of a size. A path that cannot be read is an error."""
        return [
            Piece(pieces)
            for pieces in planned_by(self._view, self._paths, self._options, self._pack_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a piece as Arrow record batches."""
        if not isinstance(partition, Piece):  # Spark makes one up where there is none
            return
        _mind_the_kernel(self._needs_compiled)
        yield from rows_of(self._view, partition.pieces, self._options, _arrow(self._schema))


def _refuse_other_columns(view: str, known: dict[str, str], schema: StructType) -> None:
    """Say which column of a user's schema the view does not have, or not with that type."""
    for field in schema.fields:
        if field.name not in known:
            raise UsageError(f"view {view} has no column {field.name!r}, but {', '.join(known)}")
        if field.dataType.simpleString() != known[field.name]:
            raise UsageError(
                f"column {field.name} is {known[field.name]}: read it as such, then cast it"
            )


def _refuse_other_options(options: Mapping[str, str], view: str, known: _Options) -> None:
    """Say which option there is not; of one of Spark's Kafka source, what to give here."""
    names = [*known, *_OF_ALL]
    lower = {name.lower(): name for name in names}
    for name in options:
        if name.lower() in lower:
            continue
        if name.lower() in _KAFKAS:
            hint = _KAFKAS[name.lower()]
        elif name.lower().startswith("kafka."):
            hint = "no broker is asked: .load() names data directories"
        else:
            near = get_close_matches(name.lower(), lower, 1)
            hint = f"did you mean {lower[near[0]]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"view {view} has no option {name!r}: {hint}")


def _matching(path: str) -> list[str]:
    """Return the paths of this machine that a pattern matches; a path that is there is none."""
    if not has_magic(path) or places.is_uri(path) or places.lexists(path):
        return [path]
    found = sorted(glob(path))
    if not found:
        raise PathError(path, "matches no path")
    return found


def _mind_the_kernel(needed: bool) -> None:
    """Say in this worker's log, or as an error, that the pure kernel runs here."""
    from kdump.output.process_tuning import KERNEL

    if KERNEL == "compiled":
        return
    import socket
    import warnings

    text = f"the pure kernel of kdump runs on {socket.gethostname()}, and takes many times as long"
    if needed:
        raise UsageError(f"{text}; requireCompiled asks for the compiled one")
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _arrow(schema: StructType) -> Any:
    """Return the Arrow schema of Spark's; PySpark has a function for it, which is not public."""
    try:
        from pyspark.sql.pandas.types import to_arrow_schema
    except ImportError:
        return arrow_schema(schema)
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


def _decode(name: str, text: str) -> bool:
    if text not in ("auto", "raw"):
        raise UsageError(f"option {name}: {text!r} is neither auto nor raw")
    return text == "auto"


def _word(name: str, text: str) -> str:
    return text


#: What Spark gives where a table of its catalog is made, and to no other.
_OF_TABLES = frozenset(("owner", "provider"))
_NO_TABLES = (
    "a table of Spark's catalog does not keep the options of a source in Python; "
    "CREATE TEMPORARY VIEW name USING kdump OPTIONS (path '/var/lib/kafka') does"
)
#: Options that are no option of the engine.
_OF_ALL = ("path", "paths", "view", "packBytes", "requireCompiled", "pushdown")
#: Options of Spark's Kafka source, in lower case -> what to give here.
_KAFKAS = {
    "subscribe": "give topic, a name or a pattern",
    "subscribepattern": "give topic, a pattern as in a shell",
    "assign": "give topic and partition",
    "startingoffsets": "give fromOffset, a number",
    "endingoffsets": "give toOffset, a number, not included",
    "startingtimestamp": "give fromTimeMs",
    "startingoffsetsbytimestamp": "give fromTimeMs",
    "endingtimestamp": "give toTimeMs, not included",
    "endingoffsetsbytimestamp": "give toTimeMs, not included",
    "includeheaders": "headers are there without it",
    "kafka.isolation.level": "give isolation",
    "minpartitions": "give packBytes, the bytes of log that a task reads",
    "maxrecordsperpartition": "give packBytes, the bytes of log that a task reads",
}

_Options = dict[str, tuple[str, Callable[[str, str], object]]]

#: Option of the source -> option of the engine, and how it is read; those of all views.
_OPTIONS: _Options = {
    "partition": ("partition", _number),
    "decompressLimit": ("decompress_limit", _number),
    "retired": ("retired", _truth),
    "topic": ("topic", _word),
    "serverProperties": ("server_properties", _word),
}
_REPLAY_OPTIONS: _Options = {
    "group": ("group", _word),
    "transactionalId": ("transactional_id", _word),
    "openOnly": ("open_only", _truth),
    "atMs": ("at_ms", _number),
    "atOffset": ("at_offset", _number),
    "history": ("history", _truth),
}
_DUMP_OPTIONS: _Options = {
    "fromOffset": ("from_offset", _number),
    "toOffset": ("to_offset", _number),
    "fromTimeMs": ("from_time_ms", _number),
    "toTimeMs": ("to_time_ms", _number),
    "producerId": ("producer_id", _number),
    "visible": ("visible", _truth),
    "deep": ("deep", _truth),
    "control": ("control", _truth),
    "decode": ("decode", _decode),
    "isolation": ("isolation", _word),
}
