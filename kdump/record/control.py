"""Transaction markers and the other control records (F29), as dictionaries ready to be shown.

The first two members are always `type` and `version`; the others are the value's own fields. A
record whose bytes are not what its type asks for has a member `malformed` and no value fields.
"""

from __future__ import annotations

import struct

_KEY = struct.Struct(">hh")  # version, type
_MARKER = struct.Struct(">hi")  # version, coordinatorEpoch

TYPE_NAMES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
ABORT, COMMIT = 0, 1


class _Malformed(Exception):
    """The bytes end early, or a length cannot be right."""


class _Reader:
    """Reads the flexible message encoding: big-endian numbers, lengths as unsigned varints."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.position:
            raise _Malformed
        piece = self.data[self.position : self.position + size]
        self.position += size
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _Malformed

    def count(self) -> int:
        """A compact array's element count; null reads as 0."""
        count = self.varint() - 1
        if count > len(self.data) - self.position:
            raise _Malformed
        return max(count, 0)

    def string(self) -> str:
        return self.take(self.varint() - 1).decode("utf-8", "replace")

    def uuid(self) -> str:
        import base64

        return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def control_type(key: bytes | None) -> int | None:
    """Return the type number in a control record's key, or None when it cannot hold one."""
    if key is None or len(key) < _KEY.size:
        return None
    version, number = _KEY.unpack_from(key)
    return None if version < 0 else number


def parse(key: bytes | None, value: bytes | None) -> dict[str, object]:
    """Say what a control record means. Never raises on data."""
    number = control_type(key)
    if number is None or key is None:
        return {"type": "UNKNOWN", "version": None, "malformed": "key"}
    control: dict[str, object] = {
        "type": TYPE_NAMES.get(number, "UNKNOWN"),
        "version": _KEY.unpack_from(key)[0],
    }
    if number not in TYPE_NAMES:
        control["type_id"] = number
        return control
    try:
        control.update(_PARSERS[number](value or b""))
    except _Malformed:
        control["malformed"] = "value"
    return control


def _marker(value: bytes) -> dict[str, object]:
    if len(value) < _MARKER.size:
        raise _Malformed
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise _Malformed
    return {"coordinator_epoch": coordinator_epoch}


def _leader_change(value: bytes) -> dict[str, object]:
    reader = _Reader(value)
    version = reader.number(2)
    leader = reader.number(4)
    lists = []
    for _ in range(2):
        voters: list[dict[str, object]] = []
        for _ in range(reader.count()):
            voter: dict[str, object] = {"voter_id": reader.number(4)}
            if version >= 1:
                voter["directory_id"] = reader.uuid()
            reader.tags()
            voters.append(voter)
        lists.append(voters)
    return {
        "value_version": version,
        "leader_id": leader,
        "voters": lists[0],
        "granting_voters": lists[1],
    }


def _snapshot_header(value: bytes) -> dict[str, object]:
    reader = _Reader(value)
    return {"value_version": reader.number(2), "last_contained_log_timestamp": reader.number(8)}


def _snapshot_footer(value: bytes) -> dict[str, object]:
    return {"value_version": _Reader(value).number(2)}


def _kraft_version(value: bytes) -> dict[str, object]:
    reader = _Reader(value)
    return {"value_version": reader.number(2), "kraft_version": reader.number(2)}


def _kraft_voters(value: bytes) -> dict[str, object]:
    reader = _Reader(value)
    version = reader.number(2)
    voters: list[dict[str, object]] = []
    for _ in range(reader.count()):
        voter: dict[str, object] = {
            "voter_id": reader.number(4),
            "voter_directory_id": reader.uuid(),
        }
        endpoints = []
        for _ in range(reader.count()):
            endpoints.append(
                {
                    "name": reader.string(),
                    "host": reader.string(),
                    "port": reader.number(2) & 0xFFFF,
                }
            )
            reader.tags()
        voter["endpoints"] = endpoints
        voter["kraft_version_feature"] = {
            "min_supported_version": reader.number(2),
            "max_supported_version": reader.number(2),
        }
        reader.tags()
        reader.tags()
        voters.append(voter)
    return {"value_version": version, "voters": voters}


_PARSERS = {
    0: _marker,
    1: _marker,
    2: _leader_change,
    3: _snapshot_header,
    4: _snapshot_footer,
    5: _kraft_version,
    6: _kraft_voters,
}
