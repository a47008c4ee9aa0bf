"""Gather rows of each kind until there are enough for one Arrow record batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kdump.findings.escape import json_text
from kdump.findings.rows import BatchChunk, Place, RecordChunk
from kdump.findings.schema import BATCH
from kdump.kernels import columns as c
from kdump.kernels.gather_buffers import header_name
from kdump.kernels.layout import CODEC_MASK
from kdump.kernels.members import codec_name
from kdump.output import arrow_columns as ac
from kdump.output.arrow_schema import arrow_type
from kdump.output.escape import name_text

#: Columns whose text is a name that may be no UTF-8; a topic is spelled where it is gathered.
_NAMES = frozenset(("path", "file"))


class GatheredRows:
    """Rows that come one by one, as messages of 0.7 and entries of small files do."""

    def __init__(self, types: dict[str, str], topics: dict[str, int]) -> None:
        self.count = 0
        self.size_bytes = 0
        self._types = types
        self._topics = topics
        self._columns: dict[str, list[object]] = {name: [] for name in types}

    def add(self, fields: Mapping[str, object]) -> None:
        """Take one row."""
        self.count += 1
        for name, column in self._columns.items():
            value = fields.get(name)
            if isinstance(value, (bytes, str)):
                self.size_bytes += len(value)
            column.append(_fit(self._types[name], value, is_name=name in _NAMES))

    def arrays(self) -> dict[str, ac.Array]:
        """Return all columns."""
        import pyarrow as pa

        arrays = {
            name: ac.words(name, column)
            if name in ac.WORDS
            else pa.array(column, arrow_type(self._types[name]))
            for name, column in self._columns.items()
            if name != "topic"
        }
        if "topic" in self._columns:
            places = ac.PlaceColumns(self._topics)
            for topic in self._columns["topic"]:
                places.add(Place(str(topic) if topic is not None else None, None, None, ""), 1)
            arrays["topic"] = places.arrays()["topic"]
        return arrays


def _fit(word: str, value: object, *, is_name: bool) -> object:
    """Return a value in the form its column takes."""
    if is_name and isinstance(value, str):
        return name_text(value)
    if word == "list<string>" and isinstance(value, Sequence):
        return [_fit("string", each, is_name=is_name) for each in value]
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if word == "headers" and isinstance(value, Sequence):
        return [{"key": header_name(key).decode(), "value": data} for key, data in value]
    if isinstance(value, int) and word == "int64" and not -(1 << 63) <= value < 1 << 63:
        return None  # no field of a file is larger; sums of hostile ones can be
    if word in ("string", "json") and value is not None and not isinstance(value, str):
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else json_text(value)
    return value


class GatheredRecords:
    """Records of chunks; what they point to is copied when they are added."""

    def __init__(self, topics: dict[str, int], columns: ac.RecordColumns) -> None:
        self._place = ac.PlaceColumns(topics)
        self._columns = columns
        self._controls: list[tuple[int, list[object] | None]] = []
        self._marks: dict[int, int] = {}  # flags of the few records that have a mark
        columns.clear()

    @property
    def count(self) -> int:
        """How many records are held."""
        return self._columns.count

    def add(self, chunk: RecordChunk, first: int) -> int:
        """Take records, from the `first`th on; return how many there was room for."""
        taken = self._columns.add(chunk, first)
        if taken:
            self._place.add(chunk.place, taken)
            self._add_controls(taken, chunk, first)
            if chunk.may_have_marks:
                before = self.count - taken
                for at, number in enumerate(chunk.numbers[first : first + taken], before):
                    if chunk.records.flags_of(number) & c.INNER_MARKS:
                        self._marks[at] = chunk.records.flags_of(number)
        return taken

    def add_alone(self, chunk: RecordChunk, nth: int) -> int:
        """Take one record that needs more room than there is when all is empty."""
        self._columns.make_room(chunk, nth)
        return self.add(chunk, nth)

    def let_go(self) -> None:
        """Give back the room made for a record on its own."""
        self._columns.clear()

    def _add_controls(self, count: int, chunk: RecordChunk, first: int) -> None:
        """Note what records say that are control records; chunks without any are noted as one."""
        written = _controls(chunk)
        if written is not None:
            written = written[first : first + count]
        elif self._controls and self._controls[-1][1] is None:
            count += self._controls.pop()[0]
        self._controls.append((count, written))

    def arrays(self) -> dict[str, ac.Array]:
        """Return all columns but those that are null here."""
        import pyarrow as pa

        arrays = self._place.arrays() | self._columns.arrays()
        first = 0
        written = []
        for count, texts in self._controls:
            markers = arrays["control"].slice(first, count)
            written.append(markers if texts is None else pa.array(texts, pa.string()))
            first += count
        arrays["control"] = ac.join(written, pa.string())
        if self._marks:
            flags = [self._marks.get(at, 0) for at in range(self.count)]
            arrays["crc_valid"] = pa.array(
                [False if each & c.INNER_CRC_BAD else None for each in flags], pa.bool_()
            )
            codecs = (each >> c.INNER_CODEC_SHIFT & CODEC_MASK for each in flags)
            arrays["inner_codec"] = ac.words(
                "inner_codec", [codec_name(codec) if codec else None for codec in codecs]
            )
        return arrays


def _controls(chunk: RecordChunk) -> list[object] | None:
    controls = chunk.controls
    if controls is None:
        return None
    written: list[object] = [
        None if control is None else json_text(control) for control in controls
    ]
    return written if chunk.rows is None else [written[row] for row in chunk.rows]


class GatheredBatches:
    """Batch chunks."""

    size_bytes = 0

    def __init__(self, topics: dict[str, int]) -> None:
        self.count = 0
        self._place = ac.PlaceColumns(topics)
        self._batches = ac.BatchColumns()

    def add(self, chunk: BatchChunk) -> None:
        """Take a chunk."""
        self.count += len(chunk)
        self._place.add(chunk.place, len(chunk))
        self._batches.add(chunk.batches, chunk.rows)

    def arrays(self) -> dict[str, ac.Array]:
        """Return all columns but those that are null here."""
        import pyarrow.compute as pc

        of = self._batches.arrays()
        layouts, attributes, flags = of["layout"], of["attributes"], of["flags"]
        modern, timed = ac.has(layouts, "has_producer_fields"), ac.has(layouts, "has_timestamps")
        horizon = pc.and_(modern, ac.bit(attributes, 6))
        closed = pc.and_(
            pc.not_equal(pc.bit_wise_and(flags, c.WRAPPER), 0), pc.less(of["records_count"], 0)
        )
        deltas = pc.subtract(of["last_offset"], of["base_offset"])
        opened, base_time = pc.invert(closed), of["base_timestamp"]
        present = (None, timed, modern)
        stored = {
            field.name: ac.only_where(present[field.since], of[field.column])
            for field in BATCH
            if field.column
        }
        return (
            self._place.arrays()
            | stored
            | {
                "codec": ac.codecs(attributes),
                "base_offset": ac.only_where(opened, of["base_offset"]),
                "records_count": ac.only_where(opened, of["records_count"]),
                "crc_valid": pc.equal(pc.bit_wise_and(flags, c.CRC_BAD), 0),
                "timestamp_type": ac.timestamp_types(attributes, timed),
                "base_timestamp_ms": ac.only_where(pc.and_(timed, pc.invert(horizon)), base_time),
                "last_sequence": ac.only_where(
                    modern, ac.sequences_from(of["base_sequence"], deltas)
                ),
                "transactional": pc.and_(modern, ac.bit(attributes, 4)),
                "control": pc.and_(modern, ac.bit(attributes, 5)),
                "delete_horizon_ms": ac.only_where(horizon, base_time),
            }
        )
