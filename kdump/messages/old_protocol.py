"""Requests and responses of 0.7, which have neither versions nor correlation ids.

A request is a number of two bytes and what it asks for; a connection answers in order, and does
not answer what was produced. Every partition that is asked for is one `Part`.
"""

from __future__ import annotations

from kdump.messages.wire import MalformedError, Reader, number_reader, sized_reader
from kdump.tuples import NamedTuple

PRODUCE, FETCH, MULTI_FETCH, MULTI_PRODUCE, OFFSETS = range(5)
NAMES = ("Produce", "Fetch", "MultiFetch", "MultiProduce", "Offsets")

_INT16, _INT32, _INT64 = map(number_reader, ("int16", "int32", "int64"))
_TOPIC = sized_reader("string", flexible=False, nullable=False)
_LEAST_REQUEST = 12
_LEGAL = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LEAST_PART = 10  # an empty topic, a partition, and what follows
#: The errors of 0.7 by their codes.
_ERRORS = {
    -1: "UNKNOWN",
    1: "OFFSET_OUT_OF_RANGE",
    2: "INVALID_MESSAGE",
    3: "WRONG_PARTITION",
    4: "INVALID_FETCH_SIZE",
}


class Part(NamedTuple):
    """What a request says of a partition, or what is answered of it."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    time_ms: int | None = None
    max_bytes: int | None = None
    error: str | None = None
    offsets: tuple[int, ...] = ()
    records: slice | None = None


def begins_request(head: bytes, size: int) -> bool:
    """Whether a frame of a size that begins so may be a request: an api, the name of a topic."""
    api = int.from_bytes(head[:2], "big")
    if size < _LEAST_REQUEST or api >= len(NAMES):
        return False
    at = 4 if api in (MULTI_FETCH, MULTI_PRODUCE) else 2
    length = int.from_bytes(head[at : at + 2], "big")
    topic = head[at + 2 : at + 2 + length]
    return 0 < length <= min(249, size - at - 2) and _LEGAL.issuperset(topic)


def is_request(head: bytes, size: int) -> bool:
    """Whether it is one beyond doubt: all of it is read."""
    if size > len(head) or not begins_request(head, size):
        return False
    try:
        read_request(head[:size])
    except MalformedError:
        return False
    return True


def read_request(data: bytes) -> tuple[int, list[Part]]:
    """Read a request: which, and its parts; raise `MalformedError` where it is none of 0.7."""
    reader = Reader(data)
    api = _INT16(reader)
    if not 0 <= api < len(NAMES):
        raise MalformedError
    count = _INT16(reader) if api in (MULTI_FETCH, MULTI_PRODUCE) else 1
    if count < 0:
        raise MalformedError
    parts = [_part(reader, api) for _ in range(reader.count(count, _LEAST_PART))]
    if reader.at != reader.end:
        raise MalformedError
    return api, parts


def _part(reader: Reader, api: int) -> Part:
    topic, partition = _TOPIC(reader), _INT32(reader)
    if not topic or partition < -1:
        raise MalformedError
    if api in (PRODUCE, MULTI_PRODUCE):
        return Part(topic, partition, records=_take(reader, _INT32(reader)))
    if api == OFFSETS:
        part = Part(topic, partition, time_ms=_INT64(reader))
        _INT32(reader)  # how many offsets at the most
        return part
    return Part(topic, partition, offset=_INT64(reader), max_bytes=_INT32(reader))


def read_response(api: int, asked: list[Part], data: bytes) -> tuple[str | None, list[Part]]:
    """Read the answer to a request: its error, and a part for each that was asked for."""
    reader = Reader(data)
    error = _error(reader)
    if error is not None:
        return error, []
    if api == OFFSETS:
        count = _INT32(reader)
        if count < 0:
            raise MalformedError
        offsets = tuple(_INT64(reader) for _ in range(reader.count(count, 8)))
        parts = [Part(*asked[0][:2], offsets=offsets)]
    elif api == MULTI_FETCH:
        parts = [_read_fetched(one, reader) for one in asked]
    else:
        records = _take(reader, reader.end - reader.at)
        parts = [Part(*asked[0][:3], records=records)]
    if reader.at != reader.end:
        raise MalformedError
    return None, parts


def _read_fetched(one: Part, reader: Reader) -> Part:
    size = _INT32(reader)
    error = _error(reader)
    return Part(*one[:3], error=error, records=_take(reader, size - 2))


def _take(reader: Reader, size: int) -> slice:
    start = reader.at
    reader.take(size)
    return slice(start, reader.at)


def _error(reader: Reader) -> str | None:
    code = _INT16(reader)
    return None if code == 0 else _ERRORS.get(code, str(code))
