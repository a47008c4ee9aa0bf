"""Open what members of classic groups say to each other: what they subscribe to and were assigned.

The bytes stand in the metadata of a group whose protocol type is `consumer`, and in the member of a
consumer group that came from one. A version above those known is read as the newest of them and
what is behind it passed over, as clients do (M5).
"""

from __future__ import annotations

import struct

from kdump.messages.records import DecodedValue
from kdump.messages.table import Fields, message
from kdump.messages.wire import MalformedError, Reader

PROTOCOL_TYPE = "consumer"
#: Types of records whose values may hold such bytes.
OPENED_TYPES = frozenset((2, 5))
_VERSION = struct.Struct(">h")
_SUBSCRIPTION, _ASSIGNMENT = "ConsumerProtocolSubscription", "ConsumerProtocolAssignment"


def subscription(data: bytes) -> Fields | None:
    """Read a subscription: `{"version": …, "data": …}`; None where the bytes hold none."""
    return _read(_SUBSCRIPTION, data)


def assignment(data: bytes) -> Fields | None:
    """Read an assignment: `{"version": …, "data": …}`; None where the bytes hold none."""
    return _read(_ASSIGNMENT, data)


def _read(name: str, data: bytes, before: Reader | None = None) -> Fields | None:
    """Read a message; `before` has read others of the same record, which is bounded as a whole."""
    known = message(name)
    if len(data) < _VERSION.size:
        return None
    version = _VERSION.unpack_from(data)[0]
    if version < 0:
        return None
    try:
        reader = Reader(data, _VERSION.size)
        if before is not None:
            reader.elements_left = before.elements_left
        fields = known.read_from(reader, min(version, known.versions.last))
    except MalformedError:
        return None
    if before is not None:
        before.elements_left = reader.elements_left
    opened: Fields = {"version": version, "data": fields}
    return opened | ({"rest": data[reader.at :]} if reader.at < reader.end else {})


def open_value(value: DecodedValue) -> DecodedValue:
    """Put what bytes in a value of `__consumer_offsets` say in their place, where it is known."""
    data = value.data
    if data is None:
        return value
    before = Reader(b"")
    # The key of a group has the same type, and no such fields.
    if value.type == "group_metadata" and data.get("protocolType") == PROTOCOL_TYPE:
        members = [
            _open_fields(member, before, subscription=_SUBSCRIPTION, assignment=_ASSIGNMENT)
            for member in data["members"]
        ]
        return value._replace(data=data | {"members": members})
    classic = data.get("classicMemberMetadata")
    if value.type == "consumer_group_member_metadata" and classic:
        protocols = [
            _open_fields(one, before, metadata=_SUBSCRIPTION)
            for one in classic["supportedProtocols"]
        ]
        classic = classic | {"supportedProtocols": protocols}
        return value._replace(data=data | {"classicMemberMetadata": classic})
    return value


def _open_fields(fields: Fields, before: Reader, **held: str) -> Fields:
    """Open the fields named, each of which holds a message of some name."""
    found = {field: _read(name, fields[field], before) for field, name in held.items()}
    return fields | {field: said for field, said in found.items() if said is not None}
