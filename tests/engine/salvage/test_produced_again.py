"""What a run that produces holds the cluster to, after it was stopped, and how it waits."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from comparing import Batch, Item, batches, replica
from fake_cluster import FakeCluster
from produce_bench import NEW_ID, SETTINGS, Bench
from salvaging import data_of

from kdump.client.cluster import ClusterError, SentRecord, TopicFacts, UncertainSendError
from kdump.engine.salvage import produce as module
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.run import salvage
from kdump.errors import RefusedError
from kdump.storage import lock

LOG = batches(0, 50)
KEYS = [b"k%d" % number for number in range(50)]
OTHER = SentRecord(1, b"other", None, ())


class Frail(FakeCluster):
    """Loses what is sent from the nth record on, as often as it is told; tells its bounds."""

    def __init__(self, topics: Any) -> None:
        super().__init__(topics)
        self.losses: list[int] = []  # at how many records in the log
        self.low = 0
        self.sends: list[tuple[int, bool]] = []  # records, and whether an offset was asked for
        self.stopped: type[BaseException] = UncertainSendError
        self.shift = 0  # of the offsets that it tells
        self.late: list[int] = []  # high watermarks that it tells first
        self.purged = 0

    def __exit__(self, *_: object) -> None:
        self.purged += 1

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        high = self.late.pop(0) if self.late else super().bounds(topic, partition)[1]
        return self.low, high

    def send(
        self,
        topic: str,
        partition: int,
        messages: Sequence[SentRecord],
        arrived: Callable[[int], None] | None = None,
    ) -> None:
        self.sends.append((len(messages), arrived is not None))
        log = self.logs.setdefault((topic, partition), [])
        if self.losses and self.losses[0] < len(log) + len(messages):
            log += messages[: max(self.losses.pop(0) - len(log), 0)]
            raise self.stopped("a record did not arrive")
        told = arrived and (lambda offset: arrived(offset + self.shift))
        super().send(topic, partition, messages, told or None)


class Clock:
    """Stands in for the module `time` of the module."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path, monkeypatch)
    bench.cluster = Frail(bench.cluster.topics)
    monkeypatch.setattr(module, "Cluster", bench.cluster)
    return bench


def keys(bench: Bench) -> list[bytes | None]:
    return [record.key for record in bench.cluster.logs["orders", 0]]


def stop_after(bench: Bench, one: Path, count: int) -> None:
    """Run until so many records have arrived, and kill it."""
    bench.cluster.losses, bench.cluster.stopped = [count], KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        bench.run(one)
    bench.cluster.stopped = UncertainSendError


def produced_members(records: int, found: int, **more: object) -> dict[str, object]:
    return {
        "records_count": records, "planned_count": 50, "missing_count": 0, "first_offset": 0,
        "last_offset": records - 1, "found_count": found, "aborted_count": 0, "open_count": 0,
        "control_count": 0, "keeps_times": True, **more,
    }  # fmt: skip


def test_dry_run_describes_and_sends_nothing(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    outcome = bench.run(one, dry_run=True)
    (row,) = outcome.fields("salvaged")
    assert row["produced"] == produced_members(50, 0, first_offset=None, last_offset=None)
    assert (outcome.errors, bench.cluster.logs) == ([], {})
    assert [each.name for each in tmp_path.iterdir()] == ["one"]
    assert bench.run().rows == []  # no paths, and no state that could miss any
    assert not (tmp_path / "state").exists()
    assert bench.run(one).fields("salvaged")[0]["produced"] == produced_members(50, 0)
    again = bench.run(one, dry_run=True, from_offset=20, to_offset=30)
    assert again.fields("salvaged")[0]["produced"]["planned_count"] == 10


def test_acknowledged_records_are_not_resent(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    bench.cluster.logs["orders", 0] = [OTHER] * 7
    stop_after(bench, one, 30)
    assert bench.state["partitions"] == {
        "orders-0": {"start": 7, "records_count": 0, "next_offset": 0, "is_done": False}
    }
    bench.cluster.losses = [42, 44, 44, 44, 44, 44, 49]
    outcome = bench.run(one)
    assert keys(bench) == [b"other"] * 7 + KEYS
    assert not outcome.errors
    (row,) = outcome.fields("salvaged")
    assert row["produced"] == produced_members(50, 42, first_offset=7, last_offset=56)
    assert bench.state["partitions"] == {
        "orders-0": {"start": 7, "records_count": 50, "next_offset": 50, "is_done": True}
    }
    assert (tmp_path / "state.offsets.csv").read_text().splitlines() == [
        "topic,partition,old,new,records_count",
        "orders,0,0,7,50",
    ]
    sends = len(bench.cluster.sends)
    (row,) = bench.run(one).fields("salvaged")
    assert row["produced"] == produced_members(50, 50, first_offset=7, last_offset=56)
    assert len(bench.cluster.sends) == sends


def test_unresponsive_cluster_is_abandoned(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    bench.cluster.losses = [10] * 99
    outcome = bench.run(one)
    assert [type(error) for error in outcome.errors] == [UncertainSendError]
    # The first begins, the second finds ten, and five times nothing is added.
    assert len(bench.cluster.losses) == 99 - 7
    assert bench.cluster.purged == 7 + 1  # senders, and the cluster
    assert len(keys(bench)) == 10


def read_refusal(bench: Bench, one: Path) -> str:
    (error,) = bench.run(one).errors
    assert isinstance(error, RefusedError)
    return str(error)


NOBODY_ELSE = ". No other producer may write to it while records are being restored"


def test_changed_partition_is_refused(bench: Bench, tmp_path: Path) -> None:
    one = replica(tmp_path, "one", LOG)
    stop_after(bench, one, 30)
    log = bench.cluster.logs["orders", 0]
    state = (tmp_path / "state").read_text()

    def said(count: int, next_offset: int = 0, **more: Any) -> None:
        content = json.loads(state)
        arrived = {"start": 0, "records_count": count, "next_offset": next_offset, **more}
        content["partitions"]["orders-0"] = arrived
        (tmp_path / "state").write_text(json.dumps(content))

    def gap(low: int, high: int, behind: int) -> str:
        return (
            f"orders-0 of the cluster: it has offsets {low} to {high}, but according to the state "
            f"records up to {behind} arrived: it was recreated, or records were deleted"
            f"{NOBODY_ELSE}"
        )

    said(31, 31)
    assert read_refusal(bench, one) == gap(0, 30, 31)
    said(20, 20)
    bench.cluster.low = 21
    assert read_refusal(bench, one) == gap(21, 30, 20)
    bench.cluster.low = 0
    said(20, 21)  # of copies that have other records
    changed = f"changed since {tmp_path / 'state'} was written: use a new state file"
    assert read_refusal(bench, one).endswith(changed)
    said(20, 20, is_done=True)
    assert read_refusal(bench, one).endswith(changed)
    bench.cluster.low = 21  # retention goes on, once all was there
    said(50, 50, is_done=True)
    assert read_refusal(bench, one) == gap(0, 30, 50)
    bench.cluster.low = 0
    said(20, 20)
    log[25] = OTHER
    assert read_refusal(bench, one) == (
        "orders-0 of the cluster: the record at its offset 25 is not the one from offset 25, "
        f"which was produced next{NOBODY_ELSE}"
    )
    log[25] = SentRecord(9, b"k25", b"v25", ())
    assert "the record at its offset 25 is not" in read_refusal(bench, one)
    stamped = {**SETTINGS, "message.timestamp.type": "LogAppendTime"}
    bench.cluster.topics["orders"] = TopicFacts(3, stamped, NEW_ID)
    (row,) = bench.run(one).fields("salvaged")
    assert row["produced"] == produced_members(50, 30, keeps_times=False)
    assert keys(bench) == KEYS
    said(20, 20)
    log.append(OTHER)
    assert read_refusal(bench, one) == (
        f"orders-0 of the cluster: it has more records at offset 50 than were produced{NOBODY_ELSE}"
    )
    log.pop()
    said(30, 30)  # exactly what is there is in order
    bench.cluster.low = 30
    assert not bench.run(one).errors


def test_foreign_record_is_noticed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replica(tmp_path, "one", LOG)
    bench.cluster.shift = 1
    assert read_refusal(bench, one) == (
        f"orders-0 of the cluster: a record got offset 5 instead of 4{NOBODY_ELSE}"
    )
    assert len(keys(bench)) == 5
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    bench.cluster.shift = 0
    (tmp_path / "state").unlink()
    bench.cluster.logs.clear()
    bench.cluster.late = [0, *[49] * 200]  # brokers tell of the last records somewhat later
    assert read_refusal(bench, one) == (
        f"orders-0 of the cluster: it ends at offset 49 instead of 50{NOBODY_ELSE}"
    )
    assert clock.now_ms == 10_100
    bench.cluster.late = [50, 49, 49]
    assert not bench.run(one).errors
    assert clock.now_ms == 10_300
    bench.cluster.late = [50, 51]
    state = json.loads((tmp_path / "state").read_text())
    state["partitions"]["orders-0"]["is_done"] = False
    (tmp_path / "state").write_text(json.dumps(state))
    assert "it ends at offset 51 instead of 50" in read_refusal(bench, one)


def test_offsets_are_requested_periodically(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    clock.now_ms = 1000
    monkeypatch.setattr(module, "time", clock)

    def goes_on() -> None:
        clock.now_ms += 125

    bench.cluster.before_send = goes_on
    bench.run(replica(tmp_path, "one", LOG))
    assert bench.cluster.sends == [(5, number % 3 == 0) for number in range(10)]
    bench.cluster.before_send = lambda: None
    bench.cluster.sends.clear()
    bench.cluster.logs.clear()
    (tmp_path / "state").unlink()
    clock.now_ms = 100  # before anything was asked
    half = 1 << 19
    large = [
        Batch(number, number, (Item(number, None, bytes(half - (number == 1))),))
        for number in range(6)
    ]
    bench.run(replica(tmp_path, "two", large))
    assert bench.cluster.sends == [
        (1, False), (1, False), (1, True), (1, False), (1, True), (1, False),
    ]  # fmt: skip


def test_rate_is_limited(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[tuple[int, int]] = []

    class Throttle:
        def __init__(self, rate: int) -> None:
            self.rate = rate

        def wait(self, size_bytes: int, _: object) -> None:
            waited.append((self.rate, size_bytes))

    monkeypatch.setattr(module, "Throttle", Throttle)
    one = replica(tmp_path, "one", LOG)
    bench.run(one, rate=9000)
    assert waited == [(9000, 20), (9000, 20), *[(9000, 30)] * 8]
    waited.clear()
    (tmp_path / "state").unlink()
    bench.cluster.logs.clear()
    bench.run(one)
    assert waited == []


def test_failure_of_one_partition_does_not_stop_others(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replica(tmp_path, "one", LOG)
    shutil.copytree(one / "orders-0", one / "orders-1")
    other = replica(tmp_path, "other", batches(0, 50, size=7))
    bench.cluster.topics["orders"] = TopicFacts(2, SETTINGS, NEW_ID)
    failing: list[Exception] = []
    told = module._produce_one

    def telling(prepared: Any, production: Any) -> Any:
        if failing and production.partition == 0:
            raise failing[0]
        return told(prepared, production)

    monkeypatch.setattr(module, "_produce_one", telling)
    monkeypatch.delenv("KDUMP_TRACEBACK", raising=False)
    failing.append(ValueError("so"))
    outcome = bench.run(one)
    assert [row["partition"] for row in outcome.fields("salvaged")] == [1]
    error, unfinished = outcome.errors
    assert (error.topic, error.partition) == ("orders", 0)  # type: ignore[attr-defined]
    assert str(error).startswith(f"{one / 'orders-0'}: ValueError: so (")
    assert str(unfinished) == (
        f"orders-0: 50 of 50 records have not arrived. Copies of them were in {one / 'orders-0'}: "
        f"add a path that still has them, with --resume {tmp_path / 'state'}"
    )
    for stopping in (ClusterError("away"), BrokenPipeError(), RefusedError("x", "y")):
        failing[:] = [stopping]
        items = salvage([str(one)], SalvageOptions(produce="b", resume=str(tmp_path / "state")))
        with pytest.raises(type(stopping)):
            list(items)
    failing.clear()
    values = (Item(n, b"k%d" % n, b"other", n) for n in range(5))
    (other / "orders-0" / f"{0:020}.log").write_bytes(
        data_of([Batch(0, 4, tuple(values)), *LOG[1:]])
    )
    (error,) = bench.run(one, other).errors
    assert str(error) == (
        f"{one / 'orders-0'}: was not produced: copies of orders-0 have different records with "
        "the same offset and leader epoch; select the right copy with --prefer"
    )


def test_first_three_missing_paths_are_listed(bench: Bench, tmp_path: Path) -> None:
    copies = [replica(tmp_path, name, LOG) for name in "abcd"]
    bench.cluster.losses, bench.cluster.stopped = [0], KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        bench.run(*copies)
    for each in copies:
        shutil.rmtree(each)
    (error,) = bench.run(*copies).errors[-1:]
    first = ", ".join(str(each / "orders-0") for each in copies[:3])
    assert f"Copies of them were in {first}: add a path" in str(error)


def test_senders_are_shared_by_maximum_size(bench: Bench, tmp_path: Path) -> None:
    topics = {"a": "2000", "b": "2000", "c": "3000"}
    for topic, size in topics.items():
        facts = TopicFacts(1, {**SETTINGS, "max.message.bytes": size}, NEW_ID)
        bench.cluster.topics[topic] = facts
    made: list[int] = []
    sender = bench.cluster.sender

    def making(max_bytes: int, tick: object) -> FakeCluster:
        made.append(max_bytes)
        return sender(max_bytes, tick)

    bench.cluster.sender = making  # type: ignore[method-assign]
    paths = [replica(tmp_path, topic, LOG, partition=f"{topic}-0") for topic in topics]
    assert not bench.run(*paths).errors
    assert made == [2000, 3000]
    assert [len(log) for log in bench.cluster.logs.values()] == [50] * 3


def test_directory_of_the_target_cluster_is_refused(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_held: list[bool | None] = [None]
    monkeypatch.setattr(lock, "is_held", lambda _: is_held[0])

    def own(path: Path) -> list[tuple[object, ...]]:
        found = bench.run(path, dry_run=True).findings
        return [(each.code, each.path, each.topic, each.partition) for each in found]

    one = replica(tmp_path, "one", LOG)
    mine = [("source-is-target", str(one / "orders-0"), "orders", 0)]
    (one / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {NEW_ID}")
    assert own(one) == mine
    # A file alone is nobody's directory.
    assert own(one / "orders-0" / f"{0:020}.log") == []
    (one / "orders-0" / "partition.metadata").unlink()
    (one / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=the-cluster\n")
    assert own(one) == mine  # nothing says that its broker does not run
    bench.cluster.topics["new"] = TopicFacts(1, SETTINGS, None)
    assert [*bench.run(one, dry_run=True, names={"orders": "new"}).findings] == []
    (one / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=another\n")
    assert own(one) == []
    (one / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=the-cluster\n")
    is_held[0] = False
    assert own(one) == []
