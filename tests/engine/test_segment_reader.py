"""One damage, one finding: a sound segment, one thing broken, exactly that finding, no other row
lost."""

import errno
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from dumped import Json, dumped
from holding import holding

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import BatchChunk
from kdump.storage.source import Source

BASE = 100
BATCHES = 6
RECORDS = 3


@dataclass
class Segment:
    """Entries one after the other, and where each starts."""

    entries: list[bytes]

    @property
    def data(self) -> bytes:
        return b"".join(self.entries)

    @property
    def starts(self) -> list[int]:
        return [sum(map(len, self.entries[:n])) for n in range(len(self.entries) + 1)]

    def written(self, directory: Path, data: bytes | None = None) -> Path:
        """Write the log, or damaged bytes in its place, in an old file of `orders-0`."""
        directory = directory / "orders-0"
        directory.mkdir(exist_ok=True)
        path = directory / f"{BASE:020}.log"
        path.write_bytes(self.data if data is None else data)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return path


def batch(base_offset: int, count: int = RECORDS, **members: Any) -> bytes:
    records = [
        builders.record(n, n, b"key-%d" % (base_offset + n), b"value-%d" % (base_offset + n) * 3)
        for n in range(count)
    ]
    return builders.batch(records, base_offset=base_offset, **members)


@pytest.fixture
def segment() -> Segment:
    return Segment([batch(BASE + RECORDS * n) for n in range(BATCHES)])


def first_of(number: int) -> int:
    """The first offset of a batch."""
    return BASE + RECORDS * number


def offsets(rows: list[Json]) -> list[int]:
    return [row["offset"] for row in rows if row["row"] == "record"]


def headers(rows: list[Json]) -> list[tuple[int, bool]]:
    return [(row["position"], row["crc_valid"]) for row in rows if row["row"] == "batch"]


def all_but(*lost: int) -> list[int]:
    """The offsets of all batches but some."""
    return [
        first_of(number) + n for number in range(BATCHES) if number not in lost for n in range(3)
    ]


def only(found: list[Finding]) -> Finding:
    assert [one.code for one in found] == [found[0].code] if found else False, found
    return found[0]


def place_of(one: Finding) -> tuple[Any, ...]:
    return one.code, one.position, one.size_bytes, one.offset


def loss_of(one: Finding) -> tuple[Any, ...]:
    return one.lost_at_least, one.lost_at_most, one.next_offset


def test_a_sound_segment_has_no_finding(tmp_path: Path, segment: Segment) -> None:
    rows, found = dumped(segment.written(tmp_path))
    assert offsets(rows) == all_but()
    assert headers(rows) == []
    assert found == []


# Bytes that are wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 2, BATCHES - 1])
def test_one_bit_flipped_inside_a_batch(tmp_path: Path, segment: Segment, number: int) -> None:
    start, end = segment.starts[number : number + 2]
    for byte, bit in ((start + 22, 0), (start + 61, 7), (end - 1, 3)):
        path = segment.written(tmp_path, damage.flip_bit(segment.data, byte, bit))
        rows, found = dumped(path)
        one = only(found)
        assert place_of(one) == ("crc-mismatch", start, end - start, first_of(number))
        assert one.severity is Severity.DAMAGE
        assert (one.topic, one.partition, one.segment) == ("orders", 0, BASE)
        assert one.path == str(path)
        assert f"One flipped bit explains it: byte {byte:,} bit {bit}." in one.message
        assert "crcmod agrees" in one.message
        assert offsets(rows) == all_but(number)
        assert headers(rows) == [(start, False)]
        if number == BATCHES - 1:
            assert loss_of(one) == (RECORDS, None, None)
        else:
            assert loss_of(one) == (RECORDS, RECORDS, first_of(number + 1))


@pytest.mark.parametrize("bit", [0, 7, 9, 31])
def test_one_bit_flipped_in_the_stored_sum(tmp_path: Path, segment: Segment, bit: int) -> None:
    start = segment.starts[1]
    byte = start + 20 - bit // 8
    path = segment.written(tmp_path, damage.flip_bit(segment.data, byte, bit % 8))
    one = only(dumped(path)[1])
    assert f"One flipped bit explains it: byte {byte:,} bit {bit % 8}." in one.message


def test_two_bits_are_not_explained_by_one(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[1:3]
    broken = damage.flip_bit(damage.flip_bit(segment.data, start + 40, 1), end - 9, 5)
    one = only(dumped(segment.written(tmp_path, broken))[1])
    assert one.expected == builders.crc32c(broken[start + 21 : end])
    assert one.actual == int.from_bytes(segment.data[start + 17 : start + 21], "big")
    assert "flipped" not in one.message


def test_sums_stand_in_the_message_as_the_tool_prints_none(
    tmp_path: Path, segment: Segment
) -> None:
    start = segment.starts[3]
    broken = damage.flip(segment.data, start + 70)
    one = only(dumped(segment.written(tmp_path, broken))[1])
    assert re.match(rf"stored {one.actual:08x}, computed {one.expected:08x} ", one.message)


def test_last_batch_before_another_segment(tmp_path: Path, segment: Segment) -> None:
    """The next segment's base is the next good offset, so the loss is known exactly."""
    path = segment.written(tmp_path, damage.flip(segment.data, segment.starts[5] + 70))
    following = path.with_name(f"{first_of(6):020}.log")
    following.write_bytes(batch(first_of(6)))
    rows, found = dumped(path.parent)
    assert loss_of(only(found)) == (RECORDS, RECORDS, first_of(6))
    assert offsets(rows)[-3:] == [118, 119, 120]


def test_two_neighbours_are_told_apart(tmp_path: Path, segment: Segment) -> None:
    broken = damage.flip(segment.data, segment.starts[2] + 65)
    broken = damage.flip(broken, segment.starts[3] + 65)
    rows, found = dumped(segment.written(tmp_path, broken))
    assert [place_of(one)[:2] for one in found] == [
        ("crc-mismatch", segment.starts[2]),
        ("crc-mismatch", segment.starts[3]),
    ]
    assert headers(rows) == [(segment.starts[2], False), (segment.starts[3], False)]
    assert offsets(rows) == all_but(2, 3)


def test_every_batch_broken(tmp_path: Path, segment: Segment) -> None:
    broken = segment.data
    for start in segment.starts[:-1]:
        broken = damage.flip(broken, start + 65)
    rows, found = dumped(segment.written(tmp_path, broken))
    assert offsets(rows) == []
    assert sum(one.size_bytes or 0 for one in found) == len(broken)
    assert {one.code for one in found} == {"crc-mismatch"}


@pytest.mark.parametrize("length", [0, 13, -1, -(1 << 31), 5])
def test_length_field_below_the_smallest(tmp_path: Path, segment: Segment, length: int) -> None:
    start, end = segment.starts[2:4]
    broken = damage.put(segment.data, start + 8, length.to_bytes(4, "big", signed=True))
    rows, found = dumped(segment.written(tmp_path, broken))
    one = only(found)
    assert place_of(one) == ("batch-length", start, end - start, first_of(2))
    assert loss_of(one) == (0, RECORDS, first_of(3))
    assert offsets(rows) == all_but(2)


def test_length_field_beyond_the_file(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[2:4]
    for length in (len(segment.data), 0x7FFFFFFF):
        broken = damage.put(segment.data, start + 8, length.to_bytes(4, "big"))
        rows, found = dumped(segment.written(tmp_path, broken))
        one = only(found)
        assert place_of(one) == ("batch-cut-short", start, end - start, first_of(2))
        assert loss_of(one) == (0, RECORDS, first_of(3))
        assert offsets(rows) == all_but(2)


def test_length_field_that_swallows_the_next_batch(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[1:3]
    length = len(segment.entries[1]) + len(segment.entries[2]) // 2 - 12
    broken = damage.put(segment.data, start + 8, length.to_bytes(4, "big"))
    rows, found = dumped(segment.written(tmp_path, broken))
    assert place_of(only(found)) == ("crc-mismatch", start, end - start, first_of(1))
    assert offsets(rows) == all_but(1)


def test_length_field_of_the_last_batch(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[-2:]
    for length, code in ((0, "batch-length"), (-5, "batch-length"), (1 << 30, "torn-tail")):
        broken = damage.put(segment.data, start + 8, length.to_bytes(4, "big", signed=True))
        rows, found = dumped(segment.written(tmp_path, broken))
        one = only(found)
        assert place_of(one) == (code, start, end - start, first_of(5))
        assert loss_of(one) == (0, None, None)
        assert offsets(rows) == all_but(5)


def test_batch_shorter_than_its_own_header(tmp_path: Path, segment: Segment) -> None:
    start = segment.starts[2]
    short = segment.entries[0][:8] + (30).to_bytes(4, "big") + segment.entries[0][12:42]
    entries = [*segment.entries[:2], short, *segment.entries[2:]]
    rows, found = dumped(segment.written(tmp_path, b"".join(entries)))
    assert place_of(only(found))[:3] == ("batch-too-small", start, len(short))
    assert offsets(rows) == all_but()


def test_a_flip_before_a_short_batch_is_still_a_flip(tmp_path: Path, segment: Segment) -> None:
    """What is wrong with one entry must not colour what is said of another in the same block."""
    short = batch(first_of(4))[:8] + (30).to_bytes(4, "big") + segment.entries[4][12:42]
    entries = [*segment.entries[:4], short, *segment.entries[4:]]
    broken = damage.flip_bit(b"".join(entries), segment.starts[1] + 65, 2)
    _, found = dumped(segment.written(tmp_path, broken))
    assert [one.code for one in found] == ["crc-mismatch", "batch-too-small"]
    assert loss_of(found[0]) == (RECORDS, RECORDS, first_of(2))


@pytest.mark.parametrize("magic", [3, 7, 127, -1])
def test_magic_flipped(tmp_path: Path, segment: Segment, magic: int) -> None:
    """The magic byte of v2 lies outside its sum, so above 2 the layout is still v2's; below 0
    brokers frame it as v0, whose sum is wrong then."""
    start, end = segment.starts[2:4]
    broken = damage.put(segment.data, start + 16, magic.to_bytes(1, "big", signed=True))
    rows, found = dumped(segment.written(tmp_path, broken))
    one = only(found)
    if magic > 0:
        assert place_of(one) == ("magic-unknown", start, end - start, first_of(2) + 2)
        assert one.actual == magic
        assert offsets(rows) == all_but()
    else:
        assert place_of(one) == ("crc-mismatch", start, end - start, first_of(2))
        assert offsets(rows) == all_but(2)
        assert loss_of(one)[1:] == (RECORDS, first_of(3))


@pytest.mark.parametrize("step", [1 << 8, 1 << 40, 1 << 62])
def test_base_offset_flipped_upwards(tmp_path: Path, segment: Segment, step: int) -> None:
    """It lies outside the sum; the batch behind it falls back, if it could be right at all."""
    start = segment.starts[2]
    broken = damage.put(segment.data, start, (first_of(2) + step).to_bytes(8, "big"))
    rows, found = dumped(segment.written(tmp_path, broken))
    one = only(found)
    if step < 1 << 31:
        assert place_of(one)[:2] == ("offset-not-rising", segment.starts[3])
        assert (one.expected, one.actual) == (first_of(3) + step, first_of(3))
    else:
        assert place_of(one)[:2] == ("offset-past-range", start)
        assert (one.expected, one.actual) == (first_of(2), first_of(2) + step)
    assert len(offsets(rows)) == len(all_but())


def test_damage_behind_a_base_offset_flipped_upwards(tmp_path: Path, segment: Segment) -> None:
    """One wild offset must not make everything behind it unbelievable."""
    broken = damage.put(segment.data, segment.starts[1], (1 << 50).to_bytes(8, "big"))
    broken = damage.flip(broken, segment.starts[3] + 65)
    rows, found = dumped(segment.written(tmp_path, broken))
    assert [one.code for one in found] == ["offset-past-range", "crc-mismatch"]
    assert loss_of(found[1]) == (RECORDS, RECORDS, first_of(4))
    assert offsets(rows)[-6:] == all_but()[-6:]


def test_base_offset_flipped_downwards(tmp_path: Path, segment: Segment) -> None:
    start = segment.starts[3]
    broken = damage.put(segment.data, start, (5).to_bytes(8, "big"))
    rows, found = dumped(segment.written(tmp_path, broken))
    one = only(found)
    assert place_of(one)[:2] == ("offset-not-rising", start)
    assert (one.expected, one.actual) == (first_of(3), 5)
    assert offsets(rows)[9:12] == [5, 6, 7]


def test_leader_epoch_flipped(tmp_path: Path, segment: Segment) -> None:
    """It lies outside the sum too; the batches around it have another."""
    broken = damage.flip_bit(segment.data, segment.starts[2] + 14, 2)
    rows, found = dumped(segment.written(tmp_path, broken))
    one = only(found)
    assert (one.code, one.position) == ("leader-epoch-odd", segment.starts[2])
    assert (one.expected, one.actual) == (0, 1024)
    assert {row["leader_epoch"] for row in rows} == {0, 1024}


@pytest.mark.parametrize("number", [2, BATCHES - 1])
def test_duplicate_batch(tmp_path: Path, segment: Segment, number: int) -> None:
    start, end = segment.starts[number : number + 2]
    rows, found = dumped(segment.written(tmp_path, damage.repeat(segment.data, start, end - start)))
    one = only(found)
    assert place_of(one)[:3] == ("offset-not-rising", end, end - start)
    assert (one.expected, one.actual) == (first_of(number + 1), first_of(number))
    assert len(offsets(rows)) == len(all_but()) + RECORDS


def test_swapped_batches(tmp_path: Path, segment: Segment) -> None:
    entries = list(segment.entries)
    entries[2], entries[3] = entries[3], entries[2]
    rows, found = dumped(segment.written(tmp_path, b"".join(entries)))
    assert place_of(only(found))[:2] == ("offset-not-rising", segment.starts[2] + len(entries[2]))
    assert sorted(offsets(rows)) == all_but()


@pytest.mark.parametrize("size", [1, 11, 12, 17, 18, 60, 61, 500])
def test_garbage_between_batches(tmp_path: Path, segment: Segment, size: int) -> None:
    garbage = bytes((n * 7 + 131) % 256 for n in range(size))
    at = segment.starts[2]
    broken = segment.data[:at] + garbage + segment.data[at:]
    rows, found = dumped(segment.written(tmp_path, broken))
    one = only(found)
    assert (one.position, one.size_bytes) == (at, size)
    assert one.severity is Severity.DAMAGE
    assert loss_of(one) == (0, 0, first_of(2))
    assert offsets(rows) == all_but()


def test_a_lost_page(tmp_path: Path, segment: Segment) -> None:
    """Zeros over the end of one batch, two whole ones, and the head of a fourth."""
    start = segment.starts[1] + 40
    broken = damage.zero(segment.data, start, segment.starts[4] + 20 - start)
    rows, found = dumped(segment.written(tmp_path, broken))
    assert offsets(rows) == all_but(1, 2, 3, 4)
    assert sum(one.size_bytes or 0 for one in found) == segment.starts[5] - segment.starts[1]
    assert loss_of(found[-1])[1:] == (12, first_of(5))
    assert len(found) == 1


def test_batch_inside_a_value_of_a_damaged_batch_stays_a_value(
    tmp_path: Path, segment: Segment
) -> None:
    inner = batch(first_of(1) + 1)
    carrier = builders.batch(
        [builders.record(value=inner), builders.record(2, value=b"x")],
        base_offset=first_of(1),
        last_offset_delta=2,
    )
    entries = [segment.entries[0], carrier, *segment.entries[2:]]
    start = len(entries[0])
    broken = damage.flip(b"".join(entries), start + len(carrier) - 2)
    rows, found = dumped(segment.written(tmp_path, broken))
    one = only(found)
    assert place_of(one) == ("crc-mismatch", start, len(carrier), first_of(1))
    assert loss_of(one) == (2, 3, first_of(2))
    assert offsets(rows) == all_but(1)
    assert "2 to 3 records lost" in one.message


# Tails -------------------------------------------------------------------------------------------


def test_torn_tails_of_every_length(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[-2:]
    for size in range(start + 1, end):
        rows, found = dumped(segment.written(tmp_path, damage.cut(segment.data, size)))
        one = only(found)
        assert place_of(one) == ("torn-tail", start, size - start, first_of(5))
        assert loss_of(one) == (0, None, None)
        assert offsets(rows) == all_but(5)


def test_torn_tail_before_another_segment(tmp_path: Path, segment: Segment) -> None:
    path = segment.written(tmp_path, damage.cut(segment.data, segment.starts[5] + 30))
    path.with_name(f"{first_of(6):020}.log").write_bytes(batch(first_of(6)))
    one = only(dumped(path.parent)[1])
    assert one.code == "torn-tail"
    assert loss_of(one) == (0, RECORDS, first_of(6))


def test_tail_of_a_file_written_to_just_now_is_a_note(tmp_path: Path, segment: Segment) -> None:
    path = segment.written(tmp_path, damage.cut(segment.data, segment.starts[5] + 30))
    os.utime(path)
    assert only(dumped(path)[1]).code == "torn-tail"
    with holding(path.parent.parent):
        one = only(dumped(path)[1])
    assert place_of(one) == ("tail-being-written", segment.starts[5], 30, first_of(5))
    assert one.severity is Severity.NOTE


@pytest.mark.parametrize("size", [18, 300, 4096, 1 << 20])
def test_zeros_behind_the_end_are_reserved(tmp_path: Path, segment: Segment, size: int) -> None:
    end = len(segment.data)
    rows, found = dumped(segment.written(tmp_path, segment.data + bytes(size)))
    one = only(found)
    assert place_of(one) == ("preallocated-tail", end, size, first_of(6))
    assert one.severity is Severity.NOTE
    assert offsets(rows) == all_but()


@pytest.mark.parametrize("size", [1, 17])
def test_too_few_zeros_to_be_anything(tmp_path: Path, segment: Segment, size: int) -> None:
    _, found = dumped(segment.written(tmp_path, segment.data + bytes(size)))
    assert place_of(only(found))[1:3] == (len(segment.data), size)


def test_garbage_behind_the_end(tmp_path: Path, segment: Segment) -> None:
    garbage = bytes((n * 7 + 131) % 256 for n in range(211))
    rows, found = dumped(segment.written(tmp_path, segment.data + garbage))
    one = only(found)
    assert (one.position, one.size_bytes) == (len(segment.data), 211)
    assert one.severity is Severity.DAMAGE
    assert offsets(rows) == all_but()


def test_only_garbage(tmp_path: Path, segment: Segment) -> None:
    path = segment.written(tmp_path, bytes((n * 7 + 131) % 256 for n in range(3000)))
    rows, found = dumped(path)
    assert rows == []
    one = only(found)
    assert (one.position, one.size_bytes, one.offset) == (0, 3000, BASE)


@pytest.mark.parametrize("data", [b"", b"\x00"])
def test_almost_nothing(tmp_path: Path, segment: Segment, data: bytes) -> None:
    rows, found = dumped(segment.written(tmp_path, data))
    assert rows == []
    assert len(found) == len(data)


# Right sums over wrong contents ------------------------------------------------------------------


def with_batch(tmp_path: Path, segment: Segment, other: bytes) -> tuple[Path, int]:
    """Put another entry in the place of batch 2."""
    entries = [*segment.entries[:2], other, *segment.entries[3:]]
    return segment.written(tmp_path, b"".join(entries)), segment.starts[2]


def test_valid_sum_over_what_does_not_decompress(tmp_path: Path, segment: Segment) -> None:
    plain = b"".join(builders.record(n, value=bytes(range(250)) * 8) for n in range(3))
    packed = bytearray(builders.gzip_bytes(plain))
    packed[len(packed) // 2 :] = bytes(len(packed) - len(packed) // 2)
    other = builders.batch(
        [], base_offset=first_of(2), attributes=1, payload=bytes(packed),
        records_count=3, last_offset_delta=2,
    )  # fmt: skip
    path, start = with_batch(tmp_path, segment, other)
    rows, found = dumped(path)
    one = only(found)
    assert place_of(one) == ("records-undecodable", start, len(other), first_of(2) + 2)
    assert one.expected == 3
    assert re.match(r"Decoding stops after [012] records: gzip", one.message)
    assert set(all_but(2)) <= set(offsets(rows))


def test_count_of_records_too_high(tmp_path: Path, segment: Segment) -> None:
    """The header says four; three are there, and they are shown."""
    other = batch(first_of(2), records_count=4, last_offset_delta=3)
    path, start = with_batch(tmp_path, segment, other)
    rows, found = dumped(path)
    overlap, missing = found
    assert (overlap.code, overlap.actual) == ("offset-not-rising", first_of(3))
    assert (missing.code, missing.actual) == ("records-undecodable", "records-missing")
    assert missing.position == start
    assert offsets(rows) == all_but()


def test_count_of_records_too_low(tmp_path: Path, segment: Segment) -> None:
    path, start = with_batch(
        tmp_path, segment, batch(first_of(2), records_count=2, last_offset_delta=2)
    )
    rows, found = dumped(path)
    one = only(found)
    assert (one.code, one.actual, one.position) == (
        "records-undecodable", "records-remaining", start,
    )  # fmt: skip
    assert len(offsets(rows)) == len(all_but()) - 1


def test_negative_last_offset_delta(tmp_path: Path, segment: Segment) -> None:
    path, start = with_batch(tmp_path, segment, batch(first_of(2), last_offset_delta=-3))
    assert place_of(only(dumped(path)[1]))[:2] == ("batch-count", start)


def test_codec_no_version_defines(tmp_path: Path, segment: Segment) -> None:
    path, start = with_batch(tmp_path, segment, batch(first_of(2), attributes=6))
    rows, found = dumped(path)
    assert {one.position for one in found} == {start}
    assert "codec-unknown" in {one.code for one in found}
    assert offsets(rows) == all_but(2)


def test_record_that_ends_in_its_middle(tmp_path: Path, segment: Segment) -> None:
    """Good records before the bad one are shown."""
    records = [builders.record(0), builders.record(1), builders.record(2, length=90)]
    path, start = with_batch(tmp_path, segment, builders.batch(records, base_offset=first_of(2)))
    rows, found = dumped(path)
    one = only(found)
    assert (one.code, one.position, one.actual) == (
        "records-undecodable", start, "record-cut-short",
    )  # fmt: skip
    assert offsets(rows) == [offset for offset in all_but() if offset != first_of(2) + 2]


def test_wrapper_inside_a_wrapper(tmp_path: Path) -> None:
    inner = builders.wrapper([builders.message(0)], 0)
    entries = [
        builders.message(BASE),
        builders.wrapper([inner], BASE + 1),
        builders.message(BASE + 2),
    ]
    rows, found = dumped(Segment(entries).written(tmp_path))
    one = only(found)
    assert place_of(one) == (
        "records-undecodable", len(entries[0]), len(entries[1]), BASE + 1,
    )  # fmt: skip
    assert (one.actual, one.expected) == ("inner-compressed", None)
    assert offsets(rows) == [BASE, BASE + 2]


def test_wrapper_whose_inner_sum_is_wrong(tmp_path: Path) -> None:
    inner = [builders.message(0), builders.message(1, crc=7), builders.message(2)]
    segment = Segment([builders.wrapper(inner, BASE + 2), builders.message(BASE + 3)])
    rows, found = dumped(segment.written(tmp_path))
    assert place_of(only(found)) == ("inner-crc-mismatch", 0, len(segment.entries[0]), BASE + 1)
    assert offsets(rows) == [BASE, BASE + 1, BASE + 2, BASE + 3]


@pytest.mark.parametrize("magic", [0, 1])
def test_flip_in_an_old_message(tmp_path: Path, magic: int) -> None:
    segment = Segment([builders.message(BASE + n, magic=magic) for n in range(4)])
    start, end = segment.starts[1:3]
    path = segment.written(tmp_path, damage.flip_bit(segment.data, end - 2, 4))
    rows, found = dumped(path)
    one = only(found)
    assert place_of(one) == ("crc-mismatch", start, end - start, BASE + 1)
    assert loss_of(one) == (1, 1, BASE + 2)
    assert f"byte {end - 2} bit 4" in one.message
    assert offsets(rows) == [BASE, BASE + 2, BASE + 3]


def test_flip_before_a_wrapper(tmp_path: Path) -> None:
    """The next good offset is the first inside the wrapper, not the one in its header."""
    wrapper = builders.wrapper([builders.message(n) for n in range(3)], BASE + 4)
    segment = Segment([builders.message(BASE), builders.message(BASE + 1), wrapper])
    path = segment.written(tmp_path, damage.flip(segment.data, segment.starts[2] - 2))
    rows, found = dumped(path)
    assert loss_of(only(found)) == (1, 1, BASE + 2)
    assert offsets(rows) == [BASE, BASE + 2, BASE + 3, BASE + 4]


def test_offset_of_a_wrapper_that_falls_back(tmp_path: Path) -> None:
    """Brokers 0.10.0 and 0.10.2 wrote such; the finding names the offset that stands there."""
    wrappers = [
        builders.wrapper([builders.message(0), builders.message(1)], offset)
        for offset in (BASE + 26, BASE + 5, BASE + 29)
    ]
    rows, found = dumped(Segment(wrappers).written(tmp_path))
    one = only(found)
    assert (one.code, one.expected, one.actual) == ("offset-not-rising", BASE + 27, BASE + 5)
    assert offsets(rows) == [125, 126, 104, 105, 128, 129]


# Sizes -------------------------------------------------------------------------------------------


def test_plain_text_over_the_limit(tmp_path: Path, segment: Segment) -> None:
    records = [builders.record(n, value=bytes(100_000)) for n in range(3)]
    other = builders.batch(
        records, base_offset=first_of(2), attributes=1, compress=builders.gzip_bytes
    )
    path, start = with_batch(tmp_path, segment, other)
    rows, found = dumped(path, decompress_limit=200_000)
    one = only(found)
    assert place_of(one)[:3] == ("over-decompress-limit", start, len(other))
    assert one.severity is Severity.NOTE
    assert offsets(rows) == all_but(2)
    assert offsets(dumped(path, decompress_limit=400_000)[0]) == all_but()


def large(base_offset: int) -> bytes:
    records = [builders.record(n, value=bytes(200_000)) for n in range(3)]
    return builders.batch(records, base_offset=base_offset)


def test_batch_too_large_to_hold(tmp_path: Path, segment: Segment) -> None:
    path, start = with_batch(tmp_path, segment, large(first_of(2)))
    rows, found = dumped(path, decompress_limit=300_000)
    one = only(found)
    assert place_of(one)[:3] == ("over-decompress-limit", start, len(large(0)))
    assert offsets(rows) == all_but(2)
    assert headers(rows) == [(start, True)]


def test_damaged_batch_too_large_to_hold(tmp_path: Path, segment: Segment) -> None:
    other = large(first_of(2))
    path, start = with_batch(tmp_path, segment, damage.flip_bit(other, 300_000, 6))
    rows, found = dumped(path, decompress_limit=300_000)
    one = only(found)
    assert place_of(one) == ("crc-mismatch", start, len(other), first_of(2))
    assert loss_of(one) == (RECORDS, RECORDS, first_of(3))
    assert f"byte {start + 300_000:,} bit 6" in one.message
    assert offsets(rows) == all_but(2)


def test_batches_across_many_blocks(tmp_path: Path) -> None:
    """The file is read in blocks; entries lie across their ends, and so does damage."""
    entries = [
        builders.batch([builders.record(value=os.urandom(70_000))], base_offset=BASE + n)
        for n in range(40)
    ]
    segment = Segment(entries)
    rows, found = dumped(segment.written(tmp_path))
    assert offsets(rows) == list(range(BASE, BASE + 40))
    assert found == []
    for number in (3, 20, 38):
        start, end = segment.starts[number : number + 2]
        broken = damage.zero(segment.data, start, 65)
        rows, found = dumped(segment.written(tmp_path, broken))
        one = only(found)
        assert (one.position, one.size_bytes) == (start, end - start)
        assert loss_of(one)[1:] == (1, BASE + number + 1)


# The device, and the broker that goes on writing ------------------------------------------------


@pytest.fixture
def bad_pages(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Pages of 4 KiB that the device does not give."""
    bad: set[int] = set()
    plain = Source._pread

    def read(self: Source, view: memoryview, position: int) -> int:
        last = position + max(len(view), 1) - 1
        if bad.intersection(range(position // 4096, last // 4096 + 1)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(self, view, position)

    monkeypatch.setattr(Source, "_pread", read)
    return bad


def test_pages_the_device_does_not_give(tmp_path: Path, bad_pages: set[int]) -> None:
    segment = Segment([batch(BASE + 40 * n, 40) for n in range(12)])
    path = segment.written(tmp_path)
    bad_pages.add(2)
    hit = [
        number
        for number in range(12)
        if segment.starts[number] < 12288 and segment.starts[number + 1] > 8192
    ]
    rows, found = dumped(path)
    assert {one.code for one in found} == {"unreadable"}
    assert found[0].position == segment.starts[hit[0]]
    assert found[-1].next_offset == BASE + 40 * (hit[-1] + 1)
    assert sum(one.size_bytes or 0 for one in found) == (
        segment.starts[hit[-1] + 1] - segment.starts[hit[0]]
    )
    assert offsets(rows) == [
        BASE + 40 * number + n for number in range(12) if number not in hit for n in range(40)
    ]


def test_no_page_can_be_read(tmp_path: Path, bad_pages: set[int], segment: Segment) -> None:
    path = segment.written(tmp_path)
    bad_pages.add(0)
    rows, found = dumped(path)
    assert rows == []
    assert place_of(only(found)) == ("unreadable", 0, len(segment.data), BASE)


def shrunk_while_read(path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the file cut when it is first read from."""
    plain = Source._pread

    def read(self: Source, view: memoryview, position: int) -> int:
        monkeypatch.setattr(Source, "_pread", plain)
        os.truncate(path, size)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return plain(self, view, position)

    monkeypatch.setattr(Source, "_pread", read)


def test_file_that_shrinks_while_read(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, kept in ((segment.starts[3], 3), (segment.starts[3] + 30, 3), (0, 0)):
        path = segment.written(tmp_path)
        shrunk_while_read(path, size, monkeypatch)
        rows, found = dumped(path)
        one = only(found)
        assert (one.code, one.severity, one.position) == ("file-shrank", Severity.NOTE, size)
        assert offsets(rows) == all_but()[: 3 * kept]


def test_file_that_grows_while_read(tmp_path: Path, segment: Segment) -> None:
    """The rest of an entry arrives between the reads; it and what follows are shown."""
    path = segment.written(tmp_path, damage.cut(segment.data, segment.starts[4] + 20))
    rows: list[int] = []
    found: list[Finding] = []
    for item in dump([str(path)], DumpOptions()):
        if isinstance(item, Finding):
            found.append(item)
            continue
        assert not isinstance(item, (BatchChunk, Exception))
        rows.extend(row.offset for row in item.iter_records())  # type: ignore[union-attr]
        path.write_bytes(segment.data)
    assert found == []
    assert rows == all_but()


def test_file_that_never_stops_growing(tmp_path: Path, segment: Segment) -> None:
    """A torn tail that is torn again each time it is looked at is a note in the end."""
    data = segment.data
    path = segment.written(tmp_path, damage.cut(data, segment.starts[1] + 20))
    rows: list[int] = []
    found: list[Finding] = []
    turn = 1
    for item in dump([str(path)], DumpOptions()):
        if isinstance(item, Finding):
            found.append(item)
            continue
        rows.extend(row.offset for row in item.iter_records())  # type: ignore[union-attr]
        turn += 1
        path.write_bytes(data[: segment.starts[turn] + 20])
    assert [one.code for one in found] == ["tail-being-written"]
    assert rows == all_but()[: len(rows)]


def test_file_that_vanished_is_a_note(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment.written(tmp_path)
    other = path.with_name(f"{first_of(6):020}.log")
    other.write_bytes(batch(first_of(6)))
    items = dump([str(path.parent)], DumpOptions())
    first = next(items)
    assert not isinstance(first, (Finding, Exception))
    other.unlink()
    rest = list(items)
    assert [(one.code, one.path) for one in rest if isinstance(one, Finding)] == [
        ("file-vanished", str(other))
    ]
    assert len(rest) == 1


# What has to hold of any damage -----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["records", "batches"])
def test_every_single_byte_flipped(tmp_path: Path, segment: Segment, mode: str) -> None:
    """Whatever byte is hit: no more than its batch is lost, and it is told of, at its place; the
    leader epoch and the base offset, which are outside the sum, by what their neighbours say."""
    sound, _ = dumped(segment.written(tmp_path), mode=mode)
    data = segment.data
    start, end = segment.starts[2:4]
    for at in range(start, end):
        rows, found = dumped(segment.written(tmp_path, damage.flip(data, at)), mode=mode)
        field = at - start
        kept = [row for row in rows if row["position"] != start]
        assert kept == [row for row in sound if row["position"] != start], field
        if 12 <= field < 16:
            assert [one.code for one in found] == ["leader-epoch-odd"], field
        elif field < 8:
            # Those of the upper half lie above all that a segment can hold, or below zero.
            assert {one.code for one in found} <= {"offset-not-rising", "offset-past-range"}, field
            assert len(found) == 1, field
        else:
            assert (only(found).position, only(found).size_bytes) == (start, end - start), field


def test_sums_are_those_of_zlib(tmp_path: Path) -> None:
    """The builders' sums are not ours."""
    data = builders.message(BASE)
    assert int.from_bytes(data[12:16], "big") == zlib.crc32(data[16:])
    rows, _ = dumped(Segment([data]).written(tmp_path), mode="batches")
    assert rows[0]["crc"] == zlib.crc32(data[16:])
