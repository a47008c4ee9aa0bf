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
from functools import partial
from glob import glob, has_magic
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.schemas import with_schemas
from kdump.engine.work.splits import SPLIT_BYTES
from kdump.errors import PathError, UsageError
from kdump.option_values import (
    ISOLATION_LEVELS,
    read_choice,
    read_count,
    read_int64,
    read_positive_size,
    read_time,
    read_truth,
)
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
        self._given = {name.lower(): text for name, text in options.items()}
        if self._read("pushdown", read_truth, default=False):
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
        if _OF_TABLES & self._given.keys():
            raise UsageError(_NO_TABLES)
        view = self._view()
        return ddl_of(view, decode=self._decodes(view))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Check what is asked for and return what reads it."""
        view = self._view()
        options = self._asked(view)
        _refuse_other_columns(view, columns_of(view, decode=self._decodes(view)), schema)
        compiled = self._read("requireCompiled", read_truth, default=False)
        paths = self._paths()
        if view == "records":
            options = with_schemas(tuple(paths), options)
        return Reader(paths, view, options, schema, self._pack_bytes(), compiled)

    def _view(self) -> str:
        return str(self._read("view", partial(read_choice, known=tuple(VIEWS)), default="records"))

    def _read(self, name: str, read: Callable[[str], Any], default: Any) -> Any:
        """Read the value of an option, which Spark takes in upper or lower case."""
        text = self._given.get(name.lower())
        if text is None:
            return default
        try:
            return read(text)
        except ValueError as error:
            raise UsageError(f"option {name}: {text!r} {error}") from None

    def _paths(self) -> list[str]:
        """Return what is to be read; executors may run elsewhere than in this directory."""
        paths = self._read("paths", _read_paths, default=[])
        one = self._given.get("path")
        paths += [one] if one else []
        if not paths and not self._given.get("serverproperties"):
            raise UsageError('give a path: .load("/var/lib/kafka")' if self._given else _NO_TABLES)
        if any(map(places.has_password, paths)):
            raise UsageError("a path has a password, which Spark would show: leave it out")
        return [places.absolute(each) for path in paths for each in _matching(_local(path))]

    def _pack_bytes(self) -> int:
        return int(self._read("packBytes", read_positive_size, default=SPLIT_BYTES))

    def _decodes(self, view: str) -> bool:
        return view not in replays.VIEWS and self._asked(view).decode

    def _asked(self, view: str) -> Any:
        of_view = _OPTIONS | _OPTIONS_OF_VIEW[view]
        _refuse_other_options(self.options, view, of_view)
        asked: dict[str, Any] = {
            member: self._read(name, read, default=None)
            for name, (member, read) in of_view.items()
            if name.lower() in self._given
        }
        if "at_ms" in asked and "at_offset" in asked:
            raise UsageError("options atMs and atOffset exclude each other")
        if view == "findings" and "decompress_limit" in asked:
            asked.setdefault("deep", True)  # else no batch would be held to the limit
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
        yield from rows_of(
            self._view, self._paths, partition.pieces, self._options, _arrow(self._schema)
        )


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
            hint = "no broker is contacted: .load() names data directories"
        else:
            near = get_close_matches(name.lower(), lower, 1)
            hint = f"did you mean {lower[near[0]]}?" if near else f"there are {', '.join(names)}"
            views = [each for each, options in _OPTIONS_OF_VIEW.items() if _has(options, name)]
            if views:
                hint = f"it is an option of {', '.join(views)}"
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

    text = f"the pure kernel of kdump is used on {socket.gethostname()}, and is many times slower"
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


def _read_paths(text: str) -> list[str]:
    """Read the paths that Spark joins where it is given several."""
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError("is not a JSON list of paths")
    return paths


def _read_decode(text: str) -> bool:
    return read_choice(text, ("auto", "raw")) == "auto"


def _has(options: _Options, name: str) -> bool:
    return name.lower() in (known.lower() for known in options)


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

_Options = dict[str, tuple[str, Callable[[str], object]]]

#: Option of the source -> option of the engine, and how it is read; those of all views.
_OPTIONS: _Options = {
    "partition": ("partition", read_count),
    "decompressLimit": ("decompress_limit", read_positive_size),
    "retired": ("retired", read_truth),
    "topic": ("topic", str),
    "serverProperties": ("server_properties", str),
}
_OF_BATCHES: _Options = {
    "fromOffset": ("from_offset", read_int64),
    "toOffset": ("to_offset", read_int64),
    "fromTimeMs": ("from_time_ms", read_time),
    "toTimeMs": ("to_time_ms", read_time),
    "producerId": ("producer_id", read_int64),
    "visible": ("visible", read_truth),
    "deep": ("deep", read_truth),
    "control": ("control", read_truth),
    "isolation": ("isolation", partial(read_choice, known=ISOLATION_LEVELS)),
}
_OF_GROUPS: _Options = {"group": ("group", str), "atMs": ("at_ms", read_time)}
#: What a view has besides. An option that would change nothing in a view is refused there.
_OPTIONS_OF_VIEW: dict[str, _Options] = {
    "records": _OF_BATCHES | {"decode": ("decode", _read_decode)},
    "batches": _OF_BATCHES,
    "findings": {"deep": _OF_BATCHES["deep"]},
    "index-entries": {},
    "groups": _OF_GROUPS,
    "commits": _OF_GROUPS,
    "metadata": {
        "atMs": _OF_GROUPS["atMs"],
        "atOffset": ("at_offset", read_count),
        "history": ("history", read_truth),
    },
    "transactions": {
        "transactionalId": ("transactional_id", str),
        "openOnly": ("open_only", read_truth),
        "atMs": _OF_GROUPS["atMs"],
    },
}
