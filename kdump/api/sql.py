"""Ask questions in SQL: DuckDB over the rows of every kind, shut off from files and the network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kdump.api.columns import table_name
from kdump.api.pushdown import PushdownDataset
from kdump.api.scanning import Table
from kdump.engine.reading.sql_types import SqlType, sql_types
from kdump.engine.registry import COMMANDS
from kdump.errors import KdumpError, UsageError, path_errors
from kdump.findings.escape import json_text
from kdump.output.escape import name_text
from kdump.storage.evidence import refuse_among_evidence
from kdump.storage.targets import Target, resolve

if TYPE_CHECKING:
    from kdump.api.scanning import ScanTarget
    from kdump.findings.finding import Finding

#: What a statement may be; DESCRIBE, SHOW and SUMMARIZE are selections too.
_READS = "SELECT"
#: Commands whose rows need more than paths: another question, images, a running cluster.
_NO_TABLES = ("find-offset", "find-time", "carve", "produce")
_ROWS_A_BATCH = 1 << 13
#: What lists tables, or is given the name of one as text: DuckDB does not say which.
_NAMES_OTHERS = re.compile(r"duckdb_|information_schema|pg_|pragma|query|sqlite_", re.IGNORECASE)
_SIDES = ("key", "value")
#: What is set when the tables are there; the last of it ends all setting.
_LAST = (
    "search_path = 'main,topics'",
    "timezone = 'UTC'",
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",
)


class SqlUnavailableError(KdumpError):
    """DuckDB is not installed."""

    status = 2

    def __init__(self) -> None:
        super().__init__("sql needs DuckDB, which is not installed: pip install 'kdump[sql]'")


class Session:
    """Tables of all kinds of rows under some paths, and views of topics as they are asked for."""

    def __init__(self, connection: Any, under: ScanTarget, *, explain: bool) -> None:
        self._connection, self._under, self._explain = connection, under, explain
        self._tables: dict[str, Table] = {}
        self._met: list[Finding | KdumpError] = []
        self._has_topics = False
        #: The kinds of the tables, and of those that no query has named so far.
        self._kinds = {
            table_name(kind): kind
            for command, of in COMMANDS.items()
            if command not in _NO_TABLES
            for kind in of.kinds
        }
        self._unregistered = dict(self._kinds)

    def drain_reports(self) -> Iterator[Finding | KdumpError]:
        """Yield the findings and errors of what was read since it was asked before."""
        while self._met:
            yield self._met.pop(0)

    def drain_skipped(self) -> Iterator[str]:
        """Yield what was not read since it was asked before, and why."""
        for table in self._tables.values():
            while table.skipped:
                yield table.skipped.pop(0)

    def ask(self, query: str) -> Any:
        """Return a reader of the answer. Raises KdumpError with DuckDB's words."""
        with _raise_sql_errors():
            statements = self._connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type.name != _READS:
                raise UsageError("use one SELECT statement: kdump only reads")
            named = self._tables_of(query)
            self._register(self._kinds if named is None else named)
            if named is None:
                self._find_topics()
            relation = self._connection.sql(query)
            fetch = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            return fetch(_ROWS_A_BATCH)

    def batches(self, answer: Any) -> Iterator[Any]:
        """Yield the record batches of an answer, first one without rows that has the columns."""
        import pyarrow as pa

        yield pa.RecordBatch.from_pylist([], answer.schema)
        with _raise_sql_errors():
            yield from answer

    def _tables_of(self, query: str) -> set[str] | None:
        """Return the tables that a query reads; None where it may read any, or a view."""
        import duckdb

        try:
            names = self._connection.get_table_names(query, qualified=True)
        except duckdb.Error:
            return None
        is_sure = names and self._kinds.keys() >= names and not _NAMES_OTHERS.search(query)
        return names if is_sure else None

    def _register(self, names: Iterable[str]) -> None:
        """Let DuckDB know tables. All of them take longer than most queries do."""
        for name in self._unregistered.keys() & names:
            kind = self._unregistered.pop(name)
            options = {"decode": True} if kind == "record" else {}
            table = self._tables[name] = Table(self._under, kind, options, self._met.append)
            table.skipped = [] if self._explain else None
            self._connection.register(name, PushdownDataset(table))

    def _find_topics(self) -> None:
        """Make the views of topics, once. Names that differ in case alone would be one: none is."""
        if self._has_topics:
            return
        self._has_topics = True
        selection, properties = self._under.selection, self._under.server_properties
        found = resolve(self._under.paths, selection, properties, listed=False)
        named = {one.topic for one in found if isinstance(one, Target) and one.topic is not None}
        names = sorted(map(name_text, named))
        folded = Counter(name.casefold() for name in names)
        types = sql_types(self._under.paths, selection, properties)
        for name in names:
            if folded[name.casefold()] == 1:
                columns = ["*", *(_typed_columns(side, types.get((name, side))) for side in _SIDES)]
                self._connection.execute(
                    f"create view topics.{_quote(name, chr(34))} as"
                    f" select {', '.join(filter(None, columns))} from main.records"
                    f" where topic = {_quote(name)}"
                )


def _typed_columns(side: str, of: SqlType | None) -> str:
    """Return a column of the data of a side with its types; empty where these are not known."""
    if of is None:
        return ""
    wanted = _quote(json_text(of.text))
    made = f"json_transform(json_extract({side}_json, '$.data'), {wanted})"
    if of.messages:
        named = ", ".join(map(_quote, sorted(of.messages)))
        message = f"json_extract_string({side}_json, '$.schema.message')"
        made = f"case when {message} in ({named}) then {made} end"
    return f"{made} as {side}_data"


def _quote(text: str, mark: str = "'") -> str:
    return mark + text.replace(mark, 2 * mark) + mark


@contextmanager
def _raise_sql_errors() -> Iterator[None]:
    """Raise what DuckDB says, which an Arrow stream may pass on, as an error of this run."""
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory Error" in str(error):
            raise KdumpError(f"{error}; see --memory") from None
        raise UsageError(str(error)) from None


@contextmanager
def session(
    under: ScanTarget,
    *,
    memory_bytes: int,
    scratch: str | None = None,
    threads: int | None = None,
    explain: bool = False,
) -> Iterator[Session]:
    """Give a session. What does not fit into memory is written below `scratch` meanwhile."""
    if find_spec("duckdb") is None:
        raise SqlUnavailableError
    import duckdb

    if scratch is not None:
        refuse_among_evidence(scratch, "--scratch")
    with path_errors(scratch or "--scratch"):
        directory = TemporaryDirectory(prefix="kdump-", dir=scratch)
    with directory as spill:
        settings: dict[str, Any] = {
            "memory_limit": f"{memory_bytes}B",
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        }
        if threads is not None:
            settings["threads"] = threads
        connection = duckdb.connect(":memory:", config=settings)
        try:
            connection.execute("create schema topics")
            made = Session(connection, under, explain=explain)
            for setting in _LAST:
                connection.execute(f"set {setting}")
            yield made
        finally:
            connection.close()
