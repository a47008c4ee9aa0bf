"""What is open in a partition: from snapshots, from batches, at a time."""

from pathlib import Path

from producing import (
    ABORT,
    AT_SIX,
    COMMIT,
    FIRST,
    NONE,
    SECOND,
    TIME,
    aborted_index,
    data,
    index_of,
    log_of,
    marker,
    snapshot,
    snapshot_of,
    write_log,
    write_sound,
)
from segments import target_of

from kdump.broker.visibility import OpenTransaction, OpenTransactions, open_transactions
from kdump.storage.file_records import DEFAULT_LIMIT


def here(path: Path, until_ms: int | None = None) -> OpenTransactions:
    return open_transactions(target_of(path), DEFAULT_LIMIT, until_ms)


def firsts(found: OpenTransactions) -> dict[int, tuple[int, int | None]]:
    """First offset and number of records by producer."""
    return {one.producer_id: (one.first_offset, one.records_count) for one in found.transactions}


def test_no_open_transaction_after_all_markers(tmp_path: Path) -> None:
    found = here(write_sound(tmp_path))
    assert found == OpenTransactions(
        (), None, found.newest_marker_ms, -1, unread=False, overflowed=False
    )
    assert found.newest_marker_ms == TIME + 8000


def test_each_has_its_batches_and_the_first_blocks_readers(tmp_path: Path) -> None:
    batches = [
        data(0, 7, 0, count=2, transactional=True),
        data(2),
        data(3, 8, 0, epoch=3, transactional=True),
        data(4, 7, 2, count=3, transactional=True),
    ]
    found = here(write_log(tmp_path, {0: batches}))
    assert found.last_stable_offset == 0
    assert found.transactions == (
        OpenTransaction(7, 0, 0, TIME, 5, TIME + 2000),
        OpenTransaction(8, 3, 3, TIME + 3000, 1, TIME + 2000),
    )


def test_batches_before_the_snapshot_are_counted(tmp_path: Path) -> None:
    """The snapshot at 6 knows that 8 is open since 2; its two batches lie before."""
    path = write_log(tmp_path, {0: FIRST, 6: [data(6, 8, 2, count=4, transactional=True)]})
    snapshot_of(path, 6).write_bytes(snapshot(*AT_SIX))
    assert firsts(here(path)) == {8: (2, 6)}


def test_log_before_the_first_open_transaction_is_not_read(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: FIRST, 6: SECOND})
    snapshot_of(path, 6).write_bytes(snapshot((9, 0, 1, 5, 0, TIME, NONE, NONE)))
    log_of(path, 0).write_bytes(b"")
    assert here(path).transactions == ()


def test_deleted_first_batches_are_not_counted(tmp_path: Path) -> None:
    segments = {0: FIRST, 6: [data(6, 8, 2, transactional=True)]}
    path = write_log(tmp_path, segments, log_start=4)
    snapshot_of(path, 6).write_bytes(snapshot(*AT_SIX))
    found = here(path)
    assert firsts(found) == {8: (2, None)}
    assert found.last_stable_offset == 4


def test_open_transactions_are_those_at_the_time(tmp_path: Path) -> None:
    """Batches and markers that were written later are not there."""
    path = write_sound(tmp_path)
    assert firsts(here(path, TIME - 1)) == {}
    assert firsts(here(path, TIME)) == {7: (0, 2)}
    assert firsts(here(path, TIME + 2999)) == {7: (0, 2), 8: (2, 1)}
    assert firsts(here(path, TIME + 3000)) == {8: (2, 1)}
    assert firsts(here(path, TIME + 4000)) == {8: (2, 2)}
    assert firsts(here(path, TIME + 7999)) == {7: (7, 1)}
    assert firsts(here(path, TIME + 8000)) == {}


def test_late_batch_between_others_is_skipped(tmp_path: Path) -> None:
    batches = [
        data(0, 7, 0, transactional=True, timestamp=TIME),
        data(1, 8, 0, transactional=True, timestamp=TIME + 90),
        data(2, 7, 1, transactional=True, timestamp=TIME + 10),
        marker(3, 8, COMMIT, timestamp=TIME + 95),
    ]
    path = write_log(tmp_path, {0: batches})
    assert firsts(here(path, TIME + 10)) == {7: (0, 2)}
    assert firsts(here(path, TIME + 90)) == {7: (0, 2), 8: (1, 1)}
    assert firsts(here(path, TIME + 95)) == {7: (0, 2)}


def test_damage_is_reported(tmp_path: Path) -> None:
    path = write_log(
        tmp_path, {0: [data(0, 7, 0, transactional=True), marker(1, 7, ABORT), data(2)]}
    )
    log = log_of(path, 0)
    whole = bytearray(log.read_bytes())
    assert not here(path).unread
    size = len(data(0, 7, 0, transactional=True))
    whole[size + 40] ^= 0xFF
    log.write_bytes(whole)
    found = here(path)
    assert found.unread
    assert firsts(found) == {7: (0, 1)}


def test_marker_known_only_to_the_index(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0, transactional=True), data(2)]})
    index_of(path, 0).write_bytes(aborted_index((8, 0, 1, 2), (7, 0, 1, 2)))
    (found,) = here(path).transactions
    assert (found.producer_id, found.marker_offset) == (7, 1)
    index_of(path, 0).write_bytes(aborted_index((7, 5, 6, 7)))
    assert here(path).transactions[0].marker_offset is None


def test_trailing_zeros_are_sound_and_a_torn_batch_is_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0, transactional=True), bytes(4096)]})
    assert not here(path).unread
    path = write_log(tmp_path, {0: [data(0, 7, 0, transactional=True), marker(1, 7, ABORT)[:-1]]})
    assert here(path).unread
