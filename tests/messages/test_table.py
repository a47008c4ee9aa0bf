"""The interpreter and its tables, held against the classes that Kafka generates from the same."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import message_tables
import pytest
from each import each
from internal_topics import as_json
from long_runs import LONG, SEED
from message_classes import message_classes, server_jars
from message_drawing import draw_messages
from message_writing import message_bytes, put_varint

from kdump.messages.table import (
    UNKNOWN_TAGS,
    Message,
    UnknownVersion,
    message,
    tables,
)
from kdump.messages.wire import MOST_ELEMENTS, MalformedError

#: Of a message in a version, random ones that are written and read.
_ROUNDS = 10_000 if LONG else 40
_CLASSES = "4.4.0"

VERSIONS = [
    (name, version)
    for name in tables()
    for version in range(message(name).versions.first, message(name).versions.last + 1)
]
each_version = pytest.mark.parametrize(("name", "version"), VERSIONS)


@pytest.mark.fuzz
@each_version
def test_written_messages_are_read_back(name: str, version: int) -> None:
    known = message(name)
    for said in draw_messages(name, version, _ROUNDS):
        data = message_bytes(known, version, said)
        read = known.read(version, data)
        assert read == said
        assert list(read) == list(said), "fields are in the order of the specification"
        for size in {0, len(data) // 2, len(data) - 1} - {-1, len(data)}:
            with pytest.raises(MalformedError):
                known.read(version, data[:size])
        with pytest.raises(MalformedError):
            known.read(version, data + b"\0")


@pytest.mark.oracle
@each_version
def test_kafka_classes_write_and_read_the_same(name: str, version: int) -> None:
    classes = message_classes(_CLASSES)
    known = message(name)
    if name == "AccessControlRecord":
        pytest.skip("4.4 has no class for it")
    for said in draw_messages(name, version, _ROUNDS if LONG else 10):
        data = message_bytes(known, version, said)
        theirs = classes.read(name, version, data)
        assert theirs.get("error") is None
        assert theirs["json"] == as_json(said)
        assert (theirs["left"], theirs["hex"]) == (0, data.hex())


def test_empty_tagged_structure_is_not_written() -> None:
    """As Kafka's classes do: one whose fields all have their defaults is as one that is absent."""
    known = message("ConsumerGroupMemberMetadataValue")
    said = {"sessionTimeoutMs": 0, "supportedProtocols": []}
    assert message_bytes(known, 0, {"classicMemberMetadata": said}) == message_bytes(known, 0, {})
    assert message_bytes(
        known, 0, {"classicMemberMetadata": said | {"sessionTimeoutMs": 5}}
    ) != message_bytes(known, 0, {})


@pytest.mark.oracle
@each_version
def test_defaults_match_the_kafka_classes(name: str, version: int) -> None:
    """What is not said has its default, in the sequence of fields as well."""
    classes = message_classes(_CLASSES)
    if name == "AccessControlRecord":
        pytest.skip("4.4 has no class for it")
    known = message(name)
    data = message_bytes(known, version, {})
    defaults = {
        field.name: as_json(field.default)
        for field in known.fields
        if version in field.versions and version not in field.tagged
    }
    theirs = classes.read(name, version, data)
    # A structure that is not said has its own defaults.
    structs = {field.name for field in known.fields if field.default == {}}
    assert {k: v for k, v in theirs["json"].items() if k not in structs} == {
        k: v for k, v in defaults.items() if k not in structs
    }
    assert theirs["hex"] == data.hex()


def test_tables_match_the_newest_server() -> None:
    """`tools/message_tables.py` with the jars of 4.4.0, and what 4.4 dropped of 2.8."""
    jars, older = server_jars("4.4.0"), server_jars("2.8.2")
    if not jars or not older:
        pytest.skip("no jars of Kafka 4.4.0 and 2.8.2 in the local Maven repository")
    assert message_tables.tables(jars, older) == message_tables.TABLES.read_text("utf-8")


def test_every_area_has_its_messages() -> None:
    counts: dict[str, int] = {}
    for table in tables().values():
        counts[table["area"]] = counts.get(table["area"], 0) + 1
    assert counts == {
        "group": 44,
        "metadata": 28,
        "protocol": 10,
        "raft": 1,
        "share": 4,
        "storage": 5,
        "transaction": 2,
    }


def test_fields_depend_on_the_version() -> None:
    known = message("OffsetCommitValue")
    said = {"offset": 5, "leaderEpoch": 2, "metadata": "m", "commitTimestamp": 9}
    oldest = known.read(0, message_bytes(known, 0, said))
    assert oldest == {"offset": 5, "metadata": "m", "commitTimestamp": 9}
    second = known.read(1, message_bytes(known, 1, said))
    assert second == oldest | {"expireTimestamp": -1}
    assert known.read(3, message_bytes(known, 3, said)) == said
    assert message_bytes(known, 3, said) == bytes.fromhex(
        "00000000000000050000000200016d0000000000000009"
    )
    with pytest.raises(UnknownVersion):
        known.read(5, b"")
    with pytest.raises(UnknownVersion):
        message_bytes(known, -1, {})


def test_unknown_tags_are_kept_and_rewritten() -> None:
    known = message("TransactionLogValue")
    said = {
        "producerId": 1,
        "previousProducerId": 7,
        "producerEpoch": 0,
        "transactionTimeoutMs": 1,
        "transactionStatus": 1,
        "transactionPartitions": None,
        "transactionLastUpdateTimestampMs": 2,
        "transactionStartTimestampMs": 3,
        UNKNOWN_TAGS: [{"tag": 9, "bytes": b"later"}, {"tag": 300, "bytes": b""}],
    }
    data = message_bytes(known, 1, said)
    assert known.read(1, data) == said
    assert data.endswith(b"\x09\x05later\xac\x02\x00")


def test_tag_with_a_wrong_size_is_malformed() -> None:
    known = message("BeginTransactionRecord")
    sound = b"\x01\x00\x05\x05name"
    assert known.read(0, sound) == {"name": "name"}
    for broken in (b"\x01\x00\x04\x05name", b"\x01\x00\x06\x05name\0", b"\x01\x00\x7f\x05name"):
        with pytest.raises(MalformedError):
            known.read(0, broken)


def test_unexpected_null() -> None:
    known = message("TopicRecord")
    with pytest.raises(MalformedError):
        known.read(0, b"\x00" + bytes(16) + b"\x00")
    with pytest.raises(MalformedError):
        message("PartitionRecord").read(0, bytes(4 + 16) + b"\x00")


def test_nullable_structure_is_read() -> None:
    known = message("StreamsGroupMemberMetadataValue")
    for endpoint in (None, {"host": "h", "port": 65535}):
        said = known.read(0, message_bytes(known, 0, {"userEndpoint": endpoint}))
        assert said["userEndpoint"] == endpoint
    known = message("ConsumerGroupMemberMetadataValue")  # tagged there, and told otherwise
    member = {"sessionTimeoutMs": 5, "supportedProtocols": [{"name": "range", "metadata": b"x"}]}
    data = message_bytes(known, 0, {"classicMemberMetadata": member})
    assert known.read(0, data)["classicMemberMetadata"] == member


def test_non_utf8_text_round_trips() -> None:
    known = message("OffsetCommitKey")
    said = known.read(0, b"\x00\x02\xff\xfe\x00\x01t\x00\x00\x00\x01")
    assert said["group"].encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert message_bytes(known, 0, said).startswith(b"\x00\x02\xff\xfe")


def test_string_over_the_limit_is_malformed() -> None:
    out = bytearray()
    put_varint(out, 0x8000 + 1)
    with pytest.raises(MalformedError):
        message("TopicRecord").read(0, bytes(out) + bytes(0x8000 + 17))


@each(
    ("name", "version", "data"),
    [
        ("TransactionLogValue", 0, bytes(15) + b"\x7f\xff\xff\xff" + bytes(100)),
        ("PartitionRecord", 0, bytes(20) + b"\xff\xff\xff\xff\x0f" + bytes(100)),
        ("NoOpRecord", 0, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        ("NoOpRecord", 0, b"\xff\xff\xff\xff\xff\xff"),
        ("NoOpRecord", 0, b"\x01\x05\xff\xff\xff\xff\x0f"),
        ("UserScramCredentialRecord", 0, b"\x01\x00\xff\xff\xff\xff\x0f"),
    ],
)
def test_length_beyond_the_bytes_is_malformed(name: str, version: int, data: bytes) -> None:
    with pytest.raises(MalformedError):
        message(name).read(version, data)


def test_message_of_too_many_elements_is_malformed() -> None:
    """Two bytes make an object of hundreds: so many that a broker never writes them are refused."""
    most = bytearray()
    put_varint(most, MOST_ELEMENTS)
    assert len(message("NoOpRecord").read(0, bytes(most) + b"\x01\x00" * MOST_ELEMENTS)) == 1
    more = bytearray()
    put_varint(more, MOST_ELEMENTS + 1)
    with pytest.raises(MalformedError):
        message("NoOpRecord").read(0, bytes(more) + b"\x01\x00" * (MOST_ELEMENTS + 1))


def test_numbers_count_for_less() -> None:
    """A member may have been assigned as many partitions as a cluster has."""
    many = [*range(5 * MOST_ELEMENTS)]
    topics = [{"topic": "t", "partitions": many}]
    known = message("ConsumerProtocolAssignment")
    data = message_bytes(known, 0, {"assignedPartitions": topics})
    assert known.read(0, data)["assignedPartitions"] == topics
    data = message_bytes(known, 0, {"assignedPartitions": topics * 2})
    with pytest.raises(MalformedError):
        known.read(0, data)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Break a message in one of the ways that make lengths lie."""
    broken = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if broken:
            broken[rng.randrange(len(broken))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    if rng.random() < 0.3:
        del broken[rng.randrange(len(broken) + 1) :]
    return bytes(broken)


def held(value: Any) -> int:
    """How many values a message is made of."""
    if isinstance(value, dict):
        return 1 + sum(map(held, value.values()))
    return 1 + sum(map(held, value)) if isinstance(value, list) else 1


@pytest.mark.fuzz
@each_version
def test_hostile_bytes_are_malformed_or_small(name: str, version: int) -> None:
    known: Message = message(name)
    rng = random.Random(f"{SEED}/{name}/{version}/hostile")
    members = 1 + sum(1 for _ in json.dumps(tables()[name]))
    for said in draw_messages(name, version, _ROUNDS):
        data = damaged(rng, message_bytes(known, version, said))
        try:
            read = known.read(version, data)
        except MalformedError:
            continue
        assert held(read) <= (len(data) + 1) * members
        assert known.read(version, message_bytes(known, version, read)) is not None


@pytest.mark.fuzz
@pytest.mark.oracle
def test_hostile_bytes_are_read_like_the_kafka_classes() -> None:
    """Whatever both read, they read alike; who refuses less is never kdump but for unknown tags."""
    classes = message_classes(_CLASSES)
    rng = random.Random(f"{SEED}/hostile")
    both = 0
    for name, version in VERSIONS:
        if name == "AccessControlRecord":
            continue
        for said in draw_messages(name, version, 300 if LONG else 5):
            data = damaged(rng, message_bytes(message(name), version, said))
            try:
                read = message(name).read(version, data)
            except MalformedError:
                continue
            theirs = classes.read(name, version, data)
            if "json" in theirs and not theirs["left"] and plain(read):
                assert theirs["json"] == as_json(without_defaults(name, version, read))
                both += 1
    assert both > 100


def plain(read: Any) -> bool:
    """Whether a message has what both spell alike: no unknown tags, text that is UTF-8, bools."""
    text = json.dumps(as_json(read))
    return UNKNOWN_TAGS not in text and "\\udc" not in text and "NaN" not in text


def without_defaults(name: str, version: int, read: dict[str, Any]) -> dict[str, Any]:
    """Leave out tagged fields that say what their absence says, as Kafka's converters do."""
    return message(name).read(version, message_bytes(message(name), version, read))


def test_tables_load_once_and_fast() -> None:
    assert tables() is tables()
    assert message("TopicRecord") is message("TopicRecord")
    assert "kdump.messages.table" in sys.modules
    assert Path(message_tables.TABLES).stat().st_size < 40_000
