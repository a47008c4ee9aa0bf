"""Headers and fields of requests and responses, held against Kafka's own classes."""

from __future__ import annotations

import random
from typing import Any

import message_tables
import pytest
from each import each
from internal_topics import as_json
from long_runs import LONG, SEED
from message_classes import message_classes, server_jars
from message_drawing import fields
from message_writing import message_bytes

from kdump.messages import old_protocol, protocol
from kdump.messages.errors import ERRORS, error_name
from kdump.messages.old_protocol import Part
from kdump.messages.table import UnknownVersion
from kdump.messages.wire import MalformedError

_ROUNDS = 500 if LONG else 3

VERSIONS = [
    (f"{one.name}{kind}", version)
    for number, one in sorted(protocol.apis().items())
    if protocol.is_read(number)
    for kind in ("Request", "Response")
    for version in range(one.versions.first, one.versions.last + 1)
]


def without_records(held: Any) -> Any:
    """Put nothing where records are, as Kafka's converters to JSON do."""
    if isinstance(held, dict):
        return {
            name: b"" if name in ("records", "recordSet") and inner is not None else inner
            for name, inner in ((name, without_records(inner)) for name, inner in held.items())
        }
    return [without_records(inner) for inner in held] if isinstance(held, list) else held


def test_tables_match_the_newest_server() -> None:
    jars, older = server_jars("4.4.0"), server_jars("2.8.2")
    if not jars or not older:
        pytest.skip("no jars of Kafka 4.4.0 and 2.8.2 in the local Maven repository")
    assert message_tables.protocol(jars, older) == message_tables.PROTOCOL.read_text("utf-8")


def test_every_released_version_is_read() -> None:
    assert len(VERSIONS) == 2 * (14 + 19 + 12 + 14)
    for name, version in VERSIONS:
        assert version in protocol.message_of(name, version).versions
    with pytest.raises(UnknownVersion):
        protocol.message_of("FetchRequest", 19)


@pytest.mark.oracle
def test_kafka_classes_write_and_read_the_same() -> None:
    rng = random.Random(SEED)
    for name, version in VERSIONS:
        known = protocol.message_of(name, version)
        release = "2.8.2" if " " in known.name else "4.4.0"
        for _ in range(_ROUNDS):
            said = fields(rng, known.fields, version)
            data = message_bytes(known, version, said)
            theirs = message_classes(release).read(f"{name}Data", version, data)
            assert theirs.get("error") is None, (name, version)
            assert theirs["json"] == as_json(without_records(said)), (name, version)
            assert (theirs["left"], theirs["hex"]) == (0, data.hex())
            read = protocol.read_body(name, version, data, 0)
            assert as_json(without_records(read)) == theirs["json"]
            with pytest.raises(MalformedError):
                protocol.read_body(name, version, data + b"\0", 0)


def test_records_are_replaced_by_their_position() -> None:
    known = protocol.message_of("ProduceRequest", 9)
    part = {"index": 3, "records": b"some records"}
    said = {"acks": -1, "timeoutMs": 5, "topicData": [{"name": "t", "partitionData": [part]}]}
    data = b"head" + message_bytes(known, 9, {"transactionalId": None} | said)
    read = protocol.read_body("ProduceRequest", 9, data, 4)
    assert data[read["topicData"][0]["partitionData"][0]["records"]] == b"some records"


@each(
    ("data", "header"),
    [
        ("00070000 00000009", (7, 0, 9, None, 8)),
        ("00010004 00000007 0002 6162 ff", (1, 4, 7, "ab", 12)),
        ("00010004 00000007 ffff", (1, 4, 7, None, 10)),
        ("0001000c ffffffff 0001 61 01 05 02 0000", (1, 12, -1, "a", 16)),
        ("03e70000 00000001 0000 01", (999, 0, 1, "", 10)),
    ],
)
def test_request_headers_are_read(data: str, header: tuple[object, ...]) -> None:
    assert protocol.request_header(bytes.fromhex(data)) == header


@each(
    "data", ["", "0001", "0001000400000007", "0001000400000007 0005 61", "0001000c00000007 ffff ff"]
)
def test_truncated_header_is_malformed(data: str) -> None:
    with pytest.raises(MalformedError):
        protocol.request_header(bytes.fromhex(data))


def test_response_header_has_tags_in_flexible_versions() -> None:
    assert protocol.response_fields_at(protocol.FETCH, 11, bytes(8)) == 4
    assert protocol.response_fields_at(protocol.FETCH, 12, bytes(8)) == 5
    assert protocol.response_fields_at(18, 3, bytes(8)) == 4


def test_errors_have_protocol_names() -> None:
    assert error_name(0) is None
    assert [error_name(code) for code in (-1, 1, 2, 6, 87, 136)] == [
        "UNKNOWN_SERVER_ERROR",
        "OFFSET_OUT_OF_RANGE",
        "CORRUPT_MESSAGE",
        "NOT_LEADER_OR_FOLLOWER",
        "INVALID_RECORD",
        "CONTROLLER_ID_NOT_REGISTERED",
    ]
    assert error_name(137) == "137"
    assert len(set(ERRORS)) == len(ERRORS) == 138


_OLD = {
    "0000 0004 74657374 00000002 00000003 616263": (0, Part("test", 2, records=slice(16, 19))),
    "0001 0004 74657374 00000002 0000000000000005 00000400": (1, Part("test", 2, 5, None, 1024)),
    "0004 0004 74657374 00000002 fffffffffffffffe 00000001": (4, Part("test", 2, time_ms=-2)),
}


@pytest.mark.parametrize("data", _OLD)
def test_requests_of_0_7_are_read(data: str) -> None:
    api, part = _OLD[data]
    raw = bytes.fromhex(data)
    assert old_protocol.read_request(raw) == (api, [part])
    if api in (old_protocol.PRODUCE, old_protocol.FETCH):
        several = bytes([0, 3 - api, 0, 2]) if api else bytes([0, 3, 0, 2])
        found = old_protocol.read_request(several + raw[2:] * 2)
        assert [one[:2] for one in found[1]] == [("test", 2)] * 2
    for broken in (raw[:-1], raw + b"\0", b"\0\5" + raw[2:], raw[:2] + b"\0\0" + raw[4:]):
        with pytest.raises(MalformedError):
            old_protocol.read_request(broken)


def test_responses_of_0_7_are_read() -> None:
    one = Part("t", 0, 100)
    read = old_protocol.read_response
    assert read(1, [one], b"\0\0abc") == (None, [Part("t", 0, 100, records=slice(2, 5))])
    assert read(1, [one], b"\0\1") == ("OFFSET_OUT_OF_RANGE", [])
    several = b"\0\0" + b"\0\0\0\5\0\0abc" + b"\0\0\0\2\0\3"
    assert read(2, [one, one], several) == (
        None,
        [
            Part("t", 0, 100, records=slice(8, 11)),
            Part("t", 0, 100, error="WRONG_PARTITION", records=slice(17, 17)),
        ],
    )
    offsets = b"\0\0\0\0\0\2" + (7).to_bytes(8, "big") + bytes(8)
    assert read(4, [one], offsets) == (None, [Part("t", 0, offsets=(7, 0))])
    for api, broken in ((2, several[:-1]), (4, offsets[:-1]), (4, b"\0\0\xff\xff\xff\xff")):
        with pytest.raises(MalformedError):
            read(api, [one, one], broken)
