"""MirrorMaker's three topics, and keys of Streams' changelogs."""

from struct import pack
from typing import Any

import pytest
from each import each

from kdump.values.decoder import Decoder, decoder_of

MS = 1_795_642_500_000
SYNCS, CHECKPOINTS = "mm2-offset-syncs.here.internal", "west.checkpoints.internal"


def of(topic: str) -> Decoder:
    found = decoder_of(topic)
    assert found is not None
    return found


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


@pytest.mark.parametrize(
    ("topic", "key", "value", "type_", "data"),
    [
        (
            SYNCS,
            text("t") + pack(">i", 2),
            pack(">qq", 5, 6),
            "offset_sync",
            [
                {"of_topic": "t", "of_partition": 2},
                {"upstream_offset": 5, "downstream_offset": 6},
            ],
        ),
        (
            CHECKPOINTS,
            text("g") + text("t") + pack(">i", 2),
            pack(">hqq", 0, 5, 6) + text("m"),
            "checkpoint",
            [
                {"group": "g", "of_topic": "t", "of_partition": 2},
                {"version": 0, "upstream_offset": 5, "downstream_offset": 6, "metadata": "m"},
            ],
        ),
        (
            "west.heartbeats",
            text("a") + text("b"),
            pack(">hq", 0, MS),
            "heartbeat",
            [{"source": "a", "target": "b"}, {"version": 0, "heartbeat_ms": MS}],
        ),
    ],
)
def test_mirror_maker_records_are_decoded(
    topic: str, key: bytes, value: bytes, type_: str, data: list[dict[str, Any]]
) -> None:
    decoder = of(topic)
    assert decoder.read_key(key) == {"type": type_, "data": data[0]}
    assert decoder.read_value(None, value) == {"type": type_, "data": data[1]}
    for bytes_, read in ((key, decoder.read_key), (value, lambda v: decoder.read_value(None, v))):
        for end in range(len(bytes_)):
            assert read(bytes_[:end]) == bytes_[:end]
        assert read(bytes_ + b"!") == bytes_ + b"!"
    assert decoder.read_key(b"\xff\xff" + key) == b"\xff\xff" + key
    if "version" in data[1]:
        assert decoder.read_value(None, b"\0\1" + value[2:]) == b"\0\1" + value[2:]


@each(
    ("key", "found"),
    [
        (b"k" + pack(">qi", MS, 3), {"key": "k", "window_start_ms": MS, "sequence": 3}),
        (
            b"\xff" + pack(">qi", MS, 0),
            {"key": {"base64": "/w=="}, "window_start_ms": MS, "sequence": 0},
        ),
        (
            b"k" + pack(">qq", MS + 5, MS),
            {"key": "k", "window_start_ms": MS, "window_end_ms": MS + 5},
        ),
        (pack(">qq", MS, MS), {"key": "", "window_start_ms": MS, "window_end_ms": MS}),
        (b"longer key here", None),
        (b"", None),
        (pack(">q", MS), None),
        (b"k" + pack(">qi", -1, 3), None),
    ],
)
def test_streams_changelogs_are_decoded(key: bytes, found: dict[str, Any] | None) -> None:
    decoder = of("app-store-changelog")
    shown = decoder.read_key(key)
    assert shown == key if found is None else shown["data"] == found
    assert decoder.read_value(shown, b"v") == b"v"
