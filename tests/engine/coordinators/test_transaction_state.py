"""What coordinators are known to say, and what verify makes of it."""

from pathlib import Path

import pytest
from corpus import corpus
from holding import hold_lock
from offsets_log import START_MS, Log
from producing import data, write_log
from transaction_log import transaction

from kdump.engine.coordinators.partitions import by_producer
from kdump.engine.verify import recheck
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.engine.work.pipeline import Workers
from kdump.findings.finding import Finding
from kdump.replay.transactions import Transaction
from kdump.storage.targets import Selection


def write_open(directory: Path, *tail: bytes) -> Path:
    """Write a partition, orders-7, with an open transaction of producer 7."""
    directory.mkdir(exist_ok=True)
    batch = data(0, 7, 0, transactional=True, timestamp=START_MS + 500)
    return write_log(directory, {0: [batch, *tail]})


def states(
    directory: Path, state: str, *places: str, partition: int = 0, producer: int = 7
) -> None:
    log = Log()
    log.add(transaction("billing-7", state, places, producerId=producer))
    log.write(directory / f"__transaction_state-{partition}")


def run_verify(*paths: Path, **options: object) -> list[Finding]:
    items = verify(map(str, paths), VerifyOptions()._replace(**options))
    return [
        one for one in items if isinstance(one, Finding) and one.code.startswith("transaction-")
    ]


def test_current_producer_takes_precedence() -> None:
    one = Transaction("a", 0, 0, "Empty", producer_id=7, previous_producer_id=7)
    two = Transaction("b", 0, 1, "Empty", producer_id=8, previous_producer_id=7)
    three = Transaction("c", 0, 2, "Empty", producer_id=9, previous_producer_id=5)
    unread = Transaction("d", 0, 3, problem="malformed")
    assert by_producer([one, two, three, unread]) == {7: one, 8: two, 9: three, 5: three}


@pytest.mark.parametrize("predict", [False, True])
def test_awaited_transaction_is_named(predict: bool, tmp_path: Path) -> None:
    write_open(tmp_path)
    states(tmp_path, "Ongoing", "orders-7")
    (told,) = run_verify(tmp_path, predict=predict)
    assert told.code == "transaction-open"
    assert (
        "the newest record of the partition is from 0 s later. Its transactional id is billing-7 "
        "(Ongoing). Its producer should end it; otherwise its coordinator aborts it at "
        "2023-11-14T22:14:20.000Z. "
        "read_committed consumers stop at offset 0;"
    ) in str(told.message)


@pytest.mark.parametrize("predict", [False, True])
def test_transaction_without_a_coordinator_hangs(predict: bool, tmp_path: Path) -> None:
    """It is in another data directory, and the selection leaves the coordinators' topic out."""
    write_open(tmp_path / "d1")
    (tmp_path / "d2").mkdir()
    states(tmp_path / "d2", "CompleteAbort")
    selection = Selection(topic="orders", retired=True)
    (told,) = run_verify(tmp_path / "d1", tmp_path / "d2", predict=predict, selection=selection)
    assert told.code == "transaction-hanging"
    assert (
        "Its transactional id is billing-7 (CompleteAbort). Its coordinator has no transaction in "
        "orders-7: no marker will follow."
    ) in str(told.message)
    assert "--topic orders --partition 7 --start-offset 0" in str(told.message)


def test_producer_may_have_no_transactional_id(tmp_path: Path) -> None:
    write_open(tmp_path)
    states(tmp_path, "Empty", producer=8)
    (told,) = run_verify(tmp_path)
    assert told.code == "transaction-hanging"
    assert " No coordinator knows its producer: no marker will follow." in str(told.message)


def test_no_verdict_on_an_incomplete_topic(tmp_path: Path) -> None:
    write_open(tmp_path)
    states(tmp_path, "Empty", producer=8, partition=1)
    (told,) = run_verify(tmp_path)
    assert told.code == "transaction-open"
    assert "coordinator" not in str(told.message)
    (told,) = run_verify(tmp_path / "orders-7")
    assert told.code == "transaction-open"


def test_marker_may_be_in_a_torn_tail(tmp_path: Path) -> None:
    write_open(tmp_path, data(1)[:-1])
    states(tmp_path, "CompleteAbort")
    assert "transaction-hanging" not in [told.code for told in run_verify(tmp_path)]


def test_running_broker_may_still_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck, "WAITS", (0.01,))
    path = write_open(tmp_path)
    states(tmp_path, "CompleteAbort")
    with hold_lock(tmp_path):
        (path / f"{0:020}.log").touch()
        (told,) = run_verify(tmp_path)
    assert told.code == "transaction-open"


def test_workers_give_the_same_result(tmp_path: Path) -> None:
    write_open(tmp_path)
    states(tmp_path, "CompleteAbort")
    items = list(verify([str(tmp_path)], VerifyOptions(), driver=Workers(2)))
    assert [one for one in items if one in run_verify(tmp_path)] == run_verify(tmp_path) != []


def test_recorded_hanging_transaction_is_found() -> None:
    """And those that are open, by their names."""
    root = corpus("newest/data/killed")
    told = run_verify(root / "d1", root / "d2")
    hangs = [one for one in told if one.code == "transaction-hanging"]
    assert [(one.topic, one.partition, one.offset) for one in hangs] == [("customers", 0, 40)]
    assert "transactional id is tx-beta (CompleteAbort)" in str(hangs[0].message)
    names = {str(one.message).partition("transactional id is ")[2].split()[0] for one in told}
    assert names == {"tx-beta", "tx-open", "tx-gamma"}
