"""Tails of a segment: torn, reserved, being written, garbage."""

import os
from pathlib import Path

import damage
import pytest
from damaged_segment import (
    BASE,
    RECORDS,
    Segment,
    all_but,
    batch,
    first_of,
    loss_of,
    offsets,
    only,
    place_of,
)
from dumped import run_dump
from holding import hold_lock

from kdump.findings.finding import Severity


def test_torn_tails_of_every_length_are_reported(tmp_path: Path, segment: Segment) -> None:
    start, end = segment.starts[-2:]
    for size in range(start + 1, end):
        rows, found = run_dump(segment.write(tmp_path, damage.cut(segment.data, size)))
        one = only(found)
        assert place_of(one) == ("torn-tail", start, size - start, first_of(5))
        assert loss_of(one) == (0, None, None)
        assert offsets(rows) == all_but(5)


def test_torn_tail_before_another_segment_is_reported(tmp_path: Path, segment: Segment) -> None:
    path = segment.write(tmp_path, damage.cut(segment.data, segment.starts[5] + 30))
    path.with_name(f"{first_of(6):020}.log").write_bytes(batch(first_of(6)))
    one = only(run_dump(path.parent)[1])
    assert one.code == "torn-tail"
    assert loss_of(one) == (0, RECORDS, first_of(6))


def test_tail_of_a_file_written_to_just_now_is_a_note(tmp_path: Path, segment: Segment) -> None:
    path = segment.write(tmp_path, damage.cut(segment.data, segment.starts[5] + 30))
    os.utime(path)
    assert only(run_dump(path)[1]).code == "torn-tail"
    with hold_lock(path.parent.parent):
        one = only(run_dump(path)[1])
    assert place_of(one) == ("tail-being-written", segment.starts[5], 30, first_of(5))
    assert one.severity is Severity.NOTE


@pytest.mark.parametrize("size", [18, 300, 4096, 1 << 20])
def test_zeros_after_the_end_are_preallocated(tmp_path: Path, segment: Segment, size: int) -> None:
    end = len(segment.data)
    rows, found = run_dump(segment.write(tmp_path, segment.data + bytes(size)))
    one = only(found)
    assert place_of(one) == ("preallocated-tail", end, size, first_of(6))
    assert one.severity is Severity.NOTE
    assert offsets(rows) == all_but()


@pytest.mark.parametrize("size", [1, 17])
def test_too_few_zeros_to_be_anything(tmp_path: Path, segment: Segment, size: int) -> None:
    _, found = run_dump(segment.write(tmp_path, segment.data + bytes(size)))
    assert place_of(only(found))[1:3] == (len(segment.data), size)


def test_garbage_after_the_end(tmp_path: Path, segment: Segment) -> None:
    garbage = bytes((n * 7 + 131) % 256 for n in range(211))
    rows, found = run_dump(segment.write(tmp_path, segment.data + garbage))
    one = only(found)
    assert (one.position, one.size_bytes) == (len(segment.data), 211)
    assert one.severity is Severity.DAMAGE
    assert offsets(rows) == all_but()


def test_only_garbage(tmp_path: Path, segment: Segment) -> None:
    path = segment.write(tmp_path, bytes((n * 7 + 131) % 256 for n in range(3000)))
    rows, found = run_dump(path)
    assert rows == []
    one = only(found)
    assert (one.position, one.size_bytes, one.offset) == (0, 3000, BASE)


@pytest.mark.parametrize("data", [b"", b"\x00"])
def test_almost_nothing(tmp_path: Path, segment: Segment, data: bytes) -> None:
    rows, found = run_dump(segment.write(tmp_path, data))
    assert rows == []
    assert len(found) == len(data)
