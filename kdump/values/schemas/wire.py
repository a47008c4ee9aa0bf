"""Read Protobuf's wire format by a message, as values that JSON can hold, unknown fields too."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from struct import Struct
from typing import Any

from kdump.values.schemas.avro import not_finite, varint
from kdump.values.schemas.avro_logical import timestamp
from kdump.values.schemas.errors import (
    MALFORMED,
    MOST_ITEMS,
    TOO_DEEP,
    TOO_MANY,
    TRUNCATED,
    UndecodedError,
)
from kdump.values.schemas.protobuf import Enum, Field, Message

_MOST_DEPTH = 100
_VARINT, _FIXED64, _BYTES, _GROUP, _END, _FIXED32 = range(6)
_U32, _U64 = Struct("<I"), Struct("<Q")
_I32, _I64, _F32, _F64 = Struct("<i"), Struct("<q"), Struct("<f"), Struct("<d")
_MASK = (1 << 64) - 1
_SECONDS = range(-62135596800, 253402300800)  # the years 1 to 9999
_LONGEST = 315_576_000_000  # seconds of a Duration


def decode(message: Message, data: bytes, at: int) -> Any:
    """Return a message that lies in bytes from a position to their end."""
    try:
        return _ValueReader(data).message(message, [(at, len(data))], 0)
    except IndexError:
        raise UndecodedError(TRUNCATED) from None
    except UnicodeDecodeError:
        raise UndecodedError(MALFORMED, "text is not UTF-8") from None
    except RecursionError:
        raise UndecodedError(TOO_DEEP) from None


def indexes(data: bytes, at: int) -> tuple[list[int], int]:
    """Read the path to a message in its file; none of them is the first message."""
    try:
        count, at = _varint(data, at)
        count = count >> 1 ^ -(count & 1)
        if not 0 <= count <= _MOST_DEPTH:
            raise UndecodedError("no such message", f"a path of {count}")
        path = []
        for _ in range(count):
            index, at = _varint(data, at)
            path.append(index >> 1 ^ -(index & 1))
    except IndexError:
        raise UndecodedError(TRUNCATED) from None
    return path or [0], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return value & _MASK, at


def _to_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _float(raw: bytes, of: Struct) -> Any:
    value = of.unpack(raw)[0]
    return value if value - value == 0 else not_finite(value)


#: Of each scalar: its wire type, and what makes a value of a varint, or of its bytes.
_SCALARS: dict[str, tuple[int, Callable[[Any], Any], Any]] = {
    "int32": (_VARINT, lambda value: _to_signed(value, 32), 0),
    "int64": (_VARINT, lambda value: _to_signed(value, 64), 0),
    "uint32": (_VARINT, lambda value: value & 0xFFFFFFFF, 0),
    "uint64": (_VARINT, lambda value: value, 0),
    "sint32": (_VARINT, lambda value: _unzigzag(value & 0xFFFFFFFF), 0),
    "sint64": (_VARINT, _unzigzag, 0),
    "bool": (_VARINT, lambda value: value != 0, False),
    "fixed32": (_FIXED32, lambda raw: _U32.unpack(raw)[0], 0),
    "fixed64": (_FIXED64, lambda raw: _U64.unpack(raw)[0], 0),
    "sfixed32": (_FIXED32, lambda raw: _I32.unpack(raw)[0], 0),
    "sfixed64": (_FIXED64, lambda raw: _I64.unpack(raw)[0], 0),
    "float": (_FIXED32, lambda raw: _float(raw, _F32), 0.0),
    "double": (_FIXED64, lambda raw: _float(raw, _F64), 0.0),
    "string": (_BYTES, lambda raw: raw.decode(), ""),
    "bytes": (_BYTES, lambda raw: _base64(raw), ""),
}


class _ValueReader:
    """Reads one value."""

    def __init__(self, data: bytes) -> None:
        self._data, self._left = data, MOST_ITEMS

    def message(self, message: Message, spans: list[tuple[int, int]], depth: int) -> Any:
        """Read a message whose bytes lie in some spans: one that comes twice is joined."""
        if depth > _MOST_DEPTH:
            raise UndecodedError(TOO_DEEP)
        found: dict[int, Any] = {}
        unknown: dict[str, list[Any]] = {}
        for at, end in spans:
            self._fields(message, at, end, found, unknown, depth)
        shown: dict[str, Any] = {}
        for number in sorted(found):
            field, value = message.fields[number], found[number]
            if isinstance(field.type, Message) and field.entry is None:
                if field.repeated:
                    value = [self.message(field.type, one, depth + 1) for one in value]
                else:
                    value = self.message(field.type, value, depth + 1)
            shown[field.name] = value
        if unknown:
            return shown | unknown
        known = _KNOWN.get(message.full)
        return shown if known is None else known(shown)

    def _fields(
        self,
        message: Message,
        at: int,
        end: int,
        found: dict[int, Any],
        unknown: dict[str, list[Any]],
        depth: int,
    ) -> None:
        data, fields = self._data, message.fields
        while at < end:
            self._take(1)
            tag, at = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise UndecodedError(MALFORMED, f"field number {number}")
            start, stop, at = self._span(wire, number, at, end, depth)
            field = fields.get(number)
            if field is None or not self._read_known(
                message, field, wire, start, stop, found, unknown
            ):
                shown = self._read_unknown(wire, start, stop, depth)
                unknown.setdefault(str(number), []).append(shown)

    def _span(self, wire: int, number: int, at: int, end: int, depth: int) -> tuple[int, int, int]:
        """Return where a field's bytes start and stop, and where the next field starts."""
        data = self._data
        if wire == _VARINT:
            stop = _varint(data, at)[1]
            start, after = at, stop
        elif wire == _BYTES:
            size, start = _varint(data, at)
            stop = after = start + size
        elif wire in (_FIXED64, _FIXED32):
            start, stop = at, at + (8 if wire == _FIXED64 else 4)
            after = stop
        elif wire == _GROUP:
            start = at
            stop, after = self._group_end(number, at, end, depth)
        else:
            raise UndecodedError(MALFORMED, f"wire type {wire}")
        if after > end:
            raise UndecodedError(TRUNCATED)
        return start, stop, after

    def _group_end(self, number: int, at: int, end: int, depth: int) -> tuple[int, int]:
        """Return where the bytes of a group stop, and where its end does."""
        open_ = [number]
        while True:
            if at >= end:
                raise UndecodedError(TRUNCATED)
            before = at
            tag, at = _varint(self._data, at)
            inner, wire = tag >> 3, tag & 7
            if wire == _GROUP:
                open_.append(inner)
                if len(open_) + depth > _MOST_DEPTH:
                    raise UndecodedError(TOO_DEEP)
            elif wire == _END:
                if open_.pop() != inner:
                    raise UndecodedError(MALFORMED, "a group ends that did not start")
                if not open_:
                    return before, at
            else:
                at = self._span(wire, inner, at, end, depth)[2]

    def _read_known(
        self,
        message: Message,
        field: Field,
        wire: int,
        start: int,
        stop: int,
        found: dict[int, Any],
        unknown: dict[str, list[Any]],
    ) -> bool:
        """Take a field that the message has; False: not with this wire type, or number."""
        number, kind = field.number, field.type
        if field.entry is not None:
            if wire != _BYTES:
                return False
            key, value = self._entry(field.entry, start, stop)
            found.setdefault(number, {})[key] = value
            return True
        if isinstance(kind, Message):
            if wire != (_GROUP if field.is_group else _BYTES):
                return False
            self._clear(message, field, found)
            if field.repeated:
                found.setdefault(number, []).append([(start, stop)])
            else:
                found.setdefault(number, []).append((start, stop))
            return True
        expected = _VARINT if isinstance(kind, Enum) else _SCALARS[kind][0]
        if wire == expected:
            value = self._scalar(kind, start, stop)
            if isinstance(kind, Enum) and kind.closed and not isinstance(value, str):
                return False
            if field.repeated:
                found.setdefault(number, []).append(value)
                return True
            self._clear(message, field, found)
            if field.has_presence or not _is_default(kind, value):
                found[number] = value
            else:
                found.pop(number, None)
            return True
        if not field.repeated or wire != _BYTES or expected == _BYTES:
            return False
        values = found.get(number, [])
        at = start
        while at < stop:
            self._take(1)
            first = at
            _, at, _ = self._span(expected, number, at, stop, 0)
            value = self._scalar(kind, first, at)
            if isinstance(kind, Enum) and kind.closed and not isinstance(value, str):
                one = _varint(self._data, first)[0]
                unknown.setdefault(str(number), []).append(one)
            else:
                values.append(value)
        if values:
            found[number] = values
        return True

    @staticmethod
    def _clear(message: Message, field: Field, found: dict[int, Any]) -> None:
        """Forget the other fields of the same oneof."""
        if field.oneof is not None:
            for other in message.oneofs[field.oneof]:
                if other != field.number:
                    found.pop(other, None)

    def _entry(self, entry: tuple[Field, Field], at: int, end: int) -> tuple[str, Any]:
        """Read an entry of a map; what is missing in it is the default."""
        key_of, value_of = entry
        made = Message("")
        made.fields = {1: key_of, 2: value_of}
        shown = self.message(made, [(at, end)], 0)
        key = shown.get("key", _default(key_of))
        if isinstance(key, bool):
            key = "true" if key else "false"
        if "value" in shown:
            value = shown["value"]
        elif isinstance(value_of.type, Message):
            value = self.message(value_of.type, [], 0)
        else:
            value = _default(value_of)
        return str(key), value

    def _scalar(self, kind: Any, start: int, stop: int) -> Any:
        if isinstance(kind, Enum):
            number = _to_signed(_varint(self._data, start)[0], 32)
            return kind.names.get(number, number)
        wire, made, _ = _SCALARS[kind]
        if wire == _VARINT:
            return made(_varint(self._data, start)[0])
        return made(self._data[start:stop])

    def _read_unknown(self, wire: int, start: int, stop: int, depth: int) -> Any:
        data = self._data
        if wire == _VARINT:
            return _varint(data, start)[0]
        if wire == _BYTES:
            return _base64(data[start:stop])
        if wire == _GROUP:
            return self.message(_NOTHING, [(start, stop)], depth + 1)
        return int.from_bytes(data[start:stop], "little")

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise UndecodedError(TOO_MANY)


_NOTHING = Message("")


def _default(field: Field) -> Any:
    kind = field.type
    if isinstance(kind, Enum):
        first = 0 if 0 in kind.names or not kind.names else next(iter(kind.names))
        return kind.names.get(first, first)
    return _SCALARS[str(kind)][2]


def _is_default(kind: Any, value: Any) -> bool:
    if isinstance(kind, Enum):
        return bool(value == kind.names.get(0, 0))
    if isinstance(value, float):
        return value == 0 and str(value) == "0.0"
    return bool(value == _SCALARS[kind][2])


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _fraction(nanos: int) -> str:
    digits = 0 if nanos == 0 else 3 if nanos % 1_000_000 == 0 else 6 if nanos % 1000 == 0 else 9
    return f".{nanos:09d}"[: digits + 1] if digits else ""


def _timestamp(shown: dict[str, Any]) -> Any:
    seconds, nanos = shown.get("seconds", 0), shown.get("nanos", 0)
    if seconds not in _SECONDS or not 0 <= nanos < 1_000_000_000:
        return shown
    return str(_SECOND(seconds))[:19] + _fraction(nanos) + "Z"


def _duration(shown: dict[str, Any]) -> Any:
    seconds, nanos = shown.get("seconds", 0), shown.get("nanos", 0)
    in_range = abs(seconds) <= _LONGEST and abs(nanos) < 1_000_000_000
    if not in_range or (seconds < 0 < nanos) or (nanos < 0 < seconds):
        return shown
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{abs(seconds)}{_fraction(abs(nanos))}s"


def _value(shown: dict[str, Any]) -> Any:
    return None if "null_value" in shown else next(iter(shown.values()), None)


_SECOND = timestamp(1, 1, "")
_KNOWN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": lambda shown: shown.get("fields", {}),
    "google.protobuf.ListValue": lambda shown: shown.get("values", []),
    "google.protobuf.Value": _value,
}


def _wrapper(default: object) -> Callable[[dict[str, Any]], Any]:
    return lambda shown: shown.get("value", default)


for _names, _empty in (("Int64 UInt64 Int32 UInt32", 0), ("Double Float", 0.0), ("Bool", False),
                       ("String Bytes", "")):  # fmt: skip
    for _name in _names.split():
        _KNOWN[f"google.protobuf.{_name}Value"] = _wrapper(_empty)
