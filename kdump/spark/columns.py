"""Turn the engine's items into Arrow record batches of the types that Spark expects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kdump.errors import KdumpError
from kdump.findings.escape import json_text
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, BatchRow, RecordChunk
from kdump.output.arrow import ArrowBatches
from kdump.output.arrow_columns import as_kafka
from kdump.output.arrow_schema import AS_KAFKA

if TYPE_CHECKING:
    from kdump.engine.reading.options import Item

#: Rows of a batch that are made one by one.
_ROWS_A_BATCH = 8192

_ALWAYS = ("offset", "last_offset")

Arrow = Any  # PyArrow has no types of its own


def of_items(
    files: Iterable[tuple[str, Iterable[Item | Finding | KdumpError]]],
    schema: Arrow,
    *,
    headers: bool,
    decode: bool = False,
) -> Iterator[Arrow]:
    """Yield the rows of files, each with its path. Findings are rows of another view; an error is
    raised.

    A record batch holds the rows of many small files. `headers`: rows are batch headers, not
    records. `decode`: those of internal topics are said.
    """
    # The offset is there so that no batch is without a column.
    wanted = frozenset(AS_KAFKA.get(name, name) for name in (*schema.names, *_ALWAYS))
    sink = ArrowBatches(wanted, decode=decode)
    paths: deque[tuple[str, int]] = deque()  # of the rows that the sink holds, in order
    for path, items in files:
        for item in items:
            if isinstance(item, KdumpError):
                raise item
            if isinstance(item, Finding) or isinstance(item, (BatchChunk, BatchRow)) is not headers:
                continue
            paths.append((path, len(item) if isinstance(item, (BatchChunk, RecordChunk)) else 1))
            sink.write(item)
            for batch in sink.take():
                yield _as_spark(batch, schema, paths)
    sink.finish()
    for batch in sink.take():
        yield _as_spark(batch, schema, paths)


def _paths_of(rows: int, paths: deque[tuple[str, int]]) -> Arrow:
    """Take the paths of the next rows."""
    import pyarrow as pa

    found = []
    while rows:
        path, count = paths.popleft()
        if count > rows:
            paths.appendleft((path, count - rows))
        taken = min(count, rows)
        rows -= taken
        found.append(pa.repeat(pa.scalar(path), taken))
    return pa.concat_arrays(found) if found else pa.array([], pa.string())


def _as_spark(batch: Arrow, schema: Arrow, paths: deque[tuple[str, int]]) -> Arrow:
    import pyarrow as pa

    path = _paths_of(batch.num_rows, paths)
    made = []
    for field in schema:
        if field.name == "path":
            column = path
        else:
            column = batch.column(AS_KAFKA.get(field.name, field.name))
            if field.name in AS_KAFKA:
                column = as_kafka(field.name, column)
        made.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(made, schema=schema)


def of_rows(rows: Iterable[dict[str, object]], schema: Arrow) -> Iterator[Arrow]:
    """Yield rows that come one by one, as findings do; what is no text becomes JSON in text."""
    import pyarrow as pa

    texts = frozenset(field.name for field in schema if pa.types.is_string(field.type))
    gathered: list[dict[str, object]] = []
    for row in rows:
        made = {name: row.get(name) for name in schema.names}
        for name in texts:
            value = made[name]
            if value is not None and not isinstance(value, str):
                made[name] = json_text(value)
        gathered.append(made)
        if len(gathered) == _ROWS_A_BATCH:
            yield pa.RecordBatch.from_pylist(gathered, schema=schema)
            gathered = []
    if gathered:
        yield pa.RecordBatch.from_pylist(gathered, schema=schema)


def finding_row(found: Finding, version: str) -> dict[str, object]:
    """Make the row of a finding."""
    return found.fields() | {"engine_version": version}
