"""The offsets of a log's last batch, by which a start takes its end: which fit, and what would."""

import struct
from pathlib import Path

import builders
import damage
import pytest
from each import each
from segments import batch, offset_index, run_checks, write, write_partition

from kdump.findings.finding import Finding
from kdump.findings.ranges import offsets_text

HIGHEST = (1 << 31) - 1  # of a segment at 0
ABSURD = 1 << 40


def break_batch(data: bytes) -> bytes:
    return damage.flip(data, 70)


def move_batch(data: bytes, offset: int) -> bytes:
    return damage.put(data, 0, struct.pack(">q", offset))


def wrapper(last: int, count: int = 3) -> bytes:
    return builders.wrapper([builders.message(relative) for relative in range(count)], last)


SOUND = [batch(0), batch(3)]
HOLE = [batch(0), break_batch(batch(3))]
WRAPPERS = [wrapper(2), wrapper(5)]


def check_end(parent: Path, parts: list[bytes], indexed: int | None = None) -> Finding | None:
    """Write a log, and an index entry for its last batch; give what is said of its offsets."""
    directory = write_partition(parent, {0: []})
    log = b"".join(parts)
    write(directory, 0, "log", log)
    at = len(log) - len(parts[-1])
    write(directory, 0, "index", offset_index([] if indexed is None else [(indexed, at)]))
    found = [one for one in run_checks(directory) if one.code == "log-end-astray"]
    assert len(found) <= 1
    assert all((one.position, one.size_bytes) == (at, len(parts[-1])) for one in found)
    return found[0] if found else None


@pytest.mark.parametrize("entries", [[None], [6, 7, 8]])
def test_next_offset_is_right_despite_the_index(tmp_path: Path, entries: list[int | None]) -> None:
    for number, indexed in enumerate(entries):
        assert check_end(tmp_path / f"{number}", [*SOUND, batch(6)], indexed) is None
        assert check_end(tmp_path / f"b{number}", [*SOUND, break_batch(batch(6))], indexed) is None


@each(
    ("parts", "indexed"),
    [
        ([*SOUND, batch(7)], None),  # a gap as compaction leaves it
        ([*SOUND, batch(7)], 7),
        ([*SOUND, batch(7)], 8),
        ([*SOUND, batch(7)], 9),
        ([*SOUND, batch(HIGHEST - 2)], None),
        ([*SOUND, batch(3)], None),  # twice the same
        ([*SOUND, batch(3)], 5),
        ([*SOUND, break_batch(batch(7))], None),
        ([*SOUND, break_batch(batch(7))], 9),
        ([*SOUND, batch(6, records_count=2, last_offset_delta=2)], None),  # has another code
        ([*SOUND, batch(6, last_offset_delta=-9, records_count=3)], None),
        ([*HOLE, batch(7)], None),
        ([*HOLE, batch(7)], 7),
        ([*HOLE, batch(7)], 9),
        ([*HOLE, batch(6)], 6),
        ([*HOLE, batch(6)], 8),
        ([*WRAPPERS, wrapper(8)], None),
        ([*WRAPPERS, wrapper(8)], 6),  # of its first message
        ([*WRAPPERS, wrapper(8)], 8),
        ([*WRAPPERS, wrapper(9)], 6),
        ([*WRAPPERS, wrapper(9)], 9),
        ([*WRAPPERS, wrapper(6)], None),
        ([*SOUND, batch(ABSURD), batch(6)], None),
        ([batch(0), batch(900), break_batch(batch(3)), batch(6)], None),  # 900 is what is too high
    ],
)
def test_plausible_offsets_make_no_finding(
    tmp_path: Path, parts: list[bytes], indexed: int | None
) -> None:
    assert check_end(tmp_path, parts, indexed) is None


@each(
    ("parts", "indexed", "before", "actual", "fits"),
    [
        ([*SOUND, batch(7)], 6, 5, 7, "6"),
        ([*SOUND, batch(7)], 10, 5, 7, "6"),
        ([*SOUND, batch(4)], None, 5, 4, "6"),
        ([*SOUND, batch(0)], None, 5, 0, "6"),
        ([*SOUND, move_batch(batch(6), -5)], None, 5, -5, "6"),
        ([*SOUND, batch(HIGHEST - 1)], None, 5, HIGHEST - 1, "6"),
        ([*SOUND, batch(HIGHEST - 2)], 9, 5, HIGHEST - 2, "6"),
        ([*SOUND, batch(3)], 6, 2, 3, "4"),  # it does not stand there twice: an entry says so
        ([*SOUND, batch(3)], 9, 2, 3, "7"),
        ([batch(ABSURD)], None, -1, ABSURD, "0"),
        ([move_batch(batch(0), -9)], None, -1, -9, "0"),
        ([*HOLE, batch(7)], 5, 2, 7, "3"),
        ([*HOLE, batch(7)], 6, 2, 7, "4"),
        ([*HOLE, batch(7)], 10, 2, 7, "8"),
        ([*HOLE, batch(6)], 9, 2, 6, "7"),
        ([*HOLE, batch(ABSURD)], None, 2, ABSURD, "3 or above"),
        ([*HOLE, batch(ABSURD)], 2, 2, ABSURD, "3 or above"),
        ([*HOLE, batch(ABSURD)], 4, 2, ABSURD, "3 or above"),
        ([*HOLE, batch(ABSURD)], 5, 2, ABSURD, "3"),
        ([*HOLE, batch(ABSURD)], HIGHEST, 2, ABSURD, f"{HIGHEST - 2:,}"),
        ([*HOLE, batch(1)], None, 2, 1, "3 or above"),
        ([*HOLE, batch(1)], 8, 2, 1, "6"),
        ([*WRAPPERS, wrapper(8)], 5, 5, 8, "8"),
        ([*WRAPPERS, wrapper(8)], 9, 5, 8, "8"),
        ([*WRAPPERS, wrapper(9)], 10, 5, 9, "8"),
        ([*WRAPPERS, wrapper(6)], 7, 5, 6, "8"),
        ([*WRAPPERS, wrapper(ABSURD)], None, 5, ABSURD, "8"),
        ([*WRAPPERS, wrapper(ABSURD, 1)], None, 5, ABSURD, "6"),
        ([*WRAPPERS, wrapper(1)], None, 5, 1, "8"),
        ([wrapper(2), break_batch(wrapper(5)), wrapper(ABSURD)], None, 2, ABSURD, "3 or above"),
        ([wrapper(2), break_batch(wrapper(5)), wrapper(ABSURD)], 2, 2, ABSURD, "3 or above"),
        ([wrapper(2), break_batch(wrapper(5)), wrapper(ABSURD)], 8, 2, ABSURD, "8"),
        ([*SOUND, batch(ABSURD), batch(ABSURD + 3)], None, 5, ABSURD + 3, "6 or above"),
        ([*SOUND, batch(ABSURD), batch(ABSURD + 3)], 7, 5, ABSURD + 3, "6 or above"),
        ([*SOUND, batch(ABSURD), batch(ABSURD + 3)], 8, 5, ABSURD + 3, "6"),
        ([*SOUND, batch(ABSURD), batch(6)], 9, 5, 6, "7"),
        ([builders.message(0), builders.message(1), builders.message(7)], 6, 1, 7, "2"),
        ([*SOUND, break_batch(batch(7))], 10, 5, 7, None),
        ([*SOUND, break_batch(batch(ABSURD))], None, 5, ABSURD, None),
        ([*SOUND, break_batch(batch(6, records_count=2, last_offset_delta=2))], None, 5, 6, None),
    ],
)
def test_impossible_offsets_are_reported(
    tmp_path: Path,
    parts: list[bytes],
    indexed: int | None,
    before: int,
    actual: int,
    fits: str | None,
) -> None:
    """`fits` is what would, None where the batch is broken as well."""
    found = check_end(tmp_path, parts, indexed)
    assert found is not None
    assert found.actual == actual
    assert f"those before it end at {before:,}. " in found.message
    assert isinstance(found.expected, int)
    assert found.offset == found.expected
    if fits is None:
        assert found.expected == before + 1
        assert f"the log at position {found.position:,}." in found.message
    else:
        assert found.expected == int(fits.removesuffix(" or above").replace(",", ""))
        eight = " ".join(f"{byte:02x}" for byte in struct.pack(">q", found.expected))
        least = f"for {found.expected:,}, " if fits.endswith(" or above") else ""
        assert found.message.endswith(
            f" Offset {fits} was expected: {least}set the first eight bytes "
            f"of the batch to {eight}."
        )
    last = actual if len(parts) > 1 and parts[-1][16] < 2 else actual + 2
    assert f"has {offsets_text(actual, last)}, but" in found.message
    below = "or the segment's base offset as the log end" in found.message
    assert below == (last < before)
    assert f"A broker start uses {last + 1:,} " in found.message


def test_sealed_segment_does_not_end_the_log(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {0: [], 9: [batch(9)]})
    write(directory, 0, "log", b"".join([*SOUND, batch(0)]))
    assert "log-end-astray" not in [one.code for one in run_checks(directory)]
