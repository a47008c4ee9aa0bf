"""Sequence numbers of idempotent producers, and producer snapshots, against the log."""

import os
from pathlib import Path

import builders
import damage
import pytest
from each import each
from producing import (
    AT_SIX,
    AT_TEN,
    FIRST,
    NONE,
    SECOND,
    TIME,
    aborted_index,
    check_batches,
    codes,
    data,
    index_of,
    log_of,
    only,
    snapshot,
    snapshot_of,
    write_log,
    write_sound,
)
from segments import partition_of

from kdump.broker.producer_state import ProducerStates
from kdump.engine.checks import producers
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.engine.reading.scan import scan
from kdump.storage.source import Source

LARGEST = 2**31 - 1
DAY_MS = 86_400_000


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return write_sound(tmp_path)


# Sequence numbers


@each(
    "batches",
    [
        [data(10, 7, 0, count=3), data(13, 7, 3)],
        [data(10, 7, LARGEST - 1, count=2), data(12, 7, 0)],  # the last was the largest
        [data(10, 7, LARGEST, count=3), data(13, 7, 2)],  # wraps inside a batch
        [data(10, 7, 40), data(11, 7, 41)],  # the first seen may be any
        [data(10, 7, 9), data(11, 7, 0, epoch=1)],  # a new epoch
        [data(10, 7, 0), data(11, 8, 0), data(12, 7, 1)],
        [data(10, NONE, 0), data(11, NONE, 0)],  # written by a coordinator
        [data(10, 7, 5), data(14, 7, 9)],  # offsets are missing too: compacted
        [data(10, 7, 5), data(11, 7, 0)],  # begun anew, as old clients do
        [data(10, 7, 5, timestamp=TIME), data(11, 7, 90, timestamp=TIME + DAY_MS)],  # forgotten
        [data(10, 7, NONE), data(11, 7, 4)],
    ],
)
def test_consecutive_sequences_are_sound(tmp_path: Path, batches: list[bytes]) -> None:
    assert check_batches(tmp_path, batches) == []


def test_sequence_gap_is_reported(tmp_path: Path) -> None:
    batches = [data(0, 7, 0, count=3), data(3), data(4, 7, 5)]
    (found,) = check_batches(tmp_path, batches)
    assert (found.code, found.severity.value) == ("sequence-gap", "note")
    assert (found.position, found.offset) == (len(batches[0] + batches[1]), 4)
    assert (found.expected, found.actual) == (3, 5)
    assert "2 sequence numbers" in found.message


def test_sequence_gap_across_the_wrap_is_reported(tmp_path: Path) -> None:
    (found,) = check_batches(tmp_path, [data(10, 7, LARGEST), data(11, 7, 3)])
    assert (found.code, found.expected, found.actual) == ("sequence-gap", 0, 3)


@pytest.mark.parametrize(
    ("sequence", "count"),
    [(4, 3), (6, 1), (5, 3)],  # the same batch, the end of it, and one that overlaps it
)
def test_duplicate_sequence_is_reported(tmp_path: Path, sequence: int, count: int) -> None:
    batches = [data(1, 7, 4, count=3), data(9, 7, sequence, count=count)]
    (found,) = check_batches(tmp_path, batches)
    assert (found.code, found.severity.value, found.offset) == ("sequence-duplicate", "note", 9)
    assert (found.expected, found.actual) == (7, sequence)


def test_duplicate_of_a_first_batch_is_reported(tmp_path: Path) -> None:
    """One that begins at 0 again is the same batch if its times are the same, too."""
    again = [data(0, 7, 0, count=3, timestamp=TIME), data(3, 7, 0, count=3, timestamp=TIME)]
    (found,) = check_batches(tmp_path, again)
    assert found.code == "sequence-duplicate"


def test_coordinators_start_at_sequence_0_each_time(tmp_path: Path) -> None:
    path = tmp_path / "__consumer_offsets-7"
    path.mkdir()
    log_of(path, 0).write_bytes(
        b"".join(data(base, 7, 0, transactional=True, timestamp=TIME) for base in range(3))
    )
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert codes(path) == ["transaction-open"]


def test_repeated_batch_has_one_finding(tmp_path: Path) -> None:
    """Offsets that do not rise tell of it already."""
    last = data(3, 7, 3)
    found = check_batches(tmp_path, [data(0, 7, 0, count=3), last, last])
    assert [one.code for one in found] == ["offset-not-rising"]


def test_sequences_after_a_gap_are_unknown(tmp_path: Path) -> None:
    lost = damage.flip(data(1, 7, 1), 70)
    found = check_batches(tmp_path, [data(0, 7, 0), lost, data(2, 7, 2)])
    assert [one.code for one in found] == ["crc-mismatch"]


def test_empty_batch_keeps_its_sequence(tmp_path: Path) -> None:
    """Compaction leaves it for a producer's last numbers (F27)."""
    empty = builders.batch(
        [],
        base_offset=1,
        last_offset_delta=4,
        producer_id=7,
        producer_epoch=0,
        base_sequence=10,
        base_timestamp=-1,
        max_timestamp=TIME,
    )
    assert check_batches(tmp_path, [empty, data(6, 7, 15)]) == []
    (found,) = check_batches(tmp_path, [empty, data(6, 7, 16)])
    assert (found.code, found.expected) == ("sequence-gap", 15)


def test_more_open_transactions_than_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "ProducerStates", lambda: ProducerStates(limit=4))
    batches = [data(base, base, 0, transactional=True) for base in range(5)]
    (found,) = check_batches(tmp_path, batches)
    assert (found.code, found.severity.value) == ("producers-not-checked", "note")


def test_dropped_producers_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many the longest idle are; a snapshot may still have them."""
    batches = [data(base, base, 0) for base in range(9)]
    path = write_log(tmp_path, {0: batches})
    all_nine = [(base, 0, 0, base, 0, TIME, NONE, NONE) for base in range(9)]
    snapshot_of(path, 9).write_bytes(snapshot(*all_nine))
    assert codes(path) == []
    monkeypatch.setattr(producers, "ProducerStates", lambda: ProducerStates(limit=4))
    assert codes(path) == []


# Snapshots


def test_sound_directory_has_no_finding(sound: Path) -> None:
    assert codes(sound) == []


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (1, 3, "epoch 3"),
        (2, 7, "last sequence 7"),
        (3, 4, "last offset 4"),
        (4, 2, "offset delta 2"),
        (7, 5, "open transaction 5"),
    ],
)
def test_snapshot_contradicts_the_log(sound: Path, field: int, value: int, words: str) -> None:
    entries = [list(entry) for entry in AT_SIX]
    entries[2][field] = value
    path = snapshot_of(sound, 6)
    path.write_bytes(snapshot(*map(tuple, entries)))  # type: ignore[arg-type]
    found = only(sound)
    assert (found.code, found.severity.value) == ("snapshot-differs", "rebuild")
    assert (found.path, found.offset, found.actual) == (str(path), 6, words)
    assert "Producer 9" in found.message
    assert "more producers differ" not in found.message


@pytest.mark.parametrize("first", [NONE, 0, 4])
def test_snapshot_with_a_different_open_transaction(sound: Path, first: int) -> None:
    entries = (AT_SIX[0], (*AT_SIX[1][:7], first), AT_SIX[2])
    snapshot_of(sound, 6).write_bytes(snapshot(*entries))  # type: ignore[arg-type]
    found = only(sound)
    assert (found.code, found.expected) == ("snapshot-differs", "open transaction 2")
    assert found.actual == f"open transaction {first}"


@each(("first", "differs"), [(0, False), (5, False), (6, True), (7, False)])
def test_snapshot_transaction_may_start_in_deleted_segments(
    tmp_path: Path, first: int, differs: bool
) -> None:
    batches = [data(6, 9, 0), data(7, 8, 2, transactional=True), data(8, 9, 1)]
    path = write_log(tmp_path, {6: batches})
    entries = (8, 0, 2, 7, 0, TIME, NONE, first), (9, 0, 1, 8, 0, TIME, NONE, NONE)
    snapshot_of(path, 9).write_bytes(snapshot(*entries))
    assert ("snapshot-differs" in codes(path)) is differs


def test_snapshot_of_another_offset_is_reported(sound: Path) -> None:
    """A file renamed, or copied from another partition."""
    snapshot_of(sound, 10).write_bytes(snapshot(*AT_SIX))
    found = only(sound)
    assert (found.code, found.offset) == ("snapshot-differs", 10)
    assert "2 more producers differ" in found.message


def test_snapshot_inside_a_segment_is_checked(sound: Path) -> None:
    """As a stop leaves it; the scan splits its run there."""
    at_two = (7, 0, 1, 1, 1, TIME, NONE, 0)
    snapshot_of(sound, 2).write_bytes(snapshot(at_two))
    assert codes(sound) == []
    snapshot_of(sound, 2).write_bytes(snapshot((*at_two[:3], 0, *at_two[4:])))
    found = only(sound)
    assert (found.code, found.offset, found.actual) == ("snapshot-differs", 2, "last offset 0")


def test_producer_without_batches_is_reported(sound: Path) -> None:
    stranger = (5, 0, 3, 4, 0, TIME, NONE, NONE)
    snapshot_of(sound, 6).write_bytes(snapshot(*AT_SIX, stranger))
    assert only(sound).code == "snapshot-differs"


def test_producer_may_be_in_deleted_segments(tmp_path: Path) -> None:
    path = write_log(tmp_path, {6: SECOND[1:]})
    old = (5, 0, 3, 4, 0, TIME, NONE, NONE)
    at_ten = ((7, 0, 2, 7, 0, TIME, 0, NONE), old, AT_TEN[2])
    snapshot_of(path, 10).write_bytes(snapshot(*at_ten))
    assert codes(path) == []
    late = (5, 0, 3, 7, 0, TIME, NONE, NONE)  # where no offset is missing
    snapshot_of(path, 10).write_bytes(snapshot(late, *at_ten[2:]))
    assert codes(path) == ["snapshot-differs"]


def test_compacted_log_may_lack_entries_of_the_snapshot(sound: Path) -> None:
    log_of(sound, 0).write_bytes(b"".join((*FIRST[:2], *FIRST[4:])))
    (sound / f"{0:020}.txnindex").unlink()
    changed = ((7, 0, 3, 3, 0, TIME, 0, NONE), *AT_SIX[1:])
    snapshot_of(sound, 6).write_bytes(snapshot(*changed))
    assert "snapshot-differs" not in codes(sound)


def test_marker_emptied_by_compaction(tmp_path: Path) -> None:
    """The snapshot was taken when it still said something (F29)."""
    empty = builders.batch(
        [],
        base_offset=1,
        attributes=builders.TRANSACTIONAL | builders.CONTROL,
        producer_id=7,
        producer_epoch=3,
        base_timestamp=-1,
    )
    path = write_log(tmp_path, {0: [data(0, 7, 0), empty, data(2)]})
    snapshot_of(path, 3).write_bytes(snapshot((7, 3, NONE, NONE, 0, TIME, 0, NONE)))
    assert codes(path) == []


@pytest.mark.parametrize("kept", [(), (0,), (1, 2)])
def test_expired_producers_are_missing(sound: Path, kept: tuple[int, ...]) -> None:
    """After a day, or a clean start without snapshots, which then are 10 bytes long (R10)."""
    snapshot_of(sound, 6).write_bytes(snapshot(*(AT_SIX[number] for number in kept)))
    assert codes(sound) == []


def test_timestamps_and_coordinator_epochs_are_not_compared(sound: Path) -> None:
    """Compaction changes the first, and neither changes what a broker accepts."""
    changed = ((7, 0, 1, 1, 1, TIME - 5, 9, NONE), *AT_SIX[1:])
    snapshot_of(sound, 6).write_bytes(snapshot(*changed))
    assert codes(sound) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: damage.flip(data, 30), "snapshot-crc"),
        (lambda data: damage.cut(data, 60), "snapshot-size"),
        (lambda data: damage.cut(data, 5), "snapshot-size"),
        (lambda data: damage.put(data, 0, b"\0\2"), "snapshot-version"),
    ],
)
def test_rejected_snapshot_is_reported(sound: Path, change: object, code: str) -> None:
    path = snapshot_of(sound, 6)
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    found = only(sound)
    assert (found.code, found.path) == (code, str(path))


def test_snapshot_beyond_the_log_end(sound: Path) -> None:
    snapshot_of(sound, 11).write_bytes(snapshot(*AT_TEN))
    found = only(sound)
    assert (found.code, found.severity.value, found.offset) == ("snapshot-stray", "note", 11)


def test_snapshot_below_the_first_segment(tmp_path: Path) -> None:
    path = write_log(tmp_path, {6: SECOND[1:]})
    snapshot_of(path, 5).write_bytes(snapshot())
    snapshot_of(path, 10).write_bytes(snapshot())
    assert codes(path) == ["snapshot-stray"]


def test_missing_snapshots_are_reported(sound: Path) -> None:
    snapshot_of(sound, 6).unlink()
    assert codes(sound) == []
    snapshot_of(sound, 10).unlink()
    found = only(sound)
    assert (found.code, found.severity.value) == ("snapshot-missing", "note")
    assert (found.path, found.offset) == (str(sound), 6)


def test_no_snapshot_is_required_early(tmp_path: Path) -> None:
    assert codes(write_log(tmp_path, {0: [data(0)], 1: [data(1, 7, 0)]})) == []
    plain = {0: [data(0, 7, 0)], 1: [data(1, 7, 1)]}
    assert codes(write_log(tmp_path, plain)) == ["snapshot-missing"]
    assert codes(write_log(tmp_path, plain, log_start=1)) == []


def test_snapshot_is_optional_if_the_newest_segment_was_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0)], 1: [data(1, 7, 1), data(2, 7, 2)]})
    assert codes(path) == ["snapshot-missing"]
    refresh = Source.refresh

    def refreshed(source: Source) -> int:
        size = refresh(source)
        if source.path == str(log_of(path, 1)):
            os.truncate(source.path, size - 5)
        return size

    monkeypatch.setattr(Source, "refresh", refreshed)
    assert codes(path) == ["file-shrank"]


# What a finding rests on


def suspects(path: Path) -> list[tuple[str, RestsOn]]:
    partition = partition_of(path)
    found = scan(partition, [producers.Producers(partition)])
    return [(one.finding.code, one.touches) for one in found if isinstance(one, Conditional)]


def test_sequence_numbers_rest_on_the_log_from_the_batch_before_on(tmp_path: Path) -> None:
    batches = [data(0), data(1, 7, 0, count=3), data(4), data(5, 7, 9)]
    at, end = len(b"".join(batches[:3])), len(b"".join(batches))
    path = write_log(tmp_path, {0: batches})
    assert suspects(path) == [("sequence-gap", RestsOn(0, at, end, 3, 6))]
    batches = [data(0, 7, 0), data(1, 7, 9)]
    write_log(tmp_path, {0: batches})
    place = len(batches[0]), len(batches[0] + batches[1])
    assert suspects(path) == [("sequence-gap", RestsOn(0, *place, 0, 2))]


def test_plain_batch_rests_on_the_log_since_the_transaction_start(tmp_path: Path) -> None:
    batches = [data(0), data(1, 7, 0, transactional=True), data(2), data(3, 7, 1)]
    at, end = len(b"".join(batches[:3])), len(b"".join(batches))
    path = write_log(tmp_path, {0: batches})
    assert ("transaction-mixed", RestsOn(0, at, end, 1, 4)) in suspects(path)


def test_snapshot_rests_on_the_log_below_it(sound: Path) -> None:
    snapshot_of(sound, 10).write_bytes(snapshot(*AT_SIX))
    assert suspects(sound) == [("snapshot-differs", RestsOn(offset=0, end_offset=10))]


def test_snapshot_beyond_the_end_rests_on_the_last_byte_of_the_log(sound: Path) -> None:
    snapshot_of(sound, 15).write_bytes(snapshot(*AT_TEN))
    end = len(b"".join(SECOND))
    assert suspects(sound) == [("snapshot-stray", RestsOn(6, end - 1, end, 10, 15))]


def test_entry_without_a_marker_rests_on_batches_out_of_order(tmp_path: Path) -> None:
    batches = [data(0), data(1), data(0), data(3), data(4)]
    path = write_log(tmp_path, {0: batches})
    index_of(path, 0).write_bytes(aborted_index((7, 0, 2, 3)))
    size = len(batches[0])
    assert suspects(path) == [
        ("transaction-index-marker", RestsOn(0, size, 3 * size, 2, 3)),
    ]


@pytest.mark.parametrize("flags", [0, 1])
def test_snapshot_inside_a_batch_is_not_compared(tmp_path: Path, flags: int) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0, count=3), data(3, 7, 3)]})
    snapshot_of(path, 2 + flags).write_bytes(snapshot((7, 0, 99, 99, 0, TIME, NONE, NONE)))
    assert codes(path) == ["snapshot-differs"] * flags
