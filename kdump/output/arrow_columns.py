"""Columns of many chunks gathered into one Arrow record batch, without a Python object per record.

What differs from record to record is copied by the kernel. What is the same for all records of a
batch is kept as runs where a chunk holds one batch (a compressed one gives some eighty records),
and spread over the records only when a record batch is made.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kdump import kernels
from kdump.kernels.columns import BATCH_WIDTH
from kdump.output.arrow_schema import arrow_type

if TYPE_CHECKING:
    from kdump.engine.rows import Place
    from kdump.kernels.columns import Columns

Array = Any  # PyArrow has no types of its own

# At the numbers since 0.8; then what 0.7 had no name for.
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", *(f"unknown-{n}" for n in (5, 6, 7, 3)))
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
#: Columns of few words. An Arrow file may not change a dictionary, so each is whole from the start.
WORDS = {"codec": _CODECS, "timestamp_type": _TIMESTAMP_TYPES, "format": ("0.6", "0.7")}


def buffer(data: bytes | bytearray) -> Array:
    """Wrap bytes as an Arrow buffer; an empty one still points somewhere, as Arrow demands."""
    import pyarrow as pa

    return pa.py_buffer(data or b"\0")


def int64s(data: bytes | bytearray) -> Array:
    """Wrap int64 in memory order as an Arrow array."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(data) // 8, [None, buffer(data)])


def joined(pieces: list[Array], kind: Array) -> Array:
    """Join arrays of one type, of which there may be none."""
    import pyarrow as pa

    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces) if pieces else pa.nulls(0, kind)


def spread(values: list[object], counts: list[int], kind: Array) -> Array:
    """Repeat each value as often as its count says."""
    import pyarrow as pa

    pieces = [
        pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)
        for value, count in zip(values, counts, strict=True)
    ]
    return joined(pieces, kind)


def words(name: str, values: list[object]) -> Array:
    """Make a column of WORDS from the words themselves; None is null."""
    import pyarrow as pa

    numbers = {word: number for number, word in enumerate(WORDS[name])}
    indices = [None if value is None else numbers[str(value)] for value in values]
    return _dictionary(pa.array(indices, pa.int32()), WORDS[name])


class PlaceColumns:
    """Topic, partition and segment of every row, as runs.

    `topics` is the dictionary of the whole file. It only grows: Arrow files allow an addition to a
    dictionary, but no other one.
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
            None if place.topic is None else topics.setdefault(place.topic, len(topics))
            for place in places
        ]
        return {
            "topic": pa.DictionaryArray.from_arrays(
                spread(numbers, counts, pa.int32()), pa.array(list(topics), pa.string())
            ),
            "partition": spread([place.partition for place in places], counts, pa.int32()),
            "segment": spread([place.segment for place in places], counts, pa.int64()),
        }


#: What `kernels.spread` returns, in order: name, word of the type.
_SPREAD = (
    ("position", "int64"),
    ("magic", "int8"),
    ("codec", "int32"),
    ("offset", "int64"),
    ("timestamp_ms", "int64"),
    ("timestamp_type", "int32"),
    ("leader_epoch", "int32"),
    ("producer_id", "int64"),
    ("producer_epoch", "int16"),
    ("sequence", "int32"),
    ("transactional", "int8"),
    ("layout", "int8"),
)
_MAGIC_2_ONLY = ("leader_epoch", "producer_id", "producer_epoch", "sequence")


class RecordFields:
    """What records say beside keys, values and headers."""

    def __init__(self) -> None:
        self._columns = [bytearray() for _ in _SPREAD]
        self._modern = True

    def add(self, batches: Columns, records: Columns, rows: array[int] | None) -> None:
        """Take some records."""
        modern, pieces = kernels.spread(batches, records, rows)
        self._modern = self._modern and modern
        for column, piece in zip(self._columns, pieces, strict=True):
            column += piece

    def arrays(self, count: int) -> dict[str, Array]:
        """Return the columns; what a record's version does not have is null."""
        import pyarrow as pa

        found = {
            name: pa.Array.from_buffers(arrow_type(word), count, [None, buffer(column)])
            for (name, word), column in zip(_SPREAD, self._columns, strict=True)
        }
        layouts = found.pop("layout")
        found["codec"] = _dictionary(found["codec"], _CODECS)
        found["timestamp_type"] = _dictionary(found["timestamp_type"], _TIMESTAMP_TYPES)
        found["transactional"] = self._transactional(found["transactional"])
        if not self._modern:
            import pyarrow.compute as pc

            modern, timed = pc.equal(layouts, 2), pc.not_equal(layouts, 0)
            for name in _MAGIC_2_ONLY:
                found[name] = only_where(modern, found[name])
            for name in ("timestamp_ms", "timestamp_type"):
                found[name] = only_where(timed, found[name])
        return found

    def _transactional(self, numbers: Array) -> Array:
        """Make truth values of 0 and 1; a cast imports all of Arrow's functions."""
        import pyarrow as pa

        column = self._columns[[name for name, _ in _SPREAD].index("transactional")]
        for value in (False, True):
            if column.count(value) == len(column):
                return pa.repeat(pa.scalar(value), len(column))
        return numbers.cast(pa.bool_())


class BatchColumns:
    """Columns of batches that are rows themselves."""

    def __init__(self) -> None:
        self._pieces: list[list[Array]] = [[] for _ in range(BATCH_WIDTH)]

    def add(self, batches: Columns, rows: array[int] | None) -> None:
        """Take some batches."""
        for column, pieces in enumerate(self._pieces):
            values = batches.column(column)
            kept = values if rows is None else array("q", [values[row] for row in rows])
            pieces.append(int64s(bytes(kept)))

    def arrays(self) -> dict[int, Array]:
        """Return the columns by number."""
        import pyarrow as pa

        return {column: joined(pieces, pa.int64()) for column, pieces in enumerate(self._pieces)}


class BytesColumn:
    """Keys or values: one offsets buffer, one of bytes, and the nulls."""

    def __init__(self, position_column: int, size_column: int) -> None:
        self._columns = (position_column, size_column)
        self._offsets = bytearray(4)
        # Pieces, joined once: a buffer that grows is copied many times over.
        self._values: list[bytearray] = []
        self.size_bytes = 0
        self._valid: list[tuple[int, bytearray | None]] = []
        self._nulls = 0

    def add(self, data: bytes | bytearray | memoryview, records: Columns, rows: Any) -> None:
        """Copy the key or value of each record."""
        offsets, values, validity, nulls = kernels.gather(
            data, records, rows, *self._columns, self.size_bytes
        )
        self._offsets += memoryview(offsets)[4:]
        self._values.append(values)
        self.size_bytes += len(values)
        self._valid.append((len(offsets) // 4 - 1, validity if nulls else None))
        self._nulls += nulls

    def array(self) -> Array:
        """Return the column."""
        import pyarrow as pa

        count = len(self._offsets) // 4 - 1
        validity = self._validity() if self._nulls else None
        values, self._values = self._values, []
        whole = values[0] if len(values) == 1 else b"".join(values)
        del values  # a value may be as large as the decompression limit; once is enough
        buffers = [validity, buffer(self._offsets), buffer(whole)]
        return pa.Array.from_buffers(pa.binary(), count, buffers, self._nulls)

    def _validity(self) -> Array:
        """Join the bitmaps, which do not end at whole bytes."""
        import pyarrow as pa

        pieces = [
            pa.repeat(pa.scalar(value=True), count)
            if bitmap is None
            else pa.Array.from_buffers(pa.bool_(), count, [None, buffer(bitmap)])
            for count, bitmap in self._valid
        ]
        return joined(pieces, pa.bool_()).buffers()[1]


class HeadersColumn:
    """Headers: a list of pairs for each record. Records without any cost nothing."""

    def __init__(self) -> None:
        self._pieces: list[Array] = []
        self._empty = 0
        self.size_bytes = 0

    def add(self, data: bytes | bytearray | memoryview, records: Columns, rows: Any) -> None:
        """Copy the headers of each record."""
        import pyarrow as pa

        lists, (key_ends, keys), (ends, values, validity, nulls) = kernels.gather_headers(
            data, records, rows
        )
        count, inside = len(lists) // 4 - 1, len(key_ends) // 4 - 1
        if not inside:
            self._empty += count
            return
        self._settle()
        self.size_bytes += len(keys) + len(values)
        names = pa.Array.from_buffers(pa.string(), inside, [None, buffer(key_ends), buffer(keys)])
        contents = pa.Array.from_buffers(
            pa.binary(),
            inside,
            [buffer(validity) if nulls else None, buffer(ends), buffer(values)],
            nulls,
        )
        kind = arrow_type("headers")
        pairs = pa.StructArray.from_arrays([_utf8(names), contents], fields=list(kind.value_type))
        self._pieces.append(
            pa.ListArray.from_buffers(kind, count, [None, buffer(lists)], children=[pairs])
        )

    def _settle(self) -> None:
        if self._empty:
            import pyarrow as pa

            kind = arrow_type("headers")
            offsets = buffer(bytes(4 * (self._empty + 1)))
            none = pa.array([], kind.value_type)
            self._pieces.append(
                pa.ListArray.from_buffers(kind, self._empty, [None, offsets], children=[none])
            )
            self._empty = 0

    def array(self) -> Array:
        """Return the column."""
        self._settle()
        return joined(self._pieces, arrow_type("headers"))


def _utf8(names: Array) -> Array:
    """Return header keys as they are, or with what is no UTF-8 replaced."""
    import pyarrow as pa

    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        plain = names.cast(pa.binary()).to_pylist()
        return pa.array([name.decode("utf-8", "replace") for name in plain], pa.string())
    return names


def codecs(attributes: Array) -> Array:
    """Name the codec in each attributes field."""
    return _named(attributes, 0, 7, _CODECS)


def timestamp_types(attributes: Array, layouts: Array) -> Array:
    """Name the timestamp type in each attributes field; magic 0 has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    named = _named(attributes, 3, 1, _TIMESTAMP_TYPES)
    return pc.if_else(pc.equal(layouts, 0), pa.scalar(None, named.type), named)


def _named(attributes: Array, shift: int, mask: int, words: tuple[str, ...]) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return _dictionary(
        pc.bit_wise_and(pc.shift_right(attributes, shift), mask).cast(pa.int32()), words
    )


def _dictionary(numbers: Array, words: tuple[str, ...]) -> Array:
    """Stand words in for their numbers, which the caller knows to be in range."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(numbers, pa.array(words, pa.string()), safe=False)


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
    """Return values where the condition holds and null elsewhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(condition, values, pa.scalar(None, values.type))
