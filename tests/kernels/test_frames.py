"""The walk over log entries, in either kernel."""

import os
import random
import struct
from pathlib import Path
from types import ModuleType

from builders import (
    CONTROL,
    TRANSACTIONAL,
    ZSTD,
    batch,
    message,
    record,
    wrapper,
)
from damage import flip, put
from each import each
from kernel_calls import BATCH_4_1, LAST, MANY, MESSAGE_0_10, decode, walk

from kdump.kernels import columns as c
from kdump.kernels import reasons


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


def test_walk_of_nothing_is_empty(kernel: ModuleType) -> None:
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


def test_walk_stops_at_the_end_before_full_columns(kernel: ModuleType) -> None:
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


@each(
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


@each(
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


@each("magic", [2, 5, 127])
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


def test_walk_shows_the_fields_of_a_batch_too_small(kernel: ModuleType) -> None:
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


def test_hop_reads_headers_as_far_as_entries_are_large(kernel: ModuleType, disk_path: Path) -> None:
    large = [batch([record(value=bytes(500))], base_offset=n) for n in (0, 1, 2)]
    others = [
        message(1, value=bytes(500)),
        wrapper([message(value=random.Random(1).randbytes(500))], 4),
    ]
    data = b"".join([*large, *others, batch(), large[0]])
    file = disk_path / "a.log"
    file.write_bytes(data)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        start = len(large[0])
        batches, stop = kernel.hop(descriptor, start, len(data), 300, MANY)
        assert stop == len(data) - len(large[0]) - len(batch())
        wanted, _, _ = kernel.walk(data, start, stop, 0, -1, False, MANY)
        assert (batches.rows(), batches.flags) == (wanted.rows(), wanted.flags)
        assert kernel.hop(descriptor, 0, len(data), 300, 2)[1] == 2 * start
        for position, end in ((stop, len(data)), (0, start - 1), (0, 60), (len(data), 0)):
            batches, at = kernel.hop(descriptor, position, end, 300, MANY)
            assert (batches.count, at) == (0, position)
    finally:
        os.close(descriptor)
    assert kernel.hop(-1, 0, len(data), 300, MANY)[0].count == 0
