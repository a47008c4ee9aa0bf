"""Decode transaction markers and other control records (F29) to dictionaries.

The first two members are always `type` and `version`; the others are the value's own fields. A
record whose bytes are not what its type asks for has a member `malformed` and no value fields.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.messages.table import Fields

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
SNAPSHOT_HEADER = 3
_MALFORMED: dict[str, object] = {"malformed": "value"}


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
    elif number in (ABORT, COMMIT):
        control |= _marker(value or b"")
    else:
        control |= _of_quorum(key, value or b"")
    return control


def _marker(value: bytes) -> dict[str, object]:
    """Read a transaction marker, of which there may be one for every few records."""
    if len(value) < _MARKER.size:
        return _MALFORMED
    version, coordinator_epoch = _MARKER.unpack_from(value)
    return _MALFORMED if version < 0 else {"coordinator_epoch": coordinator_epoch}


def _of_quorum(key: bytes, value: bytes) -> dict[str, object]:
    """Read what a metadata quorum says of itself, by Kafka's specifications."""
    from kdump.messages.records import decode_control  # markers need no table of messages

    said = decode_control(key, value)[1]
    if said is None or said.data is None:
        return _MALFORMED
    fields = _name_members(said.data)
    if said.type == "leader_change":  # these were called so before there were specifications here
        for list_name in ("voters", "grantingVoters"):
            fields[_snake(list_name)] = [_voter(one) for one in said.data[list_name]]
    return {"value_version": fields.pop("version")} | fields


def _voter(fields: Fields) -> dict[str, object]:
    named = _name_members(fields)
    if "voter_directory_id" in named:
        named["directory_id"] = named.pop("voter_directory_id")
    return named


def _name_members(fields: Fields) -> dict[str, object]:
    """Name the members of structures as rows do, and leave out tags that nobody knows."""
    from kdump.messages.table import UNKNOWN_TAGS

    return {
        _snake(name): [_name_members(one) for one in held]
        if isinstance(held, list)
        else _name_members(held)
        if isinstance(held, dict)
        else held
        for name, held in fields.items()
        if name != UNKNOWN_TAGS
    }


def _snake(name: str) -> str:
    """Return `voter_id` for `voterId`."""
    return re.sub("(?<=[a-z])([A-Z])", r"_\1", name.replace("kRaft", "kraft")).lower()
