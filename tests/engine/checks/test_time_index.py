"""`.timeindex`: what is wrong, where, and for which time a broker answers wrongly."""

import os
import struct
from pathlib import Path

import builders
import damage
import pytest
from segments import (
    START_MS,
    batch,
    batches,
    entries,
    name,
    only,
    place_of,
    read,
    run_checks,
    time_index,
    write,
    write_partition,
)

from kdump.findings.finding import Severity
from kdump.kernels.text_form import time_text

FIRST, SECOND, ACTIVE = 0, 120, 240
SIZE = 12


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return write_partition(
        tmp_path,
        {
            FIRST: batches(FIRST, SECOND),
            SECOND: batches(SECOND, ACTIVE),
            ACTIVE: batches(ACTIVE, ACTIVE + 30),
        },
    )


def slots(directory: Path, base: int = FIRST) -> list[tuple[int, int]]:
    data = read(directory, base, "timeindex")
    return list(struct.iter_unpack(">qi", data))  # type: ignore[arg-type]


def put(directory: Path, pairs: list[tuple[int, int]], base: int = FIRST) -> None:
    write(directory, base, "timeindex", time_index(pairs))


def test_offsets_of_records_inside_a_batch_are_sound(sound: Path) -> None:
    """Leaders before 3.8 named the record with the largest time, not its batch's last (I14)."""
    log = entries(read(sound, FIRST, "log"))
    put(sound, [(entry.max_timestamp_ms, entry.first + 1) for entry in log[2::2]])
    assert [found.code for found in run_checks(sound)] == ["time-index-last"]  # it ends too early
    put(sound, [(entry.max_timestamp_ms, entry.first + 1) for entry in log[3::2]])
    assert run_checks(sound) == ()


def test_timestamps_absent_from_v0_messages_are_sound(tmp_path: Path) -> None:
    """Brokers of 0.10.2 noted a producer's time, then stored the message without it."""
    parts = [builders.message(offset, magic=0) for offset in range(40)]
    directory = write_partition(tmp_path, {0: parts, 40: parts[:0]})
    put(directory, [(START_MS + offset, offset) for offset in range(9, 40, 10)], 0)
    assert run_checks(directory) == ()


def test_record_at_time_zero_is_not_an_empty_index(tmp_path: Path) -> None:
    one = batch(0, 1, base_timestamp=0, max_timestamp=0)
    directory = write_partition(tmp_path, {0: [one], 1: batches(1, 9)})
    assert read(directory, 0, "timeindex") == bytes(SIZE)
    assert run_checks(directory) == ()


def test_partial_entry_at_the_end_is_reported(sound: Path) -> None:
    data = read(sound, FIRST, "timeindex")
    write(sound, FIRST, "timeindex", data + b"abc")
    wanted = ("time-index-size", name(FIRST, "timeindex"), len(data), 3)
    assert place_of(only(sound), sound) == wanted


def test_falling_entry_is_reported(sound: Path) -> None:
    pairs = slots(sound)
    pairs[4] = pairs[2]
    put(sound, pairs)
    found = only(sound)
    assert place_of(found, sound) == ("time-index-order", name(FIRST, "timeindex"), 4 * SIZE, SIZE)


def test_early_last_entry_makes_lookups_skip_the_segment(sound: Path) -> None:
    pairs = slots(sound)
    put(sound, [*pairs[:-1], (5, pairs[-1][1])])
    found = only(sound)
    at = SIZE * (len(pairs) - 1)
    assert place_of(found, sound) == ("time-index-last", name(FIRST, "timeindex"), at, SIZE)
    assert found.expected == f"an offset of segment {FIRST}"
    assert found.actual == f"an offset of segment {SECOND}"
    assert time_text(pairs[-1][0]) in found.message


def test_late_last_entry_hides_the_next_segment(sound: Path) -> None:
    pairs = slots(sound)
    late = slots(sound, SECOND)[-1][0] + 1
    put(sound, [*pairs[:-1], (late, pairs[-1][1])])
    found = only(sound)
    assert found.code == "time-index-last"
    assert (found.expected, found.actual) == (f"an offset of segment {SECOND}", "none")


def test_early_last_entry_is_harmless_if_an_earlier_segment_answers(
    tmp_path: Path,
) -> None:
    early = [batch(0, base_timestamp=START_MS + 9_000_000, max_timestamp=START_MS + 9_000_020)]
    directory = write_partition(tmp_path, {0: early, 3: batches(3, 90), 90: batches(90, 99)})
    pairs = slots(directory, 3)
    put(directory, pairs[:-1], 3)
    found = only(directory)
    assert found.code == "time-index-last"
    assert "All lookups by time still give the right answer." in found.message


def test_entry_that_skips_a_record_is_reported(tmp_path: Path) -> None:
    """An early batch is the newest; an entry that forgets it starts a lookup behind it."""
    parts = batches(0, 120)
    newest = START_MS + 1_000_000
    parts[3] = batch(9, max_timestamp=newest + 20, base_timestamp=newest)
    directory = write_partition(tmp_path, {0: parts, 120: []})
    good = slots(directory, 0)
    forgetful = entries(read(directory, 0, "log"))[30]
    put(directory, [(forgetful.max_timestamp_ms, forgetful.last), (newest + 20, 119)], 0)
    found = [one for one in run_checks(directory) if one.code == "time-index-offset"]
    assert place_of(found[0], directory)[2] == 0
    assert found[0].expected != found[0].actual
    assert good[-1][0] == newest + 20


def test_entry_with_another_timestamp_than_its_batch_is_reported(sound: Path) -> None:
    pairs = slots(sound)
    pairs[4] = (pairs[4][0] + 1, pairs[4][1])
    put(sound, pairs)
    found = only(sound)
    assert place_of(found, sound) == ("time-index-entry", name(FIRST, "timeindex"), 4 * SIZE, SIZE)
    assert found.offset == pairs[4][1]


def test_entries_after_the_log_end(sound: Path) -> None:
    pairs = slots(sound)
    put(sound, [*pairs[:-1], (pairs[-1][0], 5000)])
    found = only(sound)
    assert found.code == "time-index-entry"
    assert found.offset == 5000


def test_zeros_make_lookups_skip_a_sealed_segment(sound: Path) -> None:
    data = read(sound, FIRST, "timeindex")
    write(sound, FIRST, "timeindex", data + bytes(5 * SIZE))
    found = only(sound)
    wanted = ("time-index-zeros", name(FIRST, "timeindex"), len(data), 5 * SIZE)
    assert place_of(found, sound) == wanted
    assert found.actual == f"an offset of segment {SECOND}"
    write(sound, FIRST, "timeindex", bytes(len(data)))
    assert only(sound).code == "time-index-zeros"


def test_emptied_index_is_judged_by_the_file_time(sound: Path) -> None:
    write(sound, FIRST, "timeindex", b"")
    late = (START_MS + 3_000_000) / 1000
    os.utime(sound / name(FIRST, "log"), (late, late))
    found = only(sound)
    assert found.code == "time-index-last"
    assert (found.expected, found.actual) == (f"an offset of segment {SECOND}", "none")


def test_missing_index_next_to_others(sound: Path) -> None:
    (sound / name(FIRST, "timeindex")).unlink()
    found = only(sound)
    assert (found.code, found.segment) == ("time-index-missing", FIRST)
    (sound / name(FIRST, "index")).unlink()
    assert only(sound).code == "offset-index-missing"  # then both are rebuilt


def test_partition_without_time_indexes_is_of_an_older_broker(sound: Path) -> None:
    for base in (FIRST, SECOND, ACTIVE):
        (sound / name(base, "timeindex")).unlink()
    assert run_checks(sound) == ()
    other = write_partition(sound.parent, {0: batches(0, 9)}, topic="other")
    assert other.exists()
    assert {found.code for found in run_checks(sound)} == {"time-index-missing"}


def test_stale_entries_after_a_truncation_are_a_note(sound: Path) -> None:
    data = read(sound, ACTIVE, "timeindex") + struct.pack(">qi", START_MS + 10**9, 900)
    write(sound, ACTIVE, "timeindex", data + bytes(40 * SIZE))
    found = only(sound)
    assert (found.code, found.severity) == ("time-index-stale", Severity.NOTE)
    assert (found.position, found.size_bytes) == (len(data) - SIZE, SIZE)


def test_entry_of_a_lost_batch_is_a_consequence(sound: Path) -> None:
    log = entries(read(sound, FIRST, "log"))
    lost = next(entry for entry in log if entry.last == slots(sound)[4][1])
    data = read(sound, FIRST, "log")
    write(sound, FIRST, "log", damage.flip_bit(data, lost.position + 90, 0))
    found = only(sound)
    assert (found.code, found.position) == ("crc-mismatch", lost.position)
    assert "time-index-entry@48" in found.consequences


def test_old_entries_of_earlier_times_and_higher_offsets_are_a_note(sound: Path) -> None:
    """As where a log was truncated and then written with later times."""
    written = read(sound, ACTIVE, "timeindex")
    newest, relative = struct.unpack_from(">qi", written, len(written) - 12)
    old = time_index([(newest - 5, relative + 900), (newest + 5, relative + 990)])
    write(sound, ACTIVE, "timeindex", written + old + bytes(1200))
    for quick in (False, True):
        assert [found.code for found in run_checks(sound, quick=quick)] == ["time-index-stale"]


@pytest.mark.parametrize("late_ms", [0, 1, 11, 700, 5000])
def test_empty_index_uses_the_file_time_in_milliseconds(sound: Path, late_ms: int) -> None:
    newest = slots(sound)[-1][0]
    asked = min(newest + late_ms, slots(sound, SECOND)[-1][0])
    write(sound, FIRST, "timeindex", b"")
    changed_ns = (newest + late_ms) * 1_000_000 + 999_999
    os.utime(sound / name(FIRST, "log"), ns=(changed_ns, changed_ns))
    if not late_ms:
        assert run_checks(sound) == ()
        return
    told = only(sound)
    assert (told.code, told.position, told.size_bytes) == ("time-index-last", 0, 0)
    assert told.message == (
        f"The time index is empty; the largest time in the segment is {time_text(newest)}. "
        f"A lookup of time {time_text(asked)} should return an offset of segment {SECOND}, "
        "but returns nothing."
    )


def test_messages_about_a_last_entry(sound: Path) -> None:
    pairs = slots(sound)
    newest, early = pairs[-1][0], pairs[-2][0]
    put(sound, pairs[:-1])
    assert only(sound).message == (
        f"The last entry has time {time_text(early)}; the largest time in the segment is "
        f"{time_text(newest)}. A lookup of time {time_text(newest)} should return an offset of "
        f"segment {FIRST}, but returns an offset of segment {SECOND}."
    )
    data = read(sound, FIRST, "timeindex")
    write(sound, FIRST, "timeindex", data + bytes(2 * SIZE))
    assert only(sound).message.startswith(
        "The last 2 entries are zeros, in a segment that is not the newest; the largest time in "
        f"the segment is {time_text(newest)}. A lookup of time {time_text(newest)} "
    )


def test_messages_about_an_entry_with_a_different_time(sound: Path) -> None:
    pairs = slots(sound)
    time, offset = pairs[4]
    put(sound, [*pairs[:4], (time + 1, offset), *pairs[5:]])
    assert only(sound).message.startswith(
        f"The entry for offset {offset} names time {time_text(time + 1)}, but the largest time in "
        f"that batch is {time_text(time)}. "
    )
    put(sound, [*pairs[:-1], (pairs[-1][0], 5000)])
    assert only(sound).message.startswith(
        "1 entries name offsets from 5,000 on; the last in the log is 119. "
    )


def test_missing_index_of_a_log_without_timestamps_is_sound(sound: Path) -> None:
    parts = [builders.message(offset, magic=0) for offset in range(SECOND)]
    write(sound, FIRST, "log", b"".join(parts))
    write(sound, FIRST, "index", b"")
    (sound / name(FIRST, "timeindex")).unlink()
    assert "time-index-missing" not in [found.code for found in run_checks(sound)]


def test_entries_misled_by_the_offset_index_are_reported_there(sound: Path) -> None:
    """A wrong entry of the offset index makes lookups by time start late as well."""
    raw = read(sound, FIRST, "index")
    pairs = list(struct.iter_unpack(">ii", raw))
    log = entries(read(sound, FIRST, "log"))
    following = next(one for one in log if one.position > pairs[4][1])
    before = pairs[4][0] - 2
    write(
        sound, FIRST, "index", damage.put(raw, 32, struct.pack(">ii", before, following.position))
    )
    assert {found.code for found in run_checks(sound)} == {"offset-index-offset"}
