"""What members of classic groups say to each other."""

import pytest
from corpus import corpus, files
from each import each
from internal_topics import raw_records
from message_writing import message_bytes

from kdump.messages.consumer_protocol import assignment, open_value, subscription
from kdump.messages.records import DecodedValue, decode
from kdump.messages.table import message
from kdump.messages.wire import MOST_ELEMENTS

SUBSCRIPTION = message("ConsumerProtocolSubscription")
ASSIGNMENT = message("ConsumerProtocolAssignment")
SAID = {
    "topics": ["orders"],
    "userData": None,
    "ownedPartitions": [{"topic": "orders", "partitions": [1, 2]}],
    "generationId": 4,
    "rackId": "r1",
}


@each(
    ("version", "names"),
    [
        (0, ["topics", "userData"]),
        (1, ["topics", "userData", "ownedPartitions"]),
        (2, ["topics", "userData", "ownedPartitions", "generationId"]),
        (3, list(SAID)),
    ],
)
def test_subscriptions_of_every_version(version: int, names: list[str]) -> None:
    data = version.to_bytes(2, "big") + message_bytes(SUBSCRIPTION, version, SAID)
    said = {name: SAID[name] for name in names}
    assert subscription(data) == {"version": version, "data": said}


def test_a_later_version_is_read_as_the_newest() -> None:
    data = b"\0\x09" + message_bytes(SUBSCRIPTION, 3, SAID) + b"later"
    assert subscription(data) == {"version": 9, "data": SAID, "rest": b"later"}


@each("data", [b"", b"\0", b"\xff\xff" + bytes(20), b"\0\0\x7f\xff\xff\xff"])
def test_bytes_without_a_message(data: bytes) -> None:
    assert subscription(data) is None
    assert assignment(data) is None


def group(protocol_type: str, member: dict[str, object]) -> DecodedValue:
    data = message_bytes(
        message("GroupMetadataValue"), 3, {"protocolType": protocol_type, "members": [member]}
    )
    key = b"\0\2" + message_bytes(message("GroupMetadataKey"), 0, {"group": "g"})
    value = decode("__consumer_offsets", key, b"\0\3" + data)[1]
    assert value is not None
    return value


def test_members_of_a_consumer_group_are_decoded() -> None:
    said = {"assignedPartitions": SAID["ownedPartitions"], "userData": b"u"}
    member = {
        "memberId": "m",
        "subscription": b"\0\3" + message_bytes(SUBSCRIPTION, 3, SAID),
        "assignment": b"\0\1" + message_bytes(ASSIGNMENT, 1, said),
    }
    data = open_value(group("consumer", member)).data
    assert data is not None
    assert data["members"][0]["subscription"] == {"version": 3, "data": SAID}
    assert data["members"][0]["assignment"] == {"version": 1, "data": said}
    data = open_value(group("connect", member)).data
    assert data is not None
    assert data["members"][0]["subscription"] == member["subscription"]


def test_keys_are_unchanged() -> None:
    for type_id, name in ((2, "GroupMetadataKey"), (5, "ConsumerGroupMemberMetadataKey")):
        data = bytes([0, type_id]) + message_bytes(message(name), 0, {})
        key = decode("__consumer_offsets", data, None)[0]
        assert key is not None
        assert open_value(key) == key


def test_total_size_of_member_data_is_bounded() -> None:
    """Each of them might ask for as much as a whole record may."""
    topics = [{"topic": "", "partitions": []}] * (MOST_ELEMENTS // 2)
    said = b"\0\0" + message_bytes(ASSIGNMENT, 0, {"assignedPartitions": topics})
    member = {"memberId": "m", "assignment": said, "subscription": b""}
    data = message_bytes(
        message("GroupMetadataValue"), 3, {"protocolType": "consumer", "members": [member] * 3}
    )
    value = decode("__consumer_offsets", b"\0\2\0\1g", b"\0\3" + data)[1]
    assert value is not None
    told = open_value(value).data
    assert told is not None
    assert [isinstance(one["assignment"], dict) for one in told["members"]] == [True, True, False]


def test_undecodable_bytes_are_kept() -> None:
    member = {"memberId": "m", "subscription": b"?", "assignment": b""}
    data = open_value(group("consumer", member)).data
    assert data is not None
    assert data["members"][0]["subscription"] == b"?"
    assert data["members"][0]["assignment"] == b""


def test_classic_member_of_a_consumer_group_is_decoded() -> None:
    protocol = {"name": "range", "metadata": b"\0\3" + message_bytes(SUBSCRIPTION, 3, SAID)}
    classic = {"sessionTimeoutMs": 5, "supportedProtocols": [protocol]}
    data = message_bytes(
        message("ConsumerGroupMemberMetadataValue"), 0, {"classicMemberMetadata": classic}
    )
    key = b"\0\5" + message_bytes(message("ConsumerGroupMemberMetadataKey"), 0, {})
    value = decode("__consumer_offsets", key, b"\0\0" + data)[1]
    assert value is not None
    said = open_value(value).data
    assert said is not None
    (one,) = said["classicMemberMetadata"]["supportedProtocols"]
    assert one == {"name": "range", "metadata": {"version": 3, "data": SAID}}


@pytest.mark.parametrize("name", ["modern/data/clean", "newest/data/killed"])
def test_groups_of_real_brokers_are_decoded_completely(name: str) -> None:
    """Nothing stays closed or is left over; what was opened is written as the same bytes."""
    members = 0
    for path in files(corpus(name), "__consumer_offsets-*/*.log"):
        for record in raw_records(path):
            value = record.decoded("__consumer_offsets")[1]
            if record.control or value is None or value.type != "group_metadata":
                continue
            before, after = value.data, open_value(value).data
            assert before is not None
            assert after is not None
            if before["protocolType"] != "consumer":
                continue
            for closed, open_ in zip(before["members"], after["members"], strict=True):
                for field, known in (("subscription", SUBSCRIPTION), ("assignment", ASSIGNMENT)):
                    if closed[field]:
                        said = open_[field]
                        written = message_bytes(known, said["version"], said["data"])
                        assert said["version"].to_bytes(2, "big") + written == closed[field]
                        members += 1
    assert members > 5
