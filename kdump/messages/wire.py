"""Read the encodings of Kafka's messages, fields of every type, one after another.

Numbers are big-endian. Lengths of strings, bytes and arrays are int16 or int32, null being -1; in
the flexible versions of a message unsigned varints of the length plus one, null being 0. There each
structure ends with a section of tagged fields, which who does not know a tag passes over by its
size (M2).

What is read is bounded: no length goes beyond the bytes left, and a message has so many elements at
the most, so that a few bytes cannot ask for gigabytes.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

#: Of arrays and tagged fields, in a message; of numbers eight count as one. No broker writes as
#: many: a structure may take three bytes in a message, and two hundred in memory.
MOST_ELEMENTS = 1 << 18
_NUMBERS_AN_ELEMENT = 8
_MOST_TEXT = 0x7FFF  # of a string; brokers take no longer one in a varint either
_ZERO_UUID = "A" * 22

Read = Callable[["Reader"], Any]

#: Types of fixed width by the letters that `struct` has for them.
NUMBERS = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
#: The bytes that values of fixed width take.
WIDTHS = {kind: struct.calcsize(">" + letter) for kind, letter in NUMBERS.items()} | {
    "bool": 1,
    "uuid": 16,
}
_TEXT_MAP = bytes.maketrans(b"+/", b"-_")


class MalformedError(Exception):
    """The bytes end early, or a length or a null cannot be right."""


class Reader:
    """Bytes that are read from a position on, and what is left of what may be made of them."""

    __slots__ = ("at", "data", "elements_left", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.end = len(data)
        self.elements_left = MOST_ELEMENTS

    def take(self, size: int) -> bytes:
        """Take the next `size` bytes."""
        at = self.at
        following = at + size
        if size < 0 or following > self.end:
            raise MalformedError
        self.at = following
        return self.data[at:following]

    def varint(self) -> int:
        """Read an unsigned varint, of at most five bytes."""
        value = 0
        for shift in range(0, 35, 7):
            if self.at >= self.end:
                break
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedError

    def count(self, count: int, smallest: int, weight: int = 1) -> int:
        """Check the number of elements of an array, each of which has `smallest` bytes or more."""
        self.elements_left -= count // weight
        if count * smallest > self.end - self.at or self.elements_left < 0:
            raise MalformedError
        return count


def number_reader(kind: str) -> Read:
    """Return what reads a number."""
    one = struct.Struct(">" + NUMBERS[kind])
    unpack, size = one.unpack_from, one.size

    def read(reader: Reader) -> Any:
        at = reader.at
        if at + size > reader.end:
            raise MalformedError
        reader.at = at + size
        return unpack(reader.data, at)[0]

    return read


def read_bool(reader: Reader) -> bool:
    """Read a bool: any byte but 0 is true."""
    return reader.take(1) != b"\0"


def read_uuid(reader: Reader) -> str:
    """Read a UUID as Kafka writes it: 22 characters of URL-safe base64."""
    data = reader.take(16)
    return b2a_base64(data, newline=False)[:22].translate(_TEXT_MAP).decode("ascii")


def text_of(data: bytes) -> str:
    """Take bytes for a string; those that are no UTF-8 are kept, as halves of surrogate pairs."""
    return data.decode("utf-8", "surrogateescape")


def _length_reader(width: str, *, flexible: bool) -> Callable[[Reader], int]:
    """Return what reads a length; negative is null."""
    if flexible:
        return lambda reader: reader.varint() - 1
    return number_reader(width)


def sized_reader(kind: str, *, flexible: bool, nullable: bool) -> Read:
    """Return what reads a string or bytes; of records, where in the message they are."""
    is_text = kind == "string"
    length_of = _length_reader("int16" if is_text else "int32", flexible=flexible)
    most = _MOST_TEXT if is_text else 1 << 62

    def read(reader: Reader) -> Any:
        length = length_of(reader)
        if length < 0:
            if not nullable:
                raise MalformedError
            return None
        at = reader.at
        end = at + length
        if end > reader.end or length > most:
            raise MalformedError
        reader.at = end
        if kind == "records":  # read by others, who ask where they are
            return slice(at, end)
        taken = reader.data[at:end]
        return taken.decode("utf-8", "surrogateescape") if is_text else taken

    return read


def array_reader(
    kind: str, element: Read, smallest: int, *, flexible: bool, nullable: bool
) -> Read:
    """Return what reads an array; `kind` is what its elements are, `smallest` the least of one."""
    length_of = _length_reader("int32", flexible=flexible)
    letter = NUMBERS.get(kind)

    def read(reader: Reader) -> Any:
        count = length_of(reader)
        if count < 0:
            if not nullable:
                raise MalformedError
            return None
        reader.count(count, smallest, 1 if letter is None else _NUMBERS_AN_ELEMENT)
        if letter is not None:
            return list(struct.unpack(f">{count}{letter}", reader.take(count * smallest)))
        return [element(reader) for _ in range(count)]

    return read


def nullable_reader(read: Read, *, tagged: bool) -> Read:
    """Return what reads a structure that may be null, which a varint says of a tagged field."""

    def read_or_null(reader: Reader) -> Any:
        is_null = reader.varint() == 0 if tagged else reader.take(1)[0] >= 0x80
        return None if is_null else read(reader)

    return read_or_null


#: What a field of a type holds where neither bytes nor the specification say anything.
ZEROS: dict[str, Any] = dict.fromkeys(NUMBERS, 0) | {
    "float64": 0.0,
    "bool": False,
    "uuid": _ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}
