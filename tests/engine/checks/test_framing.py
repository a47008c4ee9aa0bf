"""Gaps, headers that cannot be right, and offsets out of order: one finding each, at its place."""

import os
import struct
import time
from pathlib import Path

import builders
import damage
import pytest
from holding import holding
from segments import (
    batch,
    batches,
    checked,
    entries,
    name,
    only,
    partition_of,
    place_of,
    read,
    write,
    write_partition,
)

from kdump.engine.checks.framing import Framing
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Finding, Severity
from kdump.storage import lock
from kdump.storage import source as sources

SEALED, ACTIVE = 0, 60


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return write_partition(
        tmp_path, {SEALED: batches(SEALED, ACTIVE), ACTIVE: batches(ACTIVE, ACTIVE + 30)}
    )


def positions(directory: Path, base: int = SEALED) -> list[int]:
    return [entry.position for entry in entries(read(directory, base, "log"))]


def change(directory: Path, base: int, position: int, new: bytes) -> None:
    write(directory, base, "log", damage.put(read(directory, base, "log"), position, new))


def test_a_sound_partition_has_no_finding(sound: Path) -> None:
    assert checked(sound) == ()
    assert checked(sound, deep=True) == ()
    assert checked(sound, quick=True) == ()


def test_a_flipped_bit_is_one_finding_with_the_offset_to_seek_to(sound: Path) -> None:
    log = read(sound, SEALED, "log")
    start, following = positions(sound)[5:7]
    write(sound, SEALED, "log", damage.flip_bit(log, start + 70, 2))
    found = only(sound)
    assert place_of(found, sound) == ("crc-mismatch", name(SEALED, "log"), start, following - start)
    assert (found.offset, found.next_offset) == (15, 18)
    assert (found.lost_at_least, found.lost_at_most) == (3, 3)
    assert found.expected != found.actual
    assert f"byte {start + 70:,} bit 2" in found.message


def test_what_follows_a_gap_at_the_end_of_a_segment_is_the_next_segment(sound: Path) -> None:
    log = read(sound, SEALED, "log")
    write(sound, SEALED, "log", damage.flip_bit(log, len(log) - 1, 0))
    found = only(sound)
    assert (found.code, found.offset, found.next_offset) == ("crc-mismatch", 57, ACTIVE)


@pytest.mark.parametrize(
    ("size", "code"),
    [(5, "batch-length"), (-1, "batch-length"), (1 << 30, "batch-cut-short"), (20, "crc-mismatch")],
)
def test_a_wrong_length(sound: Path, size: int, code: str) -> None:
    start, following = positions(sound)[5:7]
    change(sound, SEALED, start + 8, struct.pack(">i", size))
    found = only(sound)
    if size == 20:  # too small for a v2 header, so that what it frames is no batch
        code = "batch-too-small"
    assert place_of(found, sound) == (code, name(SEALED, "log"), start, following - start)


def test_a_magic_that_no_broker_knows(sound: Path) -> None:
    start, following = positions(sound)[5:7]
    change(sound, SEALED, start + 16, b"\x07")
    found = only(sound)
    wanted = ("magic-unknown", name(SEALED, "log"), start, following - start)
    assert place_of(found, sound) == wanted
    assert found.actual == 7


def test_codec_and_count_that_cannot_be_right_under_a_right_checksum(tmp_path: Path) -> None:
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


def test_a_batch_twice_is_named_where_it_stands_the_second_time(tmp_path: Path) -> None:
    parts = batches(0, 30)
    parts.insert(5, parts[4])
    directory = write_partition(tmp_path, {0: parts})
    found = only(directory)
    at = len(b"".join(parts[:5]))
    wanted = ("offset-not-rising", name(0, "log"), at, len(parts[4]))
    assert place_of(found, directory) == wanted
    assert (found.expected, found.actual) == (15, 12)


@pytest.mark.parametrize("wrong", [15 + (1 << 40), 15 + 4, 3])
def test_a_base_offset_that_changed_is_named_itself(sound: Path, wrong: int) -> None:
    """Too high, it lies above those behind; too low, it does not rise: either way it is the one."""
    start, following = positions(sound)[5:7]
    change(sound, SEALED, start, struct.pack(">q", wrong))
    found = only(sound)
    code = "offset-past-next" if wrong > ACTIVE else "offset-not-rising"
    assert place_of(found, sound) == (code, name(SEALED, "log"), start, following - start)
    assert (found.expected, found.actual) == (15, wrong)


def test_a_wrapper_out_of_order_is_told_by_what_follows(tmp_path: Path) -> None:
    """What a wrapper's first offset is, its header does not say."""

    def wrapper(first: int) -> bytes:
        inner = [builders.message(relative) for relative in range(3)]
        return builders.wrapper(inner, first + 2)

    for wrong, directory in ((500, tmp_path / "high"), (1, tmp_path / "low")):
        parts = [wrapper(first) for first in range(0, 30, 3)]
        parts[5] = damage.put(parts[5], 0, struct.pack(">q", wrong))
        found = only(write_partition(directory, {0: parts}))
        assert (found.code, found.position) == ("offset-not-rising", len(b"".join(parts[:5])))


def test_what_rises_above_a_wrapper_clears_it(tmp_path: Path) -> None:
    """Then the entry between them is the one out of order, though it lies above the one before."""
    inner = [builders.message(relative) for relative in range(3)]
    parts = [builders.message(0), builders.wrapper(inner, 10), builders.message(5)]
    found = only(write_partition(tmp_path, {0: [*parts, builders.message(11)]}))
    assert (found.code, found.offset) == ("offset-not-rising", 5)
    assert (found.position, found.expected) == (len(b"".join(parts[:2])), 11)


def test_a_first_batch_below_the_files_name(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {9: batches(6, 30)})
    found = only(directory)
    assert place_of(found, directory)[:3] == ("offset-below-base", name(9, "log"), 0)
    assert (found.expected, found.actual) == (9, 6)


def test_a_first_batch_above_the_files_name_is_legal(tmp_path: Path) -> None:
    """After compaction, and after a roll for the range of offsets (O5)."""
    assert checked(write_partition(tmp_path, {5: batches(9, 30), 100: batches(200, 230)})) == ()


def test_a_batch_that_reaches_into_the_next_segment(tmp_path: Path) -> None:
    parts = batches(0, 30)
    directory = write_partition(tmp_path, {0: parts, 29: batches(30, 40)})
    found = only(directory)
    assert found.code == "offset-past-next"
    assert found.position == len(b"".join(parts[:-1]))


def test_segments_without_a_byte_are_legal(tmp_path: Path) -> None:
    assert checked(write_partition(tmp_path, {0: batches(0, 9), 9: [], 20: []})) == ()


@pytest.mark.parametrize("kept", [5, 40, 100])
def test_a_torn_tail_of_the_newest_segment(sound: Path, kept: int) -> None:
    start = positions(sound, ACTIVE)[-1]
    write(sound, ACTIVE, "log", read(sound, ACTIVE, "log")[: start + kept])
    found = only(sound)
    assert place_of(found, sound) == ("torn-tail", name(ACTIVE, "log"), start, kept)
    assert found.severity is Severity.DAMAGE


def torn_now(sound: Path) -> Path:
    start = positions(sound, ACTIVE)[-1]
    path = write(sound, ACTIVE, "log", read(sound, ACTIVE, "log")[: start + 40])
    os.utime(path, (time.time(), time.time()))
    return path


def test_a_tail_written_just_now_by_a_broker_that_runs_is_no_damage(sound: Path) -> None:
    torn_now(sound)
    with holding(sound.parent):
        assert only(sound).code == "tail-being-written"
        sealed = write(sound, SEALED, "log", read(sound, SEALED, "log")[:-9])
        os.utime(sealed, (time.time(), time.time()))
        codes = {found.segment: found.code for found in checked(sound)}
    assert codes == {ACTIVE: "tail-being-written", SEALED: "torn-tail"}


def test_a_tail_that_a_running_broker_left_long_ago_is_torn(sound: Path) -> None:
    hour_ago = time.time() - 3600
    os.utime(torn_now(sound), (hour_ago, hour_ago))
    with holding(sound.parent):
        assert only(sound).code == "torn-tail"


def test_a_tail_written_just_now_by_a_broker_that_is_gone_is_torn(sound: Path) -> None:
    torn_now(sound)
    assert only(sound).code == "torn-tail"
    (sound.parent / ".lock").touch()  # it outlives the broker
    assert only(sound).code == "torn-tail"


def test_where_the_lock_cannot_be_asked_for_the_time_decides(
    sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "is_held", lambda _: None)
    path = torn_now(sound)
    assert only(sound).code == "tail-being-written"
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))
    assert only(sound).code == "torn-tail"


def test_a_file_that_grows_while_we_look_is_being_written_by_whomever(
    sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a broker on another machine, whose locks are not seen here."""
    path = torn_now(sound)
    whole = path.read_bytes()

    def grow(seconds: float) -> None:
        with path.open("ab") as file:
            file.write(whole[-1:])

    monkeypatch.setattr("kdump.engine.reading.segment_pass.time.sleep", grow)
    assert only(sound).code == "tail-being-written"


def test_after_a_clean_stop_nobody_is_writing(sound: Path) -> None:
    (sound.parent / ".kafka_cleanshutdown").write_bytes(b"")
    start = positions(sound, ACTIVE)[-1]
    path = write(sound, ACTIVE, "log", read(sound, ACTIVE, "log")[: start + 40])
    os.utime(path, (time.time(), time.time()))
    assert only(sound).code == "torn-tail"


def test_zeros_at_the_end_are_reserved_space_only_in_a_segment_in_use(sound: Path) -> None:
    log = read(sound, ACTIVE, "log")
    write(sound, ACTIVE, "log", log + bytes(5000))
    found = only(sound)
    wanted = ("preallocated-tail", name(ACTIVE, "log"), len(log), 5000)
    assert place_of(found, sound) == wanted
    assert found.severity is Severity.NOTE
    (sound.parent / ".kafka_cleanshutdown").write_bytes(b"")
    assert only(sound).code == "zero-tail"
    write(sound, ACTIVE, "log", log)
    sealed = read(sound, SEALED, "log")
    write(sound, SEALED, "log", sealed + bytes(300))
    found = only(sound)
    assert place_of(found, sound) == ("zero-tail", name(SEALED, "log"), len(sealed), 300)
    assert found.next_offset == ACTIVE


def test_a_broker_that_starts_takes_the_mark_of_its_clean_stop_away(sound: Path) -> None:
    write(sound, ACTIVE, "log", read(sound, ACTIVE, "log") + bytes(5000))
    mark = sound.parent / ".kafka_cleanshutdown"
    mark.write_bytes(b"")
    partition = partition_of(sound)  # lists the directory
    mark.unlink()
    (found,) = scan(partition, [Framing(partition)])
    assert found.code == "preallocated-tail"  # type: ignore[union-attr]


def test_a_file_that_is_gone_when_its_turn_comes(sound: Path) -> None:
    partition = partition_of(sound)
    (sound / name(SEALED, "log")).unlink()
    found = list(scan(partition, [Framing(partition)]))
    assert [one.code for one in found] == ["file-vanished"]  # type: ignore[union-attr]
    assert not partition.errors


def test_a_file_that_is_cut_while_it_is_read(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = positions(sound)[5] + 30
    path = sound / name(SEALED, "log")
    refresh = sources.Source.refresh

    def refreshed(source: sources.Source) -> int:
        size = refresh(source)
        if source.path == str(path):
            os.truncate(path, half)
        return size

    monkeypatch.setattr(sources.Source, "refresh", refreshed)
    found = checked(sound)
    assert [(one.code, one.position) for one in found] == [("file-shrank", half)]


def test_bytes_that_the_device_does_not_give(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of zeros stands for them; the batches they lie in are lost, the others are read."""
    parts = batches(0, 600)
    write(sound, SEALED, "log", b"")
    directory = write_partition(sound.parent / "more", {0: parts})
    pread = sources.Source._pread

    def failing(source: sources.Source, view: memoryview, position: int) -> int:
        if source.path.endswith(".log") and position < 8192 and position + len(view) > 4096:
            raise OSError(5, "Input/output error")
        return pread(source, view, position)

    monkeypatch.setattr(sources.Source, "_pread", failing)
    found = only(directory)
    start = max(entry.position for entry in entries(b"".join(parts)) if entry.position <= 4096)
    assert (found.code, found.position) == ("unreadable", start)
    assert found.next_offset is not None
    assert found.consequences  # the index entries that name batches in there


def test_a_snapshot_of_the_metadata_log_is_a_log_too(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {900: batches(900, 930)}, topic="__cluster_metadata")
    log = b"".join(batches(0, 30))
    path = directory / "00000000000000000800-0000000003.checkpoint"
    path.write_bytes(log)
    os.utime(path, (1, 1))
    assert checked(directory) == ()
    path.write_bytes(damage.flip(log, 100))
    found = only(directory)
    assert (found.code, found.path, found.segment) == ("metadata-snapshot-damaged", str(path), None)


def test_behind_a_thousand_gaps_no_more_is_said_than_needed(tmp_path: Path) -> None:
    log = bytearray(b"".join(batches(0, 2500, 1)))
    sizes = [entry.position for entry in entries(bytes(log))]
    for position in sizes[::2]:
        log[position + 17] ^= 1
    directory = write_partition(tmp_path, {0: batches(0, 9)})
    write(directory, 0, "log", bytes(log))
    (directory / name(0, "index")).unlink()
    (directory / name(0, "timeindex")).unlink()
    found = [each for each in checked(directory) if each.code == "crc-mismatch"]
    assert len(found) == 1000
    assert "The same at 250 more places." in found[-1].message
    assert "stored" in found[-1].message


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
    found = {one.code: one for one in checked(sound)}
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
    lost = next(one for one in checked(sound) if one.code == "crc-mismatch")
    assert lost.next_offset == ACTIVE + 3 * (4 + count)
    assert (lost.lost_at_least, lost.lost_at_most) == (3, 3)


@pytest.mark.parametrize("count", [15, 16, 17, 20])
def test_no_more_than_sixteen_batches_out_of_order_wait_for_what_follows(
    tmp_path: Path, count: int
) -> None:
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
def test_an_absurd_offset_right_behind_a_batch_goes_on_from_it(tmp_path: Path, row: int) -> None:
    """Though what follows would leave room, as compaction does."""
    parts = [batch(offset) for offset in (0, 3, 30, 33)]
    parts[row] = damage.put(parts[row], 0, struct.pack(">q", ABSURD))
    directory = write_partition(tmp_path, {0: [], 60: [batch(60)]})
    write(directory, 0, "log", b"".join(parts[: row + 1] + parts[2:]))
    found = next(one for one in checked(directory) if one.actual == ABSURD)
    assert (found.position, found.expected) == (len(parts[0]) * row, 3 * row)


@pytest.mark.parametrize("wrong", [ABSURD, -ABSURD, 1 << 30, 61])
def test_the_last_base_offset_is_where_a_start_finds_the_log_end(sound: Path, wrong: int) -> None:
    start = positions(sound, ACTIVE)[-1]
    change(sound, ACTIVE, start, struct.pack(">q", wrong))
    write(sound, ACTIVE, "index", struct.pack(">ii", 29, start))
    found = only(sound)
    assert (found.code, found.position) == ("log-end-astray", start)
    assert (found.expected, found.actual, found.offset) == (87, wrong, 87)
    assert "87 fits, 00 00 00 00 00 00 00 57" in found.message


def test_the_last_wrapper_says_inside_how_many_offsets_it_spans(tmp_path: Path) -> None:
    parts = [
        builders.wrapper([builders.message(relative) for relative in range(count)], last)
        for count, last in ((3, 2), (2, 4), (5, ABSURD))
    ]
    found = only(write_partition(tmp_path, {0: parts}))
    assert (found.code, found.expected, found.actual) == ("log-end-astray", 9, ABSURD)
    assert "9 fits, 00 00 00 00 00 00 00 09" in found.message


def test_the_last_base_offset_behind_damage_is_told_by_the_index(sound: Path) -> None:
    start = positions(sound, ACTIVE)[-1]
    broken = damage.flip(read(sound, ACTIVE, "log"), start - 300, 300)
    write(sound, ACTIVE, "log", damage.put(broken, start, struct.pack(">q", ABSURD)))
    write(sound, ACTIVE, "index", struct.pack(">ii", 29, start))
    astray = next(one for one in checked(sound) if one.code == "log-end-astray")
    assert (astray.expected, astray.actual) == (87, ABSURD)


def test_the_last_index_entry_leads_a_start_past_a_length_that_is_wrong(sound: Path) -> None:
    before, start = positions(sound, ACTIVE)[-2:]
    broken = damage.flip(read(sound, ACTIVE, "log"), start + 70)
    broken = damage.put(broken, start, struct.pack(">q", ABSURD))
    write(sound, ACTIVE, "log", damage.put(broken, before + 8, bytes(4)))
    write(sound, ACTIVE, "index", struct.pack(">ii", 29, start))
    astray = next(one for one in checked(sound) if one.code == "log-end-astray")
    assert (astray.position, astray.actual) == (start, ABSURD)


def test_a_broken_last_batch_with_an_absurd_offset(sound: Path) -> None:
    """A clean start checks no sum: the broken header, too, is where it finds the log end."""
    start = positions(sound, ACTIVE)[-1]
    broken = damage.flip(read(sound, ACTIVE, "log"), start + 70)
    write(sound, ACTIVE, "log", damage.put(broken, start, struct.pack(">q", ABSURD)))
    found = {one.code: one for one in checked(sound)}
    assert {*found} == {"crc-mismatch", "log-end-astray"}
    assert "recovery cuts the log off" in found["log-end-astray"].message
    assert found["crc-mismatch"].lost_at_least == 0


def test_a_last_batch_that_stands_twice_ends_the_log_where_it_ends(sound: Path) -> None:
    log = read(sound, ACTIVE, "log")
    write(sound, ACTIVE, "log", log + log[positions(sound, ACTIVE)[-1] :])
    assert only(sound).code == "offset-not-rising"


def test_gaps_that_compaction_leaves_are_no_lies(tmp_path: Path) -> None:
    """Up to what an index can hold, at the start of a segment, in its midst, and at its end."""
    parts = [batch(offset) for offset in (9, 30, 1 << 20, 1 << 30, (1 << 31) - 3)]
    assert checked(write_partition(tmp_path, {0: parts})) == ()


def test_wrappers_behind_damage(tmp_path: Path) -> None:
    def wrapper(first: int) -> bytes:
        inner = [builders.message(relative) for relative in range(3)]
        return builders.wrapper(inner, first + 2)

    parts = [wrapper(first) for first in range(0, 60, 3)]
    parts[6] = damage.flip(parts[6], 40)
    parts[7] = damage.put(parts[7], 0, struct.pack(">q", ABSURD))
    directory = write_partition(tmp_path, {0: parts})
    (directory / name(0, "index")).unlink()
    lost = next(one for one in checked(directory) if one.code == "crc-mismatch")
    assert (lost.offset, lost.next_offset, lost.lost_at_most) == (18, 24, 6)


FAR = 1 << 40
RANGE = 1 << 31


@pytest.mark.parametrize(
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
def test_which_batch_is_out_of_order_and_what_would_fit(
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
    (found,) = [one for one in checked(directory) if one.code.startswith("offset-") and
                one.path.endswith(".log") and "index" not in one.code]  # fmt: skip
    at, size = len(b"".join(parts[:row])), len(parts[row])
    assert (found.code, found.position, found.size_bytes) == (f"offset-{code}", at, size)
    assert (found.expected, found.actual, found.next_offset) == (fits, first[row], next_offset)
    inside = -1 < first[row] < (RANGE if following is None else following)
    assert found.offset == (first[row] if inside else fits)
    behind = first[row + 1] if row + 1 < len(first) else None
    ways = {
        "not-rising": [
            f"do not rise above the batch before, which ends at {fits - 1:,}.",
            f"lie above the batch that follows, which starts at {behind}.",
        ],
        "past-next": [f"reach into the next segment, which starts at 30. {fits} would fit."],
        "past-range": [
            "lie above 2,147,483,647, the highest that the segment can hold. 6 would fit."
        ],
        "below-base": [],
    }
    offsets = f"Offsets {first[row]:,}-{first[row] + 2:,}"
    assert not ways[code] or found.message in [f"{offsets} {way}" for way in ways[code]]


@pytest.mark.parametrize(
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
def test_where_a_wrapper_too_high_for_its_segment_would_fit(
    tmp_path: Path, behind: list[int], following: int, fits: int
) -> None:
    inner = [builders.message(relative) for relative in range(3)]
    parts = [batch(0), batch(3), builders.wrapper(inner, FAR), *map(batch, behind)]
    directory = write_partition(tmp_path, {0: [], following: [batch(following)]})
    write(directory, 0, "log", b"".join(parts))
    found = next(one for one in checked(directory) if one.actual == FAR)
    assert (found.code, found.expected) == ("offset-past-next", fits)
    assert found.position == len(parts[0] + parts[1])


@pytest.mark.parametrize(("behind", "fits"), [([20], 17), ([9], 6), ([6], 3), ([4], 3), ([], 27)])
def test_where_a_batch_too_high_behind_damage_would_fit(
    tmp_path: Path, behind: list[int], fits: int
) -> None:
    """How much was lost before it is not known; what follows says where it ends."""
    parts = [batch(0), damage.flip(batch(3), 70), batch(FAR), *map(batch, behind)]
    directory = write_partition(tmp_path, {0: [], 30: [batch(30)]})
    write(directory, 0, "log", b"".join(parts))
    found = next(one for one in checked(directory) if one.actual == FAR)
    assert (found.code, found.expected) == ("offset-past-next", fits)


@pytest.mark.parametrize(("rows", "places"), [([2], 1), ([1, 2, 4], 3)])
def test_reserved_bits_are_told_of_once_a_segment(
    tmp_path: Path, rows: list[int], places: int
) -> None:
    parts = [batch(3 * row, attributes=0x100 if row in rows else 0) for row in range(6)]
    found = only(write_partition(tmp_path, {0: parts}))
    assert (found.code, found.position) == ("attributes-reserved", len(parts[0]) * rows[0])
    assert found.message.endswith(f"; so in {places} batches of the segment.") == (places > 1)
