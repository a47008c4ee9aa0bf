"""What a broker that starts knows of producers, by a snapshot and the log behind it."""

import shutil
from pathlib import Path

import builders as b
import pytest
from segments import write_partition

from kdump.broker.append_producers import KnownProducer, check_producers, known_producers
from kdump.broker.append_set import ProducedSet, RefusedError
from kdump.broker.appending import Answer
from kdump.broker.partition import PartitionView
from kdump.broker.settings import Settings
from kdump.broker.versions import Version
from kdump.storage.targets import Selection, resolve

CUSTOMERS = Path(__file__).parents[2] / "sample-data/clean/4.4.0-transactions/d2/customers-0"
NOW_MS, DAY_MS = 1_700_000_000_000, 86_400_000
Known = dict[int, tuple[int, int, list[tuple[int, ...]]]]


def view_of(directory: Path, settings: Settings, broker: Version = (4, 1, 1)) -> PartitionView:
    (target,) = resolve([str(directory)], Selection())
    assert not isinstance(target, Exception)
    return PartitionView(target, broker=broker, settings=settings)


def known_in(directory: Path, now_ms: int, ids: range, broker: Version = (4, 1, 1)) -> Known:
    view = view_of(directory, Settings(), broker)
    found = known_producers(view, ids, now_ms)
    view.close()
    return {
        one: (known.epoch, known.txn_offset, [tuple(batch) for batch in known.batches[-1:]])
        for one, known in found.items()
    }


def test_snapshot_and_log_tell_the_same(tmp_path: Path) -> None:
    """The last snapshot, an older one and the records behind it, and all records by themselves."""
    directory = tmp_path / "customers-0"
    shutil.copytree(CUSTOMERS, directory)
    newest = known_in(directory, 0, range(3000))
    assert newest
    for path in sorted(directory.glob("*.snapshot"), reverse=True):
        path.unlink()
        assert known_in(directory, 0, range(3000)) == newest


def keyed(offset: int, sequence: int, **fields: int) -> bytes:
    asked = {"producer_id": 7, "producer_epoch": 0, "base_timestamp": NOW_MS} | fields
    return b.batch([b.record(0)], base_offset=offset, base_sequence=sequence, **asked)


def test_batches_and_transactions_are_taken_from_the_log(tmp_path: Path) -> None:
    marker = b.marker(0, base_offset=2, producer_id=7, producer_epoch=1)
    open_one = keyed(3, 0, producer_id=8, attributes=b.TRANSACTIONAL)
    log = [keyed(0, 0), keyed(1, 1, attributes=b.TRANSACTIONAL), marker, open_one]
    directory = write_partition(tmp_path, {0: log}, "t")
    assert known_in(directory, NOW_MS, range(7, 10)) == {
        7: (1, -1, []),
        8: (0, 3, [(0, 0, 3, 3)]),
    }


@pytest.mark.parametrize(("broker", "days"), [((2, 8), 7), ((4, 1, 1), 1)])
def test_producers_are_forgotten_but_not_those_of_a_transaction(
    broker: Version, days: int, tmp_path: Path
) -> None:
    log = [keyed(0, 0), keyed(1, 0, producer_id=8, attributes=b.TRANSACTIONAL)]
    directory = write_partition(tmp_path, {0: log}, "t")
    due_ms = NOW_MS + days * DAY_MS
    assert known_in(directory, due_ms - 1, range(7, 9), broker).keys() == {7, 8}
    assert known_in(directory, due_ms, range(7, 9), broker).keys() == {8}


def test_no_producer_is_looked_for_in_a_set_without_one(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, {0: [keyed(0, 0)]}, "t")
    assert known_in(directory, NOW_MS, range(0)) == {}


def test_producer_whose_batches_are_gone_must_begin_anew() -> None:
    """Before 2.5: its epoch is known by a marker, its sequence numbers are not."""
    known = {7: KnownProducer()}
    known[7].take_epoch(0)
    sent = ProducedSet(keyed(0, 5), (1, 1))
    with pytest.raises(RefusedError, match="no batches left in the log and sends 5, not 0"):
        check_producers(sent, Answer(9), known, (1, 1), follower=False)
