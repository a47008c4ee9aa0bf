"""Decode the topics of MirrorMaker 2: heartbeats, checkpoints of groups, and pairs of offsets.

`{"type": …, "data": {…}}`. What is not read to its last byte stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error, unpack_from
from typing import Any

from kdump.values.decoder import Decoder

TOPICS = ("mm2-offset-syncs.*.internal", "*.checkpoints.internal", "heartbeats", "*.heartbeats")

#: Members of a key and of a value, each with its kind: s is text; h, i, q are numbers.
_Layout = tuple[tuple[str, str], ...]
_LAYOUTS: dict[str, tuple[_Layout, _Layout]] = {
    "offset_sync": (
        (("of_topic", "s"), ("of_partition", "i")),
        (("upstream_offset", "q"), ("downstream_offset", "q")),
    ),
    "checkpoint": (
        (("group", "s"), ("of_topic", "s"), ("of_partition", "i")),
        (
            ("version", "h"), ("upstream_offset", "q"), ("downstream_offset", "q"),
            ("metadata", "s"),
        ),
    ),
    "heartbeat": (
        (("source", "s"), ("target", "s")),
        (("version", "h"), ("heartbeat_ms", "q")),
    ),
}  # fmt: skip


def decoder(topic: str) -> Decoder:
    """Return the decoder of one of MirrorMaker's topics."""
    kind = next(kind for kind in _LAYOUTS if kind.rpartition("_")[2] in topic)
    of_key, of_value = (_reader(kind, layout) for layout in _LAYOUTS[kind])
    return Decoder(of_key, lambda _, value: of_value(value), lambda found, _: found)


def _reader(kind: str, layout: _Layout) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        members: dict[str, Any] = {}
        at = 0
        try:
            for name, form in layout:
                if form == "s":
                    (size,) = unpack_from(">h", data, at)
                    at += 2
                    if size < 0:
                        return data
                    members[name] = data[at : at + size].decode()
                    at += size
                else:
                    (members[name],) = unpack_from(f">{form}", data, at)
                    at += {"h": 2, "i": 4, "q": 8}[form]
        except (error, UnicodeDecodeError):
            return data
        if at != len(data) or members.get("version", 0) != 0:
            return data
        return {"type": kind, "data": members}

    return read
