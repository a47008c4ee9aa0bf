"""batch: the records of one entry, whatever its version, in pieces of any size."""

import pytest
from builders import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    batch,
    gzip_bytes,
    marker,
    message,
    record,
    wrapper,
)
from damage import cut, flip_bit
from each import each

from kdump import kernels
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.record.batch import read_batch
from kdump.record.legacy import read_past_nested

LIMIT = 1 << 20
BASE = 4000  # where the entry lies in its file


def read(
    entry: bytes, max_records: int = 8192, limit: int = LIMIT
) -> tuple[list[tuple[int, bytes | None]], list[int], str]:
    """Give the (offset, value) of each record, the reasons of all pieces and the last detail."""
    before = b"\xee" * 5
    data = before + entry
    batches, _, _ = kernels.walk(data, len(before), len(data), BASE, -1, True, 10)
    assert batches.count == 1
    found: list[tuple[int, bytes | None]] = []
    why: list[int] = []
    detail = ""
    for piece in read_batch(data, BASE, batches, 0, limit=limit, max_records=max_records):
        assert piece.records.count <= max_records
        why.append(piece.reason)
        detail = piece.detail
        for row in piece.records.rows():
            assert row[c.R_BATCH] == 0
            start, size = row[c.R_VALUE], row[c.R_VALUE_SIZE]
            value = None if size < 0 else bytes(piece.data[start : start + size])
            found.append((row[c.R_OFFSET], value))
    return found, why, detail


VALUES: list[tuple[int, bytes | None]] = [(100 + n, b"value %d" % n) for n in range(7)]
RECORDS = [record(n, value=b"value %d" % n) for n in range(7)]
INNER = [message(n, value=b"value %d" % n) for n in range(7)]
ENTRIES = {
    "plain": batch(RECORDS, base_offset=100),
    "gzip": batch(RECORDS, base_offset=100, attributes=GZIP, compress=gzip_bytes),
    "wrapper of magic 1": wrapper(INNER, 106),
    "wrapper of magic 0": wrapper(
        [message(100 + n, value=b"value %d" % n, magic=0) for n in range(7)], 106, magic=0
    ),
}


@each("name", ENTRIES)
@each("max_records", [1, 2, 3, 6, 7, 8])
def test_pieces_of_any_size_give_the_same_records(name: str, max_records: int) -> None:
    found, why, _ = read(ENTRIES[name], max_records)
    assert found == VALUES
    assert why[-1] == reasons.END
    assert all(reason == reasons.FULL for reason in why[:-1])


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_message_is_read(magic: int) -> None:
    assert read(message(9, magic=magic)) == ([(9, b"value")], [reasons.END], "")
    assert read(message(9, magic=magic, value=None)) == ([(9, None)], [reasons.END], "")


def test_message_with_overlong_lengths() -> None:
    body = b"\x00\x00\x00\x00" + b"\x00\x00\x01\x00"
    assert read(message(9, body=body)) == ([], [reasons.VALUE_LENGTH], "")
    assert read(message(9, body=b"\x00\x00\x01\x00" + bytes(4))) == ([], [reasons.KEY_LENGTH], "")


def test_empty_batch_is_not_decompressed() -> None:
    empty = batch([], attributes=ZSTD, payload=b"no zstd", last_offset_delta=4)
    assert read(empty) == ([], [reasons.END], "")
    assert read(batch([])) == ([], [reasons.END], "")


def test_marker_is_read_like_any_record() -> None:
    found, why, _ = read(marker(1, base_offset=8))
    assert [offset for offset, _ in found] == [8]
    assert why == [reasons.END]


@pytest.mark.parametrize("max_records", [1, 2, 100])
def test_records_before_a_broken_one_are_returned(max_records: int) -> None:
    broken = batch([*RECORDS[:3], record(3, length=90)], base_offset=100, records_count=7)
    found, why, _ = read(broken, max_records)
    assert found == VALUES[:3]
    assert why[-1] == reasons.RECORD_CUT_SHORT


@each(
    ("count", "reason"),
    [(-1, reasons.COUNT_NEGATIVE), (5, reasons.RECORDS_REMAINING), (9, reasons.RECORDS_MISSING)],
)
@each("attributes", [0, GZIP])
def test_wrong_record_count_is_reported(count: int, reason: int, attributes: int) -> None:
    compress = gzip_bytes if attributes else None
    entry = batch(RECORDS, records_count=count, attributes=attributes, compress=compress)
    found, why, _ = read(entry)
    assert why == [reason]
    assert len(found) == max(0, min(count, 7))


def test_truncated_codec_stream_is_reported() -> None:
    packed = gzip_bytes(b"".join(RECORDS))
    for size in (0, 5, 30, len(packed) - 4):
        entry = batch(RECORDS, base_offset=100, attributes=GZIP, payload=cut(packed, size))
        found, why, detail = read(entry)
        assert why == [reasons.CODEC_FAILED]
        assert found == VALUES[: len(found)]
        assert "gzip" in detail
    assert found == VALUES  # only the trailer was missing


def test_wrong_stream_checksum_leaves_the_records_readable() -> None:
    packed = gzip_bytes(b"".join(RECORDS))
    broken = flip_bit(packed, len(packed) - 8, 0)
    entry = batch(RECORDS, base_offset=100, attributes=GZIP, payload=broken)
    found, why, _ = read(entry)
    assert (found, why) == (VALUES, [reasons.CODEC_FAILED])


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_reported(codec: int) -> None:
    assert read(batch(RECORDS, attributes=codec)) == ([], [reasons.CODEC_UNKNOWN], f"codec {codec}")


def test_decompressed_size_is_limited() -> None:
    for name in ("gzip", "wrapper of magic 1"):
        assert read(ENTRIES[name], limit=50) == ([], [reasons.OVER_LIMIT], "")
    assert read(ENTRIES["plain"], limit=50)[0] == VALUES


@each(
    ("entry", "reason"),
    [
        (wrapper([], 5), reasons.INNER_EMPTY),
        (message(5, None, None, attributes=GZIP), reasons.VALUE_NULL),
        (wrapper(INNER, 106, codec=ZSTD), reasons.ZSTD_IN_LEGACY),
        (wrapper(INNER, 106, codec=5), reasons.CODEC_UNKNOWN),
        (wrapper(INNER, 3), reasons.WRAPPER_OFFSET),
        (wrapper([wrapper(INNER, 6)], 106), reasons.INNER_COMPRESSED),
        (wrapper(INNER, 106, codec=SNAPPY), reasons.CODEC_FAILED),
        (wrapper(INNER, 106, codec=LZ4), reasons.CODEC_FAILED),
    ],
    ids=lambda value: reasons.NAMES[value] if isinstance(value, int) else "",
)
def test_wrappers_that_brokers_refuse_are_reported(entry: bytes, reason: int) -> None:
    found, why, _ = read(entry)
    assert (found, why) == ([], [reason])


def test_partial_message_at_the_end_of_a_wrapper_is_reported() -> None:
    entry = wrapper([*INNER, INNER[0][:-2]], 106)
    assert read(entry)[:2] == (VALUES, [reasons.INNER_CUT_SHORT])


def test_wrapper_at_offset_0_has_absolute_offsets() -> None:
    found, _, _ = read(wrapper(INNER, 0))
    assert [offset for offset, _ in found] == list(range(7))


def test_only_the_message_that_is_compressed_again_has_its_codec() -> None:
    inner = [wrapper([message(0)], 0), message(1), message(2), wrapper([message(3)], 3)]
    entry = wrapper(inner, 3)
    batches, _, _ = kernels.walk(entry, 0, len(entry), BASE, -1, True, 1)
    (piece,) = read_batch(entry, BASE, batches, 0, limit=LIMIT)
    for most in (1, 8192):
        parts = read_past_nested(piece, batches, 0, most)
        codecs = [
            (part.records.offset(row), part.records.flags_of(row) >> c.INNER_CODEC_SHIFT & 7)
            for part in parts
            for row in range(part.records.count)
        ]
        assert codecs == [(0, GZIP), (1, 0), (2, 0), (3, GZIP)]
