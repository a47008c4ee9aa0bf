"""Gaps, headers that cannot be right, and offsets out of order: one finding each, at its place."""

import os
import struct
from pathlib import Path

import builders
import damage
import pytest
from segments import (
    batch,
    batches,
    entries,
    name,
    only,
    place_of,
    read,
    run_checks,
    write,
    write_partition,
)
from sound_partition import ACTIVE, SEALED, change, positions

from kdump.findings.finding import Severity


def test_sound_partition_has_no_finding(sound: Path) -> None:
    assert run_checks(sound) == ()
    assert run_checks(sound, deep=True) == ()
    assert run_checks(sound, quick=True) == ()


def test_flipped_bit_has_one_finding_with_the_next_offset(sound: Path) -> None:
    log = read(sound, SEALED, "log")
    start, following = positions(sound)[5:7]
    write(sound, SEALED, "log", damage.flip_bit(log, start + 70, 2))
    found = only(sound)
    assert place_of(found, sound) == ("crc-mismatch", name(SEALED, "log"), start, following - start)
    assert (found.offset, found.next_offset) == (15, 18)
    assert (found.lost_at_least, found.lost_at_most) == (3, 3)
    assert found.expected != found.actual
    assert f"bit 2 of byte {start + 70:,}" in found.message


def test_next_segment_follows_a_final_gap(sound: Path) -> None:
    log = read(sound, SEALED, "log")
    write(sound, SEALED, "log", damage.flip_bit(log, len(log) - 1, 0))
    found = only(sound)
    assert (found.code, found.offset, found.next_offset) == ("crc-mismatch", 57, ACTIVE)


@pytest.mark.parametrize(
    ("size", "code"),
    [(5, "batch-length"), (-1, "batch-length"), (1 << 30, "batch-cut-short"), (20, "crc-mismatch")],
)
def test_wrong_length_is_reported(sound: Path, size: int, code: str) -> None:
    start, following = positions(sound)[5:7]
    change(sound, SEALED, start + 8, struct.pack(">i", size))
    found = only(sound)
    if size == 20:  # too small for a v2 header, so that what it frames is no batch
        code = "batch-too-small"
    assert place_of(found, sound) == (code, name(SEALED, "log"), start, following - start)


def test_unknown_magic_is_reported(sound: Path) -> None:
    start, following = positions(sound)[5:7]
    change(sound, SEALED, start + 16, b"\x07")
    found = only(sound)
    wanted = ("magic-unknown", name(SEALED, "log"), start, following - start)
    assert place_of(found, sound) == wanted
    assert found.actual == 7


def test_impossible_codec_or_count_with_a_valid_checksum_is_reported(tmp_path: Path) -> None:
    parts = [*batches(0, 6), batch(6, attributes=7), *batches(9, 12)]
    found = only(write_partition(tmp_path / "codec", {0: parts}))
    assert (found.code, found.position, found.actual) == (
        "codec-unknown",
        len(b"".join(parts[:2])),
        7,
    )
    parts = [*batches(0, 6), batch(6, records_count=9, last_offset_delta=2), *batches(9, 12)]
    found = only(write_partition(tmp_path / "count", {0: parts}))
    assert (found.code, found.expected, found.actual) == ("batch-count", 3, 9)


def test_repeated_batch_is_reported_at_its_second_position(tmp_path: Path) -> None:
    parts = batches(0, 30)
    parts.insert(5, parts[4])
    directory = write_partition(tmp_path, {0: parts})
    found = only(directory)
    at = len(b"".join(parts[:5]))
    wanted = ("offset-not-rising", name(0, "log"), at, len(parts[4]))
    assert place_of(found, directory) == wanted
    assert (found.expected, found.actual) == (15, 12)


@pytest.mark.parametrize("wrong", [15 + (1 << 40), 15 + 4, 3])
def test_changed_base_offset_is_reported_as_such(sound: Path, wrong: int) -> None:
    """Too high, it lies above those behind; too low, it does not rise: either way it is the one."""
    start, following = positions(sound)[5:7]
    change(sound, SEALED, start, struct.pack(">q", wrong))
    found = only(sound)
    code = "offset-past-next" if wrong > ACTIVE else "offset-not-rising"
    assert place_of(found, sound) == (code, name(SEALED, "log"), start, following - start)
    assert (found.expected, found.actual) == (15, wrong)


def test_later_entries_reveal_a_wrapper_out_of_order(tmp_path: Path) -> None:
    """What a wrapper's first offset is, its header does not say."""

    def wrapper(first: int) -> bytes:
        inner = [builders.message(relative) for relative in range(3)]
        return builders.wrapper(inner, first + 2)

    for wrong, directory in ((500, tmp_path / "high"), (1, tmp_path / "low")):
        parts = [wrapper(first) for first in range(0, 30, 3)]
        parts[5] = damage.put(parts[5], 0, struct.pack(">q", wrong))
        found = only(write_partition(directory, {0: parts}))
        assert (found.code, found.position) == ("offset-not-rising", len(b"".join(parts[:5])))


def test_later_rising_offsets_clear_a_wrapper(tmp_path: Path) -> None:
    """Then the entry between them is the one out of order, though it lies above the one before."""
    inner = [builders.message(relative) for relative in range(3)]
    parts = [builders.message(0), builders.wrapper(inner, 10), builders.message(5)]
    found = only(write_partition(tmp_path, {0: [*parts, builders.message(11)]}))
    assert (found.code, found.offset) == ("offset-not-rising", 5)
    assert (found.position, found.expected) == (len(b"".join(parts[:2])), 11)


def test_first_batch_below_the_base_offset_is_reported(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {9: batches(6, 30)})
    found = only(directory)
    assert place_of(found, directory)[:3] == ("offset-below-base", name(9, "log"), 0)
    assert (found.expected, found.actual) == (9, 6)


def test_first_batch_above_the_base_offset_is_sound(tmp_path: Path) -> None:
    """After compaction, and after a roll for the range of offsets (O5)."""
    assert run_checks(write_partition(tmp_path, {5: batches(9, 30), 100: batches(200, 230)})) == ()


def test_batch_beyond_the_next_base_offset_is_reported(tmp_path: Path) -> None:
    parts = batches(0, 30)
    directory = write_partition(tmp_path, {0: parts, 29: batches(30, 40)})
    found = only(directory)
    assert found.code == "offset-past-next"
    assert found.position == len(b"".join(parts[:-1]))


def test_empty_segments_are_sound(tmp_path: Path) -> None:
    assert run_checks(write_partition(tmp_path, {0: batches(0, 9), 9: [], 20: []})) == ()


@pytest.mark.parametrize("kept", [5, 40, 100])
def test_torn_tail_of_the_newest_segment_is_reported(sound: Path, kept: int) -> None:
    start = positions(sound, ACTIVE)[-1]
    write(sound, ACTIVE, "log", read(sound, ACTIVE, "log")[: start + kept])
    found = only(sound)
    assert place_of(found, sound) == ("torn-tail", name(ACTIVE, "log"), start, kept)
    assert found.severity is Severity.DAMAGE


def test_metadata_snapshot_is_checked_as_a_log(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {900: batches(900, 930)}, topic="__cluster_metadata")
    log = b"".join(batches(0, 30))
    path = directory / "00000000000000000800-0000000003.checkpoint"
    path.write_bytes(log)
    os.utime(path, (1, 1))
    assert run_checks(directory) == ()
    path.write_bytes(damage.flip(log, 100))
    found = only(directory)
    assert (found.code, found.path, found.segment) == ("metadata-snapshot-damaged", str(path), None)


def test_reports_are_bounded_after_a_thousand_gaps(tmp_path: Path) -> None:
    log = bytearray(b"".join(batches(0, 2500, 1)))
    sizes = [entry.position for entry in entries(bytes(log))]
    for position in sizes[::2]:
        log[position + 17] ^= 1
    directory = write_partition(tmp_path, {0: batches(0, 9)})
    write(directory, 0, "log", bytes(log))
    (directory / name(0, "index")).unlink()
    (directory / name(0, "timeindex")).unlink()
    found = [each for each in run_checks(directory) if each.code == "crc-mismatch"]
    assert len(found) == 1000
    assert "The same in 250 more places." in found[-1].message
    assert "stored" in found[-1].message


ABSURD = 6_577_225_780_797_898_836
