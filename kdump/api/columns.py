"""Rows of one kind as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from kdump.engine.registry import COMMANDS, command_of
from kdump.errors import InternalError, KdumpError, UsageError
from kdump.findings.finding import Finding, internal_error
from kdump.output.arrow import ArrowBatches, need_arrow
from kdump.output.arrow_schema import (
    BATCH_TYPES,
    DECODED_TYPES,
    RECORD_TYPES,
    schema_of,
    types_of_kind,
)
from kdump.output.kind_directory import kind_of
from kdump.rows.declarations import kinds

Items = Callable[..., Iterator[Any]]
#: Takes findings and errors that occur between rows.
Tell = Callable[[Finding | KdumpError], object]


def find_kind(name: str) -> str:
    """Return the kind of rows of a name: the kind's own, or its plural as a table is called."""
    for command in COMMANDS.values():
        for kind in command.kinds:
            if name in (kind, table_name(kind)):
                return kind
    raise UsageError(f"{name}: unknown row kind")


def table_name(kind: str) -> str:
    """Return what a table of rows of a kind is called: `index_entries`, `committed_offsets`."""
    name = kind.replace("-", "_")
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "tch")) else f"{name}s"


def reader(items: Items, name: str, columns: Iterable[str] | None, options: dict[str, Any]) -> Any:
    """Return a reader of rows; `items` yields what a command says."""
    need_arrow("arrow")
    import pyarrow as pa

    kind = find_kind(name)
    decode = bool(options.get("decode"))
    types = types_of_rows(kind, decode=decode)
    wanted = list(types if columns is None else columns)
    for column in wanted:
        if column not in types:
            raise UsageError(f"{column}: rows of kind {kind} have no such column")
    command, needed = command_of(kind)
    schema = schema_of({column: types[column] for column in wanted})
    sink = ArrowBatches(frozenset(wanted), decode=decode)
    batches = row_batches(items(command, **{**needed, **options}), {kind}, sink)
    return pa.RecordBatchReader.from_batches(schema, (batch.select(wanted) for batch in batches))


def types_of_rows(kind: str, *, decode: bool) -> dict[str, str]:
    """Return the columns of rows of a kind, with their types."""
    if kind == "record":
        return DECODED_TYPES if decode else RECORD_TYPES
    return BATCH_TYPES if kind == "batch" else types_of_kind(kinds()[kind])


def row_batches(
    items: Iterable[Any], kinds: Set[str], sink: ArrowBatches, tell: Tell | None = None
) -> Iterator[Any]:
    """Yield the rows of some kinds as record batches, by way of a sink.

    `tell` takes findings that are not rows, and errors. Without it the first error is raised at the
    end.
    """
    errors: list[KdumpError] = []
    for item in items:
        if isinstance(item, InternalError):
            item = internal_error(item)
        if isinstance(item, Finding) and "finding" in kinds:
            sink.finding(item)
        elif isinstance(item, (Finding, KdumpError)):
            if tell is not None:
                tell(item)
            elif isinstance(item, KdumpError):
                errors.append(item)
        elif kind_of(item) in kinds:
            sink.write(item)
        yield from sink.take()
    sink.finish()
    yield from sink.take()
    if errors:
        raise errors[0]
