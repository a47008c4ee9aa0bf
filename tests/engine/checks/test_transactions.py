"""Control batches, and transactions that are open at the log end."""

import os
import struct
import time
from pathlib import Path

import builders
import damage
import pytest
from each import each
from holding import hold_lock
from producing import (
    ABORT,
    COMMIT,
    TIME,
    check_batches,
    codes,
    data,
    log_of,
    marker,
    run_checks,
    snapshot,
    snapshot_of,
    write_log,
)
from segments import partition_of

from kdump.broker.settings import read_settings
from kdump.engine.checks.transactions import ControlBatches
from kdump.engine.reading.check import Conditional, RestsOn
from kdump.engine.reading.scan import scan
from kdump.storage import places

MINUTE_MS = 60_000


def control(records: list[bytes], *, producer_id: int = 7, base_offset: int = 0) -> bytes:
    return builders.batch(
        records,
        base_offset=base_offset,
        attributes=builders.TRANSACTIONAL | builders.CONTROL,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
    )


VALUE = struct.pack(">hi", 0, 3)


@each(
    ("record", "code"),
    [
        (builders.control_record(ABORT, VALUE), None),
        (builders.control_record(ABORT, VALUE, version=5), None),  # read as version 0
        (builders.control_record(COMMIT, VALUE + b"more"), None),
        (builders.control_record(COMMIT, VALUE, version=-1), "control-record"),
        (builders.control_record(COMMIT, VALUE[:5]), "control-record"),
        (builders.control_record(COMMIT, b"\xff" + VALUE[1:]), "control-record"),
        (builders.record(key=b"\0\0\0", value=VALUE), "control-record"),
        (builders.record(key=None, value=VALUE), "control-record"),
        (builders.record(key=b"\0\0\0\0", value=None), "control-record"),
        (builders.control_record(9, VALUE), "control-type-unknown"),
        (builders.control_record(2, VALUE), None),  # a leader change: no marker
    ],
)
def test_control_record_is_checked(tmp_path: Path, record: bytes, code: str | None) -> None:
    batch = control([record])
    found = check_batches(tmp_path, [batch, data(1)])
    assert [one.code for one in found] == ([] if code is None else [code])
    if code:
        assert (found[0].position, found[0].size_bytes, found[0].offset) == (0, len(batch), 0)


def test_undecodable_control_batch_is_reported(tmp_path: Path) -> None:
    batch = control([builders.control_record(ABORT, VALUE, offset_delta=0)[:-1]])
    (found,) = check_batches(tmp_path, [batch])
    assert (found.code, found.actual) == ("control-record", "record")
    assert "truncates everything after it" in found.message


def test_second_record_in_a_marker_batch_is_reported(tmp_path: Path) -> None:
    two = [builders.control_record(kind, VALUE, offset_delta=kind) for kind in (ABORT, COMMIT)]
    (found,) = check_batches(tmp_path, [control(two)])
    assert (found.code, found.expected, found.actual) == ("control-count", 1, 2)


def test_raft_batches_hold_several_records(tmp_path: Path) -> None:
    two = [builders.control_record(kind, VALUE, offset_delta=kind - 3) for kind in (3, 4)]
    assert check_batches(tmp_path, [control(two, producer_id=-1)]) == []


def test_empty_control_batch(tmp_path: Path) -> None:
    """Its transaction is wholly gone (F29)."""
    assert check_batches(tmp_path, [control([])]) == []


def test_fatal_control_types_are_reported(tmp_path: Path) -> None:
    (found,) = check_batches(tmp_path, [control([builders.control_record(9, VALUE)])])
    assert "fails to load" in found.message
    (found,) = check_batches(
        tmp_path, [control([builders.control_record(9, VALUE)], producer_id=-1)]
    )
    assert "fails to load" not in found.message


def test_open_transaction_is_reported(tmp_path: Path) -> None:
    batches = [data(0), data(1, 7, 0, count=2, transactional=True), data(3)]
    (found,) = check_batches(tmp_path, batches)
    assert (found.code, found.severity.value, found.offset) == ("transaction-open", "note", 1)
    assert found.actual == TIME + 1000
    assert "Producer 7, epoch 0" in found.message
    assert "2 records" in found.message
    assert "2023-11-14T22:13:21.000Z" in found.message
    assert "stop at offset 1; at most 3 records from" in found.message
    assert "--producer-id 7 --from-offset 1" in found.message


def test_only_the_earliest_blocks_readers(tmp_path: Path) -> None:
    batches = [data(0, 7, 0, transactional=True), data(1, 8, 0, transactional=True)]
    first, second = check_batches(tmp_path, batches)
    assert "stop at offset 0" in first.message
    assert "stop at" not in second.message


def test_ended_transaction_makes_no_finding(tmp_path: Path) -> None:
    assert check_batches(tmp_path, [data(0, 7, 0, transactional=True), marker(1, 7, COMMIT)]) == []


@pytest.mark.parametrize(
    ("minutes", "code"), [(14, "transaction-open"), (16, "transaction-hanging")]
)
def test_age_by_later_markers(tmp_path: Path, minutes: int, code: str) -> None:
    """They carry a broker's time; what producers say does not count beside it."""
    batches = [
        data(0, 7, 0, transactional=True, timestamp=5),
        marker(1, 8, COMMIT, timestamp=TIME),
        marker(2, 8, COMMIT, timestamp=TIME + minutes * MINUTE_MS),
    ]
    (found,) = check_batches(tmp_path, batches)
    assert (found.code, found.offset) == (code, 0)


@pytest.mark.parametrize(
    ("minutes", "code"), [(29, "transaction-open"), (31, "transaction-hanging")]
)
def test_age_by_later_records(tmp_path: Path, minutes: int, code: str) -> None:
    batches = [
        data(0, timestamp=TIME + 90 * MINUTE_MS),  # before it
        data(1, 7, 0, transactional=True, timestamp=TIME),
        data(2, timestamp=TIME + minutes * MINUTE_MS),
    ]
    (found,) = check_batches(tmp_path, batches)
    assert (found.code, found.offset) == (code, 1)
    assert f"{minutes} min" in found.message


def test_timestamps_inside_transactions_prove_no_age(tmp_path: Path) -> None:
    """They may be those of events long past that are written all at once."""
    batches = [
        data(0, 7, 0, transactional=True, timestamp=TIME),
        data(1, 7, 1, transactional=True, timestamp=TIME + 600 * MINUTE_MS),
        data(2, 8, 0, transactional=True, timestamp=TIME + 900 * MINUTE_MS),
    ]
    assert {one.code for one in check_batches(tmp_path, batches)} == {"transaction-open"}


def write_hanging(parent: Path) -> Path:
    """Write a transaction that hangs, and three records behind it."""
    return write_log(
        parent,
        {
            0: [
                data(0, 7, 0, epoch=3, transactional=True, timestamp=TIME),
                marker(1, 8, COMMIT, timestamp=TIME),
                data(2, timestamp=TIME),
                marker(3, 8, COMMIT, timestamp=TIME + 16 * MINUTE_MS),
            ]
        },
    )


def test_messages_about_a_hanging_transaction(tmp_path: Path) -> None:
    (found,) = run_checks(write_hanging(tmp_path))
    assert (found.code, found.severity.value) == ("transaction-hanging", "damage")
    for words in (
        "Producer 7, epoch 3, ",
        "since offset 0 (2023-11-14T22:13:20.000Z)",
        "transaction.max.timeout.ms allows 15 min (Kafka's default)",
        "stop at offset 0; at most 4 records from",
        "abort --topic orders --partition 7 --start-offset 0",
    ):
        assert words in found.message


def test_transaction_timeout_comes_from_the_broker_settings(tmp_path: Path) -> None:
    path = write_hanging(tmp_path)
    settings = tmp_path / "server.properties"
    settings.write_text("transaction.max.timeout.ms=3600000\n")
    read = read_settings(str(settings))
    assert [one.code for one in run_checks(path, settings=read)] == ["transaction-open"]
    settings.write_text("transaction.max.timeout.ms=60000\n")
    (found,) = run_checks(path, settings=read_settings(str(settings)))
    assert "60 s (from --server-properties)" in found.message


@pytest.mark.parametrize(
    ("minutes", "code"), [(14, "transaction-open"), (16, "transaction-hanging")]
)
def test_age_by_the_file_where_a_broker_runs(tmp_path: Path, minutes: int, code: str) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0, transactional=True)], 1: [data(1)]})
    snapshot_of(path, 1).write_bytes(snapshot((7, 0, 0, 0, 0, TIME, -1, 0)))
    then = time.time() - 60 * minutes
    os.utime(log_of(path, 0), (then, then))
    assert codes(path) == ["transaction-open"]  # the log of a stopped broker just ends
    with hold_lock(tmp_path):
        assert codes(path) == [code]


def test_directory_being_deleted_is_not_checked(tmp_path: Path) -> None:
    path = write_hanging(tmp_path)
    retired = path.rename(path.with_name("orders-7.0123456789abcdef0123456789abcdef-delete"))
    assert codes(retired) == ["transaction-open"]


def test_age_does_not_count_the_time_since_the_log_was_written(tmp_path: Path) -> None:
    assert codes(write_log(tmp_path, {0: [data(0, 7, 0, transactional=True)]})) == [
        "transaction-open"
    ]


def test_torn_marker_explains_an_open_transaction(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0, transactional=True), marker(1, 7, ABORT)]})
    log = log_of(path, 0).read_bytes()
    log_of(path, 0).write_bytes(damage.cut(log, len(log) - 9))
    (found,) = run_checks(path)
    assert found.code in ("torn-tail", "tail-being-written")
    assert found.consequences == ("transaction-open@0",)


def test_no_open_transaction_after_a_gap(tmp_path: Path) -> None:
    """The marker may have been in it."""
    lost = damage.flip(marker(1, 7, ABORT), 70)
    found = check_batches(tmp_path, [data(0, 7, 0, transactional=True), lost, data(2)])
    assert [one.code for one in found] == ["crc-mismatch"]


def test_plain_batch_inside_a_transaction(tmp_path: Path) -> None:
    batches = [data(0, 7, 0, transactional=True), data(1, 7, 1), marker(2, 7, COMMIT)]
    (found,) = check_batches(tmp_path, batches)
    assert (found.code, found.severity.value) == ("transaction-mixed", "damage")
    assert (found.position, found.offset) == (len(batches[0]), 1)


def test_plain_batch_after_a_hole(tmp_path: Path) -> None:
    """The marker may have been in it."""
    assert codes(write_log(tmp_path, {0: [data(0, 7, 0, transactional=True), data(2, 7, 1)]})) == [
        "transaction-open"
    ]


def test_open_since_before_the_first_segment(tmp_path: Path) -> None:
    """Its batches are deleted; the snapshot at the first segment still knows of it."""
    path = write_log(tmp_path, {6: [data(6), marker(7, 9, COMMIT), data(8)]})
    open_since_2 = (8, 0, 1, 4, 0, TIME, -1, 2)
    snapshot_of(path, 6).write_bytes(snapshot(open_since_2))
    (found,) = run_checks(path)
    assert (found.code, found.offset) == ("transaction-open", 2)
    assert " 0 records;" not in found.message
    assert run_checks(path, left_out=(6,)) == []
    log_of(path, 6).write_bytes(marker(6, 8, ABORT) + data(7))
    assert codes(path) == []


def test_hanging_though_its_segment_is_not_read(tmp_path: Path) -> None:
    path = write_log(
        tmp_path,
        {
            0: [data(0, 8, 0, transactional=True, timestamp=TIME)],
            1: [
                marker(1, 9, COMMIT, timestamp=TIME),
                marker(2, 9, COMMIT, timestamp=TIME + 31 * MINUTE_MS),
            ],
        },
    )
    snapshot_of(path, 1).write_bytes(snapshot((8, 0, 0, 0, 0, TIME, -1, 0)))
    assert codes(path) == ["transaction-hanging"]
    assert [one.code for one in run_checks(path, left_out=(0,))] == ["transaction-hanging"]


def test_hundred_of_many_open_transactions_are_named(tmp_path: Path) -> None:
    for count, words in ((100, None), (101, " 1 more transactions are open."),
                         (103, " 3 more transactions are open.")):  # fmt: skip
        batches = [data(base, base, 0, transactional=True) for base in range(count)]
        (tmp_path / f"{count}").mkdir()
        found = check_batches(tmp_path / f"{count}", batches)
        assert [one.offset for one in found] == [*range(100)]
        assert [one.offset for one in found if "more transactions" in one.message] == [0] * bool(
            words
        )
        if words:
            assert found[0].message.endswith(words)


def test_control_batch_rests_on_its_own_bytes(tmp_path: Path) -> None:
    first, odd = data(0), control([builders.control_record(9, VALUE)], base_offset=1)
    partition = partition_of(write_log(tmp_path, {0: [first, odd]}))
    (found,) = scan(partition, [ControlBatches(partition)])
    assert isinstance(found, Conditional)
    assert found.touches == RestsOn(0, len(first), len(first + odd))
    assert (found.finding.position, found.finding.size_bytes) == (len(first), len(odd))
    assert (found.finding.offset, found.finding.actual) == (1, 9)


@pytest.mark.parametrize("producer", [0, 7])
def test_replay_of_an_unknown_type(tmp_path: Path, producer: int) -> None:
    """For any producer id; without one it is not replayed."""
    (found,) = check_batches(
        tmp_path, [control([builders.control_record(9, VALUE)], producer_id=producer)]
    )
    assert found.message == (
        "A control record has type 9, which no broker knows. It has a producer id, so a broker "
        "that replays it fails to load the log."
    )


def test_age_is_unknown_after_the_segment_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path, {0: [data(0, 7, 0, transactional=True)], 1: [data(1)]})
    snapshot_of(path, 1).write_bytes(snapshot((7, 0, 0, 0, 0, TIME, -1, 0)))
    then = time.time() - 60 * 16
    os.utime(log_of(path, 0), (then, then))
    stat = places.stat

    def gone(asked: str) -> object:
        if asked == str(log_of(path, 0)):
            raise FileNotFoundError(2, "No such file or directory", asked)
        return stat(asked)

    monkeypatch.setattr(places, "stat", gone)
    with hold_lock(tmp_path):
        assert "transaction-open" in codes(path)
