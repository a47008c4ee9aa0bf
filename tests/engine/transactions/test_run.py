"""`transactions` over made partitions: rows, ages, replicas, damage, what is read at all."""

import random
from pathlib import Path
from typing import Any

from each import each
from holding import hold_lock
from long_runs import LONG
from offsets_log import START_MS, Log
from producing import data, write_log
from told_items import codes, rows
from transaction_log import transaction

from kdump.engine.transactions.run import TransactionOptions, transactions
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, Workers
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.replay.coordinators import partition_for
from kdump.storage.targets import Selection

Told = Row | Finding | KdumpError
SINCE_MS = START_MS + 500
DAY_MS = 86_400_000


def run_transactions(*paths: Path, driver: Driver = ONE_BY_ONE, **asked: Any) -> list[Told]:
    options = TransactionOptions(Selection.take(asked), **asked)
    return list(transactions(map(str, paths), options, driver=driver))


def states(directory: Path, *pairs: Any, partition: int = 0) -> Path:
    """Write a partition of the coordinators', a record a batch, a second after the other."""
    log = Log()
    for one in pairs:
        log.add(one)
    return log.write(directory / f"__transaction_state-{partition}")


def write_open(directory: Path, producer: int = 7, since_ms: int = SINCE_MS) -> Path:
    """Write a partition, orders-7, with a transaction that is open."""
    directory.mkdir(exist_ok=True)
    batches = [data(0), data(1, producer, 0, count=3, transactional=True, timestamp=since_ms)]
    return write_log(directory, {0: batches})


def sum_findings(items: list[Told]) -> list[tuple[Any, ...]]:
    names = ("transactional_id", "producer_id", "state", "hanging")
    return [(*map(row.get, names), len(row["open_in"])) for row in rows(items)]


def test_pending_transactions_are_distinguished(tmp_path: Path) -> None:
    states(
        tmp_path,
        transaction("a", "Ongoing", ["orders-7"]),
        transaction("b", "Empty", producerId=8),
    )
    write_open(tmp_path)
    awaited, idle = rows(run_transactions(tmp_path))
    assert awaited["partitions"] == [{"topic": "orders", "partition": 7}]
    assert awaited["open_in"] == [
        {
            "topic": "orders",
            "partition": 7,
            "first_offset": 1,
            "last_stable_offset": 1,
            "records_count": 3,
            "age_ms": 1500,
        }
    ]
    assert (awaited["hanging"], awaited["abort_command"]) == (False, None)
    assert (idle["hanging"], idle["cause"], idle["open_in"]) == (False, None, [])


def test_transaction_without_an_id_has_a_row(tmp_path: Path) -> None:
    states(tmp_path, transaction("a", "Empty", producerId=8))
    write_open(tmp_path)
    items = run_transactions(tmp_path)
    assert sum_findings(items) == [("a", 8, "Empty", False, 0), (None, 7, None, True, 1)]
    row = rows(items)[1]
    assert row["abort_command"] == (
        "kafka-transactions.sh --bootstrap-server BOOTSTRAP abort --topic orders --partition 7 "
        "--start-offset 1"
    )
    assert row["partitions"] == []
    assert row["start_ms"] is row["timeout_ms"] is row["state_partition"] is None


def test_id_may_have_another_producer_now(tmp_path: Path) -> None:
    states(tmp_path, transaction("a", "Ongoing", ["orders-7"], producerId=8, previousProducerId=7))
    write_open(tmp_path)
    assert sum_findings(run_transactions(tmp_path)) == [("a", 8, "Ongoing", True, 1)]


def test_several_hanging_transactions_get_one_command(tmp_path: Path) -> None:
    states(tmp_path, transaction("a", "CompleteCommit"))
    write_open(tmp_path / "one")
    write_open(tmp_path / "two").rename(tmp_path / "two" / "orders-8")
    (row,) = rows(run_transactions(tmp_path, tmp_path / "one", tmp_path / "two"))
    first, second = row["abort_command"].split(" && ")
    assert first.endswith("--partition 7 --start-offset 1")
    assert second.endswith("--partition 8 --start-offset 1")


def test_age_decides_without_the_coordinator(tmp_path: Path) -> None:
    path = write_open(tmp_path)
    (row,) = rows(run_transactions(path))
    assert row["hanging"] is None
    assert row["cause"] == (
        "No partition of __transaction_state is here, so it is unknown whether its coordinator "
        "expects it to end."
    )
    (row,) = rows(run_transactions(path, at_ms=SINCE_MS + 900_001))
    assert (row["hanging"], row["open_in"][0]["age_ms"]) == (True, 900_001)
    properties = tmp_path / "server.properties"
    properties.write_text("transaction.max.timeout.ms=3600000\n")
    (row,) = rows(
        run_transactions(path, at_ms=SINCE_MS + 900_001, server_properties=str(properties))
    )
    assert row["hanging"] is None


def test_missing_partition_may_have_the_id(tmp_path: Path) -> None:
    states(tmp_path, transaction("a", "Empty", producerId=8), partition=1)
    write_open(tmp_path)
    row = rows(run_transactions(tmp_path))[-1]
    assert row["hanging"] is None
    assert row["cause"].startswith("Partition 0 of __transaction_state is not here, ")


def test_running_broker_may_still_end_it(tmp_path: Path) -> None:
    states(tmp_path, transaction("a", "CompleteCommit"))
    write_open(tmp_path)
    with hold_lock(tmp_path):
        (row,) = rows(run_transactions(tmp_path))
        assert row["hanging"] is True  # the clock says that it is years old
        (row,) = rows(run_transactions(tmp_path, at_ms=START_MS + 1000))
        assert row["hanging"] is None
    (row,) = rows(run_transactions(tmp_path, at_ms=START_MS + 1000))
    assert row["hanging"] is True


def test_transactions_are_those_at_the_time(tmp_path: Path) -> None:
    states(
        tmp_path,
        transaction("a", "Empty"),
        transaction("a", "Ongoing", ["orders-7"]),
        transaction("a", "CompleteCommit"),
    )
    write_open(tmp_path, since_ms=START_MS + 2500)
    for at_ms, found in (
        (START_MS + 999, []),
        (START_MS + 1000, [("a", 7, "Empty", False, 0)]),
        (START_MS + 2000, [("a", 7, "Ongoing", False, 0)]),
        (START_MS + 2500, [("a", 7, "Ongoing", False, 1)]),
        (START_MS + 3000, [("a", 7, "CompleteCommit", True, 1)]),
    ):
        assert sum_findings(run_transactions(tmp_path, at_ms=at_ms)) == found


def test_open_selects_open_transactions(tmp_path: Path) -> None:
    key, value = transaction("newer", "Empty")
    assert value is not None
    states(
        tmp_path,
        transaction("ended", "CompleteAbort", producerId=1),
        transaction("hangs", "CompleteCommit"),
        transaction("ongoing", "Ongoing", ["t-0"], producerId=2),
        transaction("decided", "PrepareAbort", ["t-0"], producerId=3),
        (key, b"\0\x09" + value[2:]),
    )
    write_open(tmp_path)
    ids = [row["transactional_id"] for row in rows(run_transactions(tmp_path, open_only=True))]
    assert ids == ["decided", "hangs", "newer", "ongoing"]


def test_record_of_a_newer_version_is_a_row(tmp_path: Path) -> None:
    key, value = transaction("a", "Ongoing")
    assert value is not None
    states(tmp_path, (key, b"\0\x09" + value[2:]))
    (row,) = rows(run_transactions(tmp_path))
    assert row["transactional_id"] == "a"
    assert row["producer_id"] is row["state"] is row["hanging"] is None
    assert row["cause"] == "The coordinator's record cannot be read: unknown-version, version 9."


def test_selected_partitions(tmp_path: Path) -> None:
    states(
        tmp_path,
        transaction("a", "Ongoing", ["t-0", "u-1"], producerId=1),
        transaction("b", "CompleteCommit"),
    )
    write_open(tmp_path)
    assert [row[0] for row in sum_findings(run_transactions(tmp_path, topic="orders"))] == ["b"]
    assert [row[0] for row in sum_findings(run_transactions(tmp_path, topic="u*"))] == ["a"]
    assert [row[0] for row in sum_findings(run_transactions(tmp_path, partition=7))] == ["b"]
    assert sum_findings(run_transactions(tmp_path, topic="t", partition=1)) == []


def test_id_selection_reads_one_partition(tmp_path: Path) -> None:
    name = "tx-1"
    home = partition_for(name, 3)
    for number in range(3):
        states(tmp_path, transaction(f"other-{number}", "Empty"), partition=number)
    path = tmp_path / f"__transaction_state-{home}"
    log = Log()
    log.add(transaction(name, "Empty"))
    (path / f"{0:020}.log").write_bytes(b"".join(log.batches))
    others = [tmp_path / f"__transaction_state-{n}" for n in range(3) if n != home]
    for other in others:
        (other / f"{0:020}.log").write_bytes(b"\0" * 8 + b"damage" * 9)
    items = run_transactions(tmp_path, transactional_id=name)
    assert (sum_findings(items), codes(items)) == ([(name, 7, "Empty", False, 0)], [])
    assert rows(items)[0]["state_partition"] == home
    items = run_transactions(tmp_path, transactional_id="tx-?")
    assert sum_findings(items) == [(name, 7, "Empty", False, 0)]
    assert codes(items).count("replay-incomplete") == 2


def test_id_in_an_unexpected_partition_is_found(tmp_path: Path) -> None:
    home = partition_for("a", 2)
    states(tmp_path, transaction("b", "Empty"), partition=home)
    states(tmp_path, transaction("a", "Empty"), partition=1 - home)
    assert [row[0] for row in sum_findings(run_transactions(tmp_path, transactional_id="a"))] == [
        "a"
    ]


def test_damage_in_the_state_causes_doubt(tmp_path: Path) -> None:
    log = Log()
    for name in "abc":
        log.add(transaction(name, "Empty", producerId=ord(name)))
    changed = bytearray(log.batches[1])
    changed[40] ^= 0xFF
    log.batches[1] = bytes(changed)
    log.write(tmp_path / "__transaction_state-0")
    write_open(tmp_path)
    items = run_transactions(tmp_path)
    assert codes(items) == ["crc-mismatch", "replay-incomplete"]
    assert sum_findings(items)[-1] == (None, 7, None, None, 1)
    assert rows(items)[-1]["cause"].startswith("Part of __transaction_state-0 cannot be read, ")


def test_damage_in_a_log_is_reported(tmp_path: Path) -> None:
    states(tmp_path, transaction("a", "Ongoing", ["orders-7"]))
    batches = [data(0, 7, 0, transactional=True), data(1), data(2)]
    path = write_log(tmp_path, {0: batches})
    log = path / f"{0:020}.log"
    changed = bytearray(log.read_bytes())
    changed[len(batches[0]) + 40] ^= 0xFF
    log.write_bytes(changed)
    items = run_transactions(tmp_path)
    assert codes(items) == ["replay-incomplete"]
    assert sum_findings(items) == [("a", 7, "Ongoing", False, 1)]


def test_unknown_records_are_reported(tmp_path: Path) -> None:
    states(tmp_path, transaction("a", "Empty"), (b"\0\5\0\1a", b"v"))
    items = run_transactions(tmp_path)
    assert (len(rows(items)), codes(items)) == (1, ["replay-unexplained"])


def test_compacted_times_are_reported(tmp_path: Path) -> None:
    log = Log()
    log.add(transaction("a", "Empty"))
    log.add(transaction("a", "Empty"), skip=4)
    path = log.write(tmp_path / "__transaction_state-0")
    assert codes(run_transactions(path)) == []
    assert codes(run_transactions(path, at_ms=log.now_ms - 1)) == ["replay-compacted"]
    assert codes(run_transactions(path, at_ms=log.now_ms)) == []


def test_furthest_replica_is_read(tmp_path: Path) -> None:
    short, long = tmp_path / "b1", tmp_path / "b2"
    states(short, transaction("a", "Empty"))
    states(long, transaction("a", "Empty"), transaction("a", "CompleteCommit"))
    write_open(short)
    write_log(long, {0: [data(0)]})
    items = run_transactions(short, long)
    assert codes(items) == ["replica-not-replayed"]
    assert sum_findings(items) == [("a", 7, "CompleteCommit", True, 1)]


def test_log_alone_is_read(tmp_path: Path) -> None:
    path = states(tmp_path, transaction("a", "Empty"))
    assert sum_findings(run_transactions(path / f"{0:020}.log")) == [("a", 7, "Empty", False, 0)]


def test_missing_input_is_an_error(tmp_path: Path) -> None:
    (item,) = run_transactions(tmp_path)
    assert isinstance(item, KdumpError)
    write_open(tmp_path)
    (item,) = run_transactions(tmp_path, topic="none")
    assert isinstance(item, NothingToDo)


def test_retired_directories_have_nothing_open(tmp_path: Path) -> None:
    path = write_open(tmp_path)
    path.rename(tmp_path / ("orders-7." + "0" * 32 + "-delete"))
    states(tmp_path, transaction("a", "Empty"))
    for retired in (False, True):
        assert sum_findings(run_transactions(tmp_path, retired=retired)) == [
            ("a", 7, "Empty", False, 0)
        ]


def test_workers_give_the_same_result(tmp_path: Path) -> None:
    for number in range(3):
        states(tmp_path, transaction(f"a{number}", "Ongoing", ["orders-7"]), partition=number)
    write_open(tmp_path)
    assert run_transactions(tmp_path, driver=Workers(3)) == run_transactions(tmp_path)


@each("seed", range(1500 if LONG else 15))
def test_hostile_bytes_are_survived(seed: int, tmp_path: Path) -> None:
    """Any bytes of both logs changed: rows or findings come of it, and no more."""
    draw = random.Random(seed)
    pairs = [transaction(name, draw.randrange(8), ["orders-7"]) for name in "abcab"]
    for path in (states(tmp_path, *pairs), write_open(tmp_path)):
        log = path / f"{0:020}.log"
        changed = bytearray(log.read_bytes())
        for _ in range(draw.choice((0, 1, 5))):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        log.write_bytes(
            changed[: draw.randrange(len(changed) + 1)] if draw.random() < 0.3 else changed
        )
    for at_ms in (None, START_MS + 2000):
        for item in run_transactions(tmp_path, at_ms=at_ms):
            assert isinstance(item, Row | Finding | KdumpError)
