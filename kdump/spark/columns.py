"""Turn the engine's items into Arrow record batches of the types that Spark expects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kdump.errors import KdumpError
from kdump.findings.escape import json_text
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, BatchRow, RecordChunk
from kdump.output.arrow import ArrowBatches
from kdump.output.arrow_columns import as_kafka
from kdump.output.arrow_schema import AS_KAFKA
from kdump.spark.owners import FileFacts

if TYPE_CHECKING:
    from kdump.engine.reading.options import Item

#: Rows of a batch that are made one by one.
_ROWS_A_BATCH = 8192

_ALWAYS = ("offset", "last_offset")
_OF_FILES = frozenset(FileFacts._fields)

Arrow = Any  # PyArrow has no types of its own


def of_items(
    files: Iterable[tuple[FileFacts, Iterable[Item | Finding | KdumpError]]],
    schema: Arrow,
    *,
    headers: bool,
    decode: bool = False,
) -> Iterator[Arrow]:
    """Yield the rows of files, each with what is known of its file.

    Findings are rows of another view; an error is raised.

    A record batch holds the rows of many small files. `headers`: rows are batch headers, not
    records. `decode`: those of internal topics are said.
    """
    # The offset is there so that no batch is without a column.
    wanted = frozenset(AS_KAFKA.get(name, name) for name in (*schema.names, *_ALWAYS))
    sink = ArrowBatches(wanted - _OF_FILES, decode=decode)
    held: deque[tuple[FileFacts, int]] = deque()  # of the rows that the sink holds, in order
    for facts, items in files:
        for item in items:
            if isinstance(item, KdumpError):
                raise item
            if isinstance(item, Finding) or isinstance(item, (BatchChunk, BatchRow)) is not headers:
                continue
            count = len(item) if isinstance(item, (BatchChunk, RecordChunk)) else 1
            if not count:
                continue
            held.append((facts, count))
            sink.write(item)
            for batch in sink.take():
                yield _as_spark(batch, schema, held)
    sink.finish()
    for batch in sink.take():
        yield _as_spark(batch, schema, held)


def _next(rows: int, held: deque[tuple[FileFacts, int]]) -> list[tuple[FileFacts, int]]:
    """Take the files of the next rows, each with how many of them it has."""
    found = []
    while rows:
        facts, count = held.popleft()
        if count > rows:
            held.appendleft((facts, count - rows))
        found.append((facts, min(count, rows)))
        rows -= found[-1][1]
    return found


def _of_files(name: str, files: list[FileFacts], ends: Arrow, kind: Arrow) -> Arrow:
    """Make a column of what is known of files; `ends` are where the rows of each end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pa.array([getattr(facts, name) for facts in files], kind)
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))


def _as_spark(batch: Arrow, schema: Arrow, held: deque[tuple[FileFacts, int]]) -> Arrow:
    import pyarrow as pa

    found = _next(batch.num_rows, held)
    files = [facts for facts, _ in found]
    ends = pa.array(accumulate(count for _, count in found), pa.int32())
    made = []
    for field in schema:
        if field.name in _OF_FILES:
            made.append(_of_files(field.name, files, ends, field.type))
            continue
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
