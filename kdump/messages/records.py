"""Say which message the key and the value of a record of an internal topic hold, and read it.

Records of coordinators have a key: an int16, the record type, and a structure; their value is an
int16, its version, and a structure. Those of the metadata log and of remote storage have a value
alone: three unsigned varints (frame version 1, record type, record version) and a structure.
Control records have an int16 each as well: the version. Type names are those of Kafka's
enumerations (M1, M4).

Nothing here raises on data: what is not known, or not what it says it is, keeps its bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING

from kdump import kernels
from kdump.messages.table import Fields, Message, UnknownVersion, message, tables
from kdump.messages.wire import MalformedError, Reader
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.kernels._pure.messages import Known, Write

FRAME_VERSION = 1
CLUSTER_METADATA = "__cluster_metadata"
#: What the records of internal topics are about. These names are Kafka's own and cannot be changed.
TOPICS = {
    "__consumer_offsets": "group",
    "__transaction_state": "transaction",
    "__share_group_state": "share",
    CLUSTER_METADATA: "metadata",
    "__remote_log_metadata": "storage",
}
#: Areas whose records have no key, and begin with a frame.
_FRAMED = ("metadata", "storage")
#: Names and messages of control records by their type, which is in the key (F29).
CONTROL = {
    0: ("abort", "EndTxnMarker"),
    1: ("commit", "EndTxnMarker"),
    2: ("leader_change", "LeaderChangeMessage"),
    3: ("snapshot_header", "SnapshotHeaderRecord"),
    4: ("snapshot_footer", "SnapshotFooterRecord"),
    5: ("kraft_version", "KRaftVersionRecord"),
    6: ("kraft_voters", "VotersRecord"),
}

UNKNOWN_FRAME, UNKNOWN_TYPE, UNKNOWN_VERSION = "unknown-frame", "unknown-type", "unknown-version"
MALFORMED = "malformed"

_INT16 = struct.Struct(">h")
_CONTROL_KEY = struct.Struct(">hh")  # version, type


class DecodedValue(NamedTuple):
    """What a key or a value says. `type` is None where nobody knows the number, `type_id`.

    `data` is None where it cannot be read, and `problem` says why; `rest` are the bytes that were
    not read then, or those behind a message that is whole; where they are masked, the word for it.
    """

    area: str
    type: str | None
    type_id: int | None
    version: int | None
    data: Fields | None
    rest: bytes | str = b""
    problem: str | None = None


Pair = tuple[DecodedValue | None, DecodedValue | None]


def decode(topic: str, key: bytes | None, value: bytes | None) -> Pair:
    """Read key and value of a record of an internal topic; None for null, as in tombstones."""
    return decoder(topic)(key, value)


@cache
def decoder(topic: str) -> Callable[[bytes | None, bytes | None], Pair]:
    """Return what reads the records of an internal topic, one of TOPICS."""
    read_key, read_value = decoders(topic)

    def read(key: bytes | None, value: bytes | None) -> Pair:
        of_key = None if key is None else read_key(key)
        return of_key, None if value is None else read_value(of_key, value)

    return read


ReadKey = Callable[[bytes], DecodedValue]
ReadValue = Callable[[DecodedValue | None, bytes], DecodedValue]


@cache
def decoders(topic: str) -> tuple[ReadKey, ReadValue]:
    """Return what reads the keys of an internal topic, and what reads the values by their keys."""
    area = TOPICS[topic]
    return _make_framed_readers(area) if area in _FRAMED else _coordinator(area)


def writer(topic: str, left: Collection[int]) -> Write | None:
    """Return what writes records of an internal topic as JSON text, but for values of some types.

    Its text is that of `{"type": ..., "version": ..., "data": ...}`.
    """
    area = TOPICS[topic]
    framed = area in _FRAMED
    keys: dict[int, Known] = {}
    values: dict[tuple[int, int], Known] = {}
    for type_id, kind in ({} if framed else _number_kinds(area, "key")).items():
        keys[type_id] = kind.describe(0, type_id)
    for type_id, kind in _number_kinds(area, "record" if framed else "value").items():
        first, last = kind.message.versions
        for version in range(first, last + 1) if type_id not in left else ():
            values[type_id, version] = kind.describe(version, version)
    return kernels.message_writer(framed, keys, values)


class _Kind(NamedTuple):
    """A message that a number in records stands for."""

    area: str
    type: str
    type_id: int
    message: Message

    def describe(self, version: int, shown: int) -> Known:
        """Describe a version to the kernel, and what stands before the fields in JSON."""
        before = f'{{"type":"{self.type}","version":{shown},"data":'
        return before.encode(), self.message.layout(version)

    def read(self, shown: int, version: int, data: bytes, start: int) -> DecodedValue:
        """Read a structure behind what tells its type and version, of which `shown` is shown."""
        area, name, type_id, known = self
        read = known.sound_reader(version)
        if read is not None and (found := read(data, start)) is not None:
            return DecodedValue(area, name, type_id, shown, found[0], data[found[1] :])
        reader = Reader(data, start)
        try:
            fields = known.read_from(reader, version)
        except UnknownVersion:
            return DecodedValue(area, name, type_id, shown, None, data[start:], UNKNOWN_VERSION)
        except MalformedError:
            return DecodedValue(area, name, type_id, shown, None, data[start:], MALFORMED)
        return DecodedValue(area, name, type_id, shown, fields, data[reader.at :])


@cache
def _number_kinds(area: str, kind: str) -> dict[int, _Kind]:
    """Return the messages of an area by the number that records have."""
    return {
        table["id"]: _Kind(area, type_name(name), table["id"], message(name))
        for name, table in tables().items()
        if table["area"] == area and table.get("kind") == kind
    }


def type_name(name: str) -> str:
    """Return the name that Kafka's enumeration has for a message, in lower case."""
    stem = name.removesuffix("Key").removesuffix("Value")
    return re.sub("(?<!^)([A-Z])", r"_\1", stem).lower()


def _coordinator(area: str) -> tuple[ReadKey, ReadValue]:
    keys, values = _number_kinds(area, "key"), _number_kinds(area, "value")

    def read_value(key: DecodedValue | None, value: bytes) -> DecodedValue:
        type_id = None if key is None else key.type_id
        known = None if type_id is None else values.get(type_id)
        return _read_value(area, known, type_id, value)

    return lambda key: _read_key(area, keys, key), read_value


def _read_key(area: str, keys: dict[int, _Kind], data: bytes) -> DecodedValue:
    """Read a key, whose version is the record type: the structures of keys never change."""
    if len(data) < _INT16.size:
        return DecodedValue(area, None, None, None, None, data, MALFORMED)
    type_id = _INT16.unpack_from(data)[0]
    known = keys.get(type_id)
    if known is None:
        return DecodedValue(area, None, type_id, type_id, None, data[_INT16.size :], UNKNOWN_TYPE)
    return known.read(type_id, 0, data, _INT16.size)


def _read_value(area: str, known: _Kind | None, type_id: int | None, data: bytes) -> DecodedValue:
    if len(data) < _INT16.size:
        name = None if known is None else known.type
        return DecodedValue(area, name, type_id, None, None, data, MALFORMED)
    version = _INT16.unpack_from(data)[0]
    if known is None:
        return DecodedValue(area, None, type_id, version, None, data[_INT16.size :], UNKNOWN_TYPE)
    return known.read(version, version, data, _INT16.size)


def _make_framed_readers(area: str) -> tuple[ReadKey, ReadValue]:
    """Keys of these are null; one that is not is nothing that a broker wrote."""
    known = _number_kinds(area, "record")
    return (
        lambda key: DecodedValue(area, None, None, None, None, key, UNKNOWN_TYPE),
        lambda _, value: _read_framed(area, known, value),
    )


def _read_framed(area: str, known: dict[int, _Kind], data: bytes) -> DecodedValue:
    reader = Reader(data)
    if len(data) >= 3 and data[0] | data[1] | data[2] < 0x80:  # as in all but the oddest
        frame, type_id, version = data[0], data[1], data[2]
        reader.at = 3
    else:
        try:
            frame, type_id, version = reader.varint(), reader.varint(), reader.varint()
        except MalformedError:
            return DecodedValue(area, None, None, None, None, data, MALFORMED)
    if frame != FRAME_VERSION:  # 0 was a preview, with structures of its own (M1)
        return DecodedValue(area, None, type_id, version, None, data, UNKNOWN_FRAME)
    found = known.get(type_id)
    if found is None:
        return DecodedValue(area, None, type_id, version, None, data[reader.at :], UNKNOWN_TYPE)
    return found.read(version, version, data, reader.at)


def decode_control(key: bytes | None, value: bytes | None) -> Pair:
    """Read key and value of a control record, of any topic (F29).

    A version above those known is read as the newest of them, as brokers read markers.
    """
    if key is None or len(key) < _CONTROL_KEY.size:
        known_not = DecodedValue("control", None, None, None, None, problem=MALFORMED)
        return (
            None if key is None else known_not._replace(rest=key),
            None if value is None else known_not._replace(rest=value),
        )
    version, type_id = _CONTROL_KEY.unpack_from(key)
    name = CONTROL.get(type_id, (None, ""))[0]
    rest = key[_CONTROL_KEY.size :]
    read_key = DecodedValue("control", name, type_id, version, {"type": type_id}, rest)
    return read_key, None if value is None else _read_control(type_id, value)


def _read_control(type_id: int, data: bytes) -> DecodedValue:
    if type_id not in CONTROL:
        return DecodedValue("control", None, type_id, None, None, data, UNKNOWN_TYPE)
    name, of = CONTROL[type_id]
    if len(data) < _INT16.size:
        return DecodedValue("control", name, type_id, None, None, data, MALFORMED)
    known = _Kind("control", name, type_id, message(of))
    version = _INT16.unpack_from(data)[0]
    # All but the markers have the version among their fields.
    start = 0 if known.message.fields[0].name == "version" else _INT16.size
    return known.read(version, min(version, known.message.versions.last), data, start)
