"""The transaction index against the log: each way to be wrong, and the ways to differ lawfully."""

import random
import tracemalloc
from pathlib import Path

import builders
import damage
import pytest
from producing import (
    ABORT,
    COMMIT,
    FIRST,
    SECOND,
    aborted_index,
    codes,
    data,
    epochs,
    index_of,
    log_of,
    marker,
    only,
    run_checks,
    snapshot_of,
    write_log,
    write_sound,
)
from segments import partition_of

from kdump.broker.producer_state import ProducerStates
from kdump.engine.checks import transaction_index
from kdump.engine.checks.folding import fold
from kdump.engine.reading.scan import scan
from kdump.engine.verify.partition import checks_of
from kdump.errors import PathError
from kdump.storage.source import Source

TWO_ABORTED = [
    data(0, 7, 0, transactional=True),
    marker(1, 7, ABORT),
    data(2, 7, 1, transactional=True),
    marker(3, 7, ABORT),
]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return write_sound(tmp_path)


def test_sound_directory_has_no_finding(sound: Path) -> None:
    assert codes(sound) == []


@pytest.mark.parametrize(
    ("entry", "code", "expected", "actual"),
    [
        ((8, 0, 3, 2), "transaction-index-marker", 7, 8),  # another producer
        ((7, 0, 2, 2), "transaction-index-marker", 3, 2),  # data at that offset
        ((7, 0, 5000, 2), "transaction-index-marker", 3, 5000),  # beyond the log
        ((7, 1, 3, 2), "transaction-index-first-offset", 0, 1),
        ((7, -1, 3, 2), "transaction-index-first-offset", 0, -1),
        ((7, 4, 3, 2), "transaction-index-first-offset", 0, 4),  # behind its own marker
        ((7, 0, 3, 4), "transaction-index-stable-offset", 2, 4),
        ((7, 0, 3, 0), "transaction-index-stable-offset", 2, 0),
        ((7, 0, 3, 1 << 40), "transaction-index-stable-offset", 2, 1 << 40),
        ((7, 0, 3, -2), "transaction-index-stable-offset", 2, -2),
    ],
)
def test_wrong_entry_is_reported(
    sound: Path, entry: tuple[int, int, int, int], code: str, expected: int, actual: int
) -> None:
    path = index_of(sound, 0)
    path.write_bytes(aborted_index(entry))
    found = only(sound)
    assert (found.code, found.expected, found.actual) == (code, expected, actual)
    assert (found.path, found.position, found.size_bytes) == (str(path), 0, 34)
    assert found.severity.value == "rebuild"
    assert (found.topic, found.partition, found.segment) == ("orders", 7, 0)


def test_last_offset_below_the_base(sound: Path) -> None:
    """A broker asks for it at load, and recovers the segment (I22)."""
    index_of(sound, 6).write_bytes(aborted_index((8, 2, 5, 7)))
    found = only(sound)
    assert found.code == "transaction-index-marker"
    assert (found.expected, found.actual) == (6, 5)
    assert "recover the segment" in found.message


def test_missing_index_is_reported(sound: Path) -> None:
    index_of(sound, 6).unlink()
    found = only(sound)
    assert found.code == "transaction-index-missing"
    assert (found.path, found.segment, found.offset) == (str(index_of(sound, 6)), 6, 6)
    assert found.message.startswith(
        "The index lacks 1 aborted transaction, with 2 records between offsets 2 and 4."
    )
    assert found.expected == "1 entries"


def test_missing_entry_next_to_another_is_reported(tmp_path: Path) -> None:
    """The others are no less right."""
    path = write_log(tmp_path, {0: TWO_ABORTED})
    index_of(path, 0).write_bytes(aborted_index((7, 2, 3, 4)))
    found = only(path)
    assert (found.code, found.offset) == ("transaction-index-missing", 1)


def test_duplicate_entry_does_not_hide_a_missing_one(tmp_path: Path) -> None:
    """As a torn one does, which may have been the missing one."""
    path = write_log(tmp_path, {0: TWO_ABORTED})
    once = aborted_index((7, 0, 1, 2))
    index_of(path, 0).write_bytes(once + once)
    found = {one.code: one for one in run_checks(path)}
    assert {*found} == {"transaction-index-order", "transaction-index-missing"}
    assert found["transaction-index-order"].consequences == ()
    index_of(path, 0).write_bytes(once + once[:9])
    (torn,) = run_checks(path)
    assert torn.consequences == ("transaction-index-missing@3",)


def test_entries_below_one_without_a_marker_are_sound(tmp_path: Path) -> None:
    """The one before it is too high, and reported as naming no marker."""
    path = write_log(tmp_path, {0: TWO_ABORTED})
    index_of(path, 0).write_bytes(aborted_index((7, 0, 1, 2), (5, 4, 5000, 4), (7, 2, 3, 4)))
    found = only(path)
    assert (found.code, found.position, found.actual) == ("transaction-index-marker", 34, 5000)
    index_of(path, 0).write_bytes(aborted_index((5, 4, 5000, 4), (7, 0, 1, 2), (7, 2, 3, 4)))
    found = only(path)
    assert (found.code, found.position, found.actual) == ("transaction-index-marker", 0, 5000)


def test_entry_without_a_marker_is_compared_with_its_transaction(tmp_path: Path) -> None:
    """Not against the first that has no entry."""
    path = write_log(
        tmp_path,
        {0: [data(0, 9, 0, transactional=True), marker(1, 9, ABORT),
             data(2, 7, 0, transactional=True), marker(3, 7, ABORT)]},
    )  # fmt: skip
    index_of(path, 0).write_bytes(aborted_index((7, 2, 2, 4)))
    found = {one.code: one for one in run_checks(path)}
    assert {*found} == {"transaction-index-marker", "transaction-index-missing"}
    wrong = found["transaction-index-marker"]
    assert (wrong.expected, wrong.actual) == (3, 2)
    assert found["transaction-index-missing"].offset == 1


def test_torn_entry_and_its_transaction_have_one_finding(sound: Path) -> None:
    whole = index_of(sound, 6).read_bytes()
    index_of(sound, 6).write_bytes(damage.cut(whole, 31))
    found = only(sound)
    assert (found.code, found.position, found.size_bytes) == ("transaction-index-size", 0, 31)
    assert found.consequences == ("transaction-index-missing@6",)


def test_partial_entry_after_complete_ones(sound: Path) -> None:
    with index_of(sound, 6).open("ab") as file:
        file.write(b"abc")
    found = only(sound)
    assert (found.code, found.position, found.consequences) == ("transaction-index-size", 34, ())


def test_unknown_version_is_reported(sound: Path) -> None:
    index_of(sound, 0).write_bytes(damage.put(index_of(sound, 0).read_bytes(), 0, b"\x01"))
    found = only(sound)
    assert (found.code, found.position, found.actual) == ("transaction-index-version", 0, 256)


def test_entries_out_of_order_are_reported(tmp_path: Path) -> None:
    batches = []
    for base in range(0, 12, 2):
        batches += [data(base, 7, base // 2, transactional=True), marker(base + 1, 7, ABORT)]
    path = write_log(tmp_path, {0: batches})
    entries = [(7, base, base + 1, base + 2) for base in range(0, 12, 2)]
    index_of(path, 0).write_bytes(aborted_index(*entries))
    assert codes(path) == []
    entries[2], entries[3] = entries[3], entries[2]
    index_of(path, 0).write_bytes(aborted_index(*entries))
    found = only(path)
    assert (found.code, found.position) == ("transaction-index-order", 3 * 34)
    assert "more places" not in found.message
    entries[0], entries[1] = entries[1], entries[0]
    index_of(path, 0).write_bytes(aborted_index(*entries))
    found = only(path)
    assert (found.code, found.position) == ("transaction-index-order", 1 * 34)
    assert "The same in 1 more place." in found.message


def test_repeated_entry_is_reported(sound: Path) -> None:
    index_of(sound, 0).write_bytes(aborted_index((7, 0, 3, 2), (7, 0, 3, 2)))
    assert codes(sound) == ["transaction-index-order"]


def test_every_flipped_bit_of_an_index_has_one_finding(sound: Path) -> None:
    """But for what makes the version negative, which passes for 0."""
    whole = index_of(sound, 0).read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            index_of(sound, 0).write_bytes(damage.flip_bit(whole, position, bit))
            found = run_checks(sound)
            # A version below 0 passes as 0 too.
            silent = (position, bit) == (0, 7)
            assert len(found) == (0 if silent else 1), (position, bit, found)


def test_data_below_the_log_start_needs_no_entry(tmp_path: Path) -> None:
    batches = [data(0, 7, 0, transactional=True), marker(1, 7, ABORT), data(2)]
    assert codes(write_log(tmp_path, {0: batches})) == ["transaction-index-missing"]
    assert codes(write_log(tmp_path, {0: batches}, log_start=2)) == []


def test_replay_from_the_log_start_knows_a_later_first_offset(tmp_path: Path) -> None:
    """A start replays what lies behind the log start only (R8)."""
    batches = [
        data(0, 8, 0, transactional=True),
        data(1, 7, 0, transactional=True),
        data(2, 7, 1, transactional=True),
        marker(3, 7, ABORT),
        marker(4, 8, COMMIT),
    ]
    path = write_log(tmp_path, {0: batches}, log_start=2)
    index_of(path, 0).write_bytes(aborted_index((7, 2, 3, 4)))
    assert codes(path) == []
    index_of(path, 0).write_bytes(aborted_index((7, 1, 3, 0)))
    assert codes(path) == []
    write_log(tmp_path, {0: batches})
    assert codes(path) == []
    index_of(path, 0).write_bytes(aborted_index((7, 2, 3, 4)))
    assert codes(path) == ["transaction-index-first-offset"]


def test_finding_mentions_a_missing_log_start_checkpoint(sound: Path) -> None:
    index_of(sound, 0).write_bytes(aborted_index((7, 1, 3, 2)))
    assert "no checkpoint of log start offsets" not in only(sound).message
    (sound.parent / "log-start-offset-checkpoint").unlink()
    assert "no checkpoint of log start offsets" in only(sound).message


def test_leader_epochs_give_the_log_start_of_a_copy(tmp_path: Path) -> None:
    """Deleted records trim the epochs too (X2), and recovery replays from there on (R8)."""
    batches = [data(0, 7, 0, transactional=True), marker(1, 7, ABORT), data(2)]
    path = write_log(tmp_path, {0: batches}, log_start=2)
    (tmp_path / "log-start-offset-checkpoint").unlink()
    epochs = path / "leader-epoch-checkpoint"
    for start, wanted in ((0, ["transaction-index-missing"]), (1, []), (2, [])):
        epochs.write_text(f"0\n1\n0 {start}\n")
        assert codes(path) == wanted, start
    epochs.write_text("0\n1\n0 two\n")
    assert codes(path) == ["transaction-index-missing", "checkpoint-malformed"]
    write_log(tmp_path, {0: batches})  # with the checkpoint, that is what counts
    epochs.write_text("0\n1\n0 2\n")
    assert codes(path) == ["transaction-index-missing"]


def test_transaction_may_start_in_a_deleted_segment(tmp_path: Path) -> None:
    path = write_log(tmp_path, {6: SECOND})
    index_of(path, 6).write_bytes(aborted_index((8, 2, 6, 7)))
    assert codes(path) == []
    index_of(path, 6).unlink()
    assert codes(path) == []
    index_of(path, 6).write_bytes(aborted_index((8, 7, 6, 7)))
    assert codes(path) == ["transaction-index-first-offset"]


def test_compaction_may_remove_the_first_batches(sound: Path) -> None:
    """The entry stays as it was, as long as one batch is left (I24)."""
    log_of(sound, 0).write_bytes(b"".join(FIRST[2:]))
    assert codes(sound) == []


def test_compaction_may_remove_all_batches_and_the_entry(sound: Path) -> None:
    log_of(sound, 0).write_bytes(b"".join(FIRST[2:]))
    index_of(sound, 0).unlink()
    assert codes(sound) == []


def test_empty_batches_left_by_compaction_need_no_entry(tmp_path: Path) -> None:
    empty = builders.batch(
        [],
        base_offset=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        attributes=builders.TRANSACTIONAL,
        base_timestamp=-1,
    )
    assert codes(write_log(tmp_path, {0: [empty, marker(1, 7, ABORT), data(2)]})) == []


def test_follower_may_append_many_batches_at_once(tmp_path: Path) -> None:
    """A later transaction of the same append is open already when the index is written."""
    batches = [
        data(0, 7, 0, transactional=True),
        marker(1, 7, ABORT),
        data(2),
        data(3, 8, 0, transactional=True),
        marker(4, 8, COMMIT),
    ]
    path = write_log(tmp_path, {0: batches})
    index_of(path, 0).write_bytes(aborted_index((7, 0, 1, 3)))
    assert codes(path) == []
    index_of(path, 0).write_bytes(aborted_index((7, 0, 1, 4)))
    assert codes(path) == ["transaction-index-stable-offset"]


def test_marker_in_a_bad_range_is_a_consequence(sound: Path) -> None:
    log = log_of(sound, 0)
    log.write_bytes(damage.flip(log.read_bytes(), sum(map(len, FIRST[:2])) + 70))
    found = run_checks(sound)
    assert [one.code for one in found] == ["crc-mismatch"]
    assert "transaction-index-marker@0" in found[0].consequences


def test_transactions_begun_before_a_gap_are_ignored(sound: Path) -> None:
    log = log_of(sound, 0)
    log.write_bytes(damage.flip(log.read_bytes(), 70))
    assert codes(sound) == ["crc-mismatch"]


def test_index_written_on_while_the_log_is_read(
    sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker whose entry came after the index was opened is no finding."""
    whole = index_of(sound, 6).read_bytes()
    index_of(sound, 6).write_bytes(b"")
    replay = ProducerStates.replay

    def late(self: ProducerStates, *arguments: object) -> object:
        index_of(sound, 6).write_bytes(whole)
        return replay(self, *arguments)

    monkeypatch.setattr(ProducerStates, "replay", late)
    assert codes(sound) == []


def test_many_entries_without_markers_have_one_finding(sound: Path) -> None:
    """However many: the findings of one file are one, with their number."""
    entries = [(7, 0, 3, 2), *((5, 4, 10_000 + n, 4) for n in range(500))]
    index_of(sound, 0).write_bytes(aborted_index(*entries))
    found = only(sound)
    assert (found.code, found.position) == ("transaction-index-marker", 34)
    assert "499 more" in found.message


@pytest.mark.parametrize("left_out", [(0,), (6,), (0, 6)])
def test_unread_segments_are_skipped(sound: Path, left_out: tuple[int, ...]) -> None:
    """What began in them is not known, but for what the snapshot behind them says."""
    assert run_checks(sound, left_out=left_out) == []
    snapshot_of(sound, 6).unlink()
    assert run_checks(sound, left_out=left_out) == []
    index_of(sound, 6).unlink()
    assert run_checks(sound, left_out=left_out) == []


def test_only_the_file_itself_where_the_log_is_not_read(sound: Path) -> None:
    index_of(sound, 0).write_bytes(aborted_index((7, 3, 4, 5), (8, 3, 2, 5)) + b"x")
    assert sorted(one.code for one in run_checks(sound, quick=True)) == [
        "transaction-index-order",
        "transaction-index-size",
    ]
    index_of(sound, 0).unlink()
    assert run_checks(sound, quick=True) == []


def test_first_offset_known_from_a_snapshot(sound: Path) -> None:
    """Of the segment before, that is all that is left."""
    log_of(sound, 0).unlink()
    index_of(sound, 0).unlink()
    (sound / "leader-epoch-checkpoint").write_text(epochs((0, 6)))
    assert codes(sound) == []
    index_of(sound, 6).write_bytes(aborted_index((8, 1, 6, 7)))
    assert codes(sound) == []  # either may be wrong


def test_noise_instead_of_an_index_is_not_buffered(sound: Path) -> None:
    """Neither the file nor its entries, each of which is larger as an object than on disk."""
    size = 2 << 20
    rng = random.Random(4)
    index_of(sound, 0).write_bytes(rng.randbytes(size))
    tracemalloc.start()
    try:
        found = codes(sound)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "transaction-index-version" in found
    assert peak < size


@pytest.mark.parametrize("method", ["__init__", "read"])
def test_unreadable_index_has_no_missing_entries(
    sound: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    class Refusing(Source):
        """A file that may not be opened, or is refused while it is read."""

    def refuse(*_: object) -> None:
        raise PathError(str(index_of(sound, 0)), "Permission denied")

    monkeypatch.setattr(Refusing, method, refuse)
    monkeypatch.setattr(transaction_index, "Source", Refusing)
    partition = partition_of(sound)
    found = fold(scan(partition, checks_of(partition)))
    assert {one.code for one in found} == {"offset-index-missing"}
    assert all(segment.complete for segment in partition.segments)
    assert partition.errors
    assert {one.reason for one in partition.errors} == {"Permission denied"}
