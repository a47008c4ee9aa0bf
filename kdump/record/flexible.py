"""Decode Kafka's flexible encoding: big-endian numbers, lengths as unsigned varints.

Strings, bytes and arrays carry their length plus one, null being 0; every structure ends with a
section of tagged fields, which a reader that does not know a tag passes over by its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Element = TypeVar("Element")


class Malformed(Exception):
    """The bytes end early, or a length cannot be right."""


class FlexibleReader:
    """Reads one message from its first byte on. Every method raises `Malformed` at its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def at_end(self) -> bool:
        """Whether all bytes are read."""
        return self.position == len(self.data)

    def take(self, size: int) -> bytes:
        """Take the next `size` bytes."""
        if size < 0 or size > len(self.data) - self.position:
            raise Malformed
        piece = self.data[self.position : self.position + size]
        self.position += size
        return piece

    def number(self, size: int) -> int:
        """Read a signed number of `size` bytes."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        """Read an unsigned varint of at most five bytes."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Malformed

    def count(self) -> int:
        """Read an array's element count; null reads as 0."""
        return max(self._length(), 0)

    def array(self, element: Callable[[], Element]) -> tuple[Element, ...] | None:
        """Read an array of what `element` reads; None for null."""
        count = self._length()
        return None if count < 0 else tuple(element() for _ in range(count))

    def _length(self) -> int:
        count = self.varint() - 1
        if count > len(self.data) - self.position:  # an element is a byte at least
            raise Malformed
        return count

    def string(self) -> str:
        """Read a string that cannot be null."""
        return self.take(self.varint() - 1).decode("utf-8", "replace")

    def int32(self) -> int:
        """Read an int32."""
        return self.number(4)

    def uuid(self) -> str:
        """Read a UUID as Kafka writes it: 22 characters of URL-safe base64."""
        import base64

        return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")

    def tags(self) -> None:
        """Pass over a section of tagged fields."""
        for _ in self.tagged():
            pass

    def tagged(self) -> Iterator[tuple[int, FlexibleReader]]:
        """Yield the tagged fields of a structure: the tag, and a reader of the field's bytes."""
        for _ in range(self.varint()):
            tag = self.varint()
            yield tag, FlexibleReader(self.take(self.varint()))
