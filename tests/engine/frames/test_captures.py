"""Requests and responses in captures: what was recorded of clients, whole and with packets lost."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path
from typing import Any

import captures
import pytest
from captures import Message
from dumped import json_lines
from internal_topics import as_json
from long_runs import SEED, how_many
from message_classes import message_classes

from kdump.engine.dump.run import dump
from kdump.engine.frames.exchange import Exchange
from kdump.engine.frames.run import frame_items
from kdump.engine.reading.options import DumpOptions
from kdump.findings.finding import Finding
from kdump.kernels.columns import BYTES_HEX
from kdump.messages import protocol
from kdump.output.jsonl import JsonLines
from kdump.storage import names
from kdump.storage.names import Kind

Json = dict[str, Any]
#: What clients of ten releases, librdkafka, kafka-python, and aiokafka sent to brokers of four:
#: one small exchange of each version of each api.
CLIENTS = Path(__file__).parents[2] / "captures/clients.pcap.gz"


def read_recorded() -> list[Message]:
    """Give what was recorded, message by message."""
    return [
        (connection, way, len(frame).to_bytes(4, "big") + frame)
        for connection, way, frame in captures.messages_in(gzip.decompress(CLIENTS.read_bytes()))
    ]


def read(
    path: Path, data: bytes, *, kind: Kind = Kind.CAPTURE, **options: Any
) -> tuple[list[Json], list[Finding]]:
    """Dump a capture: rows, without their places in the file, and findings."""
    path.write_bytes(data)
    text = bytearray()
    sink = JsonLines(text.extend, BYTES_HEX)
    found: list[Finding] = []
    for item in frame_items(str(path), kind, DumpOptions(**options)):
        assert not isinstance(item, Exception)
        if isinstance(item, Finding):
            found.append(item)
        else:
            sink.write(item)
    sink.finish()
    return json_lines(text), found


def plain(rows: list[Json], *, ordered: bool = True) -> list[tuple[Any, ...]]:
    """Leave out of rows what depends on how packets lie in the file."""
    dropped = ("position", "at_ms", "number")
    kept = [
        tuple((name, str(value)) for name, value in row.items() if name not in dropped)
        for row in rows
    ]
    return kept if ordered else sorted(kept)


def test_frames_of_clients_and_brokers(tmp_path: Path) -> None:
    """Every exchange is named, matched, and its records are read."""
    data = gzip.decompress(CLIENTS.read_bytes())
    rows, found = read(tmp_path / "one", data)
    assert found == []
    kinds = Counter(row["row"] for row in rows)
    assert kinds == {"frame": 196, "record": 309}
    frames = [row for row in rows if row["row"] == "frame"]
    assert Counter(row["direction"] for row in frames) == {"request": 98, "response": 98}
    asked = {(one["source"], one["correlation_id"]): one for one in frames[::2]}
    for row in frames:
        if row["direction"] == "response":
            request = asked[row["destination"], row["correlation_id"]]
            assert (row["api"], row["version"]) == (request["api"], request["version"])
    read_versions = {(row["api"], row["version"]) for row in frames}
    assert {("Produce", one) for one in (1, 2, 3, 5, 6, 7, 8, 9, 10, 13)} <= read_versions
    assert {("Fetch", one) for one in (1, 2, 3, 5, 7, 8, 11, 12, 16, 17, 18)} <= read_versions
    by_id = [row for row in frames if row["topic_id"] not in (None, "A" * 22)]
    named = [row for row in by_id if row["topic"] in ("orders", "pay")]
    assert len(named) > len(by_id) / 2  # a response of the capture names them
    # Where a record says it is, there is its batch.
    for row in rows:
        if row["row"] == "record" and row["magic"] == 2:
            assert data[row["position"] + 16] == 2


@pytest.mark.oracle
def test_fields_match_the_classes_of_kafka() -> None:
    exchanges: dict[int, Exchange] = {}
    compared = 0
    for connection, way, frame in captures.frames_of(read_recorded()):
        exchange = exchanges.setdefault(connection, Exchange())
        said = exchange.response(frame) if way else exchange.request(frame)
        if said.fields is None:
            continue
        assert said.api is not None
        assert said.version is not None
        if way:
            at, name = protocol.response_fields_at(said.api, said.version, frame), "Response"
        else:
            at, name = protocol.request_header(frame).end, "Request"
        release = (
            "2.8.2"
            if " " in protocol.message_of(f"{said.name}{name}", said.version).name
            else "4.4.0"
        )
        theirs = message_classes(release).read(f"{said.name}{name}Data", said.version, frame[at:])
        assert (theirs["left"], theirs["hex"]) == (0, frame[at:].hex())
        assert theirs["json"] == as_json(_without_records(said.fields))
        compared += 1
    assert compared > 100


def _without_records(held: Any) -> Any:
    if isinstance(held, slice):
        return b""
    if isinstance(held, dict):
        return {name: _without_records(inner) for name, inner in held.items()}
    return [_without_records(inner) for inner in held] if isinstance(held, list) else held


def test_swapped_and_repeated_packets(tmp_path: Path) -> None:
    parts: list[list[Message]] = [[], [], []]
    for message in read_recorded():
        parts[message[0] % 3].append(message)
    whole = [captures.capture(captures.packets(messages)) for messages in parts]
    expected = [plain(read(tmp_path / "one", data)[0]) for data in whole]
    assert all(expected)
    for number in range(how_many(6, 300)):
        rng = random.Random(f"{SEED}/{number}")
        messages = parts[number % 3]
        made = captures.packets(
            messages, size=rng.choice((300, 1448)), first=rng.choice((0, (1 << 32) - 700))
        )
        data = captures.capture(captures.swap_packets(made, rng, within=rng.choice((2, 6))))
        rows, found = read(tmp_path / "two", data)
        assert found == []
        assert sorted(expected[number % 3]) == plain(rows, ordered=False)


def test_missing_packets_are_reported(tmp_path: Path) -> None:
    """What is lost is counted by connection, and all whole frames that can be known are read."""
    messages = read_recorded()
    for number in range(how_many(6, 300)):
        rng = random.Random(f"{SEED}/{number}")
        made = captures.packets(messages, size=700)
        lost = [one for one in made if one.data and rng.random() < 0.05]
        rows, found = read(
            tmp_path / "one", captures.capture(one for one in made if one not in lost)
        )
        gaps = [one for one in found if one.code == "capture-gap"]
        # The last packets of a stream leave no trace.
        last = {(one.connection, one.way): one for one in made if one.data}
        seen = sum(len(one.data) for one in lost)
        tail = 0
        for one in reversed(made):
            key = one.connection, one.way
            if key in last and one.data:
                if one in lost:
                    tail += len(one.data)
                else:
                    del last[key]
        assert sum(one.size_bytes or 0 for one in gaps) == seen - tail
        frames = {row["number"] for row in rows if row["row"] == "frame"}
        assert len(frames) > 196 - 3 * len(lost)
        for row in rows:
            assert row["row"] != "finding"


def test_capture_may_start_in_mid_connection(tmp_path: Path) -> None:
    messages = read_recorded()
    made = captures.packets(messages, size=500, opened=False)
    rows, found = read(tmp_path / "one", captures.capture(made))
    assert found == []
    assert len({row["number"] for row in rows if row["row"] == "frame"}) == 196
    for start in range(1, len(made), 17):
        rows, found = read(tmp_path / "one", captures.capture(made[start:]))
        assert {one.code for one in found} <= {"capture-skipped", "capture-gap"}
        assert len(rows) > 0


REQUEST = bytes.fromhex("0012 0000 00000001 0002 6162".replace(" ", ""))
PASSWORD = b"correct horse battery"


def framed(*frames: bytes) -> bytes:
    return b"".join(len(one).to_bytes(4, "big") + one for one in frames)


def test_tls_and_other_connections_are_reported(tmp_path: Path) -> None:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300)
    messages = [
        (0, 0, hello),
        (0, 1, hello),
        (1, 0, b"GET / HTTP/1.1\r\n\r\n"),
        (2, 1, b"SSH-2.0-OpenSSH_9.2\r\n"),
        (2, 0, b"SSH-2.0-OpenSSH_9.2\r\n"),
        (3, 0, framed(REQUEST)),
    ]
    rows, found = read(tmp_path / "one", captures.capture(captures.packets(messages)))
    assert [row["api"] for row in rows] == ["ApiVersions"]
    assert [(one.code, one.size_bytes) for one in found] == [
        ("capture-encrypted", 2 * len(hello)),
        ("capture-skipped", None),
    ]
    assert "2 in this capture" in found[1].message
    late = captures.packets([(0, 0, b"\x17\x03\x03\x01\x00" + bytes(256))], opened=False)
    assert [one.code for one in read(tmp_path / "two", captures.capture(late))[1]] == [
        "capture-encrypted"
    ]


def test_credentials_are_hidden(tmp_path: Path) -> None:
    """Tokens behind a SASL handshake, in a request or, after one of version 0, without any."""
    handshake = "0011 000{} 00000001 0001 61 0005 504c41494e"
    token = b"\0user\0" + PASSWORD
    authenticate = (
        bytes.fromhex("00240002 00000002 0001 61 00".replace(" ", ""))
        + bytes([len(token) + 1])
        + token
        + b"\0"
    )
    for version, frame in ((0, token), (1, authenticate)):
        shake = bytes.fromhex(handshake.format(version).replace(" ", ""))
        answer = bytes.fromhex("00000001 0000 00000000".replace(" ", ""))
        messages = [
            (0, 0, framed(shake)),
            (0, 1, framed(answer)),
            (0, 0, framed(frame)),
            (0, 1, framed(b"" if version == 0 else bytes.fromhex("00000002000000"))),
            (0, 0, framed(REQUEST)),
        ]
        path = tmp_path / "one"
        rows, found = read(path, captures.capture(captures.packets(messages)))
        names_ = [row["api"] for row in rows]
        second = "SaslToken" if version == 0 else "SaslAuthenticate"
        assert names_ == ["SaslHandshake"] * 2 + [second] * 2 + ["ApiVersions"]
        assert PASSWORD.decode() not in str(rows) + str(found)
        assert PASSWORD.hex() not in str(rows)


def test_frames_in_a_file_are_read(tmp_path: Path) -> None:
    """Behind a length that cannot be, reading goes on at the next request."""
    messages = [one for one in read_recorded() if one[0] == 0]
    parts = [data for _, _, data in messages]
    expected, found = read(tmp_path / "one", b"".join(parts), kind=Kind.FRAMES)
    assert found == []
    assert {row["number"] for row in expected if row["row"] == "frame"} == set(range(len(parts)))
    assert all(row["api"] for row in expected if row["row"] == "frame")
    whole = b"".join(parts)
    bad = len(parts[0])
    for word, code in (
        (b"\xff\xff\xff\xfb", "frame-length"),
        (b"\x7f\xff\xff\xff", "frame-length"),
        (len(whole).to_bytes(4, "big"), "frame-length"),
    ):
        data = whole[:bad] + word + parts[1][4:] + b"".join(parts[2:])
        rows, found = read(tmp_path / "one", data, kind=Kind.FRAMES)
        assert [(one.code, one.position) for one in found] == [(code, bad)]
        missing = len(expected) - len(rows)
        assert 0 < missing <= sum(row.get("number") == 1 for row in expected) + 1
    rows, found = read(tmp_path / "one", whole[:-3], kind=Kind.FRAMES)
    assert [one.code for one in found] == ["frame-cut-short"]
    assert found[0].position == len(whole) - len(parts[-1])


def test_unknown_apis_and_versions_are_reported(tmp_path: Path) -> None:
    unknown = bytes.fromhex("03e7 0000 00000002 0001 61".replace(" ", ""))
    later = bytes.fromhex("0001 0063 00000003 0001 61".replace(" ", ""))
    broken = bytes.fromhex("0001 0004 00000004 0001 61 0000".replace(" ", ""))
    data = framed(REQUEST, unknown, later, broken, b"\0", REQUEST)
    pcap = captures.capture(captures.packets([(0, 0, data)]))
    for kind, text in ((Kind.FRAMES, data), (Kind.CAPTURE, pcap)):
        rows, found = read(tmp_path / "one", text, kind=kind)
        assert [row["api"] for row in rows] == [
            "ApiVersions", None, "Fetch", "Fetch", None, "ApiVersions",
        ]  # fmt: skip
        assert [one.code for one in found] == [
            "frame-unknown", "frame-unknown", "frame-malformed", "frame-malformed",
        ]  # fmt: skip
        assert [row["size_bytes"] for row in rows] == [len(REQUEST) + 4, 15, 15, 17, 5, 16]


def test_oversize_frame_is_reported_and_skipped(tmp_path: Path) -> None:
    large = REQUEST + bytes(5000)
    data = framed(REQUEST, large, REQUEST)
    pcap = captures.capture(captures.packets([(0, 0, data)]))
    for kind, text in ((Kind.FRAMES, data), (Kind.CAPTURE, pcap)):
        rows, found = read(tmp_path / "one", text, kind=kind, decompress_limit=1000)
        assert [row["api"] for row in rows] == ["ApiVersions"] * 3
        assert [row["size_bytes"] for row in rows] == [16, 5016, 16]
        assert [one.code for one in found] == ["over-decompress-limit"]


def test_requests_of_0_7_are_read(tmp_path: Path) -> None:
    import zlib

    def message(text: bytes) -> bytes:
        body = b"\1\0" + zlib.crc32(text).to_bytes(4, "big") + text
        return len(body).to_bytes(4, "big") + body

    held = message(b"first") + message(b"second")
    topic = b"\0\6orders" + (3).to_bytes(4, "big")
    produce = b"\0\0" + topic + len(held).to_bytes(4, "big") + held
    fetch = b"\0\1" + topic + (70).to_bytes(8, "big") + (1000).to_bytes(4, "big")
    offsets = b"\0\4" + topic + b"\xff" * 8 + (1).to_bytes(4, "big")
    answer = b"\0\0" + (1).to_bytes(4, "big") + (99).to_bytes(8, "big")
    messages = [
        (0, 0, framed(produce)),
        (0, 0, framed(fetch)),
        (0, 1, framed(b"\0\0" + held[:-3])),
        (0, 0, framed(offsets)),
        (0, 1, framed(answer)),
    ]
    data = b"".join(part for _, _, part in messages)
    pcap = captures.capture(captures.packets(messages))
    for kind, text in ((Kind.CAPTURE, pcap), (Kind.FRAMES, data)):
        rows, found = read(tmp_path / "one", text, kind=kind)
        frames = [row for row in rows if row["row"] == "frame"]
        assert [(row["api"], row["direction"]) for row in frames] == [
            ("Produce", "request"),
            ("Fetch", "request"),
            ("Fetch", "response"),
            ("Offsets", "request"),
            ("Offsets", "response"),
        ]
        assert {(row["topic"], row["partition"]) for row in frames} == {("orders", 3)}
        assert frames[4]["offsets"] == [99]
        records = [(row["offset"], row["value"]) for row in rows if row["row"] == "record"]
        first, second = b"first".hex(), b"second".hex()
        assert [value["hex"] if isinstance(value, dict) else value for _, value in records] == [
            first, second, first,
        ]  # fmt: skip
        assert [offset for offset, _ in records] == [0, 15, 70]
        assert found == []


def test_damaged_records_are_reported_with_their_position(tmp_path: Path) -> None:
    data = bytearray(gzip.decompress(CLIENTS.read_bytes()))
    rows, _ = read(tmp_path / "one", bytes(data))
    one = next(row for row in rows if row["row"] == "record" and row["magic"] == 2)
    data[one["position"] + 70] ^= 1
    _, found = read(tmp_path / "one", bytes(data))
    assert [(each.code, each.position) for each in found] == [("crc-mismatch", one["position"])]


def test_capture_name_does_not_decide_the_kind(tmp_path: Path) -> None:
    """The name alone makes no capture."""
    path = tmp_path / names.CAPTURE
    path.write_bytes(b"not a capture")
    items = list(dump([str(path)], DumpOptions()))
    assert [str(one) for one in items] == [f"{path}: is not a capture in pcap or pcapng format"]


def test_unanswered_requests_are_dropped(tmp_path: Path) -> None:
    """A connection keeps its share of them, and of a client id what a person would read."""
    exchange = Exchange()
    exchange.share(1 << 20)
    for number in range(40):
        data = bytes.fromhex("00120000") + number.to_bytes(4, "big") + b"\x4e\x20" + b"a" * 20_000
        assert len(exchange.request(data).client_id or "") == 20_000
    answers = [exchange.response(number.to_bytes(4, "big")) for number in range(40)]
    assert [one.name for one in answers] == [None] * 24 + ["ApiVersions"] * 16
    assert {len(one.client_id or "") for one in answers} == {0, 255}
    topic = b"\0\1\0\1t" + bytes(16)
    old = Exchange()
    old.share(1 << 20)
    for _ in range(40):
        assert old.request(topic).name == "Fetch"
    answers = [old.response(b"\0\0") for _ in range(40)]
    assert [one.name for one in answers].count("Fetch") == 16
