"""Records of internal topics: every one of real brokers, and those that nobody can read."""

from __future__ import annotations

import json
import lzma
import random
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import corpus, files, find_expected, find_shared, names
from each import each
from internal_topics import as_json, raw_records
from message_writing import message_bytes
from oracle import oracle

from kdump.messages.records import (
    CONTROL,
    MALFORMED,
    TOPICS,
    UNKNOWN_FRAME,
    UNKNOWN_TYPE,
    UNKNOWN_VERSION,
    DecodedValue,
    decode,
    decode_control,
)
from kdump.messages.table import message

COMMIT_KEY = message_bytes(
    message("OffsetCommitKey"), 0, {"group": "g", "topic": "t", "partition": 3}
)
COMMIT = message_bytes(message("OffsetCommitValue"), 3, {"offset": 5, "metadata": "m"})


def newest() -> Iterator[tuple[str, str, list[Path]]]:
    """Yield copies of the newest corpus, the names of recorded answers, and the files they say."""
    for copy in ("formatted", "clean", "killed"):
        root = corpus(f"newest/data/{copy}")
        base = find_shared()
        assert base is not None
        for told in sorted((base / f"corpus/newest/expected/{copy}/decoded").glob("*.xz")):
            name = told.name.removesuffix(".jsonl.xz")
            partition, _, snapshot = name.partition(".")
            found = list(files(root, f"{partition}/{snapshot or '*.log'}"))
            assert found, name
            yield copy, name, found


def test_records_of_the_newest_broker_match_its_classes() -> None:
    kinds: Counter[str] = Counter()
    for copy, name, found in newest():
        topic = name.partition(".")[0].rpartition("-")[0]
        ours = {record.offset: record for path in found for record in raw_records(path)}
        answers = find_expected(f"newest/{copy}/decoded/{name}.jsonl.xz")
        told = [json.loads(line) for line in lzma.decompress(answers.read_bytes()).splitlines()]
        assert len(told) == len(ours)
        for one in told:
            record = ours[one["offset"]]
            key, value = record.decoded(topic)
            assert record.control == ("control" in one)
            kinds[one.get("name", one.get("control"))] += 1
            if record.control:
                assert key is not None
                assert key.type == one["control"].lower()
                assert value_of(value) == (one["version"], one["value"])
                continue
            if one["key"] is None:
                assert key is None
            else:
                assert key is not None
                assert (key.type, key.type_id) == (one["name"].lower(), one["type"])
                assert (key.data, key.rest) == (one["key"], b"")
            if one["value"] is None:
                assert value is None
            else:
                assert value is not None
                assert (value.type, value.type_id) == (one["name"].lower(), one["type"])
                assert value_of(value) == (one["version"], one["value"])
    assert len(kinds) == 52
    assert kinds.total() == 2304


def value_of(value: DecodedValue | None) -> tuple[int | None, Any]:
    assert value is not None
    assert (value.problem, value.rest) == (None, b"")
    return value.version, as_json(value.data)


@pytest.mark.oracle
def test_records_of_a_4_1_broker_match_its_classes() -> None:
    broker = oracle()
    kinds: Counter[str | None] = Counter()
    for name in (*names("modern/data"), "modern/extras/metadata-torn-after"):
        for topic, area in TOPICS.items():
            for path in files(corpus(name), f"{topic}-*/*"):
                if path.suffix in (".log", ".checkpoint") and path.name[0].isdigit():
                    compare(broker, area, topic, path, kinds)
    assert len(kinds) > 30
    assert kinds.total() > 5000


@pytest.mark.oracle
@each(
    ("profile", "topic"),
    [
        ("group-offsets", "__consumer_offsets"),
        ("txn-state", "__transaction_state"),
        ("metadata", "__cluster_metadata"),
        ("share-state", "__share_group_state"),
    ],
)
def test_generated_records_match_the_broker_classes(
    profile: str, topic: str, tmp_path: Path
) -> None:
    broker = oracle()
    kinds: Counter[str | None] = Counter()
    for seed in (1, 2, 3):
        directory = broker.make(profile, seed, tmp_path / str(seed) / f"{topic}-0")
        for path in files(directory, "*.log"):
            compare(broker, TOPICS[topic], topic, path, kinds)
    assert kinds.total() > 20


def compare(broker: Any, area: str, topic: str, path: Path, kinds: Counter[str | None]) -> None:
    """Hold each record that is no control record to the broker's decoder."""
    ours = {one.offset: one for one in raw_records(path) if not one.control}
    for told in broker.ask("decode", kind=area, file=path):
        key, value = ours.pop(told["offset"]).decoded(topic)
        if "error" in told:
            said = value if key is None or key.data is not None else key
            assert said is not None
            assert said.problem is not None
            continue
        known = value if key is None else key
        assert known is not None
        kinds[known.type] += 1
        if area == "metadata":
            assert value is not None
            assert value.type == told["type"].lower()
            assert value_of(value) == (told["version"], told["data"])
            continue
        assert key is not None
        assert (key.type_id, key.data) == (told["type"], told["key"])
        if told["value"] is None:
            assert value is None
        else:
            assert value_of(value) == (told["valueVersion"], told["value"])
    assert not ours


def test_key_and_value_of_a_commit_are_decoded() -> None:
    key, value = decode("__consumer_offsets", b"\0\1" + COMMIT_KEY, b"\0\3" + COMMIT)
    assert key == DecodedValue(
        "group", "offset_commit", 1, 1, {"group": "g", "topic": "t", "partition": 3}
    )
    assert value is not None
    assert value[:4] == ("group", "offset_commit", 1, 3)
    assert value.data is not None
    assert value.data["offset"] == 5


def test_first_commits_had_a_separate_type() -> None:
    """0.8.2 wrote type 0, which the broker now calls so."""
    old = message_bytes(message("LegacyOffsetCommitValue"), 0, {"offset": 5, "metadata": "m"})
    key, value = decode("__consumer_offsets", b"\0\0" + COMMIT_KEY, b"\0\0" + old)
    assert key is not None
    assert value is not None
    assert (key.type, key.version, value.type) == (
        "legacy_offset_commit",
        0,
        "legacy_offset_commit",
    )
    assert value.data is not None
    assert value.data["offset"] == 5


def test_null_stays_null() -> None:
    for topic in TOPICS:
        assert decode(topic, None, None) == (None, None)
    assert decode("__consumer_offsets", b"\0\1" + COMMIT_KEY, None)[1] is None


@each(
    ("key", "value", "said"),
    [
        (b"\0\x63what", b"\0\7ever", (UNKNOWN_TYPE, 99, b"what", UNKNOWN_TYPE, 7, b"ever")),
        (None, b"\0\3ever", (None, None, None, UNKNOWN_TYPE, 3, b"ever")),
        (b"\0", b"\0", (MALFORMED, None, b"\0", MALFORMED, None, b"\0")),
        (b"", b"", (MALFORMED, None, b"", MALFORMED, None, b"")),
        (
            b"\0\1" + COMMIT_KEY,
            b"\0\x09" + COMMIT,
            (None, 1, b"", UNKNOWN_VERSION, 9, COMMIT),
        ),
        (
            b"\0\1" + COMMIT_KEY[:-1],
            b"\0\3" + COMMIT[:-1],
            (MALFORMED, 1, COMMIT_KEY[:-1], MALFORMED, 3, COMMIT[:-1]),
        ),
        (
            b"\0\1" + COMMIT_KEY + b"more",
            b"\0\3" + COMMIT + b"too",
            (None, 1, b"more", None, 3, b"too"),
        ),
    ],
)
def test_unreadable_records_keep_their_bytes(
    key: bytes | None, value: bytes, said: tuple[object, ...]
) -> None:
    read_key, read_value = decode("__consumer_offsets", key, value)
    told: list[object] = []
    for one in (read_key, read_value):
        told += [None] * 3 if one is None else [one.problem, one.version, one.rest]
    assert tuple(told) == said


def framed(frame: int, type_id: int, version: int, data: bytes) -> bytes:
    return bytes([frame, type_id, version]) + data


TOPIC = message_bytes(message("TopicRecord"), 0, {"name": "orders"})


@each(
    ("data", "said"),
    [
        (framed(1, 2, 0, TOPIC), ("topic_record", 2, 0, None, b"")),
        (framed(1, 2, 0, TOPIC + b"x"), ("topic_record", 2, 0, None, b"x")),
        (framed(1, 2, 7, TOPIC), ("topic_record", 2, 7, UNKNOWN_VERSION, TOPIC)),
        (framed(1, 2, 0, TOPIC[:-1]), ("topic_record", 2, 0, MALFORMED, TOPIC[:-1])),
        (framed(1, 99, 0, b"x"), (None, 99, 0, UNKNOWN_TYPE, b"x")),
        (framed(0, 2, 0, TOPIC), (None, 2, 0, UNKNOWN_FRAME, framed(0, 2, 0, TOPIC))),
        (framed(2, 2, 0, TOPIC), (None, 2, 0, UNKNOWN_FRAME, framed(2, 2, 0, TOPIC))),
        (b"\1\2", (None, None, None, MALFORMED, b"\1\2")),
        (b"", (None, None, None, MALFORMED, b"")),
    ],
)
def test_metadata_log_values_are_decoded(data: bytes, said: tuple[object, ...]) -> None:
    key, value = decode("__cluster_metadata", None, data)
    assert key is None
    assert value is not None
    assert (value.type, value.type_id, value.version, value.problem, value.rest) == said


def test_unexpected_key() -> None:
    key, _ = decode("__cluster_metadata", b"what", None)
    assert key == DecodedValue("metadata", None, None, None, None, b"what", UNKNOWN_TYPE)


def test_remote_storage_records_are_decoded() -> None:
    data = message_bytes(
        message("RemotePartitionDeleteMetadataRecord"),
        0,
        {"topicIdPartition": {"name": "orders", "partition": 3}, "brokerId": 7},
    )
    _, value = decode("__remote_log_metadata", None, framed(1, 2, 0, data))
    assert value is not None
    assert value.type == "remote_partition_delete_metadata_record"
    assert value.data is not None
    assert value.data["topicIdPartition"]["name"] == "orders"


def test_control_records_are_decoded() -> None:
    def said(type_id: int, value: bytes | None) -> tuple[DecodedValue | None, DecodedValue | None]:
        return decode_control(struct.pack(">hh", 0, type_id), value)

    key, value = said(1, struct.pack(">hi", 0, 7))
    assert key == DecodedValue("control", "commit", 1, 0, {"type": 1})
    assert value == DecodedValue("control", "commit", 1, 0, {"coordinatorEpoch": 7})
    # A later version is read as the newest that is known.
    _, value = said(0, struct.pack(">hi", 3, 7) + b"more")
    assert value == DecodedValue("control", "abort", 0, 3, {"coordinatorEpoch": 7}, b"more")
    _, value = said(5, struct.pack(">hhb", 0, 1, 0))
    assert value == DecodedValue(
        "control", "kraft_version", 5, 0, {"version": 0, "kRaftVersion": 1}
    )
    _, value = said(5, struct.pack(">hh", -1, 1))
    assert value is not None
    assert value.problem == UNKNOWN_VERSION
    key, value = said(77, b"x")
    assert (key, value) == (
        DecodedValue("control", None, 77, 0, {"type": 77}),
        DecodedValue("control", None, 77, None, None, b"x", UNKNOWN_TYPE),
    )
    assert decode_control(None, None) == (None, None)
    assert decode_control(b"\0", b"x") == (
        DecodedValue("control", None, None, None, None, b"\0", MALFORMED),
        DecodedValue("control", None, None, None, None, b"x", MALFORMED),
    )


def test_control_records_of_every_type_are_decoded() -> None:
    names = "abort commit leader_change snapshot_header snapshot_footer kraft_version kraft_voters"
    for type_id, name in enumerate(names.split()):
        known = message(CONTROL[type_id][1])
        data = message_bytes(known, 0, {})
        value = data if known.fields[0].name == "version" else b"\0\0" + data
        said = decode_control(struct.pack(">hh", 0, type_id), value)[1]
        assert said is not None
        assert (said.type, said.type_id, said.problem, said.rest) == (name, type_id, None, b"")
    assert len(CONTROL) == len(names.split())


@pytest.mark.fuzz
def test_hostile_records_never_raise() -> None:
    rng = random.Random(3)
    seeds = [b"\0\1" + COMMIT_KEY, b"\0\3" + COMMIT, framed(1, 2, 0, TOPIC), b"\1\x0b\0", b"\0\2"]
    for _ in range(5000):
        key, value = (
            bytes(rng.choice((byte, byte, rng.randrange(256))) for byte in rng.choice(seeds))
            for _ in range(2)
        )
        for topic in TOPICS:
            for one in decode(topic, key, value):
                assert one is not None
                assert (one.data is None) == (one.problem is not None)
        key = struct.pack(">hh", rng.randrange(3), rng.choice(list(CONTROL)))
        for one in decode_control(key, value):
            assert one is not None
