"""Decode the keys of Kafka Streams' changelogs that have a window or a session behind them.

Nothing in the log says what a store is, so its keys have to: a time between 2000 and 2100 stands
where one is. Plain keys stay as they are, and so do values, which may be decoded by a schema.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any

from kdump.values.decoder import Decoder

TOPICS = ("*-changelog",)
_TIMES = range(946_684_800_000, 4_102_444_800_000)


def decoder(topic: str) -> Decoder:
    """Return the decoder of a changelog."""
    return Decoder(_key, lambda _, value: value, lambda found, _: found, inner_key=_inner)


def _inner(data: bytes) -> tuple[bytes, object] | None:
    """Return the key of a window's key."""
    found = _key(data)
    if isinstance(found, bytes):
        return None
    inner = data[: -16 if found["type"] == "session_key" else -12]
    return inner, found["data"]["key"]


def _key(data: bytes) -> Any:
    size = len(data)
    if size >= 16:
        end, start = _time(data, size - 16), _time(data, size - 8)
        if start in _TIMES and end in _TIMES and start <= end:
            times = {"window_start_ms": start, "window_end_ms": end}
            return {"type": "session_key", "data": {"key": _plain(data[:-16]), **times}}
    if size >= 12 and (start := _time(data, size - 12)) in _TIMES:
        sequence = int.from_bytes(data[-4:], "big")
        members = {"key": _plain(data[:-12]), "window_start_ms": start, "sequence": sequence}
        return {"type": "window_key", "data": members}
    return data


def _time(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big")


def _plain(data: bytes) -> object:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b2a_base64(data, newline=False).decode("ascii")}
