"""Gather columns of many chunks into an Arrow record batch, no Python object per record.

What differs from record to record is copied by the kernel. What is the same for all records of a
batch is kept as runs where a chunk holds one batch (a compressed one gives some eighty records),
and spread over the records only when a record batch is made.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kdump import kernels
from kdump.errors import PathError
from kdump.findings.schema import RECORD
from kdump.kernels import columns as c
from kdump.kernels import gather_buffers as g
from kdump.kernels.columns import BatchHeader, RecordBatches
from kdump.kernels.gather_buffers import Copy, GatherBuffers
from kdump.kernels.layout import FORMATS
from kdump.output.arrow_schema import arrow_type
from kdump.output.escape import name_text
from kdump.rows.declarations import Field

if TYPE_CHECKING:
    from kdump.findings.rows import Place, RecordChunk

Array = Any  # PyArrow has no types of its own

_MOST_MS = ((1 << 63) - 1) // 1000  # what Spark, which counts microseconds, can hold
MAX_INT32 = 0x7FFFFFFF  # what an Arrow column of bytes can hold
# At the numbers since 0.8; then what 0.7 had no name for.
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", *(f"unknown-{n}" for n in (5, 6, 7, 3)))
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
#: Members of a record that are columns of the kernels as they stand.
_COPIED = tuple(field for field in RECORD if field.column)
#: Columns of few words. An Arrow file may not change a dictionary, so each is whole from the start.
WORDS = {
    "codec": _CODECS,
    "timestamp_type": _TIMESTAMP_TYPES,
    "format": ("0.6", "0.7"),
    "inner_codec": _CODECS,
}


def _copy_of(field: Field) -> Copy:
    of, _, name = field.column.rpartition(".")
    number = (c.RECORD_COLUMNS if of else BatchHeader._fields).index(name)
    return Copy(number, bool(of), int(field.type.lstrip("uint")))


#: What the kernel copies for them; where topics are decoded, also the flags of records.
COPIES = tuple(map(_copy_of, _COPIED))
_FLAGS = Copy(c.RECORD_COLUMNS.index("flags"), True, 16)


def buffer(data: bytes | bytearray) -> Array:
    """Wrap bytes as an Arrow buffer; an empty one still points somewhere, as Arrow demands."""
    import pyarrow as pa

    return pa.py_buffer(data or b"\0")


def int64s(data: bytes | bytearray) -> Array:
    """Wrap int64 in memory order as an Arrow array."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(data) // 8, [None, buffer(data)])


def strings(texts: Sequence[str]) -> Array:
    """Make an array of texts. PyArrow's own way from a list imports pandas, if it is there."""
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = array("i", accumulate(map(len, encoded), initial=0))
    buffers = [None, buffer(ends.tobytes()), buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def join(pieces: list[Array], kind: Array) -> Array:
    """Join arrays of one type, of which there may be none."""
    import pyarrow as pa

    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces) if pieces else pa.nulls(0, kind)


def spread(values: list[object], counts: list[int], word: str) -> Array:
    """Repeat each value as often as its count says; `word` is int32 or int64."""
    import pyarrow as pa

    kind = getattr(pa, word)()
    pieces = []
    for value, count in zip(values, counts, strict=True):
        if isinstance(value, int):
            number = value.to_bytes(kind.bit_width // 8, sys.byteorder, signed=True)
            pieces.append(pa.Array.from_buffers(kind, count, [None, pa.py_buffer(number * count)]))
        else:
            pieces.append(pa.nulls(count, kind))
    return join(pieces, kind)


def words(name: str, values: list[object]) -> Array:
    """Make a column of WORDS from the words themselves; None is null."""
    import pyarrow as pa

    numbers = {word: number for number, word in enumerate(WORDS[name])}
    indices = [None if value is None else numbers[str(value)] for value in values]
    return dictionary(pa.array(indices, pa.int32()), WORDS[name])


class PlaceColumns:
    """Topic, partition and segment of every row, as runs.

    `topics` is the dictionary of the whole file. It only grows: Arrow files allow an addition to a
    dictionary, but no other one. A name that is no UTF-8 cannot stand in it as it is, so names that
    Kafka does not allow are spelled out.
    """

    def __init__(self, topics: dict[str, int]) -> None:
        self._topics = topics
        self._places: list[Place] = []
        self._counts: list[int] = []

    def add(self, place: Place, count: int) -> None:
        """Note that the next `count` rows come from a place."""
        if not count:
            return
        if self._places and self._places[-1] == place:
            self._counts[-1] += count
        else:
            self._places.append(place)
            self._counts.append(count)

    def arrays(self) -> dict[str, Array]:
        """Return the three columns."""
        import pyarrow as pa

        places, counts, topics = self._places, self._counts, self._topics
        numbers: list[object] = [
            None if place.topic is None else topics.setdefault(name_text(place.topic), len(topics))
            for place in places
        ]
        return {
            "topic": pa.DictionaryArray.from_arrays(
                spread(numbers, counts, "int32"), strings(list(topics))
            ),
            "partition": spread([place.partition for place in places], counts, "int32"),
            "segment": spread([place.segment for place in places], counts, "int64"),
        }


class BatchColumns:
    """Columns of batches that are rows themselves."""

    def __init__(self) -> None:
        self._pieces: list[list[Array]] = [[] for _ in range(c.BATCH_WIDTH)]

    def add(self, batches: RecordBatches, rows: array[int] | None) -> None:
        """Take some batches."""
        for column, pieces in enumerate(self._pieces):
            values = batches.column(column)
            kept = values if rows is None else array("q", [values[row] for row in rows])
            pieces.append(int64s(bytes(kept)))

    def arrays(self) -> dict[str, Array]:
        """Return the columns by the names of `BatchHeader`."""
        import pyarrow as pa

        named = zip(BatchHeader._fields, self._pieces, strict=True)
        return {name: join(pieces, pa.int64()) for name, pieces in named}


class RecordColumns:
    """What a kernel gathers of records, wrapped as Arrow arrays. Its room is used again and again.

    `rows` and `size_bytes` (of values; keys and headers get a part of it) say when it is full. A
    record that needs more than an empty one has gets room made for it, until the next `clear`.
    `decode`: keys and values that are JSON text have columns of their own.
    """

    def __init__(self, rows: int, size_bytes: int, *, decode: bool = False) -> None:
        self._size = (rows, size_bytes)
        self._copies = (*COPIES, _FLAGS) if decode else COPIES
        self._gathered = self._empty()
        self._wide = self._has_json = False

    def _empty(self) -> GatherBuffers:
        rows, size_bytes = self._size
        return GatherBuffers(
            rows,
            2 * rows,
            keys=size_bytes // 4,
            values=size_bytes,
            names=size_bytes // 8,
            contents=size_bytes // 4,
            copies=self._copies,
        )

    @property
    def count(self) -> int:
        """How many records are held."""
        return self._gathered.counts[g.N_ROWS]

    def add(self, chunk: RecordChunk, first: int) -> int:
        """Take records of a chunk, from the `first`th on; return how many there was room for."""
        self._has_json = self._has_json or chunk.records.flags & c.JSON_TEXT != 0
        return kernels.gather(
            self._gathered, chunk.data, chunk.batches, chunk.records, chunk.rows, first
        )

    def make_room(self, chunk: RecordChunk, nth: int) -> None:
        """Make room for one record, and no more than it needs."""
        row = nth if chunk.rows is None else chunk.rows[nth]
        headers, keys, values, names, contents = kernels.room_for(chunk.data, chunk.records, row)
        if max(keys, values, names, contents) > MAX_INT32:
            offset = chunk.records.offset(row)
            raise PathError(chunk.place.path, f"offset {offset} is too large for an Arrow column")
        room = {"keys": keys, "values": values, "names": names, "contents": contents}
        self._gathered = GatherBuffers(1, headers, **room, copies=self._copies)
        self._wide = True

    def clear(self) -> None:
        """Forget what is held. No array made of it may still be in use."""
        if self._wide:
            self._gathered = self._empty()
            self._wide = False
        self._gathered.clear()
        self._has_json = False

    def arrays(self) -> dict[str, Array]:
        """Return the columns; what a record's version does not have is null."""
        import pyarrow as pa

        counts = self._gathered.counts
        absent = (-1, 0), (g.G_TIMED, counts[g.N_UNTIMED]), (g.G_MODERN, counts[g.N_OLD])
        types = self._numbers(g.G_TIMESTAMP_TYPE, "int32", *absent[1])
        copied = {
            field.name: self._numbers(number, field.type, *absent[field.since])
            for number, field in enumerate(_COPIED, g.GATHERED_WIDTH)
        }
        arrays = copied | {
            "codec": dictionary(self._numbers(g.G_CODEC, "int32"), _CODECS),
            "timestamp_type": dictionary(types, _TIMESTAMP_TYPES),
            "sequence": self._numbers(g.G_SEQUENCE, "int32", *absent[2]),
            "transactional": self._numbers(g.G_TRANSACTIONAL, "bool_"),
            "key": self._bytes(pa.binary(), g.G_KEYS, g.G_KEY_ENDS, g.G_KEY_VALID, g.N_KEYS_NULL),
            "value": self._bytes(
                pa.binary(), g.G_VALUES, g.G_VALUE_ENDS, g.G_VALUE_VALID, g.N_VALUES_NULL
            ),
            "headers": self._headers(),
            "control": self._markers(),
        }
        if self._has_json:
            import pyarrow.compute as pc

            flags = self._numbers(g.GATHERED_WIDTH + len(COPIES), "uint16")
            for name, flag in (("key", c.KEY_JSON), ("value", c.VALUE_JSON)):
                is_json = bit(flags, flag.bit_length() - 1)
                texts = only_where(is_json, arrays[name])
                arrays[name] = only_where(pc.invert(is_json), arrays[name])
                arrays[f"{name}_json"] = texts.cast(pa.string())
        return arrays

    def _buffer(self, number: int, size_bytes: int) -> Array:
        """Wrap what is used of a buffer, without a copy."""
        import pyarrow as pa

        return pa.py_buffer(self._gathered.buffers[number]).slice(0, size_bytes)

    def _bitmap(self, number: int, count: int) -> Array:
        return self._buffer(number, (count + 7) // 8)

    def _numbers(self, number: int, word: str, valid: int = -1, nulls: int = 0) -> Array:
        import pyarrow as pa

        count = self.count
        values = self._buffer(number, (self._gathered.bits[number] * count + 7) // 8)
        validity = self._bitmap(valid, count) if nulls else None
        return pa.Array.from_buffers(getattr(pa, word)(), count, [validity, values], nulls)

    def _bytes(self, kind: Array, number: int, ends: int, valid: int, nulls_count: int) -> Array:
        import pyarrow as pa

        counts = self._gathered.counts
        count = counts[g.N_HEADERS if ends in g.OF_HEADERS else g.N_ROWS]
        nulls = counts[nulls_count] if nulls_count >= 0 else 0
        at = memoryview(self._gathered.buffers[ends]).cast("i")
        used = at[count] if count else 0
        if not count:
            at[0] = 0  # no row has come by to write it
        buffers = [
            self._bitmap(valid, count) if nulls else None,
            self._buffer(ends, 4 * count + 4),
            self._buffer(number, used),
        ]
        return pa.Array.from_buffers(kind, count, buffers, nulls)

    def _markers(self) -> Array:
        """Return what transaction markers say; `arrow_rows` adds what others say."""
        import pyarrow as pa

        if self._gathered.counts[g.N_CONTROLS_NULL] == self.count:
            return pa.nulls(self.count, pa.string())
        return self._bytes(
            pa.string(), g.G_CONTROLS, g.G_CONTROL_ENDS, g.G_CONTROL_VALID, g.N_CONTROLS_NULL
        )

    def _headers(self) -> Array:
        import pyarrow as pa

        kind = arrow_type("headers")
        names = self._bytes(pa.string(), g.G_NAMES, g.G_NAME_ENDS, -1, -1)
        contents = self._bytes(
            pa.binary(), g.G_CONTENTS, g.G_CONTENT_ENDS, g.G_CONTENT_VALID, g.N_CONTENTS_NULL
        )
        pairs = pa.StructArray.from_arrays([names, contents], fields=list(kind.value_type))
        lists = self._buffer(g.G_LISTS, 4 * self.count + 4)
        return pa.ListArray.from_buffers(kind, self.count, [None, lists], children=[pairs])


def has(layouts: Array, member: str) -> Array:
    """Say of each entry whether its format has something, by the name in the table of formats."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.take(pa.array([bool(getattr(each, member)) for each in FORMATS]), layouts)


def codecs(attributes: Array) -> Array:
    """Name the codec in each attributes field."""
    return _name_bits(attributes, 0, 7, _CODECS)


def timestamp_types(attributes: Array, timed: Array) -> Array:
    """Name the timestamp type in each attributes field, where the format has one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    named = _name_bits(attributes, 3, 1, _TIMESTAMP_TYPES)
    return pc.if_else(timed, named, pa.scalar(None, named.type))


def _name_bits(attributes: Array, shift: int, mask: int, words: tuple[str, ...]) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return dictionary(
        pc.bit_wise_and(pc.shift_right(attributes, shift), mask).cast(pa.int32()), words
    )


def dictionary(numbers: Array, words: tuple[str, ...]) -> Array:
    """Stand words in for their numbers, which the caller knows to be in range."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(numbers, strings(words), safe=False)


def bit(attributes: Array, number: int) -> Array:
    """Say for each attributes field whether a bit is set."""
    import pyarrow.compute as pc

    return pc.not_equal(pc.bit_wise_and(attributes, 1 << number), 0)


def sequences_from(base_sequences: Array, deltas: Array) -> Array:
    """Add deltas to sequence numbers, which wrap from 2^31-1 to 0; -1 stays (F24)."""
    import pyarrow.compute as pc

    wrapped = pc.bit_wise_and(pc.add(base_sequences, deltas), 0x7FFFFFFF)
    return pc.if_else(pc.less(base_sequences, 0), -1, wrapped)


def only_where(condition: Array, values: Array) -> Array:
    """Return values where the condition, if any, holds and null elsewhere."""
    if condition is None:
        return values
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(condition, values, pa.scalar(None, values.type))


def as_kafka(name: str, column: Array) -> Array:
    """Make a column of AS_KAFKA of ours: a time, null where Spark could not hold it, or a number.

    The number is that of Kafka's TimestampType, -1 for none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if name == "timestampType":
        return column.indices.fill_null(-1)
    fits = pc.and_(pc.less_equal(column, _MOST_MS), pc.greater_equal(column, -_MOST_MS))
    if pc.all(fits, min_count=0).as_py() is False:
        column = pc.if_else(fits, column, pa.scalar(None, pa.int64()))
    return column.view(pa.timestamp("ms", tz="UTC"))
