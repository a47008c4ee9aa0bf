"""Base offsets that cannot be: which batch is wrong, and what its offset may have been."""

import struct
from pathlib import Path

import builders
import damage
import pytest
from each import each
from segments import (
    batch,
    batches,
    name,
    only,
    partition_of,
    read,
    run_checks,
    write,
    write_partition,
)
from sound_partition import ACTIVE, SEALED, change, positions

from kdump.engine.checks.framing import Framing
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Finding

ABSURD = 6_577_225_780_797_898_836


def spoil(directory: Path, base: int, row: int, wrong: int) -> tuple[int, int]:
    """Damage the batch before a row, up to within that row's base offset."""
    start = positions(directory, base)[row]
    broken = damage.flip(read(directory, base, "log"), start - 40, 40)
    write(directory, base, "log", damage.put(broken, start, struct.pack(">q", wrong)))
    return start, positions(directory, base)[row + 1] - start


@pytest.mark.parametrize("base", [SEALED, ACTIVE])
@pytest.mark.parametrize("wrong", [ABSURD, -ABSURD, 1 << 30])
def test_damage_that_ends_inside_the_next_base_offset(sound: Path, base: int, wrong: int) -> None:
    """What is lost is bound by the batches around; that with the absurd offset can be read."""
    start, size = spoil(sound, base, 5, wrong)
    found = {one.code: one for one in run_checks(sound)}
    lost = found.pop("crc-mismatch")
    assert (lost.offset, lost.next_offset) == (base + 12, base + 18)
    assert lost.lost_at_least == 3
    assert lost.lost_at_most in (3, 6)  # a search may not take that batch for one
    assert str(wrong) not in lost.message.replace(",", "")
    for odd in found.values():
        assert (odd.position, odd.size_bytes, odd.actual) == (start, size, wrong)
        assert odd.offset is not None
        assert 0 <= odd.offset < 1 << 31


@pytest.mark.parametrize("count", [1, 2, 3])
def test_several_absurd_offsets_in_a_row(sound: Path, count: int) -> None:
    """They may rise among themselves: what follows shows that all of them lie too high."""
    starts = positions(sound, ACTIVE)
    for number in range(count):
        change(sound, ACTIVE, starts[4 + number], struct.pack(">q", (1 << 30) + 100 * number))
    log = damage.flip(read(sound, ACTIVE, "log"), starts[3] + 70)
    write(sound, ACTIVE, "log", log)
    lost = next(one for one in run_checks(sound) if one.code == "crc-mismatch")
    assert lost.next_offset == ACTIVE + 3 * (4 + count)
    assert (lost.lost_at_least, lost.lost_at_most) == (3, 3)


@each("count", [15, 16, 17, 20])
def test_at_most_sixteen_batches_out_of_order_are_pending(tmp_path: Path, count: int) -> None:
    """It says up to where the offsets are missing that they leave out."""
    wrong = [batch(FAR + 3 * number) for number in range(count)]
    directory = write_partition(tmp_path, {0: [], 330: [batch(330)]})
    write(directory, 0, "log", b"".join([*batches(0, 30), *wrong, *batches(300, 330)]))
    checks = [Framing(partition := partition_of(directory))]
    told = [one for one in scan(partition, checks) if isinstance(one, Finding)]
    assert [one.code for one in told] == ["offset-past-next"] * count
    unknown = 16 if count > 16 else 0
    assert [one.next_offset for one in told] == [None] * unknown + [300] * (count - unknown)


@pytest.mark.parametrize("row", [0, 1])
def test_absurd_offset_directly_after_a_batch(tmp_path: Path, row: int) -> None:
    """Though what follows would leave room, as compaction does."""
    parts = [batch(offset) for offset in (0, 3, 30, 33)]
    parts[row] = damage.put(parts[row], 0, struct.pack(">q", ABSURD))
    directory = write_partition(tmp_path, {0: [], 60: [batch(60)]})
    write(directory, 0, "log", b"".join(parts[: row + 1] + parts[2:]))
    found = next(one for one in run_checks(directory) if one.actual == ABSURD)
    assert (found.position, found.expected) == (len(parts[0]) * row, 3 * row)


@pytest.mark.parametrize("wrong", [ABSURD, -ABSURD, 1 << 30, 61])
def test_start_finds_the_log_end_by_the_last_base_offset(sound: Path, wrong: int) -> None:
    start = positions(sound, ACTIVE)[-1]
    change(sound, ACTIVE, start, struct.pack(">q", wrong))
    write(sound, ACTIVE, "index", struct.pack(">ii", 29, start))
    found = only(sound)
    assert (found.code, found.position) == ("log-end-astray", start)
    assert (found.expected, found.actual, found.offset) == (87, wrong, 87)
    assert (
        "Offset 87 was expected: set the first eight bytes of the batch to "
        "00 00 00 00 00 00 00 57." in found.message
    )


def test_last_wrapper_gives_its_offset_span(tmp_path: Path) -> None:
    parts = [
        builders.wrapper([builders.message(relative) for relative in range(count)], last)
        for count, last in ((3, 2), (2, 4), (5, ABSURD))
    ]
    found = only(write_partition(tmp_path, {0: parts}))
    assert (found.code, found.expected, found.actual) == ("log-end-astray", 9, ABSURD)
    assert (
        "Offset 9 was expected: set the first eight bytes of the batch to "
        "00 00 00 00 00 00 00 09." in found.message
    )


def test_index_confirms_the_last_base_offset_after_damage(sound: Path) -> None:
    start = positions(sound, ACTIVE)[-1]
    broken = damage.flip(read(sound, ACTIVE, "log"), start - 300, 300)
    write(sound, ACTIVE, "log", damage.put(broken, start, struct.pack(">q", ABSURD)))
    write(sound, ACTIVE, "index", struct.pack(">ii", 29, start))
    astray = next(one for one in run_checks(sound) if one.code == "log-end-astray")
    assert (astray.expected, astray.actual) == (87, ABSURD)


def test_last_index_entry_skips_a_wrong_length(sound: Path) -> None:
    before, start = positions(sound, ACTIVE)[-2:]
    broken = damage.flip(read(sound, ACTIVE, "log"), start + 70)
    broken = damage.put(broken, start, struct.pack(">q", ABSURD))
    write(sound, ACTIVE, "log", damage.put(broken, before + 8, bytes(4)))
    write(sound, ACTIVE, "index", struct.pack(">ii", 29, start))
    astray = next(one for one in run_checks(sound) if one.code == "log-end-astray")
    assert (astray.position, astray.actual) == (start, ABSURD)


def test_broken_last_batch_has_an_absurd_offset(sound: Path) -> None:
    """A clean start checks no sum: the broken header, too, is where it finds the log end."""
    start = positions(sound, ACTIVE)[-1]
    broken = damage.flip(read(sound, ACTIVE, "log"), start + 70)
    write(sound, ACTIVE, "log", damage.put(broken, start, struct.pack(">q", ABSURD)))
    found = {one.code: one for one in run_checks(sound)}
    assert {*found} == {"crc-mismatch", "log-end-astray"}
    assert "recovery truncates the log" in found["log-end-astray"].message
    assert found["crc-mismatch"].lost_at_least == 0


def test_repeated_last_batch_ends_the_log(sound: Path) -> None:
    log = read(sound, ACTIVE, "log")
    write(sound, ACTIVE, "log", log + log[positions(sound, ACTIVE)[-1] :])
    assert only(sound).code == "offset-not-rising"


def test_compaction_gaps_are_sound(tmp_path: Path) -> None:
    """Up to what an index can hold, at the start of a segment, in its midst, and at its end."""
    parts = [batch(offset) for offset in (9, 30, 1 << 20, 1 << 30, (1 << 31) - 3)]
    assert run_checks(write_partition(tmp_path, {0: parts})) == ()


def test_wrappers_after_damage(tmp_path: Path) -> None:
    def wrapper(first: int) -> bytes:
        inner = [builders.message(relative) for relative in range(3)]
        return builders.wrapper(inner, first + 2)

    parts = [wrapper(first) for first in range(0, 60, 3)]
    parts[6] = damage.flip(parts[6], 40)
    parts[7] = damage.put(parts[7], 0, struct.pack(">q", ABSURD))
    directory = write_partition(tmp_path, {0: parts})
    (directory / name(0, "index")).unlink()
    lost = next(one for one in run_checks(directory) if one.code == "crc-mismatch")
    assert (lost.offset, lost.next_offset, lost.lost_at_most) == (18, 24, 6)


FAR = 1 << 40
RANGE = 1 << 31


@each(
    ("first", "following", "row", "code", "fits", "next_offset"),
    [
        ([0, 3, 3, 6], 9, 2, "not-rising", 6, 6),
        ([0, 3, 1, 6], 9, 2, "not-rising", 6, 6),
        ([0, 3, 20, 6, 9], 30, 2, "not-rising", 6, 6),
        ([0, 3, 7, 6, 9], 30, 2, "not-rising", 6, 6),
        ([20, 0, 3], 30, 0, "not-rising", 0, 0),
        ([0, 20, 3, 6], 30, 1, "not-rising", 3, 3),
        ([3, 0, 6], 30, 0, "not-rising", 0, 0),
        ([0, 3, 6, 0, 3, 6, 9], 30, 3, "not-rising", 9, 3),
        ([0, 3, 28, 6, 9], 30, 2, "past-next", 6, 6),
        ([0, 3, 28], 30, 2, "past-next", 6, 30),
        ([0, 3, FAR], 30, 2, "past-next", 6, 30),
        ([FAR, 0, 3], 30, 0, "past-next", 0, 0),
        ([0, 3, FAR, 20], 30, 2, "past-next", 6, 20),
        ([4, 10, FAR], 30, 2, "past-next", 13, 30),
        ([4, 11, FAR], 30, 2, "past-next", 14, 30),
        ([1, FAR, 25], 30, 1, "past-next", 4, 25),
        ([0, 3, RANGE - 2, 6], None, 2, "past-range", 6, 6),
        ([0, 3, RANGE - 3, 6], None, 2, "not-rising", 6, 6),
        ([-1, 4], 30, 0, "below-base", 0, 4),
    ],
)
def test_batch_out_of_order_is_reported_with_the_expected_offset(
    tmp_path: Path,
    first: list[int],
    following: int | None,
    row: int,
    code: str,
    fits: int,
    next_offset: int,
) -> None:
    segments = {0: []} if following is None else {0: [], following: [batch(following)]}
    directory = write_partition(tmp_path, segments)
    parts = [batch(offset) for offset in first]
    write(directory, 0, "log", b"".join(parts))
    (found,) = [one for one in run_checks(directory) if one.code.startswith("offset-") and
                one.path.endswith(".log") and "index" not in one.code]  # fmt: skip
    at, size = len(b"".join(parts[:row])), len(parts[row])
    assert (found.code, found.position, found.size_bytes) == (f"offset-{code}", at, size)
    assert (found.expected, found.actual, found.next_offset) == (fits, first[row], next_offset)
    inside = -1 < first[row] < (RANGE if following is None else following)
    assert found.offset == (first[row] if inside else fits)
    behind = first[row + 1] if row + 1 < len(first) else None
    ways = {
        "not-rising": [
            f"are in this batch, but the batch before it already ends at offset {fits - 1:,}.",
            f"are above {behind}, the first offset of the next batch.",
        ],
        "past-next": [
            (
                "reach beyond 29, although the next segment starts after that. "
                f"Offset {fits} was expected."
            )
        ],
        "past-range": [
            "are above 2,147,483,647, the highest that the segment can hold. Offset 6 was expected."
        ],
        "below-base": [],
    }
    offsets = f"Offsets {first[row]:,}-{first[row] + 2:,}"
    assert not ways[code] or found.message in [f"{offsets} {way}" for way in ways[code]]


@each(
    ("behind", "following", "fits"),
    [
        ([20], 30, 19),  # what follows a wrapper says where it ends
        ([7], 30, 6),
        ([6], 30, 6),
        ([], 30, 29),
        ([], 9, 8),
        ([], 8, 7),
        ([], 6, 6),
        ([31], 30, 6),  # that lies too high itself
    ],
)
def test_wrapper_out_of_order_is_reported_with_the_expected_offset(
    tmp_path: Path, behind: list[int], following: int, fits: int
) -> None:
    inner = [builders.message(relative) for relative in range(3)]
    parts = [batch(0), batch(3), builders.wrapper(inner, FAR), *map(batch, behind)]
    directory = write_partition(tmp_path, {0: [], following: [batch(following)]})
    write(directory, 0, "log", b"".join(parts))
    found = next(one for one in run_checks(directory) if one.actual == FAR)
    assert (found.code, found.expected) == ("offset-past-next", fits)
    assert found.position == len(parts[0] + parts[1])


@each(("behind", "fits"), [([20], 17), ([9], 6), ([6], 3), ([4], 3), ([], 27)])
def test_plausible_place_of_a_batch_too_high_after_damage(
    tmp_path: Path, behind: list[int], fits: int
) -> None:
    """How much was lost before it is not known; what follows says where it ends."""
    parts = [batch(0), damage.flip(batch(3), 70), batch(FAR), *map(batch, behind)]
    directory = write_partition(tmp_path, {0: [], 30: [batch(30)]})
    write(directory, 0, "log", b"".join(parts))
    found = next(one for one in run_checks(directory) if one.actual == FAR)
    assert (found.code, found.expected) == ("offset-past-next", fits)


@pytest.mark.parametrize(("rows", "places"), [([2], 1), ([1, 2, 4], 3)])
def test_reserved_bits_are_reported_once_per_segment(
    tmp_path: Path, rows: list[int], places: int
) -> None:
    parts = [batch(3 * row, attributes=0x100 if row in rows else 0) for row in range(6)]
    found = only(write_partition(tmp_path, {0: parts}))
    assert (found.code, found.position) == ("attributes-reserved", len(parts[0]) * rows[0])
    assert found.message.endswith(f"; the same in {places} batches of the segment.") == (places > 1)
