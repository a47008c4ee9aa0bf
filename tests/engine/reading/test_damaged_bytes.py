"""Damage inside a segment: what is lost, and where reading goes on."""

import re
from pathlib import Path

import builders
import damage
import pytest
from damaged_segment import (
    BASE,
    BATCHES,
    RECORDS,
    Segment,
    all_but,
    batch,
    first_of,
    headers,
    loss_of,
    offsets,
    only,
    place_of,
)
from dumped import run_dump

from kdump.findings.finding import Severity


def test_sound_segment_has_no_finding(tmp_path: Path, segment: Segment) -> None:
    rows, found = run_dump(segment.write(tmp_path))
    assert offsets(rows) == all_but()
    assert headers(rows) == []
    assert found == []


@pytest.mark.parametrize("number", [0, 2, BATCHES - 1])
def test_bit_flip_inside_a_batch_is_located(tmp_path: Path, segment: Segment, number: int) -> None:
    start, end = segment.starts[number : number + 2]
    for byte, bit in ((start + 22, 0), (start + 61, 7), (end - 1, 3)):
        path = segment.write(tmp_path, damage.flip_bit(segment.data, byte, bit))
        rows, found = run_dump(path)
        one = only(found)
        assert place_of(one) == ("crc-mismatch", start, end - start, first_of(number))
        assert one.severity is Severity.DAMAGE
        assert (one.topic, one.partition, one.segment) == ("orders", 0, BASE)
        assert one.path == str(path)
        assert f"One flipped bit explains it: bit {bit} of byte {byte:,}." in one.message
        assert "checked twice" in one.message
        assert offsets(rows) == all_but(number)
        assert headers(rows) == [(start, False)]
        if number == BATCHES - 1:
            assert loss_of(one) == (RECORDS, None, None)
        else:
            assert loss_of(one) == (RECORDS, RECORDS, first_of(number + 1))


@pytest.mark.parametrize("bit", [0, 7, 9, 31])
def test_bit_flip_in_the_stored_checksum_is_located(
    tmp_path: Path, segment: Segment, bit: int
) -> None:
    start = segment.starts[1]
    byte = start + 20 - bit // 8
    path = segment.write(tmp_path, damage.flip_bit(segment.data, byte, bit % 8))
    one = only(run_dump(path)[1])
    assert f"One flipped bit explains it: bit {bit % 8} of byte {byte:,}." in one.message


def test_two_bit_flips_are_not_explained_as_one(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[1:3]
    broken = damage.flip_bit(damage.flip_bit(segment.data, start + 40, 1), end - 9, 5)
    one = only(run_dump(segment.write(tmp_path, broken))[1])
    assert one.expected == builders.crc32c(broken[start + 21 : end])
    assert one.actual == int.from_bytes(segment.data[start + 17 : start + 21], "big")
    assert "flipped" not in one.message


def test_messages_contain_the_checksums(tmp_path: Path, segment: Segment) -> None:
    start = segment.starts[3]
    broken = damage.flip(segment.data, start + 70)
    one = only(run_dump(segment.write(tmp_path, broken))[1])
    assert re.match(rf"stored {one.actual:08x}, computed {one.expected:08x} ", one.message)


def test_last_batch_before_another_segment(tmp_path: Path, segment: Segment) -> None:
    """The next segment's base is the next good offset, so the loss is known exactly."""
    path = segment.write(tmp_path, damage.flip(segment.data, segment.starts[5] + 70))
    following = path.with_name(f"{first_of(6):020}.log")
    following.write_bytes(batch(first_of(6)))
    rows, found = run_dump(path.parent)
    assert loss_of(only(found)) == (RECORDS, RECORDS, first_of(6))
    assert offsets(rows)[-3:] == [118, 119, 120]


def test_adjacent_damages_are_separate(tmp_path: Path, segment: Segment) -> None:
    broken = damage.flip(segment.data, segment.starts[2] + 65)
    broken = damage.flip(broken, segment.starts[3] + 65)
    rows, found = run_dump(segment.write(tmp_path, broken))
    assert [place_of(one)[:2] for one in found] == [
        ("crc-mismatch", segment.starts[2]),
        ("crc-mismatch", segment.starts[3]),
    ]
    assert headers(rows) == [(segment.starts[2], False), (segment.starts[3], False)]
    assert offsets(rows) == all_but(2, 3)


def test_every_broken_batch_is_reported(tmp_path: Path, segment: Segment) -> None:
    broken = segment.data
    for start in segment.starts[:-1]:
        broken = damage.flip(broken, start + 65)
    rows, found = run_dump(segment.write(tmp_path, broken))
    assert offsets(rows) == []
    assert sum(one.size_bytes or 0 for one in found) == len(broken)
    assert {one.code for one in found} == {"crc-mismatch"}


@pytest.mark.parametrize("length", [0, 13, -1, -(1 << 31), 5])
def test_length_field_below_the_smallest(tmp_path: Path, segment: Segment, length: int) -> None:
    start, end = segment.starts[2:4]
    broken = damage.put(segment.data, start + 8, length.to_bytes(4, "big", signed=True))
    rows, found = run_dump(segment.write(tmp_path, broken))
    one = only(found)
    assert place_of(one) == ("batch-length", start, end - start, first_of(2))
    assert loss_of(one) == (0, RECORDS, first_of(3))
    assert offsets(rows) == all_but(2)


def test_length_field_beyond_the_file(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[2:4]
    for length in (len(segment.data), 0x7FFFFFFF):
        broken = damage.put(segment.data, start + 8, length.to_bytes(4, "big"))
        rows, found = run_dump(segment.write(tmp_path, broken))
        one = only(found)
        assert place_of(one) == ("batch-cut-short", start, end - start, first_of(2))
        assert loss_of(one) == (0, RECORDS, first_of(3))
        assert offsets(rows) == all_but(2)


def test_length_field_may_cover_the_next_batch(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[1:3]
    length = len(segment.entries[1]) + len(segment.entries[2]) // 2 - 12
    broken = damage.put(segment.data, start + 8, length.to_bytes(4, "big"))
    rows, found = run_dump(segment.write(tmp_path, broken))
    assert place_of(only(found)) == ("crc-mismatch", start, end - start, first_of(1))
    assert offsets(rows) == all_but(1)


def test_length_field_of_the_last_batch(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[-2:]
    for length, code in ((0, "batch-length"), (-5, "batch-length"), (1 << 30, "torn-tail")):
        broken = damage.put(segment.data, start + 8, length.to_bytes(4, "big", signed=True))
        rows, found = run_dump(segment.write(tmp_path, broken))
        one = only(found)
        assert place_of(one) == (code, start, end - start, first_of(5))
        assert loss_of(one) == (0, None, None)
        assert offsets(rows) == all_but(5)


def test_batch_shorter_than_its_own_header(tmp_path: Path, segment: Segment) -> None:
    start = segment.starts[2]
    short = segment.entries[0][:8] + (30).to_bytes(4, "big") + segment.entries[0][12:42]
    entries = [*segment.entries[:2], short, *segment.entries[2:]]
    rows, found = run_dump(segment.write(tmp_path, b"".join(entries)))
    assert place_of(only(found))[:3] == ("batch-too-small", start, len(short))
    assert offsets(rows) == all_but()


def test_bit_flip_before_a_short_batch_is_located(tmp_path: Path, segment: Segment) -> None:
    """What is wrong with one entry must not colour what is said of another in the same block."""
    short = batch(first_of(4))[:8] + (30).to_bytes(4, "big") + segment.entries[4][12:42]
    entries = [*segment.entries[:4], short, *segment.entries[4:]]
    broken = damage.flip_bit(b"".join(entries), segment.starts[1] + 65, 2)
    _, found = run_dump(segment.write(tmp_path, broken))
    assert [one.code for one in found] == ["crc-mismatch", "batch-too-small"]
    assert loss_of(found[0]) == (RECORDS, RECORDS, first_of(2))


@pytest.mark.parametrize("magic", [3, 7, 127, -1])
def test_flipped_magic_is_reported(tmp_path: Path, segment: Segment, magic: int) -> None:
    """The magic byte of v2 lies outside its sum, so above 2 the layout is still v2's; below 0
    brokers frame it as v0, whose sum is wrong then."""
    start, end = segment.starts[2:4]
    broken = damage.put(segment.data, start + 16, magic.to_bytes(1, "big", signed=True))
    rows, found = run_dump(segment.write(tmp_path, broken))
    one = only(found)
    if magic > 0:
        assert place_of(one) == ("magic-unknown", start, end - start, first_of(2))
        assert one.actual == magic
        assert offsets(rows) == all_but()
    else:
        assert place_of(one) == ("crc-mismatch", start, end - start, first_of(2))
        assert offsets(rows) == all_but(2)
        assert loss_of(one)[1:] == (RECORDS, first_of(3))


@pytest.mark.parametrize("step", [1 << 8, 1 << 40, 1 << 62])
def test_base_offset_flipped_upwards_is_reported(
    tmp_path: Path, segment: Segment, step: int
) -> None:
    """It lies outside the sum; the batch behind it falls back, if it could be right at all."""
    start = segment.starts[2]
    broken = damage.put(segment.data, start, (first_of(2) + step).to_bytes(8, "big"))
    rows, found = run_dump(segment.write(tmp_path, broken))
    one = only(found)
    if step < 1 << 31:
        assert place_of(one)[:2] == ("offset-not-rising", segment.starts[3])
        assert (one.expected, one.actual) == (first_of(3) + step, first_of(3))
    else:
        assert place_of(one)[:2] == ("offset-past-range", start)
        assert (one.expected, one.actual) == (first_of(2), first_of(2) + step)
    assert len(offsets(rows)) == len(all_but())


def test_damage_after_a_base_offset_flipped_upwards(tmp_path: Path, segment: Segment) -> None:
    """One wild offset must not make everything behind it unbelievable."""
    broken = damage.put(segment.data, segment.starts[1], (1 << 50).to_bytes(8, "big"))
    broken = damage.flip(broken, segment.starts[3] + 65)
    rows, found = run_dump(segment.write(tmp_path, broken))
    assert [one.code for one in found] == ["offset-past-range", "crc-mismatch"]
    assert loss_of(found[1]) == (RECORDS, RECORDS, first_of(4))
    assert offsets(rows)[-6:] == all_but()[-6:]


def test_base_offset_flipped_downwards_is_reported(tmp_path: Path, segment: Segment) -> None:
    start = segment.starts[3]
    broken = damage.put(segment.data, start, (5).to_bytes(8, "big"))
    rows, found = run_dump(segment.write(tmp_path, broken))
    one = only(found)
    assert place_of(one)[:2] == ("offset-not-rising", start)
    assert (one.expected, one.actual) == (first_of(3), 5)
    assert offsets(rows)[9:12] == [5, 6, 7]


def test_flipped_leader_epoch_is_reported(tmp_path: Path, segment: Segment) -> None:
    """It lies outside the sum too; the batches around it have another."""
    broken = damage.flip_bit(segment.data, segment.starts[2] + 14, 2)
    rows, found = run_dump(segment.write(tmp_path, broken))
    one = only(found)
    assert (one.code, one.position) == ("leader-epoch-odd", segment.starts[2])
    assert (one.expected, one.actual) == (0, 1024)
    assert {row["leader_epoch"] for row in rows} == {0, 1024}


@pytest.mark.parametrize("number", [2, BATCHES - 1])
def test_duplicate_batch_is_reported(tmp_path: Path, segment: Segment, number: int) -> None:
    start, end = segment.starts[number : number + 2]
    rows, found = run_dump(segment.write(tmp_path, damage.repeat(segment.data, start, end - start)))
    one = only(found)
    assert place_of(one)[:3] == ("offset-not-rising", end, end - start)
    assert (one.expected, one.actual) == (first_of(number + 1), first_of(number))
    assert len(offsets(rows)) == len(all_but()) + RECORDS


def test_swapped_batches_are_reported(tmp_path: Path, segment: Segment) -> None:
    entries = list(segment.entries)
    entries[2], entries[3] = entries[3], entries[2]
    rows, found = run_dump(segment.write(tmp_path, b"".join(entries)))
    assert place_of(only(found))[:2] == ("offset-not-rising", segment.starts[2] + len(entries[2]))
    assert sorted(offsets(rows)) == all_but()


@pytest.mark.parametrize("size", [1, 11, 12, 17, 18, 60, 61, 500])
def test_garbage_between_batches_is_reported(tmp_path: Path, segment: Segment, size: int) -> None:
    garbage = bytes((n * 7 + 131) % 256 for n in range(size))
    at = segment.starts[2]
    broken = segment.data[:at] + garbage + segment.data[at:]
    rows, found = run_dump(segment.write(tmp_path, broken))
    one = only(found)
    assert (one.position, one.size_bytes) == (at, size)
    assert one.severity is Severity.DAMAGE
    assert loss_of(one) == (0, 0, first_of(2))
    assert offsets(rows) == all_but()


def test_lost_page_is_reported(tmp_path: Path, segment: Segment) -> None:
    """Zeros over the end of one batch, two whole ones, and the head of a fourth."""
    start = segment.starts[1] + 40
    broken = damage.zero(segment.data, start, segment.starts[4] + 20 - start)
    rows, found = run_dump(segment.write(tmp_path, broken))
    assert offsets(rows) == all_but(1, 2, 3, 4)
    assert sum(one.size_bytes or 0 for one in found) == segment.starts[5] - segment.starts[1]
    assert loss_of(found[-1])[1:] == (12, first_of(5))
    assert len(found) == 1


def test_batch_inside_a_damaged_value_is_not_a_batch(tmp_path: Path, segment: Segment) -> None:
    inner = batch(first_of(1) + 1)
    carrier = builders.batch(
        [builders.record(value=inner), builders.record(2, value=b"x")],
        base_offset=first_of(1),
        last_offset_delta=2,
    )
    entries = [segment.entries[0], carrier, *segment.entries[2:]]
    start = len(entries[0])
    broken = damage.flip(b"".join(entries), start + len(carrier) - 2)
    rows, found = run_dump(segment.write(tmp_path, broken))
    one = only(found)
    assert place_of(one) == ("crc-mismatch", start, len(carrier), first_of(1))
    assert loss_of(one) == (2, 3, first_of(2))
    assert offsets(rows) == all_but(1)
    assert "2 to 3 records lost" in one.message
