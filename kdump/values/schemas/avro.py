"""Read Avro's binary encoding by the writer's schema, as values that JSON can hold.

A schema becomes a function for each of its types, once. Each takes bytes and where to start, and
returns a value and where it ends. Nothing a schema or a value says makes that without bounds: items
are counted, against what each of them may stand for, and what nests too deep ends as an error.
fastavro is not used: it takes bytes for a value that are none (an index of an enum below zero),
cannot tell which branch of a union was written, and what nests deep ends its process.
"""

from __future__ import annotations

import json
import math
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

from kdump.tuples import NamedTuple
from kdump.values.schemas import avro_logical
from kdump.values.schemas.errors import (
    BAD_SCHEMA,
    MALFORMED,
    MOST_ITEMS,
    MOST_SCHEMA_BYTES,
    TOO_DEEP,
    TOO_MANY,
    TRUNCATED,
    UndecodedError,
)

Read = Callable[[bytes, int], tuple[Any, int]]
PRIMITIVES = frozenset("null boolean int long float double bytes string".split())
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")


class Type(NamedTuple):
    """A type: what reads it, its name in a union, and how many values one may stand for."""

    read: Read
    branch: str
    weight: int


class Budget:
    """How many items a value may yet have."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_ITEMS

    def take(self, count: int) -> None:
        """Take some. Raises Undecoded where no more are left."""
        self.left -= count
        if self.left < 0:
            raise UndecodedError(TOO_MANY)


def parse(text: str) -> Any:
    """Return the JSON of a schema; Avro's primitives may be written without quotes."""
    if len(text) > MOST_SCHEMA_BYTES:
        raise UndecodedError(BAD_SCHEMA, "too large")
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except RecursionError:
        raise UndecodedError(BAD_SCHEMA, TOO_DEEP) from None
    except ValueError as error:
        raise UndecodedError(BAD_SCHEMA, str(error)) from None


def reader(schema: Any, referred: list[Any], *, framed: bool) -> Callable[[bytes, int], Any]:
    """Return what reads a whole value from a position on.

    `referred` are the schemas that it may name, each after those that it names itself. Behind a
    frame a schema that is just bytes has no length.
    """
    budget = Budget()
    making = TypeBuilder(budget)
    try:
        for each in referred:
            making.type(each, "")
        if framed and (schema == "bytes" or schema == {"type": "bytes"}):
            return lambda data, at: base64(data[at:])
        made = making.type(schema, "")
    except RecursionError:
        raise UndecodedError(BAD_SCHEMA, TOO_DEEP) from None
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UndecodedError(BAD_SCHEMA, str(error)) from None
    return whole(made, budget)


def whole(made: Type, budget: Budget) -> Callable[[bytes, int], Any]:
    """Return what reads a value of a type from a position to the end. Raises Undecoded."""
    read, weight = made.read, made.weight
    if weight > MOST_ITEMS:
        raise UndecodedError(BAD_SCHEMA, TOO_MANY)

    def read_whole(data: bytes, at: int) -> Any:
        budget.left = MOST_ITEMS - weight
        try:
            value, end = read(data, at)
        except IndexError:
            raise UndecodedError(TRUNCATED) from None
        except UnicodeDecodeError:
            raise UndecodedError(MALFORMED, "text is not UTF-8") from None
        except RecursionError:
            raise UndecodedError(TOO_DEEP) from None
        if end != len(data):
            raise UndecodedError("trailing bytes", f"{len(data) - end} after the value")
        return value

    return read_whole


def record_name(schema: Any) -> str | None:
    """Return the full name of a schema that has one: a strategy of naming subjects asks for it."""
    if not isinstance(schema, dict) or not isinstance(schema.get("name"), str):
        return None
    return full_name(schema["name"], schema.get("namespace"))[0]


def full_name(name: str, namespace: str | None) -> tuple[str, str]:
    """Return a name with its namespace, and that namespace."""
    if "." in name:
        return name, name.rpartition(".")[0]
    return (f"{namespace}.{name}" if namespace else name), namespace or ""


class TypeBuilder:
    """Makes types of schemas, and knows those that have names."""

    def __init__(self, budget: Budget, *, again: bool = False) -> None:
        """`again`: a name may be declared once more, and is then what it was."""
        self.budget, self._again = budget, again
        self._named: dict[str, Type] = {}

    def type(self, schema: Any, namespace: str) -> Type:
        """Make the type of a schema in a namespace."""
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.type(kind, namespace)
        if kind in _PRIMITIVE:
            base = _PRIMITIVE[kind]
            raw = raw_bytes if kind == "bytes" else base.read
            return base if len(schema) == 1 else avro_logical.of(schema, raw, base) or base
        if kind == "array":
            return self.array(self.type(schema["items"], namespace))
        if kind == "map":
            return self.map(self.type(schema["values"], namespace))
        if kind not in ("record", "error", "enum", "fixed"):
            return self._by_name(kind, namespace)
        given = schema.get("namespace")
        full, inner = full_name(schema["name"], namespace if given is None else given)
        if self._again and full in self._named:
            return self._named[full]
        if full in PRIMITIVES or full in self._named:
            raise ValueError(f"the name {full[:80]} is defined twice")
        if kind == "enum":
            made = _enum(schema["symbols"], full)
        elif kind == "fixed":
            made = _make_fixed(schema, full)
        else:
            made = self._record(schema["fields"], full, inner)
        self._named[full] = made
        return made

    def _by_name(self, name: str, namespace: str) -> Type:
        if name in _PRIMITIVE:
            return _PRIMITIVE[name]
        for full in (full_name(name, namespace)[0], name):
            if full in self._named:
                return self._named[full]
        raise ValueError(f"unknown type {name[:80]}")

    def _record(self, fields: list[dict[str, Any]], full: str, namespace: str) -> Type:
        held: list[Type] = []
        budget = self.budget

        def read_again(data: bytes, at: int) -> tuple[Any, int]:
            made = held[0]
            budget.take(made.weight)
            return made.read(data, at)

        self._named[full] = Type(read_again, full, 1)
        members = []
        weight, names = 1, set()
        for field in fields:
            name, inner = field["name"], self.type(field["type"], namespace)
            if not isinstance(name, str) or name in names:
                raise ValueError("field names must be distinct strings")
            names.add(name)
            members.append((name, inner.read))
            weight += inner.weight

        def read(data: bytes, at: int) -> tuple[Any, int]:
            value = {}
            for name, read_member in members:
                value[name], at = read_member(data, at)
            return value, at

        held.append(Type(read, full, weight))
        return held[0]

    def array(self, item: Type) -> Type:
        """Make the type of a list of items."""
        read_item, weight, budget = item.read, item.weight, self.budget

        def read(data: bytes, at: int) -> tuple[Any, int]:
            found: list[Any] = []
            while True:
                count, at = _block(data, at)
                if not count:
                    return found, at
                budget.take(count * weight)
                for _ in range(count):
                    value, at = read_item(data, at)
                    found.append(value)

        return Type(read, "array", 1)

    def map(self, item: Type) -> Type:
        """Make the type of a map to items."""
        read_item, weight, budget = item.read, item.weight, self.budget

        def read(data: bytes, at: int) -> tuple[Any, int]:
            found: dict[str, Any] = {}
            while True:
                count, at = _block(data, at)
                if not count:
                    return found, at
                budget.take(count * weight)
                for _ in range(count):
                    key, at = _string(data, at)
                    found[key], at = read_item(data, at)

        return Type(read, "map", 1)

    def _union(self, schemas: list[Any], namespace: str) -> Type:
        branches = [self.type(each, namespace) for each in schemas]
        names = [each.branch for each in branches]
        if len(set(names)) < len(names) or "union" in names:
            raise ValueError("a union contains a type twice")
        weight = 1 + max((each.weight for each in branches), default=0)
        count, bare = len(branches), len([name for name in names if name != "null"]) < 2
        reads = [each.read for each in branches]

        def read_bare(data: bytes, at: int) -> tuple[Any, int]:
            which = data[at]
            if which & 1 or which >> 1 >= count:
                which, at = read_long(data, at)
                if not 0 <= which < count:
                    raise UndecodedError(MALFORMED, "no such branch of a union")
                return reads[which](data, at)
            return reads[which >> 1](data, at + 1)

        if bare:
            return Type(read_bare, "union", weight)

        def read(data: bytes, at: int) -> tuple[Any, int]:
            which, at = read_long(data, at)
            if not 0 <= which < count:
                raise UndecodedError(MALFORMED, "no such branch of a union")
            value, at = reads[which](data, at)
            name = names[which]
            return (None if name == "null" else {name: value}), at

        return Type(read, "union", weight)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number without a sign, of ten bytes at most: up to 70 bits of it."""
    value = data[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise UndecodedError(MALFORMED, "a number of more than ten bytes")


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of any size."""
    value = data[at]
    if value < 0x80:  # most are: no call for these
        return value >> 1 ^ -(value & 1), at + 1
    value, at = varint(data, at)
    if value >> 64:
        raise UndecodedError(MALFORMED, "a number of more than 64 bits")
    return value >> 1 ^ -(value & 1), at


def _int(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_long(data, at)
    if not -0x80000000 <= value < 0x80000000:
        raise UndecodedError(MALFORMED, "a number of more than 32 bits")
    return value, at


def _block(data: bytes, at: int) -> tuple[int, int]:
    """Read how many items follow; a count below zero goes before their size in bytes."""
    count, at = read_long(data, at)
    if count >= 0:
        return count, at
    size, at = read_long(data, at)
    if size < 0:
        raise UndecodedError(MALFORMED, "a block with a negative size")
    return -count, at


def _span(data: bytes, at: int) -> tuple[int, int]:
    """Return where bytes with their length before them start and end."""
    size, at = read_long(data, at)
    if size < 0:
        raise UndecodedError(MALFORMED, "a length below zero")
    end = at + size
    if end > len(data):
        raise UndecodedError(TRUNCATED)
    return at, end


def _bytes(data: bytes, at: int) -> tuple[Any, int]:
    start, end = _span(data, at)
    return base64(data[start:end]), end


def raw_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Read bytes with their length before them."""
    start, end = _span(data, at)
    return data[start:end], end


def _string(data: bytes, at: int) -> tuple[str, int]:
    start, end = _span(data, at)
    return data[start:end].decode(), end


def _null(data: bytes, at: int) -> tuple[Any, int]:
    return None, at


def _boolean(data: bytes, at: int) -> tuple[Any, int]:
    value = data[at]
    if value > 1:
        raise UndecodedError(MALFORMED, "a boolean that is not 0 or 1")
    return value == 1, at + 1


def _make_float(of: Struct) -> Read:
    unpack, size = of.unpack_from, of.size

    def read(data: bytes, at: int) -> tuple[Any, int]:
        end = at + size
        if end > len(data):
            raise UndecodedError(TRUNCATED)
        value = unpack(data, at)[0]
        return (value if value - value == 0 else not_finite(value)), end

    return read


def not_finite(value: float) -> str:
    """Spell what JSON has no number for."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _enum(symbols: list[str], full: str) -> Type:
    if not all(isinstance(each, str) for each in symbols):
        raise ValueError("an enum symbol is not a string")
    count = len(symbols)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        which, at = read_long(data, at)
        if not 0 <= which < count:
            raise UndecodedError(MALFORMED, "no such symbol of an enum")
        return symbols[which], at

    return Type(read, full, 1)


def _make_fixed(schema: dict[str, Any], full: str) -> Type:
    size = schema["size"]
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError("a size is a number")

    def read_raw(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise UndecodedError(TRUNCATED)
        return data[at:end], end

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, end = read_raw(data, at)
        return base64(value), end

    made = Type(read, full, 1)
    return avro_logical.of(schema, read_raw, made) or made


def base64(data: bytes) -> str:
    """Spell bytes."""
    return b2a_base64(data, newline=False).decode("ascii")


_PRIMITIVE: Mapping[str, Type] = {
    name: Type(read, name, 1)
    for name, read in {
        "null": _null,
        "boolean": _boolean,
        "int": _int,
        "long": read_long,
        "float": _make_float(_FLOAT),
        "double": _make_float(_DOUBLE),
        "bytes": _bytes,
        "string": _string,
    }.items()
}
