"""Requests and responses: their headers, and the fields of those that carry records or offsets.

`protocol.json` names every api with its versions; produce, fetch and list-offsets are read field by
field by the tables in it. Of others only the header is read: they may hold credentials.

    request_header(data)                               Header(1, 12, 7, "consumer-1", 22)
    read_body("FetchRequest", 12, data, 22)            {"replicaId": -1, ...}

Where records are, a field has the slice of the data.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kdump.messages.table import Fields, Message, UnknownVersion, Versions
from kdump.messages.wire import MalformedError, Reader, number_reader, sized_reader
from kdump.tuples import NamedTuple

PRODUCE, FETCH, LIST_OFFSETS, METADATA = range(4)
_CONTROLLED_SHUTDOWN, SASL_HANDSHAKE, _API_VERSIONS = 7, 17, 18
#: The smallest request: two numbers of two bytes, one of four.
LEAST_REQUEST = 8
LEAST_RESPONSE = 4

_INT16, _INT32 = number_reader("int16"), number_reader("int32")
_CLIENT_ID = sized_reader("string", flexible=False, nullable=True)


class Api(NamedTuple):
    """An api: its name, the versions that any release has, and those with tagged fields."""

    name: str
    versions: Versions
    flexible: Versions


class Header(NamedTuple):
    """The header of a request, and where its fields begin."""

    api: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int


@cache
def _tables() -> dict[str, Any]:
    from json import loads
    from pkgutil import get_data

    found: dict[str, Any] = loads(get_data(__package__, "protocol.json") or b"{}")
    return found


@cache
def apis() -> dict[int, Api]:
    """Return every api by its number."""
    return {
        int(number): Api(
            name,
            Versions.parse(versions),
            Versions.parse(None if flexible == "none" else flexible),
        )
        for number, (name, versions, flexible) in _tables()["apis"].items()
    }


@cache
def _messages(name: str) -> tuple[Message, ...]:
    """Return what reads the versions of a message: those of the newest release, and older ones."""
    return tuple(
        Message(key, table)
        for key, table in _tables().items()
        if key.partition(" ")[0] == name and key != "apis"
    )


def message_of(name: str, version: int) -> Message:
    """Return what reads a version of a message; raise `UnknownVersion` where none does."""
    for one in _messages(name):
        if version in one.versions:
            return one
    raise UnknownVersion


def begins_request(head: bytes, size: int) -> bool:
    """Whether a frame of a size that begins so may be a request of a known api and version."""
    if size < LEAST_REQUEST or len(head) < LEAST_REQUEST:
        return False
    api, version = int.from_bytes(head[:2], "big"), int.from_bytes(head[2:4], "big")
    known = apis().get(api)
    if known is None or version not in known.versions:
        return False
    length = int.from_bytes(head[8:10], "big", signed=True)
    if length < 0 or size == LEAST_REQUEST:
        return length == -1 or size == LEAST_REQUEST
    if 10 + length > size:
        return False
    try:
        head[10 : 10 + length].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and len(head) < 10 + length
    return True


def is_request(head: bytes, size: int) -> bool:
    """Whether it is one beyond doubt: its fields are read, or it names its client."""
    if not begins_request(head, size):
        return False
    if size > len(head):
        length = int.from_bytes(head[8:10], "big", signed=True)
        return length > 0 and head[10 : 10 + length].decode("utf-8", "replace").isprintable()
    try:
        header = request_header(head[:size])
        if is_read(header.api):
            name = f"{apis()[header.api].name}Request"
            read_body(name, header.version, head[:size], header.end)
            return True
    except MalformedError:
        return False
    return bool(header.client_id)


def is_read(api: int) -> bool:
    """Whether the fields of an api are read."""
    return PRODUCE <= api <= METADATA


def request_header(data: bytes, at: int = 0) -> Header:
    """Read the header of a request of any api; raise `MalformedError` where it ends early."""
    reader = Reader(data, at)
    api, version, correlation_id = _INT16(reader), _INT16(reader), _INT32(reader)
    if (api, version) == (_CONTROLLED_SHUTDOWN, 0):
        return Header(api, version, correlation_id, None, reader.at)
    client_id = _CLIENT_ID(reader)
    known = apis().get(api)
    if known is not None and version in known.flexible and version in known.versions:
        _skip_tags(reader)
    return Header(api, version, correlation_id, client_id, reader.at)


def response_fields_at(api: int, version: int, data: bytes) -> int:
    """Return where the fields of a response begin, behind its header."""
    reader = Reader(data, LEAST_RESPONSE)
    if api != _API_VERSIONS and version in apis()[api].flexible:
        _skip_tags(reader)
    return reader.at


def _skip_tags(reader: Reader) -> None:
    for _ in range(reader.count(reader.varint(), 2)):
        reader.varint()
        reader.take(reader.varint())


def read_body(name: str, version: int, data: bytes, at: int) -> Fields:
    """Read the fields of a request or a response, which end where the data does."""
    reader = Reader(data, at)
    fields = message_of(name, version).read_from(reader, version)
    if reader.at != reader.end:
        raise MalformedError
    return fields
