"""Records of the cluster metadata log, held against the broker's own decoder."""

import base64
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, files, names
from metadata_log import (
    array,
    change,
    framed,
    ids,
    int32,
    partition,
    register,
    remove_topic,
    tagged,
    topic,
    uuid,
)
from oracle import Oracle, oracle

from kdump.kernels import columns as c
from kdump.record import metadata_records
from kdump.record.batch import read_batch
from kdump.record.frames import Run
from kdump.record.metadata_records import (
    BrokerRecord,
    OtherRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kdump.storage.file_records import FileRecords
from kdump.storage.source import Source


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
