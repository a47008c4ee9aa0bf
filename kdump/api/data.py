"""Data directories, partitions, and what every command says of them, from Python.

Rows and findings come from one iterator, in the order in which a command writes them. Damage is
never raised: it is a `Finding` among the rows. What cannot be read is raised as a `KdumpError`,
when all else has been given, so that one partition never silences the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast, overload
from warnings import warn

from kdump.engine.registry import COMMANDS
from kdump.errors import InternalError, KdumpError, UsageError
from kdump.findings.finding import Finding, internal_error
from kdump.findings.rows import BatchChunk, BatchRow, DecodedRow, JsonText, RecordChunk, RecordRow
from kdump.option_values import read_time
from kdump.rows.row import Row
from kdump.storage.inputs import FileOverrides, open_inputs
from kdump.storage.targets import Selection, Target, resolve

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal, Self, TypedDict, TypeVar, Unpack

    from kdump.api.scanning import ScanTarget
    from kdump.engine.verify.state import VerifyState
    from kdump.rows.find import OffsetLookup, TimeLookup
    from kdump.rows.groups import CommittedOffset, Group, Member, OffsetCommit
    from kdump.rows.timeline import ClockSkew, Event
    from kdump.rows.transactions import Transaction

    OneRow = TypeVar("OneRow", OffsetLookup, TimeLookup)

    class RecordSelection(TypedDict, total=False):
        """Which records are asked for."""

        from_offset: int | None
        to_offset: int | None
        from_time: When | None
        to_time: When | None
        key: bytes | None
        grep: bytes | re.Pattern[bytes] | None
        visible: bool
        isolation: str
        limit: int | None
        show_secrets: bool

    class AskedBatches(TypedDict, total=False):
        """Which headers are asked for."""

        from_offset: int | None
        to_offset: int | None
        deep: bool


#: A time: epoch milliseconds, or a text as the options of commands take it.
When = int | str
Path = str | os.PathLike[str]


def open(
    *paths: Path,
    topic: str | None = None,
    partition: int | None = None,
    retired: bool = False,
    server_properties: Path | None = None,
    unpack_limit: int | None = None,
    as_kind: str | None = None,
    base_offset: int | None = None,
    topic_name: str | None = None,
    partition_number: int | None = None,
    jobs: int = 1,
) -> Data:
    """Open data directories, partitions, files, archives and URIs, as every command takes them.

    `topic` is a name or a pattern. `as_kind`, `base_offset`, `topic_name` and `partition_number`
    say what a file is whose name does not: those of `--as`, `--base-offset` and so on. `jobs` is
    how many processes work where partitions are read each by itself. Nothing is
    read yet but archives, which are unpacked to a temporary directory. Raises KdumpError where that
    fails.
    """
    selection = Selection(topic, partition, retired)
    named = FileOverrides(as_kind, base_offset, topic_name, partition_number, unpack_limit)
    properties = None if server_properties is None else os.fspath(server_properties)
    return Data(
        open_inputs([os.fspath(path) for path in paths], named), selection, properties, jobs
    )


def dataset(*paths: Path, kind: str = "records", decode: bool = False, **opened: Any) -> Any:
    """Open paths as a dataset of PyArrow's: `open(*paths, **opened).dataset(kind)`.

    `decode`: records have columns for what keys and values of internal topics say.
    """
    return open(*paths, **opened).dataset(kind, **({"decode": True} if decode else {}))


def scan_polars(*paths: Path, kind: str = "records", decode: bool = False, **opened: Any) -> Any:
    """Open paths as a LazyFrame of Polars, which reads the columns and rows that it needs."""
    frame = dataset(*paths, kind=kind, decode=decode, **opened)
    if find_spec("polars") is None:
        raise UsageError("scan_polars needs Polars, which is not installed: pip install polars")
    import polars

    return polars.scan_pyarrow_dataset(frame)


class Data:
    """What lies under some paths. Usable as a context manager, from threads, and after a fork."""

    def __init__(
        self,
        paths: Sequence[str],
        selection: Selection,
        server_properties: str | None = None,
        jobs: int = 1,
    ) -> None:
        self.paths = tuple(paths)
        self._jobs = jobs
        self._selection = selection
        self._server_properties = server_properties

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave; nothing is held open between two calls."""

    def __repr__(self) -> str:
        return f"kdump.open({', '.join(map(repr, self.paths))})"

    def partitions(self) -> list[Partition]:
        """List the partitions, in the order of the paths; of several replicas each."""
        found = resolve(self.paths, self._selection, self._server_properties, listed=False)
        return [
            Partition(one.topic, one.partition, one.path, self)
            for one in _iter_sound(found)
            if isinstance(one, Target) and one.log is not None
        ]

    def __getitem__(self, name: tuple[str, int]) -> Partition:
        """Return a partition by its topic and number, of several replicas the first.

        Raises KeyError where there is none.
        """
        topic, number = name
        for one in self.partitions():
            if (one.topic, one.partition) == (topic, number):
                return one
        raise KeyError(f"{topic}-{number}")

    def rows(self, command: str, *asks: int, **options: Any) -> Iterator[Row | Finding]:
        """Yield what a command says, by its name; `options` are those of its class of options.

        `asks` is the offset or the time of a lookup. Of `dump` rows are a RecordRow or a BatchRow.
        Raises UsageError for an unknown command or option, and at the end a KdumpError
        for what could not be read.
        """
        items: Any = raise_errors_last(self._items(command, *asks, **options))
        if command == "dump":  # its chunks end with the next item; rows stay
            items = expand_chunks(items, decode=bool(options.get("decode")))
        return cast("Iterator[Row | Finding]", items)

    def _items(
        self, command: str, *asks: int, state: VerifyState | None = None, **options: Any
    ) -> Iterator[Any]:
        if command not in COMMANDS:
            raise UsageError(f"{command}: unknown command")
        run = COMMANDS[command].run
        if state is not None:
            run = partial(run, state=state)
        if self._jobs > 1:
            from inspect import signature

            from kdump.engine.work.pipeline import Workers

            if "driver" in signature(run).parameters:
                run = partial(run, driver=Workers(self._jobs))
        given = {
            "selection": self._selection,
            "server_properties": self._server_properties,
            **options,
        }
        try:
            made = COMMANDS[command].options(**given)
        except (TypeError, AssertionError) as error:
            raise UsageError(f"{command}: {error}") from None
        return run(self.paths, *asks, made)

    @overload
    def records(
        self, *, decode: Literal[False] = False, **asked: Unpack[RecordSelection]
    ) -> Iterator[RecordRow | Finding]: ...

    @overload
    def records(
        self, *, decode: Literal[True], **asked: Unpack[RecordSelection]
    ) -> Iterator[DecodedRow | Finding]: ...

    def records(
        self,
        *,
        from_offset: int | None = None,
        to_offset: int | None = None,
        from_time: When | None = None,
        to_time: When | None = None,
        key: bytes | None = None,
        grep: bytes | re.Pattern[bytes] | None = None,
        visible: bool = False,
        isolation: str = "read_uncommitted",
        limit: int | None = None,
        decode: bool = False,
        show_secrets: bool = False,
    ) -> Iterator[RecordRow | Finding]:
        """Yield the records on disk, in the order of the logs, as `kdump dump` shows them.

        Rows end before `to_offset` and `to_time`; `grep` is a regular
        expression that a key or a value matches. With `decode` keys and values of internal topics
        are objects. Secrets are masked unless `show_secrets`.
        """
        items = self._items(
            "dump",
            from_offset=from_offset,
            to_offset=to_offset,
            from_time_ms=_time(from_time),
            to_time_ms=_time(to_time),
            key=key,
            grep=re.compile(grep) if isinstance(grep, bytes) else grep,
            visible=visible or isolation == "read_committed",
            isolation=isolation,
            limit=limit,
            decode=decode,
            show_secrets=show_secrets,
        )
        return expand_chunks(raise_errors_last(items), decode=decode, headers=False)

    def batches(
        self, *, from_offset: int | None = None, to_offset: int | None = None, deep: bool = False
    ) -> Iterator[BatchRow | Finding]:
        """Yield the headers of batches; `deep`: wrappers are opened to count what is inside."""
        items = self._items(
            "dump", mode="batches", from_offset=from_offset, to_offset=to_offset, deep=deep
        )
        return expand_chunks(raise_errors_last(items), decode=False)

    def entries(self) -> Iterator[Row | Finding]:
        """Yield the entries of indexes, snapshots, checkpoints and properties."""
        return self.rows("dump", mode="entries")

    def find_offset(self, offset: int, **options: Any) -> Iterator[OffsetLookup | Finding]:
        """Find an offset in each partition as a broker does."""
        found = self.rows("find-offset", offset, **options)
        return cast("Iterator[OffsetLookup | Finding]", found)

    def find_time(self, time: When, **options: Any) -> Iterator[TimeLookup | Finding]:
        """Find the first record at or after a time in each partition as a broker does."""
        found = self.rows("find-time", cast("int", _time(time)), **options)
        return cast("Iterator[TimeLookup | Finding]", found)

    def verify(self, *, state: Path | None = None, **options: Any) -> Iterator[Finding]:
        """Check logs, indexes and checkpoints; yield what is wrong.

        `state` is a file as of `--state`: what it says was seen before is not read again. It is
        written at the end. A warning says that it cannot be believed.
        """
        if state is None:
            return _findings(self._items("verify", **options))
        from kdump.api.verify_state import StateFile

        file = StateFile(os.fspath(state), self.paths, lambda said: warn(said, stacklevel=5))
        return file.save_after(_findings(self._items("verify", state=file.seen, **options)))

    def groups(
        self, *, group: str | None = None, at: When | None = None
    ) -> Iterator[Group | Member | CommittedOffset | Finding]:
        """Yield groups, their members and committed offsets, at the end or at a time."""
        found = self.rows("groups", group=group, at_ms=_time(at))
        return cast("Iterator[Group | Member | CommittedOffset | Finding]", found)

    def commits(
        self,
        *,
        group: str | None = None,
        backwards: bool = False,
        from_time: When | None = None,
        to_time: When | None = None,
    ) -> Iterator[OffsetCommit | Finding]:
        """Yield each change of a committed offset, in the order of the logs."""
        found = self.rows(
            "groups",
            group=group,
            history=True,
            commits_only=True,
            backwards=backwards,
            from_ms=_time(from_time),
            to_ms=_time(to_time),
        )
        return cast("Iterator[OffsetCommit | Finding]", found)

    def transactions(
        self, *, at: When | None = None, **options: Any
    ) -> Iterator[Transaction | Finding]:
        """Yield transactions: whose they are, which are open, which hang."""
        found = self.rows("transactions", at_ms=_time(at), **options)
        return cast("Iterator[Transaction | Finding]", found)

    def timeline(
        self,
        *,
        group: str | None = None,
        from_time: When | None = None,
        to_time: When | None = None,
        **options: Any,
    ) -> Iterator[Event | ClockSkew | Finding]:
        """Yield how far clocks differ, then what happened, in one order over all brokers."""
        found = self.rows(
            "timeline", group=group, from_ms=_time(from_time), to_ms=_time(to_time), **options
        )
        return cast("Iterator[Event | ClockSkew | Finding]", found)

    def cluster(self, **options: Any) -> Iterator[Row | Finding]:
        """Yield what the metadata of the cluster says."""
        return self.rows("cluster", **options)

    def predict(self, **options: Any) -> Iterator[Row | Finding]:
        """Yield how the next start of the node goes, and what it does to each partition."""
        found = self.rows("predict", **options)
        return (one for one in found if isinstance(one, Row) and one.row != "summary")

    def why(self, **options: Any) -> Iterator[Row | Finding]:
        """Yield why disks are full: what keeps each segment, and until when."""
        return self.rows("why", **options)

    def usage(self, **options: Any) -> Iterator[Row | Finding]:
        """Yield bytes and records by topic, or by what `by` names."""
        return self.rows("usage", **options)

    def reader(self, kind: str, *, columns: Iterable[str] | None = None, **options: Any) -> Any:
        """Return a pyarrow.RecordBatchReader of the rows of a kind, `record` or `records`.

        The schema is that of the kind's declaration. Findings are left out; errors are raised at
        the end. Raises UsageError if the kind or a column is unknown, and KdumpError if PyArrow is
        not installed.
        """
        from kdump.api.columns import reader

        return reader(self._items, kind, columns, options)

    def dataset(self, kind: str = "records", **options: Any) -> Any:
        """Return a dataset of PyArrow's of the rows of a kind, of which DuckDB reads what it needs.

        So do Polars and whatever else asks a dataset for columns and a filter. Findings are left
        out; errors are raised at the end of a scan.
        """
        from kdump.api.pushdown import PushdownDataset
        from kdump.api.scanning import Table

        return PushdownDataset(Table(self.scan_target, kind, options))

    @property
    def scan_target(self) -> ScanTarget:
        """What datasets are made of."""
        from kdump.api.scanning import ScanTarget

        return ScanTarget(self.paths, self._selection, self._server_properties, self._items)

    def table(self, kind: str, *, columns: Iterable[str] | None = None, **options: Any) -> Any:
        """Return a pyarrow.Table of the rows of a kind."""
        return self.reader(kind, columns=columns, **options).read_all()


class Partition:
    """One replica of a partition: its topic and number as the directory is named, and its path."""

    def __init__(self, topic: str | None, partition: int | None, path: str, data: Data) -> None:
        self.topic, self.partition, self.path = topic, partition, path
        self._data = Data((path,), Selection(retired=True), data._server_properties)

    def __repr__(self) -> str:
        return f"<Partition {self.topic}-{self.partition} in {self.path}>"

    @overload
    def records(
        self, *, decode: Literal[False] = False, **asked: Unpack[RecordSelection]
    ) -> Iterator[RecordRow | Finding]: ...

    @overload
    def records(
        self, *, decode: Literal[True], **asked: Unpack[RecordSelection]
    ) -> Iterator[DecodedRow | Finding]: ...

    def records(self, **asked: Any) -> Iterator[RecordRow | Finding]:
        """Yield its records, as `Data.records` does."""
        return self._data.records(**asked)

    def batches(self, **asked: Unpack[AskedBatches]) -> Iterator[BatchRow | Finding]:
        """Yield the headers of its batches, as `Data.batches` does."""
        return self._data.batches(**asked)

    def entries(self) -> Iterator[Row | Finding]:
        """Yield the entries of its small files."""
        return self._data.entries()

    def find_offset(self, offset: int, **options: Any) -> OffsetLookup:
        """Find an offset as a broker does."""
        return _answer(self._data.find_offset(offset, **options))

    def find_time(self, time: When, **options: Any) -> TimeLookup:
        """Find the first record at or after a time as a broker does."""
        return _answer(self._data.find_time(time, **options))

    def verify(self, **options: Any) -> Iterator[Finding]:
        """Check it; yield what is wrong."""
        return self._data.verify(**options)


def _findings(items: Iterable[Any]) -> Iterator[Finding]:
    return (one for one in raise_errors_last(items) if isinstance(one, Finding))


def _answer(found: Iterable[OneRow | Finding]) -> OneRow:
    (row,) = (one for one in found if not isinstance(one, Finding))
    return row


def _time(given: When | None) -> int | None:
    if not isinstance(given, str):
        return given
    try:
        return read_time(given)
    except ValueError as error:
        raise UsageError(f"{given!r} {error}") from None


def raise_errors_last(items: Iterable[Any]) -> Iterator[Any]:
    """Yield rows and findings; raise the first error at the end, with the others as its notes."""
    errors: list[KdumpError] = []
    for item in items:
        if isinstance(item, InternalError):
            item = internal_error(item)
        if isinstance(item, KdumpError):
            errors.append(item)
        else:
            yield item
    if errors:
        for more in errors[1:]:
            errors[0].add_note(str(more))
        raise errors[0]


def _iter_sound(items: Iterable[Target | KdumpError]) -> Iterator[Target]:
    return cast("Iterator[Target]", raise_errors_last(items))


def expand_chunks(items: Iterable[Any], *, decode: bool, headers: bool = True) -> Iterator[Any]:
    """Yield the rows of chunks in their place; `headers`: those of batches, too."""
    for item in items:
        if isinstance(item, RecordChunk):
            records = item.iter_records()
            yield from map(decode_row, records) if decode else records
        elif isinstance(item, BatchChunk):
            if headers:
                yield from item.iter_batches()
        elif decode and isinstance(item, RecordRow):
            yield decode_row(item)
        elif headers or not isinstance(item, BatchRow):
            yield item


def decode_row(record: RecordRow) -> DecodedRow:
    """Return a record with its key and value as Python's objects where they are decoded."""
    found: dict[str, Any] = {
        name: text.value()
        for name, text in (("key", record.key), ("value", record.value))
        if isinstance(text, JsonText)
    }
    return DecodedRow(*record)._replace(**found)
