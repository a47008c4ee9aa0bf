"""Segments of 0.6 and 0.7: sums, torn tails, and segments that have to join (F5)."""

from pathlib import Path

import builders
import damage
import pytest
from segments import partition_of

from kdump.engine.checks.pre08 import Pre08Counts, scan_pre08
from kdump.findings.finding import Finding

ONE = builders.pre08_message(b"v" * 50)


def write_segments(parent: Path, segments: dict[int, bytes]) -> Path:
    directory = parent / "events-0"
    directory.mkdir()
    for base, data in segments.items():
        (directory / f"{base:020d}.kafka").write_bytes(data)
    return directory


def run_check(directory: Path, *, deep: bool = False) -> tuple[list[Finding], Pre08Counts]:
    counts = Pre08Counts()
    return list(scan_pre08(partition_of(directory, deep=deep), counts)), counts


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    size = len(ONE)
    wrapper = builders.pre08_wrapper([ONE, ONE])
    return write_segments(tmp_path, {0: ONE * 4, 4 * size: ONE * 3 + wrapper})


def test_adjoining_segments_are_sound(sound: Path) -> None:
    found, counts = run_check(sound)
    assert found == []
    assert (counts.segments, counts.batches, counts.records_count, counts.wrappers) == (2, 8, 7, 1)
    assert run_check(sound, deep=True)[0] == []


def test_flipped_byte_is_reported(sound: Path) -> None:
    path = sound / f"{0:020d}.kafka"
    path.write_bytes(damage.flip(ONE * 4, len(ONE) + 30))
    (found,), _ = run_check(sound)
    assert (found.code, found.path, found.position) == ("crc-mismatch", str(path), len(ONE))


def test_gap_between_segments_is_damage(tmp_path: Path) -> None:
    """The one era in which a gap between segments keeps the broker from starting."""
    (found,), _ = run_check(write_segments(tmp_path, {0: ONE * 4, 999: ONE}))
    assert (found.code, found.segment) == ("pre08-gap", 999)
    assert (found.expected, found.actual) == (4 * len(ONE), 999)


def test_truncated_file_causes_the_following_gap(tmp_path: Path) -> None:
    size = len(ONE)
    (found,), _ = run_check(write_segments(tmp_path, {0: (ONE * 4)[:-3], 4 * size: ONE}))
    assert found.code == "pre08-gap"
    assert found.consequences == (f"torn-tail@{3 * size}",)


def test_torn_tail_of_the_newest_segment_is_reported(sound: Path) -> None:
    path = max(sound.iterdir())
    path.write_bytes(path.read_bytes()[:-3])
    (found,), _ = run_check(sound)
    assert found.code == "torn-tail"


def test_wrong_checksum_inside_a_wrapper_needs_deep(tmp_path: Path) -> None:
    wrapper = builders.pre08_wrapper([ONE, builders.pre08_message(crc=7)])
    directory = write_segments(tmp_path, {0: wrapper})
    assert run_check(directory)[0] == []
    (found,), _ = run_check(directory, deep=True)
    assert found.code == "inner-crc-mismatch"


def test_file_deleted_before_it_is_read(tmp_path: Path) -> None:
    directory = write_segments(tmp_path, {0: ONE * 4, 4 * len(ONE): ONE})
    partition, gone = partition_of(directory), directory / f"{0:020d}.kafka"
    gone.unlink()
    (found,) = scan_pre08(partition, Pre08Counts())
    assert (found.code, found.path, found.segment) == ("file-vanished", str(gone), 0)
    assert not partition.errors


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    directory = write_segments(tmp_path, {0: ONE * 4, 4 * len(ONE): ONE})
    partition, loop = partition_of(directory), directory / f"{0:020d}.kafka"
    loop.unlink()
    loop.symlink_to(loop)
    assert not list(scan_pre08(partition, Pre08Counts()))
    assert [error.path for error in partition.errors] == [str(loop)]


def test_messages_about_segments_that_do_not_join(tmp_path: Path) -> None:
    directory = write_segments(tmp_path, {0: ONE * 4, 999: ONE, 2000: ONE})
    first, second = run_check(directory)[0]
    size = len(ONE)
    assert (first.offset, second.offset, second.expected) == (999, 2000, 999 + size)
    assert first.message == f"The previous segment ends at {4 * size}, but this one starts at 999."
    assert first.path == str(directory / f"{999:020d}.kafka")
