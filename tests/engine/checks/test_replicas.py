"""Partitions of a data directory against the cluster metadata log."""

import struct
from collections.abc import Sequence
from pathlib import Path

import damage
import pytest
from commands import run
from directories import DataDirectory, codes, find_one, findings, identifier, write_checkpoint
from holding import hold_lock
from metadata_log import (
    LONG_AGO,
    NO_OP,
    NODE,
    NOW,
    array,
    change,
    ids,
    log_of,
    partition,
    register,
    remove_topic,
    snapshot_of,
    topic,
    uuid,
    write_log,
)

from kdump.replay.cluster import SnapshotEnds, replay_snapshot
from kdump.replay.cluster_state import ClusterState


class Cluster:
    """One data directory with a metadata log that knows what is in it."""

    def __init__(self, path: Path) -> None:
        self.data = DataDirectory(path, number=1)
        self.directory = 1001
        for number in (0, 1):
            self.data.partition("orders", number)
        self.records = [
            register(NODE, [self.directory]),
            topic("orders", 7),
            *(partition(number, 7, (NODE,), (self.directory,)) for number in (0, 1)),
        ]

    def write(self, *more: bytes, now: int = NOW, records: Sequence[bytes] | None = None) -> None:
        self.data.stop()
        path = self.data.path / "__cluster_metadata-0"
        write_log(path, [*(self.records if records is None else records), *more], now)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "data")


def test_directory_known_to_the_log_has_no_findings(cluster: Cluster) -> None:
    cluster.write()
    assert findings(cluster.data.path) == []


def test_topic_unknown_to_the_metadata_log_is_reported(cluster: Cluster) -> None:
    path = cluster.data.partition("stray", 0, topic_id=99)
    cluster.write()
    told = find_one(cluster.data.path)
    assert (told.code, told.severity.value, told.path) == ("topic-unknown", "note", str(path))


def test_removed_topic_is_reported(cluster: Cluster) -> None:
    cluster.data.partition("gone", 0, topic_id=8)
    made = [topic("gone", 8), partition(0, 8)]
    cluster.write(*made, remove_topic(8))
    told = find_one(cluster.data.path)
    assert told.code == "topic-unknown"
    assert told.message.startswith("No topic in the cluster has this directory's topic id. ")
    assert f"{identifier(8)} is the id of topic gone, which was deleted at 2023" in told.message
    cluster.write(*made, remove_topic(8), now=LONG_AGO + 1000)
    assert findings(cluster.data.path) == []  # the broker may not have come to it yet


def test_topic_with_another_id_is_reported(cluster: Cluster) -> None:
    path = cluster.data.partition("users", 0, topic_id=8)
    cluster.write(topic("users", 88), partition(0, 88, (NODE,), (cluster.directory,)))
    told = find_one(cluster.data.path)
    assert (told.code, told.severity.value) == ("topic-id-differs", "damage")
    assert told.path == str(path / "partition.metadata")
    assert (told.expected, told.actual) == (identifier(88), identifier(8))
    assert (told.lost_at_least, told.lost_at_most) == (20, 20)
    assert told.message == (
        f"The topic has the id {identifier(88)} in the cluster, but this directory, with 20 "
        "records, has another. "
        f"No topic in the metadata log has the directory's id, {identifier(8)}."
    )


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ([topic("users", 8), remove_topic(8)], "users, which was deleted at 2023-11-14T22:13:20"),
        ([topic("people", 8), remove_topic(8)], "people, which was deleted at 2023-11-14T22:13:20"),
        ([topic("people", 8)], "people."),
    ],
)
def test_facts_about_the_other_id_are_named(
    cluster: Cluster, before: list[bytes], words: str
) -> None:
    cluster.data.partition("users", 0, topic_id=8)
    cluster.write(*before, topic("users", 88), partition(0, 88, (NODE,), (cluster.directory,)))
    (told,) = (found for found in findings(cluster.data.path) if found.code == "topic-id-differs")
    assert f"{identifier(8)} is the id of topic {words}" in told.message


def test_start_replaces_another_topic_of_that_name(cluster: Cluster) -> None:
    cluster.data.partition("users", 0, topic_id=8)
    cluster.write(topic("users", 88), partition(0, 88, (NODE,), (cluster.directory,)))
    found = findings(cluster.data.path, predict=True)
    (told,) = (one for one in found if one.code == "start-loses-records")
    assert told.topic == "users"
    assert told.message.startswith(
        "The next start makes the partition empty, from offset 0 on (its log now ends at"
    )


def test_other_topic_id_after_a_clean_stop_is_reported(cluster: Cluster) -> None:
    """A broker start renames the directory, however short a time the log knew the topic."""
    path = cluster.data.partition("users", 0, topic_id=8)
    registered = topic("users", 88), partition(0, 88, (NODE,), (cluster.directory,))
    cluster.write(*registered, now=LONG_AGO + 1000)
    told = find_one(cluster.data.path)
    assert (told.code, told.path) == ("topic-id-differs", str(path / "partition.metadata"))
    with hold_lock(cluster.data.path):  # a broker runs, and may not have come to it yet
        assert "topic-id-differs" not in codes(cluster.data.path)
    (cluster.data.path / ".kafka_cleanshutdown").unlink()
    assert "topic-id-differs" not in codes(cluster.data.path)


def test_clean_stop_of_another_data_directory_is_ignored(cluster: Cluster) -> None:
    """Whether the log is yet to be acted upon is told by the directory of the partition."""
    cluster.data.partition("users", 0, topic_id=8)
    registered = topic("users", 88), partition(0, 88, (NODE,), (cluster.directory,))
    cluster.write(*registered, now=LONG_AGO + 1000)
    (cluster.data.path / ".kafka_cleanshutdown").unlink()
    for number, name in enumerate(("above", "far"), 2):  # by name on either side of it
        other = DataDirectory(cluster.data.path.with_name(name), number=number)
        other.stop()
        assert "topic-id-differs" not in codes(cluster.data.path, other.path)


def test_reassigned_partition(cluster: Cluster) -> None:
    cluster.write(change(1, 7, (2, ids(4, 5)), (8, array([uuid(2), uuid(3)]))))
    told = find_one(cluster.data.path)
    assert (told.code, told.severity.value) == ("replica-not-assigned", "note")
    assert (told.partition, told.expected, told.actual) == (1, [4, 5], NODE)


@pytest.mark.parametrize(("minutes_ms", "settled"), [(59_999, False), (60_000, True)])
@pytest.mark.parametrize("what", ["given", "missing", "removed"])
def test_metadata_log_counts_after_a_minute(
    cluster: Cluster, what: str, minutes_ms: int, settled: bool
) -> None:
    more, code = {
        "given": (change(1, 7, (2, ids(4)), (8, array([uuid(2)]))), "replica-not-assigned"),
        "missing": (partition(2, 7, (NODE,), (cluster.directory,)), "partition-missing"),
        "removed": (remove_topic(7), "topic-unknown"),
    }[what]
    cluster.write(more, now=LONG_AGO + minutes_ms)
    found = {told.code for told in findings(cluster.data.path)}
    assert found == ({code} if settled else set())


def test_missing_partition_is_reported(cluster: Cluster) -> None:
    cluster.write(partition(2, 7, (NODE,), (cluster.directory,)))
    told = find_one(cluster.data.path)
    assert (told.code, told.severity.value) == ("partition-missing", "damage")
    assert told.path == str(cluster.data.path / "orders-2")


@pytest.mark.parametrize("case", ["just-made", "other-directory", "other-broker", "not-all-given"])
def test_partition_assigned_elsewhere_is_reported(cluster: Cluster, case: str) -> None:
    if case == "just-made":
        cluster.write(partition(2, 7, (NODE,), (cluster.directory,)), now=LONG_AGO + 1000)
    elif case == "other-directory":
        cluster.write(partition(2, 7, (NODE,), (55,)))
    elif case == "other-broker":
        cluster.write(partition(2, 7, (4,), (cluster.directory,)))
    else:
        cluster.write(
            register(NODE, [cluster.directory, 55]),
            partition(2, 7, (NODE,), (cluster.directory,)),
        )
    assert findings(cluster.data.path) == []


def test_damaged_metadata_log_is_not_compared(cluster: Cluster) -> None:
    cluster.data.partition("stray", 0, topic_id=99)
    cluster.write()
    path = cluster.data.path / "__cluster_metadata-0" / f"{0:020}.log"
    path.write_bytes(damage.flip(path.read_bytes(), 100))
    assert "topic-unknown" not in codes(cluster.data.path)


@pytest.mark.parametrize(("header", "footer"), [(False, True), (True, False)])
def test_snapshot_without_an_end_is_reported(cluster: Cluster, header: bool, footer: bool) -> None:
    cluster.write()
    path = cluster.data.path / "__cluster_metadata-0" / f"{2:020}-{0:010}.checkpoint"
    path.write_bytes(snapshot_of(cluster.records[:2], header=header, footer=footer))
    told = [found for found in findings(cluster.data.path) if found.severity.value == "damage"]
    assert [(found.code, found.path) for found in told] == [
        ("metadata-snapshot-incomplete", str(path))
    ]


def test_damaged_snapshot_has_no_advice_for_consumers(cluster: Cluster) -> None:
    cluster.write()
    path = cluster.data.path / "__cluster_metadata-0" / f"{2:020}-{0:010}.checkpoint"
    whole = snapshot_of(cluster.records[:2])
    path.write_bytes(damage.flip(whole, whole.index(b"orders")))
    (told,) = (found for found in findings(cluster.data.path) if found.path == str(path))
    assert (told.code, told.severity.value) == ("metadata-snapshot-damaged", "damage")
    assert (told.position, told.size_bytes) != (None, None)
    assert (told.next_offset, told.lost_at_most, told.offset) == (None, None, None)
    assert "(crc-mismatch)" in told.message
    result = run("verify", "--format", "table", cluster.data.path)
    assert result.exit_code == 3
    assert "seek" not in result.stdout
    assert "remove this snapshot before a broker start" in " ".join(result.stdout.split())


def test_metadata_log_may_start_after_its_snapshots(cluster: Cluster) -> None:
    cluster.write()
    directory = cluster.data.path / "__cluster_metadata-0"
    for path in directory.glob("0*"):
        path.unlink()
    log = log_of([NO_OP], base_offset=9)
    (directory / f"{9:020}.log").write_bytes(log)
    (directory / f"{9:020}.index").write_bytes(b"")
    (directory / f"{9:020}.timeindex").write_bytes(struct.pack(">qi", LONG_AGO, 0))
    write_checkpoint(directory / "leader-epoch-checkpoint", [(0, 9)])
    assert find_one(cluster.data.path).code == "metadata-snapshot-missing"
    snapshot = directory / f"{9:020}-{0:010}.checkpoint"
    snapshot.write_bytes(snapshot_of(cluster.records))
    assert replay_snapshot(str(snapshot), ClusterState()) == SnapshotEnds(True, True, True, 0)
    assert findings(cluster.data.path) == []


def test_malformed_quorum_state_is_reported(cluster: Cluster) -> None:
    cluster.write()
    path = cluster.data.path / "__cluster_metadata-0" / "quorum-state"
    path.write_text('{"leaderId":1}')
    told = find_one(cluster.data.path)
    assert (told.code, told.path) == ("properties-malformed", str(path))
