"""`spark.read.format("kdump")`: data directories as tables of Spark's own SQL.

    spark.read.format("kdump").option("view", "records").load("/var/lib/kafka")

A thin layer over the plan and the readers that the commands use. One file is never cut here: only
a merge could tell that the pieces fit, and rows that Spark has been given cannot be taken back. A
segment is 2 GiB at most, so tasks stay short all the same.

The only module that imports PySpark when it is imported: its base classes must be there. Only Spark
imports it, by way of the top-level module `pyspark_kdump`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.schemas import with_schemas
from kdump.engine.work.splits import SPLIT_BYTES
from kdump.errors import KdumpError, UsageError
from kdump.spark import replays, streams, verification
from kdump.spark.options import LOGS, GivenOptions
from kdump.spark.paths import paths_of
from kdump.spark.request import Request
from kdump.spark.schema import VIEWS, arrow_schema, columns_of, ddl_of
from kdump.spark.scope import Scope
from kdump.spark.views import plan_tasks, rows_of
from kdump.storage.targets import Selection

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as _AvailableNow
except ImportError:  # before 4.2, where Spark fixes by itself where such a trigger ends
    _AvailableNow = object

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")

#: The options that leave files and batches unread.
_NARROWING = ("topic", "partition", "fromOffset", "toOffset", "fromTimeMs", "toTimeMs")


def _briefly(method: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Give errors of ours without the calls that led to them: Spark prints all of those."""

    @wraps(method)
    def called(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        try:
            return method(*args, **kwargs)
        except KdumpError as error:
            raise error.with_traceback(None) from None

    return called


#: Members of the engine's options that nothing follows from where nothing is decoded.
_OF_SCHEMAS = frozenset(("schema_files", "schemas_at_ms", "reader_schema"))


class KdumpSource(DataSource):
    """The data source `kdump`. Options: view, and those of `kdump dump` in camel case.

    Only they leave files and batches unread, a query's conditions do not: Spark up to 4.3 keeps
    what a reader with `pushFilters` planned for one query in the relation, and every other use of
    the frame reads that, with rows missing and without a word (apache/spark pull request 57752,
    for 5.0.0).
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._given = GivenOptions(options)
        if self._given.read("pushdown"):
            raise UsageError(
                "option pushdown is not supported: the filter of one query would also apply to "
                f"other queries of the frame; use {', '.join(_NARROWING)} instead"
            )

    @classmethod
    def name(cls) -> str:
        """What `format()` is given."""
        return "kdump"

    @_briefly
    def schema(self) -> str:
        """All columns of the view; `.schema()` of a reader asks for fewer, and pays for fewer."""
        if not _OF_TABLES.isdisjoint(self._given.names()):
            raise UsageError(_NO_TABLES)
        view = self._given.view(tuple(VIEWS))
        return ddl_of(view, decode=self._decodes(view))

    @_briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        """Check what is asked for and return what reads it."""
        if self._given.read("failOnDataLoss") is not None:
            raise UsageError("failOnDataLoss is an option of readStream")
        return Reader(self._request(schema), schema, self._needs_compiled())

    @_briefly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads closed segments, of the views that read logs."""
        request = self._request(schema)
        if request.view not in LOGS:
            raise UsageError(
                f"view {request.view} does not support streams; {' and '.join(LOGS)} do"
            )
        if request.options.visible:
            raise UsageError("a stream excludes visible and isolation: transactions may be open")
        for name in ("endingOffsets", "modifiedAfter"):
            if name.lower() in self._given.names():
                raise UsageError(f"a stream excludes {name}: it reads everything new")
        fail = self._given.read("failOnDataLoss", default=False)
        return StreamReader(request, schema, self._needs_compiled(), fail)

    def _needs_compiled(self) -> bool:
        return bool(self._given.read("requireCompiled"))

    def _request(self, schema: StructType) -> Request:
        given = self._given
        view = given.view(tuple(VIEWS))
        options = self._make_request(view)
        _refuse_other_columns(view, columns_of(view, decode=self._decodes(view)), schema)
        scope = Scope(
            given.read("startingOffsets", {}),
            given.read("endingOffsets", {}),
            given.read("modifiedAfter"),
        )
        if scope.modified_after_ms is not None and getattr(options, "visible", False):
            raise UsageError(
                "modifiedAfter excludes visible and isolation: what a consumer receives depends "
                "on the whole partition"
            )
        fail = given.read("failOnMissing", default=False)
        paths = self._paths(fail_on_missing=fail)
        if view == "records":
            options = with_schemas(tuple(paths), options)
        pack_bytes = given.read("packBytes", SPLIT_BYTES)
        return Request(view, paths, options, pack_bytes, scope, fail)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse to write."""
        raise UsageError(_NO_WRITING)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse to write."""
        raise UsageError(_NO_WRITING)

    def _paths(self, *, fail_on_missing: bool) -> list[str]:
        """Return what is to be read."""
        paths = self._given.read("paths", [])
        one = self._given.read("path")
        paths += [one] if one else []
        if not paths and not any(map(self._given.read, ("serverProperties", "tier"))):
            given = any(self._given.names())
            raise UsageError('give a path: .load("/var/lib/kafka")' if given else _NO_TABLES)
        return paths_of(paths, fail_on_missing=fail_on_missing)

    def _decodes(self, view: str) -> bool:
        return view not in replays.VIEWS and bool(self._make_request(view).decode)

    def _make_request(self, view: str) -> Any:
        self._given.refuse_others(view)
        asked = self._given.of_engine(view)
        if "at_ms" in asked and "at_offset" in asked:
            raise UsageError("options atMs and atOffset exclude each other")
        if "tier_key" in asked and "tier" not in asked:
            raise UsageError("option tierKey needs tier")
        if view in verification.VIEWS and "decompress_limit" in asked:
            asked.setdefault("deep", True)  # else no batch would be held to the limit
        if view in replays.VIEWS:
            return replays.options_of(view, asked | {"selection": Selection.take(asked)})
        asked["mode"] = "batches" if view == "batches" else "records"
        if not asked.get("decode") and not _OF_SCHEMAS.isdisjoint(asked):
            raise UsageError("options schemas, schemasAtMs, and readerSchema need decode=auto")
        if asked.get("isolation") == "read_committed":
            asked["visible"] = True
        return DumpOptions(selection=Selection.take(asked), **asked)


class Piece(InputPartition):
    """What one task reads, as it was planned."""

    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        self.pieces = pieces


class Reader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, request: Request, schema: StructType, needs_compiled: bool) -> None:
        self._request = request
        self._schema = schema
        self._needs_compiled = needs_compiled

    @_briefly
    def partitions(self) -> list[InputPartition]:
        """Plan: a listing, packed into pieces of a size. A path that cannot be read is an error."""
        return [Piece(pieces) for pieces in plan_tasks(self._request)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a piece as Arrow record batches."""
        if not isinstance(partition, Piece):  # Spark makes one up where there is none
            return
        _check_kernel(self._needs_compiled)
        yield from rows_of(self._request, partition.pieces, _arrow(self._schema))


class StreamReader(DataSourceStreamReader, _AvailableNow):
    """Reads what is closed since the last batch; `streams.py` has the rules."""

    def __init__(
        self, request: Request, schema: StructType, needs_compiled: bool, fails: bool
    ) -> None:
        self._request = request
        self._reader = Reader(request, schema, needs_compiled)
        self._fails = fails
        self._until: dict[str, streams.Log] | None = None
        self._last: streams.Offsets = {}

    def initialOffset(self) -> streams.Offsets:
        """No partition was read yet."""
        return {}

    @_briefly
    def latestOffset(
        self, start: streams.Offsets | None = None, limit: object = None
    ) -> streams.Offsets:
        """Return where closed segments end now, or did when the trigger began.

        Spark before 4.2 does not say where it is.
        """
        logs = streams.logs_under(self._request) if self._until is None else self._until
        self._last = streams.latest(start or self._last, logs)
        return self._last

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix where this trigger ends."""
        self._until = streams.logs_under(self._request)

    @_briefly
    def partitions(self, start: streams.Offsets, end: streams.Offsets) -> list[InputPartition]:
        """Plan a batch, and report what went before it was read."""
        logs = streams.logs_under(self._request)
        streams.report(streams.describe_losses(start, logs), fail=self._fails)
        self._last = end
        scope = streams.scope_of(start, end, logs, self._request)
        pieces = plan_tasks(self._request._replace(scope=scope))
        return [Piece(each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a piece as Arrow record batches."""
        return self._reader.read(partition)


def _refuse_other_columns(view: str, known: dict[str, str], schema: StructType) -> None:
    """Say which column of a user's schema the view does not have, or not with that type."""
    for field in schema.fields:
        if field.name not in known:
            raise UsageError(f"view {view} has no column {field.name!r}, but {', '.join(known)}")
        if field.dataType.simpleString() != known[field.name]:
            raise UsageError(
                f"column {field.name} is {known[field.name]}: read it with that type, then cast it"
            )


def _check_kernel(needed: bool) -> None:
    """Say in this worker's log, or as an error, that the pure kernel runs here."""
    from kdump.output.process_tuning import KERNEL

    if KERNEL == "compiled":
        return
    import socket
    import warnings

    text = f"kdump uses the pure kernel on {socket.gethostname()}, which is many times slower"
    if needed:
        raise UsageError(f"{text}; requireCompiled is set")
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _arrow(schema: StructType) -> Any:
    """Return the Arrow schema of Spark's; PySpark has a function for it, which is not public."""
    try:
        from pyspark.sql.pandas.types import to_arrow_schema
    except ImportError:
        return arrow_schema({one.name: one.dataType.simpleString() for one in schema.fields})
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before 4.2 the zone was no question
        return to_arrow_schema(schema)


#: What Spark gives where a table of its catalog is made, and to no other.
_OF_TABLES = frozenset(("owner", "provider"))
_NO_TABLES = (
    "a table in Spark's catalog loses the options of a Python data source; use CREATE TEMPORARY "
    "VIEW name USING kdump OPTIONS (path '/var/lib/kafka')"
)
_NO_WRITING = "format kdump is read-only: kdump salvage --out builds data directories"
