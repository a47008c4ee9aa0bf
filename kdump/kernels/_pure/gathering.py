"""Gather records into buffers that become Arrow columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kdump.kernels import columns as c
from kdump.kernels import gather_buffers as g
from kdump.kernels._pure.layout import view_of
from kdump.kernels._pure.records import batch_row
from kdump.kernels._pure.text import control_text, has_time, headers_of, row_numbers, span_of
from kdump.kernels.columns import DecodedRecords, RecordBatches
from kdump.kernels.gather_buffers import header_name
from kdump.kernels.layout import CODEC_MASK, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, format_at, int64
from kdump.kernels.members import sequence_at

if TYPE_CHECKING:
    from kdump.kernels._pure.layout import Data, Row, Rows
    from kdump.kernels.gather_buffers import GatherBuffers


def _narrow(value: int, bits: int) -> bytes:
    """Write the lowest bits of a number; only senseless columns lose any."""
    return (value & (1 << bits) - 1).to_bytes(bits // 8, sys.byteorder)


class _Room:
    """The buffers of a Gathered while rows are added to it."""

    def __init__(self, gathered: GatherBuffers) -> None:
        self.buffers = gathered.buffers
        self.copies = gathered.copies
        self.counts = gathered.counts
        rooms: list[list[int]] = [[], []]
        self.bits = gathered.bits
        for number, bits in enumerate(self.bits):
            if bits:
                items = len(self.buffers[number]) * 8 // bits - (number in g.ENDS)
                rooms[number in g.OF_HEADERS].append(items)
        self.rows, self.headers = min(rooms[0]), min(rooms[1])
        if self.counts[g.N_ROWS] > self.rows or self.counts[g.N_HEADERS] > self.headers:
            raise ValueError(gathered)

    def number(self, buffer: int, at: int, value: int) -> None:
        size = self.bits[buffer] // 8
        self.buffers[buffer][size * at : size * (at + 1)] = _narrow(value, 8 * size)

    def end(self, buffer: int, at: int) -> int:
        """Return where item `at - 1` ends."""
        if not at:
            self.number(buffer, 0, 0)
        return int.from_bytes(self.buffers[buffer][4 * at : 4 * at + 4], sys.byteorder)

    def bit(self, buffer: int, at: int, value: bool) -> None:
        mask = 1 << (at & 7)
        whole = self.buffers[buffer]
        whole[at >> 3] = whole[at >> 3] | mask if value else whole[at >> 3] & ~mask

    def bytes(self, buffer: int, ends: int, at: int, piece: bytes | memoryview) -> bool:
        """Add item `at` of a column of bytes; False: there is no room."""
        start = self.end(ends, at)
        if len(piece) > len(self.buffers[buffer]) - start:
            return False
        self.buffers[buffer][start : start + len(piece)] = piece
        self.number(ends, at + 1, start + len(piece))
        return True


def gather(
    gathered: GatherBuffers,
    data: Data,
    batches: RecordBatches,
    records: DecodedRecords,
    rows: Rows,
    first: int,
) -> int:
    """Add records to the buffers of an Arrow record batch, from the `first`th row number on.

    Returns how many there was room for. A key or value of size -1, or that is not inside `data`, is
    null. What each buffer holds is said in `gathered`.
    """
    view = view_of(data)
    numbers = row_numbers(records, rows)
    room = _Room(gathered)
    taken = 0
    for row in numbers[max(first, 0) :]:
        batch = batch_row(batches, records.batch(row))
        if room.counts[g.N_ROWS] == room.rows or not _gather_row(room, view, batch, records, row):
            break
        taken += 1
    return taken


def _gather_row(
    room: _Room, view: memoryview, batch: Row, records: DecodedRecords, row: int
) -> bool:
    """Add one record; False: there is no room, and nothing was added."""
    counts = room.counts
    at, header = counts[g.N_ROWS], counts[g.N_HEADERS]
    key = span_of(view, records.value(c.R_KEY, row), records.key_size(row))
    value = span_of(view, records.value(c.R_VALUE, row), records.value_size(row))
    if not room.bytes(g.G_KEYS, g.G_KEY_ENDS, at, key or b""):
        return False
    if not room.bytes(g.G_VALUES, g.G_VALUE_ENDS, at, value or b""):
        return False
    control = control_text(view, records.row(row)).encode()
    if not room.bytes(g.G_CONTROLS, g.G_CONTROL_ENDS, at, control):
        return False
    contents_null = 0
    for name, name_size, content, content_size in headers_of(view, records.row(row)):
        inside = span_of(view, content, content_size)
        text = header_name(view[name:][:name_size])
        if (
            header == room.headers
            or not room.bytes(g.G_NAMES, g.G_NAME_ENDS, header, text)
            or not room.bytes(g.G_CONTENTS, g.G_CONTENT_ENDS, header, inside or b"")
        ):
            return False
        room.bit(g.G_CONTENT_VALID, header, inside is not None)
        contents_null += inside is None
        header += 1
    room.end(g.G_LISTS, at)
    room.number(g.G_LISTS, at + 1, header)
    room.bit(g.G_KEY_VALID, at, key is not None)
    room.bit(g.G_VALUE_VALID, at, value is not None)
    room.bit(g.G_CONTROL_VALID, at, bool(control))
    attributes = batch[c.B_ATTRIBUTES]
    read = format_at(batch[c.B_LAYOUT])
    modern = read.has_producer_fields
    timed = has_time(batch, records.flags_of(row))
    sequence = -1
    if modern:
        sequence = sequence_at(
            batch[c.B_BASE_SEQUENCE], int64(records.offset(row) - batch[c.B_BASE_OFFSET])
        )
    room.number(g.G_CODEC, at, attributes & CODEC_MASK)
    room.number(g.G_TIMESTAMP_TYPE, at, bool(attributes & TIMESTAMP_TYPE_BIT))
    room.number(g.G_SEQUENCE, at, sequence)
    for buffer, (column, of_record, _) in enumerate(room.copies, g.GATHERED_WIDTH):
        room.number(buffer, at, records.value(column, row) if of_record else batch[column])
    room.bit(g.G_TRANSACTIONAL, at, bool(attributes & read.meant_bits & TRANSACTIONAL_BIT))
    room.bit(g.G_MODERN, at, modern)
    room.bit(g.G_TIMED, at, timed)
    counts[g.N_ROWS] = at + 1
    counts[g.N_HEADERS] = header
    counts[g.N_KEYS_NULL] += key is None
    counts[g.N_VALUES_NULL] += value is None
    counts[g.N_CONTENTS_NULL] += contents_null
    counts[g.N_OLD] += not modern
    counts[g.N_UNTIMED] += not timed
    counts[g.N_CONTROLS_NULL] += not control
    return True


def room_for(data: Data, records: DecodedRecords, row: int) -> tuple[int, int, int, int, int]:
    """Return what `gather` needs for one record: headers; bytes of key, value, names, contents."""
    if not 0 <= row < records.count:
        raise IndexError(row)
    view = view_of(data)
    headers = names = contents = 0
    for name, name_size, content, content_size in headers_of(view, records.row(row)):
        headers += 1
        names += len(header_name(view[name:][:name_size]))
        contents += len(span_of(view, content, content_size) or b"")
    key = span_of(view, records.value(c.R_KEY, row), records.key_size(row))
    value = span_of(view, records.value(c.R_VALUE, row), records.value_size(row))
    return headers, len(key or b""), len(value or b""), names, contents
