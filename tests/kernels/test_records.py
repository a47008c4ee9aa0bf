"""Records and messages decoded, in either kernel."""

import random
import struct
from types import ModuleType

import pytest
from builders import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    batch,
    control_record,
    marker,
    message,
    record,
    varint,
    wrapper,
)
from damage import cut, flip
from each import each
from kernel_calls import BATCH_4_1, LAST, MANY, decode, decode_payload, walk

from kdump.kernels import _pure, reasons
from kdump.kernels import columns as c
from kdump.kernels.columns import DecodedRecords

MARKER = control_record(1, bytes(6))


def test_decode_record_of_a_broker(kernel: ModuleType) -> None:
    batches = walk(kernel, BATCH_4_1)
    records, stop, reason = kernel.decode_records(BATCH_4_1, 61, 91, batches, 0, 0, 10)
    assert (stop, reason) == (91, reasons.END)
    assert records.rows() == [(0, 61, 30, 0, 0x1A1FB6E74C0, 66, 4, 71, 19, 91, 0, 0)]


def test_decode_run_accepts_plain_batches(kernel: ModuleType) -> None:
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


@each(
    "other",
    [
        batch(attributes=GZIP, base_offset=1),
        # Control batches that are no sound transaction marker.
        batch([control_record(2, bytes(20))], base_offset=1, attributes=CONTROL),
        batch([control_record(-1, bytes(6))], base_offset=1, attributes=CONTROL),
        batch([control_record(1, bytes(6), version=-1)], base_offset=1, attributes=CONTROL),
        batch([control_record(1, b"\xff" * 6)], base_offset=1, attributes=CONTROL),
        batch([control_record(1, bytes(5))], base_offset=1, attributes=CONTROL),
        batch([record(0, key=b"\0\0\0", value=bytes(6))], base_offset=1, attributes=CONTROL),
        batch([record(0, key=None, value=bytes(6))], base_offset=1, attributes=CONTROL),
        batch([record(0, key=bytes(4), value=None)], base_offset=1, attributes=CONTROL),
        batch([MARKER, MARKER], base_offset=1, attributes=CONTROL, last_offset_delta=1),
        batch([MARKER, MARKER], base_offset=1, attributes=CONTROL, records_count=1),
        batch([MARKER], base_offset=1, attributes=CONTROL, records_count=2),
        batch([], base_offset=1, attributes=CONTROL),
        batch([MARKER], base_offset=1, attributes=CONTROL | GZIP),
        flip(marker(1, base_offset=1), 65),
        flip(batch(base_offset=1), 65),
        batch(records_count=-1, base_offset=1),
        wrapper([message(0)], 1),
        message(1, magic=1, layout=0, key=None, value=b"1234567"),
    ],
)
def test_decode_run_stops_at_compressed_batches(kernel: ModuleType, other: bytes) -> None:
    first = batch()
    data = first + other + batch(base_offset=2)
    batches = walk(kernel, data)
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 0, MANY)
    assert (records.count, behind, stop, reason) == (1, 1, len(first), reasons.NOT_PLAIN)
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 2, MANY)
    assert (records.count, behind, stop, reason) == (1, 3, len(data), reasons.END)


def test_decode_run_accepts_markers(kernel: ModuleType) -> None:
    longer = batch(
        [record(0, key=bytes(5), value=bytes(9), headers=[(b"h", None)])],
        base_offset=3,
        attributes=CONTROL,
    )
    data = batch() + marker(0, base_offset=1) + marker(1, base_offset=2) + longer
    batches = walk(kernel, data)
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 0, MANY)
    assert (behind, stop, reason) == (4, len(data), reasons.END)
    assert list(records.row_flags) == [0, c.MARKER, c.MARKER, c.MARKER]
    assert records.flags == c.MARKER
    assert list(records.offsets) == [0, 1, 2, 3]
    assert kernel.decode_run(data, 0, batches, 0, 1)[0].flags == 0


def test_decode_run_stops_at_the_end_of_the_bytes(kernel: ModuleType) -> None:
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


def test_decode_run_returns_the_records_before_damage(kernel: ModuleType) -> None:
    good = record(0)
    bad = batch([good, record(1, length=3), record(2)], base_offset=1)
    data = batch() + bad + batch(base_offset=5)
    batches = walk(kernel, data)
    assert batches.flags == 0
    records, behind, stop, reason = kernel.decode_run(data, 0, batches, 0, MANY)
    assert (records.count, behind, reason) == (2, 1, reasons.RECORD_LENGTH)
    assert stop == len(batch()) + 61 + len(good)


def test_decode_run_does_not_trust_the_count(kernel: ModuleType) -> None:
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


@each(
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


@each(
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


@each(
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
def test_decode_gives_the_reason(kernel: ModuleType, payload: bytes, reason: int) -> None:
    records, stop, why = decode_payload(kernel, payload)
    assert (records.count, why) == (int(stop > 0), reason)
    # The same behind a good record, whose bytes must not serve to fill the gap.
    good = record()
    records, stop, why = decode_payload(kernel, good + payload, 2)
    if reason != reasons.RECORDS_REMAINING:
        assert (records.count, stop, why) == (1, len(good), reason)


def test_decode_checks_inner_lengths(kernel: ModuleType) -> None:
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


def test_decode_messages_with_slack(kernel: ModuleType) -> None:
    data = message(3, b"k", b"v", slack=b"slack")
    _, records = decode(kernel, data)
    assert records.rows() == [(0, 0, len(data), 3, 1_400_000_000_000, 30, 1, 35, 1, 0, 0, 0)]


@each(
    ("fields", "reason"),
    [
        (struct.pack(">ii", 1, -1), reasons.KEY_LENGTH),
        (struct.pack(">ii", 0x7FFFFFFF, -1), reasons.KEY_LENGTH),
        (struct.pack(">ii", 0, 1), reasons.VALUE_LENGTH),
        (struct.pack(">ii", -1, 0x7FFFFFFF), reasons.VALUE_LENGTH),
        (struct.pack(">ii", -7, -9), reasons.END),
    ],
)
@each("magic", [0, 1])
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


Side = tuple[bytes, DecodedRecords]


def decoded(kernel: ModuleType, *records: bytes, base_offset: int = 5) -> Side:
    data = batch(list(records), base_offset=base_offset)
    batches, _, _ = kernel.walk(data, 0, len(data), 0, -1, True, 9)
    found, _, _, _ = kernel.decode_run(data, 0, batches, 0, 99)
    assert isinstance(found, DecodedRecords)
    return data, found


def one(delta: int, key: bytes | None = b"k", value: bytes | None = b"v", **rest: object) -> bytes:
    headers = rest.get("headers", [(b"h", b"12"), (b"", None)])
    return record(delta, int(str(rest.get("time", 3))), key, value, headers)  # type: ignore[arg-type]


@each(
    "other",
    [
        one(1, b"K"),
        one(1, b""),
        one(1, None),
        one(1, value=b"V"),
        one(1, value=b""),
        one(1, value=None),
        one(1, time=4),
        one(2),
        one(1, headers=[]),
        one(1, headers=[(b"h", b"12"), (b"", b"")]),
        one(1, headers=[(b"h", b"13"), (b"", None)]),
        one(1, headers=[(b"h", b"12")]),
    ],
)
def test_comparison_ends_at_the_first_difference(kernel: ModuleType, other: bytes) -> None:
    left = decoded(kernel, one(0), one(1), one(5))
    right = decoded(kernel, one(0), other, one(5))
    assert kernel.same_records(*left, 0, *right, 0) == 1
    assert kernel.same_records(*left, 1, *right, 1) == 0
    assert kernel.same_records(*left, 2, *right, 2) == 1
    assert kernel.same_records(*left, 0, *left, 0) == 3


def test_null_keys_are_equal_at_any_position(kernel: ModuleType) -> None:
    left = decoded(kernel, one(0, None, None, headers=[]), one(1))
    right = decoded(kernel, one(0, None, None, headers=[]))
    assert kernel.same_records(*left, 0, *right, 0) == 1
    assert kernel.same_records(*left, 3, *right, 0) == 0
    assert kernel.same_records(*left, -1, *right, -1) == 1


def test_comparison_ends_at_falling_offsets(kernel: ModuleType) -> None:
    left = decoded(kernel, one(0), one(2), one(2))
    assert kernel.same_records(*left, 0, *left, 0) == 2
    below = decoded(kernel, one(0), one(1), base_offset=-4)
    assert kernel.same_records(*below, 0, *below, 0) == 0


@each("seed", range(200))
def test_kernels_agree_on_records_of_mismatched_columns(seed: int) -> None:
    fast = pytest.importorskip("kdump.kernels._fast", reason="the compiled kernel is not built")
    draw = random.Random(seed)
    data, records = decoded(_pure, *(one(delta) for delta in range(6)))
    sides = []
    for _ in range(2):
        block = records.block[:]
        for _ in range(draw.randrange(3)):
            column, row = draw.randrange(1, c.RECORD_WIDTH), draw.randrange(6)
            block[column * records.stride + row] = draw.choice(
                [-1, 0, 1, len(data), 1 << 40, (1 << 63) - 1, -(1 << 63)]
            )
        sides.append((data, DecodedRecords(block, records.stride, records.count)))
    row, other = draw.randrange(7), draw.randrange(7)
    counts = {kernel.same_records(*sides[0], row, *sides[1], other) for kernel in (_pure, fast)}
    assert len(counts) == 1
