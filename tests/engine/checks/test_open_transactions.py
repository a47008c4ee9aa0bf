"""What is said of a transaction without a marker: how old it is, who waits, what to do."""

import os
from pathlib import Path

import pytest
from each import each
from holding import hold_lock
from producing import COMMIT, TIME, data, log_of, marker, run_checks, write_log
from segments import partition_of

from kdump.engine.checks.producers import Producers
from kdump.engine.reading.scan import scan
from kdump.findings.finding import Finding

MINUTE_MS = 60_000
SINCE = "has a transaction open since offset"
LIMIT = "transaction.max.timeout.ms allows 15 min (Kafka's default), so the transaction is hanging."
ABORT = "To end it on a running cluster: kafka-transactions.sh --bootstrap-server BOOTSTRAP abort"


def open_batch(offset: int, producer: int, minutes: int = 0) -> bytes:
    time = TIME + minutes * MINUTE_MS
    return data(offset, producer, 0, transactional=True, timestamp=time)


def test_open_transaction_is_reported(tmp_path: Path) -> None:
    path = write_log(tmp_path, {0: [data(0), data(1, 7, 0, count=2, transactional=True), data(3)]})
    (found,) = run_checks(path)
    assert found.message == (
        f"Producer 7, epoch 0, {SINCE} 1 (2023-11-14T22:13:21.000Z), with 2 records; the newest "
        "record of the partition is from 2 s later. read_committed consumers stop at offset 1; at "
        "most 3 records from there on are withheld from them. To see the transaction's batches: "
        f"kdump dump --batches --producer-id 7 --from-offset 1 {path}"
    )


@each(("minutes", "hangs"), [((30, 30), 0), ((30, 31), 2), ((1, 31), 2), ((1, 15), 0)])
def test_age_by_batches_outside_of_transactions(
    tmp_path: Path, minutes: tuple[int, int], hangs: int
) -> None:
    """Twice the time that is allowed, as a producer told it; the newest counts."""
    batches = [open_batch(0, 7), open_batch(1, 8)]
    behind = [data(2 + n, timestamp=TIME + at * MINUTE_MS) for n, at in enumerate(minutes)]
    first, second = run_checks(write_log(tmp_path, {0: batches + behind}))
    assert [first.code, second.code].count("transaction-hanging") == hangs
    age = f"the newest record of the partition is from {max(minutes)} min later."
    start = f"{SINCE} 0 (2023-11-14T22:13:20.000Z), with 1 record; {age}"
    waiting = (
        " read_committed consumers stop at offset 0; at most 4 records from there on are withheld "
        "from them."
    )
    end = f" {ABORT} --topic orders --partition 7 --start-offset 0"
    if hangs:
        assert first.message == f"Producer 7, epoch 0, {start} {LIMIT}{waiting}{end}"
        assert second.message.endswith(f"{age} {LIMIT} {end[1:-1]}1")
    else:
        assert first.message.startswith(
            f"Producer 7, epoch 0, {start}{waiting} To see the transaction's batches: "
        )
        assert f"{age} To see the transaction's batches: " in second.message


@pytest.mark.parametrize("time", [-1, TIME])
def test_unknown_time_proves_no_age(tmp_path: Path, time: int) -> None:
    batches = [
        data(0, 7, 0, transactional=True, timestamp=-1 if time < 0 else TIME),
        data(1, timestamp=TIME if time < 0 else -1),
    ]
    (found,) = run_checks(write_log(tmp_path, {0: batches}))
    assert found.code == "transaction-open"
    assert "the newest record of the partition is from 0 " in found.message


def test_later_markers_decide_before_records(tmp_path: Path) -> None:
    """A broker's clock stamped them; the first behind it says when it was there at the latest."""
    batches = [
        open_batch(0, 7, 77),
        marker(1, 9, COMMIT, timestamp=TIME),
        data(2, timestamp=TIME + 90 * MINUTE_MS),
        marker(3, 9, COMMIT, timestamp=TIME + 15 * MINUTE_MS),
    ]
    path = write_log(tmp_path, {0: batches})
    (found,) = run_checks(path)
    assert found.code == "transaction-open"
    assert "the newest record of the partition is from 15 min later" in found.message
    batches[3] = marker(3, 9, COMMIT, timestamp=TIME + 16 * MINUTE_MS)
    write_log(tmp_path, {0: batches})
    (found,) = run_checks(path)
    assert found.code == "transaction-hanging"


def test_segment_age_counts_with_a_running_broker(tmp_path: Path) -> None:
    """That of the segment it began in, which may not be the newest."""
    path = write_log(tmp_path, {0: [data(0)], 1: [open_batch(1, 7)], 2: [data(2)]})
    with hold_lock(tmp_path):
        for base, minutes, hangs in ((0, 60, False), (2, 60, False), (1, 14, False), (1, 16, True)):
            partition = partition_of(path)
            for other in (0, 1, 2):
                then = partition.now_ms // 1000 - 60 * (minutes if other == base else 0)
                os.utime(log_of(path, other), (then, then))
            told = [*scan(partition, [Producers(partition)])]
            found = [one for one in told if isinstance(one, Finding) and "transaction" in one.code]
            assert [one.code == "transaction-hanging" for one in found] == [hangs], (base, minutes)
            if hangs:
                words = "a broker is running, and the segment was last written 16 min ago."
                assert words in found[0].message


def test_copy_with_another_name_has_no_abort_command(tmp_path: Path) -> None:
    batches = [open_batch(0, 7), data(1, timestamp=TIME + 31 * MINUTE_MS)]
    path = write_log(tmp_path, {0: batches})
    copy = path.rename(tmp_path / "copy")
    (found,) = run_checks(copy)
    assert found.code == "transaction-hanging"
    assert found.message.endswith("at most 2 records from there on are withheld from them.")
