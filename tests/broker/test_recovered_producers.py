"""What of the producers' state is kept while a start loads a log."""

from kdump.broker.recovered_producers import Producers, Snapshots
from kdump.storage.producer_snapshot import ProducerState


def test_snapshot_is_taken_only_behind_the_last_one() -> None:
    producers = Producers(Snapshots(()))
    kept = producers.snapshots.kept
    producers.take_snapshot()
    assert kept == {}
    producers.end_offset = 5
    producers.take_snapshot()
    opened = ProducerState(7, 0, 0, 5, 0, -1, 0, 5)
    producers.states.load([opened])
    producers.take_snapshot()
    assert kept == {5: []}
    producers.end_offset = 6
    producers.take_snapshot()
    assert kept == {5: [], 6: [opened]}
    producers.end_offset = 3
    producers.take_snapshot()
    assert sorted(kept) == [5, 6]
