"""The cluster metadata log: its records against the broker's own, and partitions against it."""

import base64
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import builders
import damage
import pytest
from builders import control_record, unsigned_varint
from click.testing import CliRunner
from corpus import corpus, expected, files, names
from directories import DataDirectory, codes, findings, identifier, write_checkpoint
from holding import holding
from oracle import Oracle, oracle

from kdump.cli import cli
from kdump.engine.checks.cluster_metadata import (
    ClusterMetadata,
    Replicas,
    read_cluster_metadata,
    replay_snapshot,
)
from kdump.findings.finding import Finding
from kdump.kernels import columns as c
from kdump.record import metadata_records
from kdump.record.batch import read_batch
from kdump.record.frames import Run
from kdump.record.metadata_records import (
    BrokerRecord,
    MetadataRecord,
    OtherRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    TransactionRecord,
    UnregisterBrokerRecord,
)
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source

HOUR = 3_600_000
LONG_AGO = 1_700_000_000_000
NOW = LONG_AGO + HOUR
NODE = 1

# Records by hand -------------------------------------------------------------------------------


def framed(type_id: int, version: int, body: bytes) -> bytes:
    return unsigned_varint(1) + unsigned_varint(type_id) + unsigned_varint(version) + body


def uuid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def text(value: str) -> bytes:
    return unsigned_varint(len(value) + 1) + value.encode()


def array(elements: Sequence[bytes]) -> bytes:
    return unsigned_varint(len(elements) + 1) + b"".join(elements)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def tagged(*fields: tuple[int, bytes]) -> bytes:
    out = unsigned_varint(len(fields))
    for tag, body in fields:
        out += unsigned_varint(tag) + unsigned_varint(len(body)) + body
    return out


def ids(*brokers: int) -> bytes:
    return array([int32(broker) for broker in brokers])


def topic(name: str, number: int) -> bytes:
    return framed(2, 0, text(name) + uuid(number) + tagged())


def remove_topic(number: int) -> bytes:
    return framed(9, 0, uuid(number) + tagged())


def partition(
    number: int,
    topic_number: int,
    replicas: Sequence[int] = (NODE,),
    directories: Sequence[int] = (),
) -> bytes:
    body = int32(number) + uuid(topic_number) + ids(*replicas) + ids(*replicas) + ids() + ids()
    body += int32(replicas[0]) + int32(0) + int32(0)
    body += array([uuid(directory) for directory in directories])
    return framed(3, 1, body + tagged())


def change(number: int, topic_number: int, *fields: tuple[int, bytes]) -> bytes:
    return framed(5, 1, int32(number) + uuid(topic_number) + tagged(*fields))


def register(broker: int, directories: Sequence[int]) -> bytes:
    body = (
        int32(broker) + b"\0" + uuid(1) + bytes(8) + array([]) + array([]) + text("rack") + b"\0\0"
    )
    return framed(0, 3, body + tagged((0, array([uuid(number) for number in directories]))))


NO_OP = framed(20, 0, tagged())


def log_of(records: Sequence[bytes], time_ms: int = LONG_AGO, base_offset: int = 0) -> bytes:
    body = [builders.record(n, 0, None, value) for n, value in enumerate(records)]
    return builders.batch(body, base_offset=base_offset, base_timestamp=time_ms)


def snapshot_of(records: Sequence[bytes], *, header: bool = True, footer: bool = True) -> bytes:
    ends = [
        builders.batch([control_record(kind, bytes(20))], attributes=builders.CONTROL)
        for kind in (3, 4)
    ]
    out = ends[0] if header else b""
    out += log_of(records, base_offset=1)
    offset = struct.pack(">q", len(records) + 1)
    return out + (offset + ends[1][8:] if footer else b"")


# Against the broker's own decoder ----------------------------------------------------------------


def as_broker_says(record: dict[str, Any]) -> object:
    """What our record would be, told from what the broker's decoder says of it."""
    data = record["data"]
    kind = record["type"]
    if kind == "TOPIC_RECORD":
        return TopicRecord(data["name"], data["topicId"])
    if kind == "REMOVE_TOPIC_RECORD":
        return RemoveTopicRecord(data["topicId"])
    if kind == "PARTITION_RECORD":
        return PartitionRecord(
            data["topicId"],
            data["partitionId"],
            tuple(data["replicas"]),
            tuple(data.get("directories", ())),
            data["leader"],
        )
    if kind == "PARTITION_CHANGE_RECORD":
        replicas, directories = data.get("replicas"), data.get("directories")
        leader = data.get("leader", -2)
        return PartitionChangeRecord(
            data["topicId"],
            data["partitionId"],
            None if replicas is None else tuple(replicas),
            None if directories is None else tuple(directories),
            None if leader == -2 else leader,
        )
    if kind == "REGISTER_BROKER_RECORD":
        return BrokerRecord(data["brokerId"], tuple(data.get("logDirs", ())))
    if kind == "BROKER_REGISTRATION_CHANGE_RECORD":
        log_dirs = data.get("logDirs")
        return BrokerRecord(data["brokerId"], tuple(log_dirs) if log_dirs else None)
    if kind == "UNREGISTER_BROKER_RECORD":
        return metadata_records.UnregisterBrokerRecord(data["brokerId"])
    return kind


def parsed(path: Path) -> list[tuple[int, object]]:
    found: list[tuple[int, object]] = []
    with Source(path) as source:
        for item in FileRecords(source).walk():
            assert isinstance(item, Run)
            for row in range(item.batches.count):
                if item.batches.flags_of(row) & c.CONTROL:
                    continue
                for piece in read_batch(item.data, item.base, item.batches, row, limit=1 << 20):
                    for number in range(piece.records.count):
                        at = piece.records.value(c.R_VALUE, number)
                        size = piece.records.value_size(number)
                        value = bytes(piece.data[at : at + size])
                        offset = piece.records.offset(number)
                        found.append((offset, metadata_records.parse(value)))
    return found


def compare(broker: Oracle, path: Path) -> int:
    told = broker.ask("decode", kind="metadata", file=path)
    ours = dict(parsed(path))
    theirs = {record["offset"]: as_broker_says(record) for record in told if "type" in record}
    assert theirs.keys() <= ours.keys()
    known = 0
    for offset, record in theirs.items():
        if isinstance(record, str):
            assert isinstance(ours[offset], OtherRecord | metadata_records.TransactionRecord)
        else:
            assert ours[offset] == record
            known += 1
    return known


@pytest.mark.oracle
def test_records_of_real_metadata_logs_are_what_the_broker_reads() -> None:
    broker = oracle()
    known = 0
    for name in (*names("modern/data"), "modern/extras/metadata-torn-after"):
        directory = corpus(name) / "d1" / "__cluster_metadata-0"
        for pattern in ("*.log", "*.checkpoint"):
            known += sum(compare(broker, path) for path in files(directory, pattern))
    assert known > 1000


@pytest.mark.oracle
@pytest.mark.parametrize("seed", [1, 2])
def test_records_of_made_metadata_logs_are_what_the_broker_reads(seed: int, tmp_path: Path) -> None:
    broker = oracle()
    directory = broker.make("metadata", seed, tmp_path / "__cluster_metadata-0")
    assert sum(compare(broker, path) for path in files(directory, "*.log")) > 5


@pytest.mark.oracle
def test_records_the_broker_wrote(tmp_path: Path) -> None:
    """Every kind that is taken apart, in each version the broker can write."""
    broker = oracle()
    some = base64.urlsafe_b64encode(uuid(5)).decode().rstrip("=")
    lists = {"isr": [1], "removingReplicas": [], "addingReplicas": [2]}
    one = {"partitionId": 3, "topicId": some, "replicas": [1, 2], "leader": 1, "leaderEpoch": 4}
    for type_id, version, data, ours in (
        (2, 0, {"name": "orders", "topicId": some}, TopicRecord("orders", some)),
        (9, 0, {"topicId": some}, RemoveTopicRecord(some)),
        (3, 0, {**one, **lists, "partitionEpoch": 1}, PartitionRecord(some, 3, (1, 2), (), 1)),
        (
            3,
            1,
            {**one, **lists, "partitionEpoch": 1, "directories": [some, some]},
            PartitionRecord(some, 3, (1, 2), (some, some), 1),
        ),
        (
            5,
            0,
            {"partitionId": 3, "topicId": some, "replicas": [2], "leader": 2},
            PartitionChangeRecord(some, 3, (2,), None, 2),
        ),
    ):
        encoded = broker.ask(
            "decode", kind="metadata", encode={"type": type_id, "version": version, "data": data}
        )
        assert metadata_records.parse(bytes.fromhex(encoded["value"])) == ours


def test_a_cut_record_is_none() -> None:
    for whole in (
        topic("orders", 7),
        remove_topic(7),
        framed(1, 0, int32(4) + bytes(8) + tagged()),
        partition(0, 7, (1, 2), (3, 4)),
        change(0, 7, (2, ids(1)), (8, array([uuid(3)]))),
        register(1, (3, 4)),
    ):
        assert metadata_records.parse(whole) is not None
        for size in range(len(whole)):
            assert metadata_records.parse(whole[:size]) is None
        assert metadata_records.parse(whole + b"\0") is None
    assert metadata_records.parse(None) is None
    assert metadata_records.parse(b"\0" + topic("orders", 7)[1:]) is None


# What a log comes to -----------------------------------------------------------------------------


def test_real_logs_come_to_what_the_broker_knew() -> None:
    for name in names("modern/data"):
        directory = corpus(name) / "d1" / "__cluster_metadata-0"
        state = read_cluster_metadata(str(directory))
        assert state is not None
        assert state.complete

        topics = json.loads(expected(f"{name.replace('/data', '')}/topics.json").read_text())
        assert {key: value["id"] for key, value in topics.items()} == state.ids
        counts = {key: value["partitions"] for key, value in topics.items()}
        assert counts == {
            key: len(state.partitions[topic_id]) for key, topic_id in state.ids.items()
        }


def test_snapshot_and_log_come_to_the_same_as_the_log_alone(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    first = [topic("a", 1), partition(0, 1), topic("b", 2), partition(0, 2)]
    second = [remove_topic(1), change(0, 2, (2, ids(4)))]
    (directory / f"{0:020}.log").write_bytes(log_of(first) + log_of(second, base_offset=4))
    alone = read_cluster_metadata(str(directory))
    (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of(first))
    both = read_cluster_metadata(str(directory))
    (directory / f"{0:020}.log").rename(directory / f"{4:020}.log")
    (directory / f"{4:020}.log").write_bytes(log_of(second, base_offset=4))
    short = read_cluster_metadata(str(directory))
    for state in (alone, both, short):
        assert state is not None
        assert (state.complete, state.next_offset, state.ids) == (
            True,
            6,
            {"b": identifier(2)},
        )
        assert state.partitions[identifier(2)][0].replicas == (4,)


def test_records_of_an_aborted_transaction_have_no_effect(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    begin, end, abort = (framed(number, 0, tagged()) for number in (23, 24, 25))
    records = [begin, topic("a", 1), abort, begin, topic("b", 2), end, begin, topic("c", 3)]
    (directory / f"{0:020}.log").write_bytes(log_of(records))
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert state.ids == {"b": identifier(2)}


@pytest.mark.parametrize("at", ["in", "between"])
def test_a_log_with_something_missing_is_not_complete(tmp_path: Path, at: str) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    first, second = log_of([NO_OP]), log_of([NO_OP], base_offset=1 if at == "in" else 5)
    log = damage.flip(first, 70) + second if at == "in" else first + second
    (directory / f"{0:020}.log").write_bytes(log)
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert not state.complete


@pytest.mark.parametrize("from_offset", [5, None])
def test_a_log_that_begins_behind_its_snapshot_is_not_complete(
    tmp_path: Path, from_offset: int | None
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of([NO_OP]))
    if from_offset is not None:
        (directory / f"{from_offset:020}.log").write_bytes(b"")
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset) == (False, 4)


BEGIN, END, ABORTED = (TransactionRecord(number) for number in (23, 24, 25))
PLACED = PartitionRecord("A", 0, (1, 2), ("x", "y"), 1)


def state_of(*records: MetadataRecord | None) -> ClusterMetadata:
    """Add records, the first at time 100, each ten milliseconds behind the one before."""
    state = ClusterMetadata()
    for number, record in enumerate(records):
        state.add(record, 100 + 10 * number)
    return state


@pytest.mark.parametrize(
    ("records", "topics", "ids", "removed"),
    [
        ([TopicRecord("a", "A")], {"A": "a"}, {"a": "A"}, {}),
        ([TopicRecord("a", "A"), RemoveTopicRecord("A")], {}, {}, {"A": 110}),
        ([RemoveTopicRecord("A")], {}, {}, {"A": 100}),
        (
            [TopicRecord("a", "A"), TopicRecord("b", "B"), RemoveTopicRecord("A")],
            {"B": "b"},
            {"b": "B"},
            {"A": 120},
        ),
        (  # made anew before the old one is gone
            [TopicRecord("a", "A"), TopicRecord("a", "B"), RemoveTopicRecord("A")],
            {"B": "a"},
            {"a": "B"},
            {"A": 120},
        ),
        ([BEGIN, TopicRecord("a", "A"), ABORTED], {}, {}, {}),
        ([BEGIN, TopicRecord("a", "A")], {}, {}, {}),
        ([BEGIN, TopicRecord("a", "A"), END], {"A": "a"}, {"a": "A"}, {}),
        ([BEGIN, TopicRecord("a", "A"), END, END], {"A": "a"}, {"a": "A"}, {}),
        ([BEGIN, END, TopicRecord("a", "A")], {"A": "a"}, {"a": "A"}, {}),
        ([BEGIN, RemoveTopicRecord("A"), OtherRecord(20, 0), END], {}, {}, {"A": 110}),
    ],
)
def test_topics_that_are_and_were(
    records: list[MetadataRecord],
    topics: dict[str, str],
    ids: dict[str, str],
    removed: dict[str, int],
) -> None:
    state = state_of(*records)
    assert (state.topics, state.ids, state.removed) == (topics, ids, removed)
    assert (state.complete, state.last_ms) == (True, 90 + 10 * len(records))


@pytest.mark.parametrize(
    ("change_of", "replicas"),
    [
        (PartitionChangeRecord("A", 0, None, None, 2), Replicas((1, 2), ("x", "y"), 100)),
        (PartitionChangeRecord("A", 0, (3,), None, None), Replicas((3,), ("x", "y"), 110)),
        (PartitionChangeRecord("A", 0, None, ("z", "y"), 1), Replicas((1, 2), ("z", "y"), 110)),
        (PartitionChangeRecord("A", 0, (3,), ("z",), 1), Replicas((3,), ("z",), 110)),
        (PartitionRecord("A", 0, (4,), ("q",), 4), Replicas((4,), ("q",), 110)),
        (PartitionRecord("A", 1, (4,), ("q",), 4), Replicas((1, 2), ("x", "y"), 100)),
        (TopicRecord("a", "A"), Replicas((1, 2), ("x", "y"), 100)),
        (RemoveTopicRecord("A"), None),
        (RemoveTopicRecord("B"), Replicas((1, 2), ("x", "y"), 100)),
    ],
)
def test_where_replicas_are_and_since_when(
    change_of: MetadataRecord, replicas: Replicas | None
) -> None:
    state = state_of(PLACED, change_of)
    assert state.partitions.get("A", {}).get(0) == replicas
    assert state.complete


@pytest.mark.parametrize(
    "record",
    [
        None,  # one that cannot be read
        PartitionChangeRecord("A", 1, (3,), None, None),  # of a partition that is not known
        PartitionChangeRecord("B", 0, None, None, 2),
    ],
)
def test_what_shows_that_records_are_missing(record: MetadataRecord | None) -> None:
    state = state_of(PLACED, record)
    assert not state.complete
    assert state.partitions == {"A": {0: Replicas((1, 2), ("x", "y"), 100)}}


def test_the_directories_a_broker_registered_last() -> None:
    first, second = BrokerRecord(1, ("x",)), BrokerRecord(2, ("y", "z"))
    assert state_of(first, second, BrokerRecord(1, None)).log_dirs == {1: ("x",), 2: ("y", "z")}
    assert state_of(first, second, BrokerRecord(1, ("q",))).log_dirs == {1: ("q",), 2: ("y", "z")}
    assert state_of(first, second, UnregisterBrokerRecord(1)).log_dirs == {2: ("y", "z")}
    assert state_of(UnregisterBrokerRecord(1)).log_dirs == {}


def test_the_newest_time_is_kept() -> None:
    state = state_of(TopicRecord("a", "A"))
    state.add(TopicRecord("b", "B"), 7)
    assert state.last_ms == 100


HEADER, FOOTER = 3, 4


@pytest.mark.parametrize(
    ("kinds", "ends"),
    [
        ((HEADER, None, FOOTER), (True, True, True)),
        ((HEADER, FOOTER), (True, True, True)),
        ((None, FOOTER), (False, True, True)),
        ((None, HEADER, FOOTER), (False, True, True)),  # a header that is not the first
        ((HEADER, None), (True, False, True)),
        ((HEADER, FOOTER, None), (True, False, True)),  # a footer that is not the last
        ((HEADER,), (True, False, True)),
        ((FOOTER,), (False, True, True)),
        ((), (False, False, True)),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_what_a_snapshot_begins_and_ends_with(
    tmp_path: Path, kinds: tuple[int | None, ...], ends: tuple[bool, bool, bool], known: bool
) -> None:
    parts = [
        log_of([NO_OP], base_offset=at)
        if kind is None
        else builders.batch(
            [control_record(kind, bytes(20))], base_offset=at, attributes=builders.CONTROL
        )
        for at, kind in enumerate(kinds)
    ]
    path = tmp_path / f"{9:020}-{0:010}.checkpoint"
    path.write_bytes(b"".join(parts))
    assert replay_snapshot(str(path), ClusterMetadata() if known else None) == ends
    if len(parts) > 1:
        path.write_bytes(parts[0] + damage.flip(parts[1], 70) + b"".join(parts[2:]))
        assert not replay_snapshot(str(path), None).whole


def test_a_record_of_a_snapshot_that_cannot_be_read_breaks_it(tmp_path: Path) -> None:
    path = tmp_path / f"{9:020}-{0:010}.checkpoint"
    path.write_bytes(snapshot_of([b"\x01"]))
    assert replay_snapshot(str(path), None) == (True, True, True)
    assert replay_snapshot(str(path), ClusterMetadata()) == (True, True, False)
    batch = builders.batch(records_count=3, payload=b"\x7f" * 9)  # records that do not decode
    path.write_bytes(batch)
    assert replay_snapshot(str(path), ClusterMetadata()) == (False, False, False)


@pytest.mark.parametrize(
    ("bases", "complete", "next_offset", "names"),
    [
        ((0, 2), True, 4, {"t0", "t1", "t2", "t3"}),
        ((0, 3), False, 5, {"t0", "t1", "t3", "t4"}),  # offset 2 is nowhere
        ((4, 6), True, 8, {"t4", "t5", "t6", "t7"}),  # behind a snapshot at 4
        ((2, 4), True, 6, {"t4", "t5"}),  # all below it is known already
        ((3, 5), True, 7, {"t4", "t5", "t6"}),  # a batch that lies on both sides of it
        ((5, 7), False, 4, set()),
    ],
)
def test_the_log_goes_on_where_the_snapshot_ends(
    tmp_path: Path, bases: tuple[int, int], complete: bool, next_offset: int, names: set[str]
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    if bases[0]:
        (directory / f"{4:020}-{1:010}.checkpoint").write_bytes(snapshot_of([NO_OP]))
    for base in bases:
        records = [topic(f"t{at}", at) for at in (base, base + 1)]
        (directory / f"{base:020}.log").write_bytes(log_of(records, base_offset=base))
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset, set(state.ids)) == (complete, next_offset, names)


@pytest.mark.parametrize(("torn", "complete"), [(0, False), (2, True)])
def test_only_the_end_of_the_log_may_be_torn(tmp_path: Path, torn: int, complete: bool) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    for base in (0, 2):
        log = log_of([NO_OP, NO_OP], base_offset=base)
        more = log_of([NO_OP], base_offset=base + 2)[:-9] if base == torn else b""
        (directory / f"{base:020}.log").write_bytes(log + more)
    state = read_cluster_metadata(str(directory))
    assert state is not None
    assert (state.complete, state.next_offset) == (complete, 4)


# Partitions against the log ----------------------------------------------------------------------


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
        path.mkdir(exist_ok=True)
        every = [*(self.records if records is None else records), *more]
        log = log_of(every) + log_of([NO_OP], now, len(every))
        (path / f"{0:020}.log").write_bytes(log)
        (path / f"{0:020}.index").write_bytes(b"")
        end = struct.pack(">qi", now, len(every))
        (path / f"{0:020}.timeindex").write_bytes(end)
        write_checkpoint(path / "leader-epoch-checkpoint", [(0, 0)])
        (path / "quorum-state").write_text('{"leaderId":1,"leaderEpoch":0,"data_version":0}')


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "data")


def one(cluster: Cluster) -> Finding:
    found = findings(cluster.data.path)
    assert len(found) == 1, [(told.code, told.message) for told in found]
    return found[0]


def test_a_directory_the_log_knows_has_nothing(cluster: Cluster) -> None:
    cluster.write()
    assert findings(cluster.data.path) == []


def test_a_topic_the_log_does_not_know(cluster: Cluster) -> None:
    path = cluster.data.partition("stray", 0, topic_id=99)
    cluster.write()
    told = one(cluster)
    assert (told.code, told.severity.value, told.path) == ("topic-unknown", "note", str(path))


def test_a_topic_that_was_removed(cluster: Cluster) -> None:
    cluster.data.partition("gone", 0, topic_id=8)
    made = [topic("gone", 8), partition(0, 8)]
    cluster.write(*made, remove_topic(8))
    assert one(cluster).code == "topic-unknown"
    cluster.write(*made, remove_topic(8), now=LONG_AGO + 1000)
    assert findings(cluster.data.path) == []  # the broker may not have come to it yet


def test_another_topic_of_the_same_name(cluster: Cluster) -> None:
    path = cluster.data.partition("users", 0, topic_id=8)
    cluster.write(topic("users", 88), partition(0, 88, (NODE,), (cluster.directory,)))
    told = one(cluster)
    assert (told.code, told.severity.value) == ("topic-id-differs", "rebuild")
    assert told.path == str(path / "partition.metadata")
    assert (told.expected, told.actual) == (identifier(88), identifier(8))


def test_another_topic_id_after_a_clean_stop_is_told_at_once(cluster: Cluster) -> None:
    """A start renames the directory, however short a time the log knew the topic."""
    path = cluster.data.partition("users", 0, topic_id=8)
    registered = topic("users", 88), partition(0, 88, (NODE,), (cluster.directory,))
    cluster.write(*registered, now=LONG_AGO + 1000)
    told = one(cluster)
    assert (told.code, told.path) == ("topic-id-differs", str(path / "partition.metadata"))
    with holding(cluster.data.path):  # a broker runs, and may not have come to it yet
        assert "topic-id-differs" not in codes(cluster.data.path)
    (cluster.data.path / ".kafka_cleanshutdown").unlink()
    assert "topic-id-differs" not in codes(cluster.data.path)


def test_the_clean_stop_of_another_data_directory_tells_nothing(cluster: Cluster) -> None:
    """Whether the log is yet to be acted upon is told by the directory of the partition."""
    cluster.data.partition("users", 0, topic_id=8)
    registered = topic("users", 88), partition(0, 88, (NODE,), (cluster.directory,))
    cluster.write(*registered, now=LONG_AGO + 1000)
    (cluster.data.path / ".kafka_cleanshutdown").unlink()
    for number, name in enumerate(("above", "far"), 2):  # by name on either side of it
        other = DataDirectory(cluster.data.path.with_name(name), number=number)
        other.stop()
        assert "topic-id-differs" not in codes(cluster.data.path, other.path)


def test_a_partition_that_was_given_to_other_brokers(cluster: Cluster) -> None:
    cluster.write(change(1, 7, (2, ids(4, 5)), (8, array([uuid(2), uuid(3)]))))
    told = one(cluster)
    assert (told.code, told.severity.value) == ("replica-not-assigned", "note")
    assert (told.partition, told.expected, told.actual) == (1, [4, 5], NODE)


@pytest.mark.parametrize(("minutes_ms", "settled"), [(59_999, False), (60_000, True)])
@pytest.mark.parametrize("what", ["given", "missing", "removed"])
def test_what_the_log_says_counts_after_a_minute(
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


def test_a_partition_that_is_nowhere(cluster: Cluster) -> None:
    cluster.write(partition(2, 7, (NODE,), (cluster.directory,)))
    told = one(cluster)
    assert (told.code, told.severity.value) == ("partition-missing", "damage")
    assert told.path == str(cluster.data.path / "orders-2")


@pytest.mark.parametrize("case", ["just-made", "other-directory", "other-broker", "not-all-given"])
def test_a_partition_that_need_not_be_here(cluster: Cluster, case: str) -> None:
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


def test_a_damaged_log_is_not_held_against_partitions(cluster: Cluster) -> None:
    cluster.data.partition("stray", 0, topic_id=99)
    cluster.write()
    path = cluster.data.path / "__cluster_metadata-0" / f"{0:020}.log"
    path.write_bytes(damage.flip(path.read_bytes(), 100))
    assert "topic-unknown" not in codes(cluster.data.path)


@pytest.mark.parametrize(("header", "footer"), [(False, True), (True, False)])
def test_a_snapshot_without_an_end(cluster: Cluster, header: bool, footer: bool) -> None:
    cluster.write()
    path = cluster.data.path / "__cluster_metadata-0" / f"{2:020}-{0:010}.checkpoint"
    path.write_bytes(snapshot_of(cluster.records[:2], header=header, footer=footer))
    told = [found for found in findings(cluster.data.path) if found.severity.value == "damage"]
    assert [(found.code, found.path) for found in told] == [
        ("metadata-snapshot-incomplete", str(path))
    ]


def test_a_damaged_snapshot_gets_no_consumers_advice(cluster: Cluster) -> None:
    cluster.write()
    path = cluster.data.path / "__cluster_metadata-0" / f"{2:020}-{0:010}.checkpoint"
    whole = snapshot_of(cluster.records[:2])
    path.write_bytes(damage.flip(whole, whole.index(b"orders")))
    (told,) = (found for found in findings(cluster.data.path) if found.path == str(path))
    assert (told.code, told.severity.value) == ("metadata-snapshot-damaged", "damage")
    assert (told.position, told.size_bytes) != (None, None)
    assert (told.next_offset, told.lost_at_most, told.offset) == (None, None, None)
    assert "(crc-mismatch)" in told.message
    result = CliRunner().invoke(cli, ["verify", "--format", "table", str(cluster.data.path)])
    assert result.exit_code == 3
    assert "seek" not in result.stdout
    assert "Remove it before a start" in result.stdout


def test_a_log_that_starts_behind_its_snapshots(cluster: Cluster) -> None:
    cluster.write()
    directory = cluster.data.path / "__cluster_metadata-0"
    for path in directory.glob("0*"):
        path.unlink()
    log = log_of([NO_OP], base_offset=9)
    (directory / f"{9:020}.log").write_bytes(log)
    (directory / f"{9:020}.index").write_bytes(b"")
    (directory / f"{9:020}.timeindex").write_bytes(struct.pack(">qi", LONG_AGO, 0))
    write_checkpoint(directory / "leader-epoch-checkpoint", [(0, 9)])
    assert one(cluster).code == "metadata-snapshot-missing"
    snapshot = directory / f"{9:020}-{0:010}.checkpoint"
    snapshot.write_bytes(snapshot_of(cluster.records))
    assert replay_snapshot(str(snapshot), ClusterMetadata()) == (True, True, True)
    assert findings(cluster.data.path) == []


def test_a_malformed_quorum_state(cluster: Cluster) -> None:
    cluster.write()
    path = cluster.data.path / "__cluster_metadata-0" / "quorum-state"
    path.write_text('{"leaderId":1}')
    told = one(cluster)
    assert (told.code, told.path) == ("properties-malformed", str(path))
