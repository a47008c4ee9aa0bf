"""Write messages as Kafka does, by the table that kdump reads them by; kdump itself writes none."""

import struct
from binascii import a2b_base64
from collections.abc import Callable
from functools import cache
from typing import Any

from kdump.messages.table import UNKNOWN_TAGS, Field, Fields, Message
from kdump.messages.wire import NUMBERS

Write = Callable[[bytearray, Any], None]

_UUID_MAP = str.maketrans("-_", "+/")


def message_bytes(known: Message, version: int, fields: Fields) -> bytes:
    """Write a message; what `fields` leaves out has its default."""
    out = bytearray()
    _writer(known, version)(out, fields)
    return bytes(out)


@cache
def _writer(known: Message, version: int) -> Write:
    return _struct_writer(known.fields, version, known.is_flexible(version))


def put_varint(out: bytearray, value: int) -> None:
    """Write an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def number_writer(kind: str) -> Write:
    """Return what writes a number."""
    pack = struct.Struct(">" + NUMBERS[kind]).pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def put_bool(out: bytearray, value: bool) -> None:
    """Write a bool."""
    out.append(bool(value))


def put_uuid(out: bytearray, value: str) -> None:
    """Write a UUID."""
    out += a2b_base64(value.translate(_UUID_MAP) + "==")


def _put_length(out: bytearray, length: int, width: str, *, flexible: bool) -> None:
    if flexible:
        put_varint(out, length + 1)
    else:
        out += struct.pack(">" + NUMBERS[width], length)


def make_sized_writer(kind: str, *, flexible: bool) -> Write:
    """Return what writes a string or bytes."""
    is_text = kind == "string"
    width = "int16" if is_text else "int32"

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            _put_length(out, -1, width, flexible=flexible)
            return
        data = value.encode("utf-8", "surrogateescape") if is_text else value
        _put_length(out, len(data), width, flexible=flexible)
        out += data

    return write


def array_writer(element: Write, *, flexible: bool) -> Write:
    """Return what writes an array."""

    def write(out: bytearray, value: Any) -> None:
        _put_length(out, -1 if value is None else len(value), "int32", flexible=flexible)
        for one in value or ():
            element(out, one)

    return write


def nullable_writer(write: Write, *, tagged: bool) -> Write:
    """Return what writes a structure that may be null."""

    def write_or_null(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0 if tagged else 0xFF)
        else:
            out.append(1)
            write(out, value)

    return write_or_null


def is_default(field: Field, version: int, value: Any) -> bool:
    """Whether a value is what an absent field means; Kafka leaves tagged ones out then."""
    if field.default != {} or not isinstance(value, dict):
        return bool(value == field.default)
    return all(
        is_default(one, version, value.get(one.name, one.default))
        for one in field.fields
        if version in one.versions
    )


def _struct_writer(fields: tuple[Field, ...], version: int, flexible: bool) -> Write:
    """Return what writes a structure in a version."""
    present = [field for field in fields if version in field.versions]
    plain, tagged = (
        [
            (field, _field_writer(field, version, flexible, tagged=is_tagged))
            for field in present
            if (version in field.tagged) is is_tagged
        ]
        for is_tagged in (False, True)
    )

    def write(out: bytearray, value: Fields) -> None:
        for field, write_field in plain:
            write_field(out, value.get(field.name, field.default))
        if not flexible:
            return
        section = {one["tag"]: one["bytes"] for one in value.get(UNKNOWN_TAGS, ())}
        for field, write_field in tagged:
            said = value.get(field.name, field.default)
            if not is_default(field, version, said):
                data = bytearray()
                write_field(data, said)
                section[field.tag] = bytes(data)
        put_varint(out, len(section))
        for tag in sorted(section):
            put_varint(out, tag)
            put_varint(out, len(section[tag]))
            out += section[tag]

    return write


def _field_writer(field: Field, version: int, flexible: bool, *, tagged: bool) -> Write:
    element = field.element
    if element is not None:
        one = _value_writer(element, field.fields, version, flexible)
        return array_writer(one, flexible=flexible)
    write = _value_writer(field.type, field.fields, version, flexible)
    if field.fields and version in field.nullable:
        return nullable_writer(write, tagged=tagged)
    return write


def _value_writer(kind: str, fields: tuple[Field, ...], version: int, flexible: bool) -> Write:
    if kind in NUMBERS:
        return number_writer(kind)
    if kind == "bool":
        return put_bool
    if kind == "uuid":
        return put_uuid
    if kind in ("string", "bytes", "records"):
        return make_sized_writer(kind, flexible=flexible)
    return _struct_writer(fields, version, flexible)
