"""What each kernel function means, with expectations worked out by hand; for both twins."""

import base64
import json
import random
import struct
from array import array
from types import ModuleType

import pytest
from builders import (
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    ZSTD,
    batch,
    marker,
    message,
    record,
    resealed,
    unsigned_varint,
    varint,
    wrapper,
)
from damage import cut, flip, put

from kdump.kernels import columns as c
from kdump.kernels import gathered as g
from kdump.kernels import reasons
from kdump.kernels.columns import Columns, RecordBatches
from kdump.kernels.gathered import Gathered

LAST = (1 << 63) - 1
MANY = 1 << 30

# Two entries as brokers wrote them: 4.1.1, the first batch of a metadata log (LEADER_CHANGE), and
# 0.10.2.2, a plain message.
BATCH_4_1 = bytes.fromhex(
    "0000000000000000 0000004f 00000001 02 187c162e 0020 00000000 000001a1fb6e74c0 000001a1fb6e74c0"
    "ffffffffffffffff ffff ffffffff 00000001"
    "3a 00 00 00 08 00000002 26 00000000000102000000010002000000010000 00"
)
MESSAGE_0_10 = (
    bytes.fromhex(
        "0000000000000000 0000004b 7ca60154 01 00 00000136ba71b56f 00000007 6b65792d303337 0000002e"
    )
    + b"lorem aliqua dolor dolore labore et incididunt"
)


def walk(kernel: ModuleType, data: bytes, last_offset: int = -1, base: int = 0) -> Columns:
    """Walk data that must be used up."""
    batches, stop, reason = kernel.walk(data, 0, len(data), base, last_offset, True, MANY)
    assert (stop, reason) == (len(data), reasons.END)
    return batches


def decode(kernel: ModuleType, data: bytes) -> tuple[Columns, Columns]:
    """Walk and decode data that must be sound and plain."""
    batches = walk(kernel, data)
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 0, MANY)
    assert (behind, stop, reason) == (batches.count, len(data), reasons.END)
    return batches, records


def decode_payload(
    kernel: ModuleType, payload: bytes, count: int = 1, max_records: int = MANY
) -> tuple[Columns, int, int]:
    batches = walk(kernel, batch([], records_count=count, payload=payload))
    result: tuple[Columns, int, int] = kernel.decode_records(
        payload, 0, len(payload), batches, 0, 0, max_records
    )
    return result


def lines(kernel: ModuleType, data: bytes, mode: int = c.BYTES_AUTO) -> list[dict[str, object]]:
    batches, records = decode(kernel, data)
    pieces: list[bytes] = []
    count = kernel.format_records(pieces.append, data, batches, records, None, b"", mode)
    rows = [json.loads(line) for line in b"".join(pieces).splitlines()]
    assert count == len(rows) == records.count
    return rows


# Walk --------------------------------------------------------------------------------------------


def test_walk_batch_of_a_broker(kernel: ModuleType) -> None:
    batches = walk(kernel, BATCH_4_1, base=1000)
    assert batches.rows() == [
        (
            1000,  # position
            91,
            2,
            0x20,
            0,  # base offset
            0,
            1,  # records count
            0x187C162E,
            0x187C162E,
            1,  # leader epoch
            0x1A1FB6E74C0,
            0x1A1FB6E74C0,
            -1,  # producer id
            -1,
            -1,
            c.CONTROL,
            2,
        )
    ]
    assert batches.flags == c.CONTROL


def test_walk_message_of_a_broker(kernel: ModuleType) -> None:
    (row,) = walk(kernel, MESSAGE_0_10).rows()
    time = 0x136BA71B56F
    crc = 0x7CA60154
    assert row == (0, 87, 1, 0, 0, 0, 1, crc, crc, -1, time, time, -1, -1, -1, 0, 1)


def test_walk_nothing(kernel: ModuleType) -> None:
    batches, stop, reason = kernel.walk(b"", 0, 0, 0, -1, True, 5)
    assert (batches.rows(), batches.flags, stop, reason) == ([], 0, 0, reasons.END)
    assert list(batches.row_flags) == []


def test_walk_tail_of_17_bytes_is_short_and_of_18_is_read(kernel: ModuleType) -> None:
    one = batch()
    for tail, expected in (
        (bytes(1), reasons.SHORT_TAIL),
        (bytes(17), reasons.SHORT_TAIL),
        (bytes(18), reasons.LENGTH_TOO_SMALL),
        (struct.pack(">qi", 1, 13) + bytes(20), reasons.LENGTH_TOO_SMALL),
        (struct.pack(">qi", 1, -1) + bytes(20), reasons.LENGTH_TOO_SMALL),
        (struct.pack(">qi", 1, 14) + bytes(13), reasons.CUT_SHORT),
        (struct.pack(">qi", 1, 0x7FFFFFFF) + bytes(20), reasons.CUT_SHORT),
    ):
        data = one + tail
        batches, stop, reason = kernel.walk(data, 0, len(data), 0, -1, True, MANY)
        assert (batches.count, stop, reason) == (1, len(one), expected)


def test_walk_full_is_seen_before_the_bytes_and_end_before_full(kernel: ModuleType) -> None:
    data = batch() + batch(base_offset=1) + b"torn"
    batches, stop, reason = kernel.walk(data, 0, len(data), 0, -1, True, 2)
    assert (batches.count, stop, reason) == (2, len(data) - 4, reasons.FULL)
    batches, stop, reason = kernel.walk(data, 0, stop, 0, -1, True, 2)
    assert (batches.count, reason) == (2, reasons.END)
    batches, stop, reason = kernel.walk(data, 0, len(data), 0, -1, True, 0)
    assert (batches.count, stop, reason) == (0, 0, reasons.FULL)


def test_walk_end_is_the_end_of_the_file(kernel: ModuleType) -> None:
    data = batch() * 2
    half = len(data) // 2
    batches, stop, reason = kernel.walk(data, 0, half + 20, 0, -1, True, MANY)
    assert (batches.count, stop, reason) == (1, half, reasons.CUT_SHORT)
    batches, stop, reason = kernel.walk(memoryview(data), half, 1 << 40, 7, -1, True, MANY)
    assert batches.position(0) == half + 7


def test_walk_flags_a_wrong_crc_and_shows_both(kernel: ModuleType) -> None:
    good = batch()
    batches = walk(kernel, flip(good, 70))
    assert batches.flags == c.CRC_BAD
    assert batches.crc(0) == int.from_bytes(good[17:21], "big")
    assert batches.computed_crc(0) != batches.crc(0)
    unchecked, _, _ = kernel.walk(flip(good, 70), 0, len(good), 0, -1, False, 1)
    assert unchecked.flags == 0
    assert unchecked.computed_crc(0) == unchecked.crc(0)


def test_walk_leader_epoch_is_outside_the_crc(kernel: ModuleType) -> None:
    batches = walk(kernel, batch(leader_epoch=-5))
    assert (batches.flags, batches.leader_epoch(0)) == (0, -5)


def test_walk_offsets_must_rise(kernel: ModuleType) -> None:
    two = [record(0), record(1)]
    data = batch(two, base_offset=10) + batch(two, base_offset=11) + batch(two, base_offset=12)
    flags = list(walk(kernel, data).row_flags)
    assert flags == [0, c.OFFSET_NOT_RISING, c.OFFSET_NOT_RISING]
    assert walk(kernel, batch(base_offset=5), last_offset=4).flags == 0
    assert walk(kernel, batch(base_offset=5), last_offset=5).flags == c.OFFSET_NOT_RISING
    assert walk(kernel, message(5), last_offset=5).flags == c.OFFSET_NOT_RISING
    assert walk(kernel, batch(base_offset=-1)).flags == c.OFFSET_NOT_RISING


def test_walk_last_offset_wraps(kernel: ModuleType) -> None:
    batches = walk(kernel, batch(base_offset=LAST, last_offset_delta=1))
    assert batches.last_offset(0) == -LAST - 1
    assert batches.flags == c.OFFSET_NOT_RISING


@pytest.mark.parametrize(
    ("count", "delta", "expected"),
    [
        (1, 0, 0),
        (0, 0, 0),
        (0, 7, 0),
        (2, 7, 0),
        (9, 7, c.DELTA_COUNT),
        (-1, 7, c.DELTA_COUNT),
        (-0x80000000, 0, c.DELTA_COUNT),
        (1, -1, c.DELTA_COUNT | c.OFFSET_NOT_RISING),
        (0x7FFFFFFF, 0x7FFFFFFF, 0),
    ],
)
def test_walk_count_against_delta(
    kernel: ModuleType, count: int, delta: int, expected: int
) -> None:
    data = batch([], records_count=count, last_offset_delta=delta)
    assert walk(kernel, data).flags == expected


@pytest.mark.parametrize(
    ("attributes", "flags"),
    [
        (0, 0),
        (ZSTD, c.COMPRESSED),
        (5, c.COMPRESSED | c.CODEC_UNKNOWN),
        (7, c.COMPRESSED | c.CODEC_UNKNOWN),
        (TRANSACTIONAL, c.TRANSACTIONAL),
        (TRANSACTIONAL | CONTROL, c.TRANSACTIONAL | c.CONTROL),
        (0xFF80, c.RESERVED),
    ],
)
def test_walk_attributes_of_magic_2(kernel: ModuleType, attributes: int, flags: int) -> None:
    batches = walk(kernel, batch(attributes=attributes))
    assert (batches.flags, batches.attributes(0)) == (flags, attributes)


def test_walk_wrapper(kernel: ModuleType) -> None:
    (row,) = walk(kernel, wrapper([message(0), message(1)], 11)).rows()
    assert (row[c.B_BASE_OFFSET], row[c.B_LAST_OFFSET], row[c.B_RECORDS_COUNT]) == (-1, 11, -1)
    assert (row[c.B_FLAGS], row[c.B_LAYOUT]) == (c.WRAPPER | c.COMPRESSED, 1)
    assert walk(kernel, wrapper([], 1, codec=ZSTD)).flags & c.CODEC_UNKNOWN


def test_walk_layout_follows_magic(kernel: ModuleType) -> None:
    for magic, layout, flags in (
        (0, 0, 0),
        (-1, 0, c.MAGIC_UNKNOWN),
        (-128, 0, c.MAGIC_UNKNOWN),
    ):
        (row,) = walk(kernel, message(magic=magic)).rows()
        assert (row[c.B_MAGIC], row[c.B_LAYOUT], row[c.B_FLAGS]) == (magic, layout, flags)
        assert row[c.B_MAX_TIMESTAMP] == -1
    (row,) = walk(kernel, batch(magic=7)).rows()
    assert (row[c.B_MAGIC], row[c.B_LAYOUT], row[c.B_FLAGS]) == (7, 2, c.MAGIC_UNKNOWN)


@pytest.mark.parametrize("magic", [2, 5, 127])
def test_walk_any_magic_over_a_v0_message(kernel: ModuleType, magic: int) -> None:
    for value in (b"short", b"v" * 100):  # smaller and larger than a v2 header
        data = message(9, magic=magic, layout=0, value=value)
        (row,) = walk(kernel, data).rows()
        assert (row[c.B_LAYOUT], row[c.B_FLAGS]) == (0, c.MAGIC_UNKNOWN)
        assert (row[c.B_BASE_OFFSET], row[c.B_MAGIC]) == (9, magic)
        assert decode(kernel, data)[1].value_size(0) == len(value)
        # Without the sums there is only magic to go by.
        unchecked, _, _ = kernel.walk(data, 0, len(data), 0, -1, False, 1)
        assert unchecked.layout(0) == 2


def test_walk_batch_too_small_shows_what_is_inside(kernel: ModuleType) -> None:
    whole = batch(base_offset=3, leader_epoch=4, base_timestamp=6, max_timestamp=7, producer_id=8)
    for size, delta, base_ms, max_ms, producer in (
        (26, False, -1, -1, -1),
        (27, True, -1, -1, -1),
        (35, True, 6, -1, -1),
        (43, True, 6, 7, -1),
        (51, True, 6, 7, 8),
        (60, True, 6, 7, 8),
    ):
        data = put(whole, 8, struct.pack(">i", size - 12))[:size]
        data = put(data, 21, struct.pack(">Hi", 0x11, 9)[: min(6, size - 21)])
        (row,) = walk(kernel, data).rows()
        assert row[c.B_FLAGS] == c.TOO_SMALL | c.CRC_BAD | c.COMPRESSED | c.TRANSACTIONAL
        assert row[c.B_BASE_OFFSET : c.B_RECORDS_COUNT + 1] == (3, 12 if delta else 3, -1)
        assert (row[c.B_COMPUTED_CRC], row[c.B_LEADER_EPOCH]) == (0, 4)
        assert row[c.B_BASE_TIMESTAMP : c.B_PRODUCER_ID + 1] == (base_ms, max_ms, producer)
    # 61 bytes are enough.
    assert walk(kernel, batch([])).flags == 0


def test_walk_message_too_small_for_its_timestamp(kernel: ModuleType) -> None:
    data = message(1, magic=1, layout=0, key=None, value=b"1234567")
    (row,) = walk(kernel, data).rows()
    assert (row[c.B_SIZE], row[c.B_FLAGS], row[c.B_MAX_TIMESTAMP]) == (33, c.TOO_SMALL, -1)
    (row,) = walk(kernel, message(1, None, None)).rows()
    assert (row[c.B_SIZE], row[c.B_FLAGS]) == (34, 0)


# Records of v2 -----------------------------------------------------------------------------------


def test_decode_record_of_a_broker(kernel: ModuleType) -> None:
    batches = walk(kernel, BATCH_4_1)
    records, stop, reason = kernel.decode_records(BATCH_4_1, 61, 91, batches, 0, 0, 10)
    assert (stop, reason) == (91, reasons.END)
    assert records.rows() == [(0, 61, 30, 0, 0x1A1FB6E74C0, 66, 4, 71, 19, 91, 0, 0)]


def test_decode_run_takes_what_is_plain(kernel: ModuleType) -> None:
    first = batch([record(0, 5), record(3, -5, None, b"")], base_offset=10, last_offset_delta=3)
    second = message(20, b"k", None, magic=0)
    third = batch([record(headers=[(b"a", b"1"), (b"", None)])], base_offset=30)
    data = first + batch([], base_offset=15) + second + third
    _batches, records = decode(kernel, data)
    rows = records.rows()
    assert [row[c.R_BATCH] for row in rows] == [0, 0, 2, 3]
    assert [row[c.R_OFFSET] for row in rows] == [10, 13, 20, 30]
    base = 1_700_000_000_000
    assert [row[c.R_TIMESTAMP] for row in rows] == [base + 5, base - 5, -1, base]
    assert [row[c.R_KEY_SIZE] for row in rows] == [3, -1, 1, 3]
    assert [row[c.R_VALUE_SIZE] for row in rows] == [5, 0, -1, 5]
    assert [row[c.R_HEADERS_COUNT] for row in rows] == [0, 0, 0, 2]
    assert sum(row[c.R_SIZE] for row in rows) == len(data) - 3 * 61
    row = rows[3]
    assert data[row[c.R_KEY] : row[c.R_KEY] + 3] == b"key"
    assert data[row[c.R_VALUE] : row[c.R_VALUE] + 5] == b"value"
    assert data[row[c.R_HEADERS] : row[c.R_HEADERS] + 6] == b"\x02a\x021\x00\x01"


@pytest.mark.parametrize(
    "other",
    [
        batch(attributes=GZIP, base_offset=1),
        marker(1, base_offset=1),
        flip(batch(base_offset=1), 65),
        batch(records_count=-1, base_offset=1),
        wrapper([message(0)], 1),
        message(1, magic=1, layout=0, key=None, value=b"1234567"),
    ],
)
def test_decode_run_stops_at_what_is_not_plain(kernel: ModuleType, other: bytes) -> None:
    first = batch()
    data = first + other + batch(base_offset=2)
    batches = walk(kernel, data)
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 0, MANY)
    assert (records.count, behind, stop, reason) == (1, 1, len(first), reasons.NOT_PLAIN)
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 2, MANY)
    assert (records.count, behind, stop, reason) == (1, 3, len(data), reasons.END)


def test_decode_run_of_bytes_that_are_not_there(kernel: ModuleType) -> None:
    data = batch()
    batches = walk(kernel, data)
    assert kernel.decode_run(data[:-1], 0, batches, 0, MANY)[1:] == (0, 0, reasons.NOT_PLAIN)
    assert kernel.decode_run(data, 1, batches, 0, MANY)[1:] == (0, -1, reasons.NOT_PLAIN)
    assert kernel.decode_run(data, -1, batches, 0, MANY)[1:] == (0, 1, reasons.NOT_PLAIN)


def test_decode_run_does_not_split_a_batch(kernel: ModuleType) -> None:
    three = [record(0), record(1), record(2)]
    first = batch(three)
    data = first + batch(three, base_offset=3)
    batches = walk(kernel, data)
    for most, count, behind, stop, why in (
        (6, 6, 2, len(data), reasons.END),
        (5, 3, 1, len(first), reasons.FULL),
        (3, 3, 1, len(first), reasons.FULL),
        (2, 0, 0, 0, reasons.FULL),
        (0, 0, 0, 0, reasons.FULL),
    ):
        records, *ending = kernel.decode_run(data, 0, batches, 0, most)
        assert (records.count, *ending) == (count, behind, stop, why)


def test_decode_run_gives_the_good_records_before_damage(kernel: ModuleType) -> None:
    good = record(0)
    bad = batch([good, record(1, length=3), record(2)], base_offset=1)
    data = batch() + bad + batch(base_offset=5)
    batches = walk(kernel, data)
    assert batches.flags == 0
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 0, MANY)
    assert (records.count, behind, reason) == (2, 1, reasons.RECORD_LENGTH)
    assert stop == len(batch()) + 61 + len(good)


def test_decode_run_does_not_believe_a_count(kernel: ModuleType) -> None:
    data = batch([record()], records_count=0x7FFFFFFF, last_offset_delta=0x7FFFFFFF)
    records, behind, stop, reason = kernel.decode_run(data, 0, walk(kernel, data), 0, 10)
    assert (records.count, behind, stop, reason) == (1, 0, len(data), reasons.RECORDS_MISSING)


def test_decode_records_in_pieces(kernel: ModuleType) -> None:
    data = batch([record(i, value=b"%d" % i) for i in range(10)])
    batches = walk(kernel, data)
    whole, _, _ = kernel.decode_records(data, 61, len(data), batches, 0, 0, 10)
    at, done, rows = 61, 0, []
    while True:
        records, at, reason = kernel.decode_records(data, at, len(data), batches, 0, done, 3)
        rows += records.rows()
        done += records.count
        if reason != reasons.FULL:
            break
        assert records.count == 3
    assert (reason, rows) == (reasons.END, whole.rows())


def test_decode_log_append_time(kernel: ModuleType) -> None:
    data = batch([record(0, 99)], attributes=LOG_APPEND_TIME, base_timestamp=5, max_timestamp=8)
    assert decode(kernel, data)[1].timestamp(0) == 8


def test_decode_wraps_as_a_long(kernel: ModuleType) -> None:
    data = batch([record(1, LAST)], base_offset=LAST, base_timestamp=LAST, last_offset_delta=0)
    (row,) = decode(kernel, data)[1].rows()
    assert (row[c.R_OFFSET], row[c.R_TIMESTAMP]) == (-LAST - 1, -2)


def body(*fields: bytes) -> bytes:
    inside = b"\0" + b"".join(fields)
    return varint(len(inside)) + inside


NO = varint(-1)
TEN = b"\xff" * 9


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (TEN + b"\x01", -LAST - 1),
        (b"\xfe" + TEN[1:] + b"\x01", LAST),
        (b"\xfe" + TEN[1:] + b"\x7f", LAST),  # bits above the 64th are lost
        (b"\x80" * 9 + b"\x7e", 0),
        (b"\x80" * 9 + b"\x00", 0),
        (b"\x81" + b"\x80" * 8 + b"\x00", -1),
    ],
)
def test_varlong_of_ten_bytes(kernel: ModuleType, delta: bytes, expected: int) -> None:
    data = batch([body(delta, b"\0", NO, NO, b"\0")], base_timestamp=0)
    assert decode(kernel, data)[1].timestamp(0) == expected


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (b"\xff\xff\xff\xff\x0f", -0x80000000),
        (b"\xfe\xff\xff\xff\x0f", 0x7FFFFFFF),
        (b"\xfe\xff\xff\xff\x7f", 0x7FFFFFFF),  # bits above the 32nd are lost
        (b"\x80\x80\x80\x80\x70", 0),
        (b"\x80\x80\x80\x80\x00", 0),
    ],
)
def test_varint_of_five_bytes(kernel: ModuleType, delta: bytes, expected: int) -> None:
    data = batch([body(b"\0", delta, NO, NO, b"\0")])
    assert decode(kernel, data)[1].offset(0) == expected


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", reasons.RECORDS_MISSING),
        (record() + b"\0", reasons.RECORDS_REMAINING),
        (record()[:-1], reasons.RECORD_CUT_SHORT),
        (b"\x80", reasons.RECORD_CUT_SHORT),
        (b"\x80\x80\x80\x80\x80\x01", reasons.VARINT_TOO_LONG),
        (varint(-1) + bytes(9), reasons.RECORD_LENGTH),
        (varint(-0x80000000) + bytes(9), reasons.RECORD_LENGTH),
        (varint(5) + bytes(5), reasons.RECORD_LENGTH),
        (varint(0x7FFFFFFF) + bytes(9), reasons.RECORD_CUT_SHORT),
        (body(TEN + b"\x81", b"\0", NO, NO, b"\0"), reasons.VARINT_TOO_LONG),
        (body(b"\0", b"\xff\xff\xff\xff\x8f", NO, NO, b"\0"), reasons.VARINT_TOO_LONG),
        (body(b"\0", b"\0", varint(9), NO, b"\0"), reasons.KEY_LENGTH),
        (body(b"\0", b"\0", varint(0x7FFFFFFF), NO, b"\0"), reasons.KEY_LENGTH),
        (body(b"\0", b"\0", NO, varint(2), b"\0"), reasons.VALUE_LENGTH),
        (body(b"\0", b"\0", NO, NO, varint(-1)), reasons.HEADER_COUNT),
        (body(b"\0", b"\0", NO, NO, varint(1)), reasons.HEADER_COUNT),
        (body(b"\0", b"\0", NO, NO, varint(1), NO), reasons.HEADER_KEY_LENGTH),
        (body(b"\0", b"\0", NO, NO, varint(1), varint(1)), reasons.HEADER_KEY_LENGTH),
        (body(b"\0", b"\0", NO, NO, varint(1), b"\0", varint(1)), reasons.HEADER_VALUE_LENGTH),
        (body(b"\0", b"\0", NO, NO, varint(1), b"\0"), reasons.RECORD_LENGTH_MISMATCH),
        (body(b"\0", b"\0", NO, NO, b"\0", b"\0"), reasons.RECORD_LENGTH_MISMATCH),
        (body(b"\0", b"\0", varint(1), b"k", b"\x80"), reasons.RECORD_LENGTH_MISMATCH),
        (body(b"\x80" * 5), reasons.RECORD_LENGTH_MISMATCH),
    ],
)
def test_decode_says_what_is_wrong(kernel: ModuleType, payload: bytes, reason: int) -> None:
    records, stop, why = decode_payload(kernel, payload)
    assert (records.count, why) == (int(stop > 0), reason)
    # The same behind a good record, whose bytes must not serve to fill the gap.
    good = record()
    records, stop, why = decode_payload(kernel, good + payload, 2)
    if reason != reasons.RECORDS_REMAINING:
        assert (records.count, stop, why) == (1, len(good), reason)


def test_decode_inner_length_is_held_against_the_record(kernel: ModuleType) -> None:
    one = body(b"\0", b"\0", NO, varint(20), b"\0")
    records, stop, reason = decode_payload(kernel, one + record(value=b"x" * 40), 2)
    assert (records.count, stop, reason) == (0, 0, reasons.VALUE_LENGTH)


def test_decode_any_negative_length_is_null(kernel: ModuleType) -> None:
    payload = body(b"\0", b"\0", varint(-2), varint(-0x80000000), b"\0")
    records, _, reason = decode_payload(kernel, payload)
    (row,) = records.rows()
    assert reason == reasons.END
    assert row[c.R_KEY : c.R_VALUE_SIZE + 1] == (0, -1, 0, -1)


def test_decode_counts(kernel: ModuleType) -> None:
    assert decode_payload(kernel, record(), -1)[1:] == (0, reasons.COUNT_NEGATIVE)
    # A batch without records is not looked into (F25).
    assert decode_payload(kernel, b"anything", 0)[1:] == (0, reasons.END)


# Messages of v0 and v1 ---------------------------------------------------------------------------


def test_decode_messages_with_slack(kernel: ModuleType) -> None:
    data = message(3, b"k", b"v", slack=b"slack")
    _, records = decode(kernel, data)
    assert records.rows() == [(0, 0, len(data), 3, 1_400_000_000_000, 30, 1, 35, 1, 0, 0, 0)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (struct.pack(">ii", 1, -1), reasons.KEY_LENGTH),
        (struct.pack(">ii", 0x7FFFFFFF, -1), reasons.KEY_LENGTH),
        (struct.pack(">ii", 0, 1), reasons.VALUE_LENGTH),
        (struct.pack(">ii", -1, 0x7FFFFFFF), reasons.VALUE_LENGTH),
        (struct.pack(">ii", -7, -9), reasons.END),
    ],
)
@pytest.mark.parametrize("magic", [0, 1])
def test_decode_message_lengths(kernel: ModuleType, fields: bytes, reason: int, magic: int) -> None:
    data = message(3, magic=magic, body=fields)
    records, behind, stop, why = kernel.decode_run(data, 0, walk(kernel, data), 0, MANY)
    good = reason == reasons.END
    assert (records.count, behind, stop, why) == (good, good, good * len(data), reason)
    inner, outer = data, walk(kernel, wrapper([], 3))
    records, stop, why = kernel.decode_messages(inner, 0, len(inner), outer, 0, 0, MANY)
    assert (records.count, stop, why) == (good, good * len(data), reason)


def test_inner_base(kernel: ModuleType) -> None:
    inner = message(0) + message(1) + message(4)
    for offset, magic, expected in (
        (104, 1, (100, 4, 3, reasons.END)),
        (4, 1, (0, 4, 3, reasons.END)),
        (0, 1, (0, 4, 3, reasons.END)),  # from old clients (F14)
        (3, 1, (-1, 4, 3, reasons.WRAPPER_OFFSET)),
        (3, 0, (0, 4, 3, reasons.END)),
        (104, 0, (0, 4, 3, reasons.END)),
    ):
        assert kernel.inner_base(inner, 0, len(inner), offset, magic) == expected


def test_inner_base_ends(kernel: ModuleType) -> None:
    one = message(7)
    for inner, expected in (
        (b"", (0, -1, 0, reasons.INNER_EMPTY)),
        (bytes(11), (0, -1, 0, reasons.INNER_EMPTY)),
        (cut(one, len(one) - 1), (0, -1, 0, reasons.INNER_EMPTY)),
        (bytes(12), (0, -1, 0, reasons.INNER_SIZE)),
        (one + bytes(11), (93, 7, 1, reasons.INNER_CUT_SHORT)),
        (one + one[:-1], (93, 7, 1, reasons.INNER_CUT_SHORT)),
        (one + bytes(12), (93, 7, 1, reasons.INNER_SIZE)),
    ):
        assert kernel.inner_base(inner, 0, len(inner), 100, 1) == expected
    wraps = message(-LAST - 1)
    assert kernel.inner_base(wraps, 0, len(wraps), LAST, 1)[0] == -1


def inner_records(
    kernel: ModuleType, outer: bytes, inner: bytes, base: int = 100
) -> tuple[list[tuple[int, ...]], int, int]:
    records, stop, reason = kernel.decode_messages(
        inner, 0, len(inner), walk(kernel, outer), 0, base, MANY
    )
    return records.rows(), stop, reason


def test_decode_messages_of_a_wrapper(kernel: ModuleType) -> None:
    first, second = message(0, b"a", b"b", timestamp=5), message(2, None, b"", timestamp=6)
    rows, stop, reason = inner_records(kernel, wrapper([], 102), first + second)
    assert (stop, reason) == (len(first + second), reasons.END)
    at = len(first)
    assert rows == [
        (0, 0, at, 100, 5, 30, 1, 35, 1, 0, 0, 1 << 8),
        (0, at, len(second), 102, 6, 0, -1, at + 34, 0, 0, 0, 1 << 8),
    ]


def test_decode_messages_timestamps(kernel: ModuleType) -> None:
    inner = message(0, timestamp=5) + message(1, magic=0)
    for outer, expected in (
        (wrapper([], 1, timestamp=9), [5, -1]),
        (wrapper([], 1, timestamp=9, attributes=LOG_APPEND_TIME), [9, -1]),
        (wrapper([], 1, magic=0, attributes=LOG_APPEND_TIME), [5, -1]),
    ):
        rows, _, _ = inner_records(kernel, outer, inner)
        assert [row[c.R_TIMESTAMP] for row in rows] == expected


def test_decode_messages_flags(kernel: ModuleType) -> None:
    inner = message(0) + message(1, magic=0) + message(2, crc=1) + message(3, magic=2)
    inner += message(4, magic=-1)
    rows, _, reason = inner_records(kernel, wrapper([], 9), inner)
    assert reason == reasons.END
    assert [row[c.R_FLAGS] for row in rows] == [
        1 << 8,
        c.INNER_MAGIC_OTHER,
        1 << 8 | c.INNER_CRC_BAD,
        2 << 8 | c.INNER_MAGIC_OTHER,
        3 << 8 | c.INNER_MAGIC_OTHER,
    ]


def test_decode_messages_ends(kernel: ModuleType) -> None:
    one = message(0)
    for tail, expected in (
        (b"", reasons.END),
        (bytes(11), reasons.INNER_CUT_SHORT),
        (bytes(12), reasons.INNER_SIZE),
        (one[:-1], reasons.INNER_CUT_SHORT),
        (message(1, magic=1, layout=0, key=None, value=b"1234567"), reasons.INNER_SIZE),
        (message(1, attributes=GZIP), reasons.INNER_COMPRESSED),
        (struct.pack(">qi", 0, 0x7FFFFFFF) + bytes(40), reasons.INNER_CUT_SHORT),
    ):
        rows, stop, reason = inner_records(kernel, wrapper([], 9), one + tail)
        assert (len(rows), stop, reason) == (1, len(one), expected)


def test_decode_messages_in_pieces(kernel: ModuleType) -> None:
    inner = b"".join(message(i) for i in range(5))
    batches = walk(kernel, wrapper([], 4))
    records, stop, reason = kernel.decode_messages(inner, 0, len(inner), batches, 0, 0, 4)
    assert (records.count, reason) == (4, reasons.FULL)
    records, stop, reason = kernel.decode_messages(inner, stop, len(inner), batches, 0, 0, 4)
    assert (records.count, stop, reason) == (1, len(inner), reasons.END)


# Search ------------------------------------------------------------------------------------------


def test_resync_finds_the_next_valid_entry(kernel: ModuleType) -> None:
    for good in (batch(base_offset=50), message(50), message(50, magic=0), wrapper([], 50)):
        for junk in (b"", b"x" * 5000, bytes(10_000), bytes(4096) + b"\1" * 8190):
            data = junk + good + bytes(40)
            found = (len(junk), len(junk + good))
            assert kernel.resync(data, 0, len(data), 0, 49, 51, MANY) == (*found, True)
            assert kernel.resync(data, 0, len(data), 0, 50, 99, MANY)[0] == -1
            assert kernel.resync(data, 0, len(data), 0, 0, 50, MANY)[0] == -1
            assert kernel.resync(data, 0, len(junk + good) - 1, 0, 49, 51, MANY)[0] == -1
            assert kernel.resync(data, len(junk) + 1, len(data), 0, 49, 51, MANY)[0] == -1


def test_resync_leaves_sums_to_the_caller(kernel: ModuleType) -> None:
    """Of entries that cover much, and of those whose end is not at hand; right or wrong."""
    for good in (batch(base_offset=50), message(50)):
        start = 16 if good[16] < 2 else 21
        for entry in (good, flip(good, len(good) - 1)):
            data = b"x" * 100 + entry + b"x" * 100
            found = (100, 100 + len(entry), False)
            covers = len(entry) - start
            assert kernel.resync(data, 0, len(data), 0, 0, 99, covers - 1) == found
            right = kernel.resync(data, 0, len(data), 0, 0, 99, covers)
            assert (right[0] == 100) == right[2] == (entry == good)
        long = message(50, value=bytes(500)) if start == 16 else batch([record(value=bytes(500))])
        data = b"x" * 100 + long
        known = 200
        assert kernel.resync(data, 0, known, len(data) - known, -1, 99, MANY) == (
            100,
            len(data),
            False,
        )
        assert kernel.resync(data, 0, known, len(data) - known - 1, -1, 99, MANY)[0] == -1


def test_resync_says_where_it_needs_more(kernel: ModuleType) -> None:
    data = b"x" * 100 + batch(base_offset=50)[:65]
    assert kernel.resync(data, 0, len(data), 1000, 0, 99, MANY) == (-1, 100, False)
    assert kernel.resync(data, 120, len(data), 1000, 0, 99, MANY) == (-1, 120, False)


@pytest.mark.parametrize(
    "entry",
    [
        batch(base_offset=50, magic=3),
        batch(base_offset=50, attributes=0x80),
        batch(base_offset=50, attributes=5),
        batch(base_offset=50, last_offset_delta=-1),
        batch(base_offset=50, records_count=2, last_offset_delta=0),
        batch(base_offset=50, records_count=-1),
        batch(base_offset=50, payload=b"\x0a" + bytes(5)),
        batch(base_offset=50, payload=b"\x10" + bytes(7)),
        batch(base_offset=50, payload=b""),
        batch(base_offset=50, last_offset_delta=50, records_count=1),
        batch(base_offset=50, size=48),
        flip(batch(base_offset=50), 64),
        message(50, magic=-1),
        message(50, attributes=0x10),
        message(50, attributes=4),
        message(50, magic=1, layout=0, key=None, value=b"1234567"),
        message(50, body=struct.pack(">ii", -2, 0)),
        message(50, body=struct.pack(">ii", 1, 0)),
        message(50, body=struct.pack(">ii", 0, 1)),
        message(50, body=struct.pack(">ii", 0, -2)),
        flip(message(50), 40),
    ],
)
def test_resync_passes_over_what_it_cannot_believe(kernel: ModuleType, entry: bytes) -> None:
    assert kernel.resync(entry, 0, len(entry), 0, 0, 100, MANY)[0] == -1
    data = entry + batch(base_offset=60)
    assert kernel.resync(data, 0, len(data), 0, 0, 100, MANY)[0] == len(entry)


@pytest.mark.parametrize("name", ["crc32", "crc32c"])
def test_sums_of_pieces_joined(kernel: ModuleType, name: str) -> None:
    data = random.Random(1).randbytes(5000)
    of, joined = getattr(kernel, name), getattr(kernel, f"{name}_joined")
    for at in (0, 1, 17, 2500, 4999, 5000):
        first, second = of(data, 0, at), of(data, at, len(data))
        assert joined(first, second, len(data) - at) == of(data, 0, len(data))
    zeros = of(bytes(1 << 16), 0, 1 << 16)
    assert joined(zeros, zeros, 1 << 16) == of(bytes(1 << 17), 0, 1 << 17)


# JSON Lines --------------------------------------------------------------------------------------


def test_format_record_is_exactly_this(kernel: ModuleType) -> None:
    data = batch(
        [record(1, 7, b"k", b"v", [(b"h", b"1"), (b"", None)])],
        base_offset=41,
        leader_epoch=3,
        attributes=TRANSACTIONAL,
        base_timestamp=1000,
        producer_id=9,
        producer_epoch=2,
        base_sequence=0x7FFFFFFF,
        last_offset_delta=1,
    )
    batches, records = decode(kernel, data)
    out: list[bytes] = []
    head = b'"topic":"orders","partition":7,"segment":41'
    assert kernel.format_records(out.append, data, batches, records, None, head, 0) == 1
    assert b"".join(out) == (
        b'{"row":"record","topic":"orders","partition":7,"segment":41,"position":0,"magic":2,'
        b'"codec":"none","offset":42,"timestamp_ms":1007,"timestamp_type":"CreateTime",'
        b'"leader_epoch":3,"producer_id":9,"producer_epoch":2,"sequence":0,"transactional":true,'
        b'"control":null,"key":"k","value":"v",'
        b'"headers":[{"key":"h","value":"1"},{"key":"","value":null}]}\n'
    )


def test_format_record_of_older_versions(kernel: ModuleType) -> None:
    old, new = message(1, None, b"", magic=0), message(2, timestamp=-1, attributes=8)
    first, second = lines(kernel, old + new)
    for row in (first, second):
        for name in ("leader_epoch", "producer_id", "producer_epoch", "sequence", "control"):
            assert row[name] is None
        assert (row["transactional"], row["codec"], row["headers"]) == (False, "none", [])
    assert (first["timestamp_ms"], first["timestamp_type"]) == (None, None)
    assert (first["key"], first["value"]) == (None, "")
    assert (second["timestamp_ms"], second["timestamp_type"]) == (-1, "LogAppendTime")
    assert second["position"] == len(old)


def test_format_messages_inside_a_wrapper(kernel: ModuleType) -> None:
    inner = message(0, timestamp=5) + message(1, magic=0)
    batches = walk(kernel, wrapper([], 101, attributes=LOG_APPEND_TIME, timestamp=77))
    records, _, _ = kernel.decode_messages(inner, 0, len(inner), batches, 0, 100, MANY)
    out: list[bytes] = []
    kernel.format_records(out.append, inner, batches, records, None, b"", 0)
    rows = [json.loads(line) for line in b"".join(out).splitlines()]
    assert [(row["offset"], row["timestamp_ms"], row["timestamp_type"]) for row in rows] == [
        (100, 77, "LogAppendTime"),
        (101, None, None),
    ]
    assert rows[0]["codec"] == "gzip"


def test_format_no_sequence(kernel: ModuleType) -> None:
    (row,) = lines(kernel, batch())
    assert (row["producer_id"], row["sequence"]) == (-1, -1)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ('"\\/', '\\"\\\\/'),
        ("\b\f\n\r\t", "\\b\\f\\n\\r\\t"),
        ("\0\x1b\x1f ~\x7f", "\\u0000\\u001b\\u001f ~\\u007f"),
        ("\x80\x9b\x9f\xa0é", "\\u0080\\u009b\\u009f\xa0é"),
        ("\u2027\u2028\u2029\u202a\u202e\u202f", "\u2027\\u2028\\u2029\\u202a\\u202e\u202f"),
        ("\u200d\u200e\u200f\u2010", "\u200d\\u200e\\u200f\u2010"),
        ("\u2065\u2066\u2069\u206a", "\u2065\\u2066\\u2069\u206a"),
        ("\u0928\u20ac\ud7ff\ue000\uffff\U0001f600\U0010ffff", None),
    ],
)
def test_format_escapes(kernel: ModuleType, text: str, escaped: str | None) -> None:
    # At every place of the eight bytes that are looked at together.
    for before in range(18):
        plain = "." * before
        data = batch([record(value=(plain + text + plain).encode())])
        batches, records = decode(kernel, data)
        out: list[bytes] = []
        kernel.format_records(out.append, data, batches, records, None, b"", 0)
        line = b"".join(out).decode()
        assert f'"value":"{plain}{text if escaped is None else escaped}{plain}"' in line
        assert json.loads(line)["value"] == plain + text + plain


INVALID = [
    b"\x80",
    b"\xbf\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc2",
    b"\xc2A",
    b"\xe0\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xe1\x80",
    b"\xe1\x80A",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x80\x80\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x90\x80",
    b"\xf0\x90\x80A",
    b"\xf0\x90A",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xfe\xff",
]


@pytest.mark.parametrize("bad", INVALID)
def test_format_bytes_that_are_no_text(kernel: ModuleType, bad: bytes) -> None:
    for value in (bad, b"a" + bad, b"before it" + bad + b"behind it", bad * 7):
        data = batch([record(key=value, value=value, headers=[(value, value)])])
        in_base64 = base64.b64encode(value).decode()
        replaced = value.decode("utf-8", "replace")
        (row,) = lines(kernel, data)
        assert row["key"] == row["value"] == {"base64": in_base64}
        assert row["headers"] == [{"key": replaced, "value": {"base64": in_base64}}]
        for mode, expected in (
            (c.BYTES_UTF8, replaced),
            (c.BYTES_HEX, value.hex()),
            (c.BYTES_BASE64, in_base64),
        ):
            (row,) = lines(kernel, data, mode)
            assert row["key"] == row["value"] == expected
            assert row["headers"] == [{"key": expected, "value": expected}]


@pytest.mark.parametrize("value", [None, b"", b"a", b"ab", b"abc", b"abcd"])
@pytest.mark.parametrize("mode", range(4))
def test_format_null_is_not_empty(kernel: ModuleType, value: bytes | None, mode: int) -> None:
    (row,) = lines(kernel, batch([record(key=value)]), mode)
    if value is None:
        expected = None
    else:
        encoded = [value.decode(), value.decode(), value.hex(), base64.b64encode(value).decode()]
        expected = encoded[mode]
    assert row["key"] == expected


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize(
    "unit", [b"plain.", "né".encode(), b"\0", b"\xff\xe2\x80", b"\xf0\x9f\x98\x80"]
)
def test_format_long_values_come_in_pieces(kernel: ModuleType, unit: bytes, mode: int) -> None:
    value = b"." + unit * (1_500_000 // len(unit))
    data = batch([record(value=value, key=b"k")])
    batches, records = decode(kernel, data)
    pieces: list[bytes] = []
    kernel.format_records(pieces.append, data, batches, records, None, b"", mode)
    assert max(map(len, pieces)) <= 1 << 20
    row = json.loads(b"".join(pieces))
    if mode == c.BYTES_HEX:
        assert row["value"] == value.hex()
    elif mode == c.BYTES_BASE64 or (mode == c.BYTES_AUTO and b"\xff" in unit):
        in_base64 = row["value"]["base64"] if mode == c.BYTES_AUTO else row["value"]
        assert base64.b64decode(in_base64) == value
    else:
        assert row["value"] == value.decode("utf-8", "replace")


def test_format_pieces_are_not_touched_again(kernel: ModuleType) -> None:
    data = batch([record(i, value=b"%06d" % i * 40) for i in range(5000)])
    batches, records = decode(kernel, data)
    pieces: list[bytes] = []
    kernel.format_records(pieces.append, data, batches, records, None, b"", 0)
    assert len(pieces) > 3
    offsets = [json.loads(line)["offset"] for line in b"".join(pieces).splitlines()]
    assert offsets == list(range(5000))


def test_format_long_head(kernel: ModuleType) -> None:
    data = batch([record(0), record(1)])
    batches, records = decode(kernel, data)
    head = b'"topic":"' + b"t" * 700_000 + b'"'
    pieces: list[bytes] = []
    kernel.format_records(pieces.append, data, batches, records, None, head, 0)
    kernel.format_batches(pieces.append, batches, None, head)
    rows = [json.loads(line) for line in b"".join(pieces).splitlines()]
    assert [len(row["topic"]) for row in rows] == [700_000] * 3


def test_format_chosen_rows(kernel: ModuleType) -> None:
    data = batch([record(i) for i in range(5)])
    batches, records = decode(kernel, data)
    out: list[bytes] = []
    rows = array("q", [4, 1, 1])
    assert kernel.format_records(out.append, data, batches, records, rows, b"", 0) == 3
    assert [json.loads(line)["offset"] for line in b"".join(out).splitlines()] == [4, 1, 1]
    assert kernel.format_records(out.append, data, batches, records, array("q"), b"", 0) == 0
    for wrong in (-1, 5):
        with pytest.raises(IndexError):
            kernel.format_records(out.append, data, batches, records, array("q", [wrong]), b"", 0)


def test_format_stops_when_write_raises(kernel: ModuleType) -> None:
    data = batch([record(i, value=b"v" * 1000) for i in range(2000)])
    batches, records = decode(kernel, data)
    calls = 0

    def write(piece: bytes) -> None:
        nonlocal calls
        calls += 1
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        kernel.format_records(write, data, batches, records, None, b"", 0)
    assert calls == 1
    with pytest.raises(BrokenPipeError):
        kernel.format_batches(write, batches, None, b"")


def test_format_batch_is_exactly_this(kernel: ModuleType) -> None:
    data = batch(
        base_offset=41,
        leader_epoch=3,
        attributes=TRANSACTIONAL | CONTROL | LOG_APPEND_TIME,
        base_timestamp=1000,
        max_timestamp=1001,
        producer_id=9,
        producer_epoch=2,
        base_sequence=0x7FFFFFFF,
        last_offset_delta=1,
        crc=5,
    )
    out: list[bytes] = []
    batches = walk(kernel, data)
    assert kernel.format_batches(out.append, batches, None, b'"topic":null') == 1
    assert b"".join(out) == (
        b'{"row":"batch","topic":null,"position":0,"size_bytes":76,"magic":2,"codec":"none",'
        b'"base_offset":41,"last_offset":42,"records_count":1,"crc":5,"crc_valid":false,'
        b'"timestamp_type":"LogAppendTime","base_timestamp_ms":1000,"max_timestamp_ms":1001,'
        b'"leader_epoch":3,"producer_id":9,"producer_epoch":2,"base_sequence":2147483647,'
        b'"last_sequence":0,"transactional":true,"control":true,"delete_horizon_ms":null}\n'
    )


def test_format_batches_of_all_versions(kernel: ModuleType) -> None:
    data = message(1, magic=0) + wrapper([message(0)], 2, timestamp=5)
    data += batch(
        base_offset=3, attributes=DELETE_HORIZON | ZSTD, base_timestamp=6, max_timestamp=7
    )
    batches = walk(kernel, data)
    out: list[bytes] = []
    kernel.format_batches(out.append, batches, None, b"")
    first, second, third = (json.loads(line) for line in b"".join(out).splitlines())
    assert (first["base_offset"], first["last_offset"], first["records_count"]) == (1, 1, 1)
    assert (first["timestamp_type"], first["max_timestamp_ms"]) == (None, None)
    assert (second["base_offset"], second["last_offset"], second["records_count"]) == (
        None,
        2,
        None,
    )
    assert (second["codec"], second["base_timestamp_ms"], second["max_timestamp_ms"]) == (
        *("gzip", 5, 5),
    )
    for row in (first, second):
        for name in ("leader_epoch", "producer_id", "base_sequence", "last_sequence"):
            assert row[name] is None
        assert (row["transactional"], row["control"]) == (False, False)
    assert (third["base_timestamp_ms"], third["delete_horizon_ms"]) == (None, 6)
    assert (third["max_timestamp_ms"], third["last_sequence"], third["codec"]) == (7, -1, "zstd")
    # Once a wrapper was opened, what was found in it is shown.
    batches.block[c.B_BASE_OFFSET * batches.stride + 1] = 2
    batches.block[c.B_RECORDS_COUNT * batches.stride + 1] = 1
    out.clear()
    kernel.format_batches(out.append, batches, array("q", [1]), b"")
    row = json.loads(out[0])
    assert (row["base_offset"], row["records_count"]) == (2, 1)


# Buffers for Arrow -------------------------------------------------------------------------------


ROOMY = Gathered(99, 99, keys=999, values=999, names=99, contents=99)


def gathered(
    kernel: ModuleType, data: bytes, rows: "array[int] | None" = None, first: int = 0
) -> tuple[int, Gathered]:
    batches, records = decode(kernel, data)
    into = Gathered(20, 20, keys=99, values=99, names=99, contents=99)
    return kernel.gather(into, data, batches, records, rows, first), into


def items(into: Gathered, number: int, count: int, first: int = 0) -> list[int]:
    """Read `count` items of a buffer, or bits."""
    data, bits = bytes(into.buffers[number]), g.BITS[number]
    if bits == 1:
        return [data[at >> 3] >> (at & 7) & 1 for at in range(first, first + count)]
    codes = {8: "b", 16: "h", 32: "i", 64: "q"}
    return list(memoryview(data[: bits // 8 * (first + count)]).cast(codes[bits]))[first:]


def test_gather_keys_and_values(kernel: ModuleType) -> None:
    values = [b"one", None, b"", b"four"] * 3
    data = batch([record(i, value=value) for i, value in enumerate(values)])
    taken, into = gathered(kernel, data)
    assert (taken, into.counts[g.N_ROWS], into.counts[g.N_VALUES_NULL]) == (12, 12, 3)
    assert items(into, g.G_VALUE_ENDS, 13) == [0, 3, 3, 3, 7, 10, 10, 10, 14, 17, 17, 17, 21]
    assert into.buffers[g.G_VALUES][:21] == b"onefour" * 3
    assert items(into, g.G_VALUE_VALID, 12) == [1, 0, 1, 1] * 3
    taken, into = gathered(kernel, data, array("q", [2, 3, 1]), 1)
    assert taken == 2
    assert items(into, g.G_VALUE_ENDS, 3) == [0, 4, 4]
    assert items(into, g.G_VALUE_VALID, 2) == [1, 0]


def test_gather_what_batches_say(kernel: ModuleType) -> None:
    data = batch([record(0), record(2)], base_sequence=0x7FFFFFFE, last_offset_delta=2)
    second = len(data)
    data += batch(base_offset=5, base_sequence=-1, attributes=0x18, producer_id=7)
    third = len(data)
    data += message(8) + message(9, magic=0)
    taken, into = gathered(kernel, data)
    assert taken == 5
    assert (into.counts[g.N_OLD], into.counts[g.N_UNTIMED]) == (2, 1)
    assert items(into, g.G_POSITION, 4) == [0, 0, second, third]
    assert items(into, g.G_MAGIC, 5) == [2, 2, 2, 1, 0]
    assert items(into, g.G_OFFSET, 5) == [0, 2, 5, 8, 9]
    assert items(into, g.G_TIMESTAMP_TYPE, 5) == [0, 0, 1, 0, 0]
    assert items(into, g.G_PRODUCER_ID, 5)[2:] == [7, -1, -1]
    assert items(into, g.G_SEQUENCE, 5) == [0x7FFFFFFE, 0, -1, -1, -1]
    assert items(into, g.G_TRANSACTIONAL, 5) == [0, 0, 1, 0, 0]
    assert items(into, g.G_MODERN, 5) == [1, 1, 1, 0, 0]
    assert items(into, g.G_TIMED, 5) == [1, 1, 1, 1, 0]


def test_gather_headers(kernel: ModuleType) -> None:
    data = batch([record(0, headers=[(b"a", b"12"), (b"b\xffc", None)]), record(1)])
    data += batch([record(0, headers=[(b"", b"")])], base_offset=5) + message(8)
    taken, into = gathered(kernel, data)
    assert (taken, into.counts[g.N_HEADERS], into.counts[g.N_CONTENTS_NULL]) == (4, 3, 1)
    assert items(into, g.G_LISTS, 5) == [0, 2, 2, 3, 3]
    assert items(into, g.G_NAME_ENDS, 4) == [0, 1, 6, 6]
    assert into.buffers[g.G_NAMES][:6] == "ab\ufffdc".encode()
    assert items(into, g.G_CONTENT_ENDS, 4) == [0, 2, 2, 2]
    assert items(into, g.G_CONTENT_VALID, 3) == [1, 0, 1]


def test_gather_again_over_what_was_there(kernel: ModuleType) -> None:
    first = batch([record(0, value=None, headers=[(b"a", None)]), record(1)], attributes=0x10)
    batches, records = decode(kernel, first)
    into = Gathered(2, 1, keys=99, values=99, names=1, contents=9)
    assert kernel.gather(into, first, batches, records, None, 0) == 2
    into.clear()
    second = batch([record(0, headers=[(b"b", b"x")]), record(1, value=None)])
    batches, records = decode(kernel, second)
    assert kernel.gather(into, second, batches, records, None, 0) == 2
    assert list(into.counts) == [2, 1, 0, 1, 0, 0, 0]
    assert items(into, g.G_VALUE_VALID, 2) == [1, 0]
    assert items(into, g.G_TRANSACTIONAL, 2) == [0, 0]
    assert items(into, g.G_CONTENT_VALID, 1) == [1]
    assert into.buffers[g.G_NAMES][:1] == b"b"


@pytest.mark.parametrize(
    "less",
    [{"rows": 2}, {"headers": 2}, {"keys": 5}, {"values": 8}, {"names": 5}, {"contents": 2}],
    ids=str,
)
def test_gather_stops_where_there_is_no_room(kernel: ModuleType, less: dict[str, int]) -> None:
    one = [(b"\xff", b"c")]  # in UTF-8 three bytes, and two of them six
    data = batch([record(n, key=b"ke", value=b"val", headers=one) for n in range(3)])
    batches, records = decode(kernel, data)
    enough = {"rows": 3, "headers": 3, "keys": 6, "values": 9, "names": 9, "contents": 3}
    into = Gathered(**enough)
    assert kernel.gather(into, data, batches, records, None, 0) == 3
    into = Gathered(**enough | less)
    taken = kernel.gather(into, data, batches, records, None, 0)
    assert taken == (1 if less == {"names": 5} else 2)
    assert list(into.counts[:2]) == [taken, taken]
    assert kernel.gather(into, data, batches, records, None, taken) == 0
    assert list(into.counts[:2]) == [taken, taken]
    into.clear()
    assert kernel.gather(into, data, batches, records, None, taken) == min(3 - taken, taken)
    assert items(into, g.G_OFFSET, 1) == [taken]


def test_room_for_one_record(kernel: ModuleType) -> None:
    headers = [(b"a\xff", b"12"), (b"", None)]
    data = batch([record(0, key=None, value=b"val"), record(1, key=b"k", headers=headers)])
    _, records = decode(kernel, data)
    assert kernel.room_for(data, records, 0) == (0, 0, 3, 0, 0)
    assert kernel.room_for(data, records, 1) == (2, 1, 5, 4, 2)


# What is no data ---------------------------------------------------------------------------------


def test_row_numbers_that_do_not_exist(kernel: ModuleType) -> None:
    data = batch()
    batches, records = decode(kernel, data)
    none = RecordBatches.empty(c.BATCH_WIDTH)
    calls = (
        lambda: kernel.decode_records(data, 0, 9, batches, 1, 0, 9),
        lambda: kernel.decode_records(data, 0, 9, batches, -1, 0, 9),
        lambda: kernel.decode_messages(data, 0, 9, none, 0, 0, 9),
        lambda: kernel.format_records(print, data, none, records, None, b"", 0),
        lambda: kernel.gather(ROOMY, data, none, records, None, 0),
        lambda: kernel.gather(ROOMY, data, batches, records, array("q", [1]), 0),
        lambda: kernel.room_for(data, records, 1),
        lambda: kernel.room_for(data, records, -1),
    )
    for call in calls:
        with pytest.raises(IndexError):
            call()


def test_any_buffer_will_do(kernel: ModuleType) -> None:
    data = batch()
    whole = walk(kernel, data).rows()
    views = (bytearray(data), memoryview(data), memoryview(b"x" + data)[1:], array("b", data))
    for view in views:
        assert kernel.walk(view, 0, len(data), 0, -1, True, 1)[0].rows() == whole


def test_buffers_are_given_back(kernel: ModuleType) -> None:
    data = bytearray(batch())
    batches, records = decode(kernel, data)  # type: ignore[arg-type]
    kernel.format_records(len, data, batches, records, None, b"", 0)
    kernel.format_batches(len, batches, None, b"")
    kernel.gather(ROOMY, data, batches, records, None, 0)
    kernel.room_for(data, records, 0)
    kernel.resync(data, 0, len(data), 0, -1, 9, MANY)
    kernel.inner_base(data, 0, len(data), 0, 1)
    kernel.crc32(data, 0, len(data))
    kernel.crc32c(data, 0, len(data))
    with pytest.raises(IndexError):
        kernel.format_records(len, data, batches, records, array("q", [1]), b"", 0)
    data.append(0)
    batches.block.append(0)
    records.block.append(0)


def test_reasons_have_names() -> None:
    numbers = {value for name, value in vars(reasons).items() if name.isupper() and name != "NAMES"}
    assert numbers == set(reasons.NAMES)
    assert len(set(reasons.NAMES.values())) == len(numbers)


def test_resealed_and_varint_builders() -> None:
    assert resealed(flip(batch(), 70))[17:21] != batch()[17:21]
    assert unsigned_varint(300) == b"\xac\x02"
    assert varint(-1) == b"\x01"


def test_columns() -> None:
    columns = Columns(array("q", [1, 2, 9, 3, 4, 9]), 3, 2, flags=7)
    assert (columns.width, len(columns)) == (2, 2)
    assert columns.rows() == [(1, 3), (2, 4)]
    assert columns.row(1) == (2, 4)
    assert (columns.value(1, 0), list(columns.column(1))) == (3, [3, 4])
    assert columns.column(0).format == "q"
    part = columns.slice(1, 9)
    assert (part.rows(), part.flags) == ([(2, 4)], 7)
    assert columns.slice(1, 1).rows() == []
    assert columns.slice(1, 1).width == 2
    assert Columns.empty(5).width == 5
    assert Columns.from_rows(2, [(1, 3), (2, 4)]).rows() == columns.rows()
