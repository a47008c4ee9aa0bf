"""Rows of one kind as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from kdump.rows.declared import kinds

Items = Callable[..., Iterator[Any]]


def kind_named(name: str) -> str:
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
    return f"{name}es" if name.endswith(("s", "ch")) else f"{name}s"


def reader(items: Items, name: str, columns: Iterable[str] | None, options: dict[str, Any]) -> Any:
    """Return a reader of rows; `items` yields what a command says."""
    need_arrow("arrow")
    import pyarrow as pa

    kind = kind_named(name)
    decode = bool(options.get("decode"))
    types = _types(kind, decode=decode)
    wanted = list(types if columns is None else columns)
    for column in wanted:
        if column not in types:
            raise UsageError(f"{column}: rows of kind {kind} have no such column")
    command, needed = command_of(kind)
    schema = schema_of({column: types[column] for column in wanted})
    sink = ArrowBatches(frozenset(wanted), decode=decode)
    batches = _batches(items(command, **{**needed, **options}), kind, sink, wanted)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _types(kind: str, *, decode: bool) -> dict[str, str]:
    if kind == "record":
        return DECODED_TYPES if decode else RECORD_TYPES
    return BATCH_TYPES if kind == "batch" else types_of_kind(kinds()[kind])


def _batches(
    items: Iterable[Any], kind: str, sink: ArrowBatches, wanted: list[str]
) -> Iterator[Any]:
    errors: list[KdumpError] = []
    for item in items:
        if isinstance(item, InternalError):
            item = internal_error(item)
        if isinstance(item, KdumpError):
            errors.append(item)
        elif isinstance(item, Finding):
            if kind == "finding":
                sink.finding(item)
        elif kind_of(item) == kind:
            sink.write(item)
        for batch in sink.take():
            yield batch.select(wanted)
    sink.finish()
    for batch in sink.take():
        yield batch.select(wanted)
    if errors:
        raise errors[0]
