"""Write Parquet and Arrow files, in record batches of many thousand rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from kdump.errors import KdumpError, PathError, UsageError
from kdump.findings.rows import BatchChunk, BatchRow, RecordChunk, RecordRow, Row
from kdump.findings.schema import SAID
from kdump.output.arrow_columns import WORDS, RecordColumns, as_kafka, dictionary
from kdump.output.arrow_rows import GatheredBatches, GatheredRecords, GatheredRows
from kdump.output.arrow_schema import (
    AS_KAFKA,
    AS_KAFKA_TYPES,
    BATCH_TYPES,
    DECODED_TYPES,
    RECORD_TYPES,
    schema_of,
    types_of_kind,
)
from kdump.output.sink import Sink

if TYPE_CHECKING:
    from kdump.output.sink import Item


#: A record batch is written when it has this many rows, or this many bytes in keys and values.
#: Offsets in it are int32, so the second must stay well below 1 GiB; and it is held several times
#: over while it is encoded.
ROWS_A_BATCH = 32 * 1024
BYTES_A_BATCH = 16 * 1024 * 1024
_SAID = tuple(field.name for field in SAID)


class ArrowUnavailableError(KdumpError):
    """PyArrow is not installed."""

    def __init__(self, form: str) -> None:
        super().__init__(
            f"--format {form} needs PyArrow, which is not installed: pip install 'kdump[arrow]'"
        )


def need_arrow(form: str) -> None:
    """Raise where a form cannot be written. Not by an import: workers may be forked later."""
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise ArrowUnavailableError(form)


def arrow_sink(form: str, file: BinaryIO, path: str, *, decode: bool = False) -> ArrowSink:
    """Return a sink that writes a Parquet or an Arrow file; `path` is what errors call it."""
    need_arrow(form)
    return ArrowSink(form, file, path, decode=decode)


class ArrowSink(Sink):
    """Writes rows of one kind. The first row decides the kind; a file has one schema.

    Columns `left_out` are known from elsewhere, as from the name of a part's directory. `decode`:
    there are columns for what was decoded, in which keys and values are not bytes.
    """

    def __init__(
        self,
        form: str,
        file: BinaryIO,
        path: str,
        *,
        left_out: frozenset[str] = frozenset(),
        decode: bool = False,
    ) -> None:
        self._form = form
        self._file = file
        self._path = path
        self._left_out = left_out
        self._kind = ""
        self._decode = decode
        self._types = self._record_types = DECODED_TYPES if decode else RECORD_TYPES
        self._schema: Any = None
        self._writer: Any = None
        self._topics: dict[str, int] = {}
        self._columns: RecordColumns | None = None
        self._gathered: GatheredRecords | GatheredBatches | GatheredRows | None = None

    def __del__(self) -> None:
        # A run that ended early has closed the file; PyArrow's Parquet writer would still write to
        # it when it goes, and complain on standard error.
        if self._form == "parquet" and self._writer is not None:
            self._writer.is_open = False

    def write(self, item: Item) -> None:
        """Take one item."""
        if isinstance(item, RecordChunk) and item.format:
            for record in item.iter_records():
                self._row("record", self._record_types, record._asdict())
        elif isinstance(item, RecordChunk):
            self._chunk(item)
        elif isinstance(item, BatchChunk):
            self._batches().add(item)
            self._write_if_full()
        elif isinstance(item, RecordRow):
            self._row("record", self._record_types, item._asdict())
        elif isinstance(item, BatchRow):
            self._row("batch", BATCH_TYPES, item._asdict())
        elif isinstance(item, Row):
            types = self._types if item.row == self._kind else types_of_kind(type(item))
            self._row(item.row, types, item.fields)
        elif (schema := getattr(item, "schema", None)) is not None:  # a record batch of an answer
            self._schema = schema
            with self._convert_errors():
                self._open()
                self._writer.write_batch(item)

    def finish(self) -> None:
        """Write the rows still held, and the file's end; a file without rows is a file too."""
        self._write()
        with self._convert_errors():
            self._open()
            self._writer.close()

    def abandon(self) -> None:
        """Let go of a file that will be thrown away, before it is closed under the writer."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()

    def _chunk(self, chunk: RecordChunk) -> None:
        """Take records, and write a record batch whenever there is no room for the next."""
        first, count = 0, len(chunk)
        while first < count:
            gathered = self._records()
            taken = gathered.add(chunk, first)
            alone = not gathered.count
            if alone:
                taken = gathered.add_alone(chunk, first)
            first += taken
            if alone or first < count:
                self._write()
            if alone:
                gathered.let_go()

    def _records(self) -> GatheredRecords:
        if not isinstance(self._gathered, GatheredRecords):
            self._begin("record", self._record_types)
            if self._columns is None:
                self._columns = RecordColumns(ROWS_A_BATCH, BYTES_A_BATCH, decode=self._decode)
            self._gathered = GatheredRecords(self._topics, self._columns)
        return self._gathered

    def _batches(self) -> GatheredBatches:
        if not isinstance(self._gathered, GatheredBatches):
            self._begin("batch", BATCH_TYPES)
            self._gathered = GatheredBatches(self._topics)
        return self._gathered

    def _row(self, kind: str, types: dict[str, str], fields: dict[str, object]) -> None:
        if not isinstance(self._gathered, GatheredRows) or kind != self._kind:
            self._begin(kind, types)
            self._gathered = GatheredRows(types, self._topics)
        self._gathered.add(fields)
        self._write_if_full()

    def _begin(self, kind: str, types: dict[str, str]) -> None:
        """Write what was gathered in another way, and see that the file can hold this kind."""
        self._write()
        if self._kind and kind != self._kind:
            raise UsageError(
                f"--format {self._form} supports one kind of row, not {self._kind} and {kind}: "
                "give --rows KIND, or --output DIR/ for a file of each kind"
            )
        self._kind, self._types = kind, types

    def _write_if_full(self) -> None:
        gathered = self._gathered
        assert isinstance(gathered, (GatheredBatches, GatheredRows))
        if gathered.count >= ROWS_A_BATCH or gathered.size_bytes >= BYTES_A_BATCH:
            self._write()

    def _write(self) -> None:
        with self._convert_errors():
            self._write_batch()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise PathError.from_os(self._path, error) from error

    def _write_batch(self) -> None:
        gathered, self._gathered = self._gathered, None
        if gathered is None or not gathered.count:
            return
        import pyarrow as pa

        self._open()
        arrays = gathered.arrays()
        for name in self._schema.names:
            if name in AS_KAFKA and AS_KAFKA[name] in arrays:
                arrays[name] = as_kafka(name, arrays[AS_KAFKA[name]])
        columns = [
            _of_type(arrays[field.name], field.type)
            if field.name in arrays
            else _nothing(field, gathered.count)
            for field in self._schema
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _open(self) -> None:
        if self._writer is not None:
            return
        types = {name: kind for name, kind in self._types.items() if name not in self._left_out}
        if self._form == "parquet" and self._types is self._record_types:
            types |= AS_KAFKA_TYPES
        self._schema = self._schema or schema_of(types)
        if self._form == "parquet":
            from pyarrow.parquet import ParquetWriter

            plain = (
                "offset",
                "timestamp_ms",
                "timestamp",
                "key",
                "value",
                "headers",
                "control",
                *_SAID,
            )
            self._writer = ParquetWriter(
                self._file,
                self._schema,
                compression="zstd",
                use_dictionary=[name for name in types if name not in plain],
                write_statistics=[name for name in types if name not in plain[3:]],
            )
        else:
            from pyarrow import ipc

            options = ipc.IpcWriteOptions(emit_dictionary_deltas=True)
            self._writer = ipc.new_file(self._file, self._schema, options=options)


def _of_type(values: Any, kind: Any) -> Any:
    """Narrow a column to its type; a cast imports all of Arrow's functions, so only if need be."""
    return values if values.type == kind else values.cast(kind, safe=False)


def _nothing(field: Any, count: int) -> Any:  # PyArrow has no types of its own
    """Return a column of nulls; one of words has its dictionary all the same."""
    import pyarrow as pa

    if field.name in WORDS:
        return dictionary(pa.nulls(count, pa.int32()), WORDS[field.name])
    return pa.nulls(count, field.type)


Arrow = Any  # PyArrow has no types of its own


class ArrowBatches(ArrowSink):
    """Makes record batches of some columns of rows; each has memory of its own.

    `wanted`: names of columns; None: all.
    """

    def __init__(self, wanted: frozenset[str] | None = None, *, decode: bool = False) -> None:
        super().__init__("arrow", None, "", decode=decode)  # type: ignore[arg-type]
        self._wanted = wanted
        self.ready: list[Arrow] = []

    def _open(self) -> None:
        if self._writer is None:
            wanted = self._types.keys() if self._wanted is None else self._wanted
            types = {name: word for name, word in self._types.items() if name in wanted}
            self._schema = schema_of(types)
            self._writer = self

    def _write_batch(self) -> None:
        super()._write_batch()
        self._columns = None  # its buffers belong to the batch now

    def write_batch(self, batch: Arrow) -> None:
        """Keep a batch, as a writer of PyArrow's takes one."""
        self.ready.append(batch)

    def close(self) -> None:
        """There is no file."""

    def take(self) -> list[Arrow]:
        """Hand over what is ready."""
        ready, self.ready = self.ready, []
        return ready
