"""Decode transaction markers and other control records (F29) to dictionaries.

The first two members are always `type` and `version`; the others are the value's own fields. A
record whose bytes are not what its type asks for has a member `malformed` and no value fields.
"""

from __future__ import annotations

import struct

from kdump.record.flexible import FlexibleReader, Malformed

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
    except Malformed:
        control["malformed"] = "value"
    return control


def _marker(value: bytes) -> dict[str, object]:
    if len(value) < _MARKER.size:
        raise Malformed
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise Malformed
    return {"coordinator_epoch": coordinator_epoch}


def _leader_change(value: bytes) -> dict[str, object]:
    reader = FlexibleReader(value)
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
    reader = FlexibleReader(value)
    return {"value_version": reader.number(2), "last_contained_log_timestamp": reader.number(8)}


def _snapshot_footer(value: bytes) -> dict[str, object]:
    return {"value_version": FlexibleReader(value).number(2)}


def _kraft_version(value: bytes) -> dict[str, object]:
    reader = FlexibleReader(value)
    return {"value_version": reader.number(2), "kraft_version": reader.number(2)}


def _kraft_voters(value: bytes) -> dict[str, object]:
    reader = FlexibleReader(value)
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
