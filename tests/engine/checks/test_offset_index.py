"""`.index`: what is wrong, where, and for which offset a broker answers wrongly."""

import struct
from pathlib import Path

import damage
import pytest
from segments import (
    batch,
    batches,
    entries,
    name,
    offset_index,
    only,
    place_of,
    read,
    run_checks,
    write,
    write_partition,
)

from kdump.broker.index_search import find_offset
from kdump.broker.settings import TOPIC, Settings
from kdump.findings.finding import Severity
from kdump.storage.index import OffsetIndex

SEALED, ACTIVE = 0, 120
RESERVED = 1024  # what an index of a running broker is padded to


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return write_partition(
        tmp_path, {SEALED: batches(SEALED, ACTIVE), ACTIVE: batches(ACTIVE, ACTIVE + 60)}
    )


def slots(directory: Path, base: int = SEALED) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">ii", read(directory, base, "index")))  # type: ignore[arg-type]


def put(directory: Path, pairs: list[tuple[int, int]], base: int = SEALED) -> None:
    write(directory, base, "index", offset_index(pairs))


def pad(directory: Path, base: int, extension: str) -> bytes:
    data = read(directory, base, extension).ljust(RESERVED, b"\0")
    size = 8 if extension == "index" else 12
    write(directory, base, extension, data[: RESERVED // size * size])
    return data


def test_reserved_length_of_a_running_broker_is_sound(sound: Path) -> None:
    pad(sound, ACTIVE, "index")
    pad(sound, ACTIVE, "timeindex")
    assert run_checks(sound) == ()


def test_entries_of_every_era_are_sound(sound: Path) -> None:
    """First offset of an append, last one, last of several batches; and fewer of them (I9)."""
    log = entries(read(sound, SEALED, "log"))
    put(sound, [(entry.first, entry.position) for entry in log[3:]])
    assert run_checks(sound) == ()
    put(sound, [(log[row + 3].last, log[row].position) for row in range(4, 30, 4)])
    assert run_checks(sound) == ()
    put(sound, [(log[20].last, log[20].position)])
    assert run_checks(sound) == ()


def test_partial_entry_at_the_end_is_reported(sound: Path) -> None:
    data = read(sound, SEALED, "index")
    write(sound, SEALED, "index", data + b"abc")
    found = only(sound)
    wanted = ("offset-index-size", name(SEALED, "index"), len(data), 3)
    assert place_of(found, sound) == wanted
    assert found.severity is Severity.REBUILD


def test_falling_entry_is_reported(sound: Path) -> None:
    pairs = slots(sound)
    pairs[4] = (pairs[4][0], pairs[2][1])
    put(sound, pairs)
    assert place_of(only(sound), sound) == ("offset-index-order", name(SEALED, "index"), 32, 8)


def test_entry_too_high_is_reported_not_later_ones(sound: Path) -> None:
    pairs = slots(sound)
    pairs[4] = (1 << 30, 1 << 30)
    put(sound, pairs)
    found = only(sound)
    assert place_of(found, sound) == ("offset-index-order", name(SEALED, "index"), 32, 8)


def test_last_entry_of_offset_zero_makes_a_fetch_skip_records(sound: Path) -> None:
    pairs = slots(sound)
    pairs[-1] = (0, pairs[-1][1])
    put(sound, pairs)
    found = only(sound)
    at = 8 * (len(pairs) - 1)
    assert place_of(found, sound) == ("offset-index-order", name(SEALED, "index"), at, 8)
    assert found.offset is not None
    assert found.expected != found.actual
    # The broker's own search over these bytes starts behind the batch that holds the offset.
    index = OffsetIndex(read(sound, SEALED, "index"), SEALED)
    start = find_offset(index, found.offset).position
    right = next(at for at in entries(read(sound, SEALED, "log")) if at.last >= found.offset)
    assert start > right.position


def test_last_entry_without_a_batch_stops_every_fetch_above(sound: Path) -> None:
    """The newest offset is the one named."""
    pairs = slots(sound)
    pairs[-1] = (0, pairs[-1][1] + 3)
    put(sound, pairs)
    found = only(sound)
    assert (found.code, found.offset) == ("offset-index-order", ACTIVE - 1)
    assert f"offset {ACTIVE - 1} should start at {ACTIVE - 1}" in found.message


def test_sound_fetch_starts_after_a_wrong_length(sound: Path) -> None:
    log = entries(read(sound, SEALED, "log"))
    pairs = [(log[row].last, log[row].position) for row in (9, 19, 29)]
    pairs[1] = (59, pairs[1][1] + 3)
    put(sound, pairs)
    data = read(sound, SEALED, "log")
    write(sound, SEALED, "log", damage.put(data, log[2].position + 8, bytes(4)))
    told = next(one for one in run_checks(sound) if one.code == "offset-index-position")
    assert (
        "A fetch from offset 59 should start at 59, but a broker returns an error." in told.message
    )


def test_position_without_a_batch_is_reported(sound: Path) -> None:
    pairs = slots(sound)
    pairs[4] = (pairs[4][0], pairs[4][1] + 1)
    put(sound, pairs)
    found = only(sound)
    assert place_of(found, sound) == ("offset-index-position", name(SEALED, "index"), 32, 8)
    assert found.offset == pairs[4][0]
    assert found.expected == pairs[4][0]
    assert found.actual != found.expected


def test_many_bad_entries_have_one_finding(sound: Path) -> None:
    pairs = slots(sound)
    put(sound, [(offset, position + 1) for offset, position in pairs])
    found = only(sound)
    assert place_of(found, sound) == ("offset-index-position", name(SEALED, "index"), 0, 8)
    assert f"The same in {len(pairs) - 1} more places." in found.message


def test_offset_below_earlier_batches(sound: Path) -> None:
    """A fetch from it would start behind the batch that holds it (I10 d)."""
    pairs = slots(sound)
    log = entries(read(sound, SEALED, "log"))
    before = max(entry.last for entry in log if entry.position < pairs[4][1])
    pairs[4] = (before - 1, pairs[4][1])
    put(sound, pairs)
    found = only(sound)
    assert place_of(found, sound) == ("offset-index-offset", name(SEALED, "index"), 32, 8)
    assert (found.offset, found.expected) == (before - 1, before - 1)
    assert found.actual == before + 1


def test_offset_between_batches_is_harmless(tmp_path: Path) -> None:
    parts = [*batches(0, 30), *batches(40, 70)]
    directory = write_partition(tmp_path, {0: parts})
    position = len(b"".join(parts[:10]))
    put(directory, [(35, position)], 0)
    found = only(directory)
    assert place_of(found, directory) == ("offset-index-offset", name(0, "index"), 0, 8)
    assert found.offset is None
    assert "All lookups that kdump tried gave the right answer" in found.message


def test_zeros_in_a_sealed_segment_are_reported(sound: Path) -> None:
    data = read(sound, SEALED, "index")
    write(sound, SEALED, "index", data + bytes(80))
    found = only(sound)
    assert place_of(found, sound) == ("offset-index-zeros", name(SEALED, "index"), len(data), 80)
    write(sound, SEALED, "index", bytes(len(data)))
    found = only(sound)
    assert place_of(found, sound) == ("offset-index-zeros", name(SEALED, "index"), 0, len(data))


def test_missing_index_is_reported(sound: Path) -> None:
    (sound / name(SEALED, "index")).unlink()
    found = only(sound)
    assert (found.code, found.path) == ("offset-index-missing", str(sound / name(SEALED, "log")))


def test_missing_index_of_an_empty_log_is_sound(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {0: batches(0, 30), 30: []})
    (directory / name(30, "index")).unlink()
    (directory / name(30, "timeindex")).unlink()
    assert run_checks(directory) == ()


def test_index_of_a_preallocated_log(tmp_path: Path) -> None:
    """As after a roll with preallocate=true: indexes are made at the first append."""
    directory = write_partition(tmp_path, {0: batches(0, 30), 30: []})
    write(directory, 30, "log", bytes(5000))
    (directory / name(30, "index")).unlink()
    (directory / name(30, "timeindex")).unlink()
    for quick in (False, True):
        assert [found.code for found in run_checks(directory, quick=quick)] == ["preallocated-tail"]
    write(directory, 30, "log", batch(30) + bytes(5000))
    codes = {found.code for found in run_checks(directory)}
    assert codes == {"preallocated-tail", "offset-index-missing"}
    (directory / name(0, "index")).unlink()
    (directory / name(0, "timeindex")).unlink()
    write(directory, 30, "log", bytes(5000))
    assert "offset-index-missing" in {found.code for found in run_checks(directory)}


def test_emptied_index_is_a_note_next_to_dense_indexes(sound: Path) -> None:
    write(sound, SEALED, "index", b"")
    found = only(sound)
    assert place_of(found, sound) == ("offset-index-empty", name(SEALED, "index"), None, None)
    assert found.severity is Severity.NOTE
    write(sound, ACTIVE, "index", b"")  # now no segment says how dense entries are here
    assert run_checks(sound) == ()


def test_emptied_index_is_a_note_in_a_long_log(tmp_path: Path) -> None:
    """Also where all are empty, so that no neighbour tells how dense entries are."""
    directory = write_partition(tmp_path, {0: batches(0, 150), 150: batches(150, 300), 300: []})
    for base in (0, 150):
        write(directory, base, "index", b"")
    size = len(read(directory, 0, "log"))
    assert run_checks(directory, settings=Settings()) == ()
    asked = Settings().override(TOPIC, {"index_interval_bytes": size // 3})
    found = run_checks(directory, settings=asked)
    assert [(one.code, one.segment) for one in found] == [
        ("offset-index-empty", 0), ("offset-index-empty", 150),
    ]  # fmt: skip
    assert f"With index.interval.bytes={size // 3:,} (topic) it should" in found[0].message
    # A cleaner writes large buffers, and the index of a compacted segment is sparse.
    assert (
        run_checks(directory, settings=asked.override(TOPIC, {"cleanup_policy": "compact"})) == ()
    )


def test_old_entries_of_higher_offsets_at_lower_positions_are_a_note(sound: Path) -> None:
    """As where a log was truncated and then written with larger batches."""
    written = read(sound, ACTIVE, "index")
    relative, position = struct.unpack_from(">ii", written, len(written) - 8)
    old = offset_index([(relative + 900, position - 50), (relative + 990, position + 9000)])
    write(sound, ACTIVE, "index", written + old + bytes(800))
    found = only(sound)
    assert (found.code, found.position) == ("offset-index-stale", len(written))
    (found,) = run_checks(sound, quick=True)
    assert found.code == "offset-index-stale"
    # A slot that is too high in front of sound ones is none of that.
    last = struct.pack(">ii", relative, position + 9000)
    write(sound, ACTIVE, "index", written[:-16] + last + written[-8:] + bytes(800))
    assert only(sound).code == "offset-index-order"


def test_stale_entries_after_a_truncation_are_a_note(sound: Path) -> None:
    """The file keeps its length, and behind the cut entries stand that were once right (I18)."""
    pad(sound, ACTIVE, "index")
    pad(sound, ACTIVE, "timeindex")
    pairs = slots(sound, ACTIVE)
    log = read(sound, ACTIVE, "log")
    write(sound, ACTIVE, "log", log[: pairs[3][1]])
    codes = {found.code: found.position for found in run_checks(sound)}
    assert codes == {"offset-index-stale": 24, "time-index-stale": 36}
    assert {found.severity for found in run_checks(sound)} == {Severity.NOTE}


def test_both_indexes_prove_a_log_truncated_between_batches(sound: Path) -> None:
    """Nothing else tells: such a log is sound in itself, and a gap to the next one is legal."""
    log = read(sound, SEALED, "log")
    third = entries(log)[-9]
    write(sound, SEALED, "log", log[: third.position])
    apart, found = run_checks(sound)
    assert apart.code == "segments-apart"
    assert (found.code, found.position) == ("log-too-short", third.position)
    assert (found.offset, found.next_offset) == (third.first, ACTIVE)
    assert found.severity is Severity.DAMAGE
    assert any(each.startswith("offset-index-position") for each in found.consequences)


def test_entry_into_a_bad_range_is_a_consequence(sound: Path) -> None:
    _, position = slots(sound)[4]
    log = read(sound, SEALED, "log")
    write(sound, SEALED, "log", damage.flip_bit(log, position + 90, 0))
    found = only(sound)
    assert (found.code, found.position) == ("crc-mismatch", position)
    assert "offset-index-position@32" in found.consequences


def test_quick_checks_the_index_alone(sound: Path) -> None:
    log = read(sound, SEALED, "log")
    write(sound, SEALED, "log", damage.flip_bit(log, 100, 0))
    assert run_checks(sound, quick=True) == ()
    pairs = slots(sound)
    pairs[4] = pairs[3]
    put(sound, pairs)
    assert [found.code for found in run_checks(sound, quick=True)] == ["offset-index-order"]
    put(sound, [*slots(sound)[:3], (119, len(log) + 7)])
    assert [found.code for found in run_checks(sound, quick=True)] == ["offset-index-position"]


@pytest.mark.parametrize(("odd", "words"), [([4], "One entry is"), ([4, 6], "2 entries are")])
def test_messages_about_entries_that_do_not_rise(sound: Path, odd: list[int], words: str) -> None:
    pairs = slots(sound)
    for slot in odd:
        pairs[slot] = pairs[2]
    put(sound, pairs)
    found = only(sound)
    assert (found.code, found.position) == ("offset-index-order", 32)
    assert found.message.startswith(f"{words} not greater than th")


def test_messages_about_an_entry_without_a_batch(sound: Path) -> None:
    pairs = slots(sound)
    relative, position = pairs[4]
    pairs[4] = (relative, position + 1)
    put(sound, pairs)
    assert only(sound).message == (
        f"The entry for offset {relative} names position {position + 1:,}, where no batch starts. "
        f"A fetch from offset {relative} should start at {relative}, but a broker returns nothing."
    )
