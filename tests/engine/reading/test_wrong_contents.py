"""Right checksums over wrong contents."""

import re
from pathlib import Path

import builders
import damage
import pytest
from damaged_segment import (
    BASE,
    Segment,
    all_but,
    batch,
    first_of,
    loss_of,
    offsets,
    only,
    place_of,
    with_batch,
)
from dumped import run_dump


def test_undecompressible_batch_with_a_valid_checksum_is_reported(
    tmp_path: Path, segment: Segment
) -> None:
    plain = b"".join(builders.record(n, value=bytes(range(250)) * 8) for n in range(3))
    packed = bytearray(builders.gzip_bytes(plain))
    packed[len(packed) // 2 :] = bytes(len(packed) - len(packed) // 2)
    other = builders.batch(
        [], base_offset=first_of(2), attributes=1, payload=bytes(packed),
        records_count=3, last_offset_delta=2,
    )  # fmt: skip
    path, start = with_batch(tmp_path, segment, other)
    rows, found = run_dump(path)
    one = only(found)
    assert place_of(one) == ("records-undecodable", start, len(other), first_of(2) + 2)
    assert one.expected == 3
    assert re.match(r"Decoding stops after [012] records?: gzip", one.message)
    assert set(all_but(2)) <= set(offsets(rows))


def test_high_record_count_is_reported(tmp_path: Path, segment: Segment) -> None:
    """The header says four; three are there, and they are shown."""
    other = batch(first_of(2), records_count=4, last_offset_delta=3)
    path, start = with_batch(tmp_path, segment, other)
    rows, found = run_dump(path)
    overlap, missing = found
    assert (overlap.code, overlap.actual) == ("offset-not-rising", first_of(3))
    assert (missing.code, missing.actual) == ("records-undecodable", "records-missing")
    assert missing.position == start
    assert offsets(rows) == all_but()


def test_low_record_count_is_reported(tmp_path: Path, segment: Segment) -> None:
    path, start = with_batch(
        tmp_path, segment, batch(first_of(2), records_count=2, last_offset_delta=2)
    )
    rows, found = run_dump(path)
    one = only(found)
    assert (one.code, one.actual, one.position) == (
        "records-undecodable", "records-remaining", start,
    )  # fmt: skip
    assert len(offsets(rows)) == len(all_but()) - 1


def test_negative_last_offset_delta_is_reported(tmp_path: Path, segment: Segment) -> None:
    path, start = with_batch(tmp_path, segment, batch(first_of(2), last_offset_delta=-3))
    assert place_of(only(run_dump(path)[1]))[:2] == ("batch-count", start)


def test_unknown_codec_is_reported(tmp_path: Path, segment: Segment) -> None:
    path, start = with_batch(tmp_path, segment, batch(first_of(2), attributes=6))
    rows, found = run_dump(path)
    assert {one.position for one in found} == {start}
    assert "codec-unknown" in {one.code for one in found}
    assert offsets(rows) == all_but(2)


def test_truncated_record_is_reported(tmp_path: Path, segment: Segment) -> None:
    """Good records before the bad one are shown."""
    records = [builders.record(0), builders.record(1), builders.record(2, length=90)]
    path, start = with_batch(tmp_path, segment, builders.batch(records, base_offset=first_of(2)))
    rows, found = run_dump(path)
    one = only(found)
    assert (one.code, one.position, one.actual) == (
        "records-undecodable", start, "record-cut-short",
    )  # fmt: skip
    assert offsets(rows) == [offset for offset in all_but() if offset != first_of(2) + 2]


def test_nested_wrapper_is_reported(tmp_path: Path) -> None:
    inner = builders.wrapper([builders.message(0)], 0)
    entries = [
        builders.message(BASE),
        builders.wrapper([inner], BASE + 1),
        builders.message(BASE + 2),
    ]
    rows, found = run_dump(Segment(entries).write(tmp_path))
    one = only(found)
    assert place_of(one) == (
        "records-undecodable", len(entries[0]), len(entries[1]), BASE + 1,
    )  # fmt: skip
    assert (one.actual, one.expected) == ("inner-compressed", None)
    assert offsets(rows) == [BASE, BASE + 1, BASE + 2]  # the second as its bytes


def test_wrapper_with_a_wrong_inner_checksum(tmp_path: Path) -> None:
    inner = [builders.message(0), builders.message(1, crc=7), builders.message(2)]
    segment = Segment([builders.wrapper(inner, BASE + 2), builders.message(BASE + 3)])
    rows, found = run_dump(segment.write(tmp_path))
    assert place_of(only(found)) == ("inner-crc-mismatch", 0, len(segment.entries[0]), BASE + 1)
    assert offsets(rows) == [BASE, BASE + 1, BASE + 2, BASE + 3]


@pytest.mark.parametrize("magic", [0, 1])
def test_bit_flip_in_an_old_message_is_reported(tmp_path: Path, magic: int) -> None:
    segment = Segment([builders.message(BASE + n, magic=magic) for n in range(4)])
    start, end = segment.starts[1:3]
    path = segment.write(tmp_path, damage.flip_bit(segment.data, end - 2, 4))
    rows, found = run_dump(path)
    one = only(found)
    assert place_of(one) == ("crc-mismatch", start, end - start, BASE + 1)
    assert loss_of(one) == (1, 1, BASE + 2)
    assert f"bit 4 of byte {end - 2}" in one.message
    assert offsets(rows) == [BASE, BASE + 2, BASE + 3]


def test_bit_flip_before_a_wrapper_is_reported(tmp_path: Path) -> None:
    """The next good offset is the first inside the wrapper, not the one in its header."""
    wrapper = builders.wrapper([builders.message(n) for n in range(3)], BASE + 4)
    segment = Segment([builders.message(BASE), builders.message(BASE + 1), wrapper])
    path = segment.write(tmp_path, damage.flip(segment.data, segment.starts[2] - 2))
    rows, found = run_dump(path)
    assert loss_of(only(found)) == (1, 1, BASE + 2)
    assert offsets(rows) == [BASE, BASE + 2, BASE + 3, BASE + 4]


def test_falling_wrapper_offset_is_reported(tmp_path: Path) -> None:
    """Brokers 0.10.0 and 0.10.2 wrote such; the finding names the offset that stands there."""
    wrappers = [
        builders.wrapper([builders.message(0), builders.message(1)], offset)
        for offset in (BASE + 26, BASE + 5, BASE + 29)
    ]
    rows, found = run_dump(Segment(wrappers).write(tmp_path))
    one = only(found)
    assert (one.code, one.expected, one.actual) == ("offset-not-rising", BASE + 27, BASE + 5)
    assert offsets(rows) == [125, 126, 104, 105, 128, 129]
