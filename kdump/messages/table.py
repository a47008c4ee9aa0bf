"""The interpreter: read and write any version of any message by its table.

What is read are plain dictionaries: fields by their names in Kafka's specifications, in their
order. A field that the version does not have is absent, and so is a tagged one that the bytes leave
out; `default` says what it means then. Bytes are bytes, UUIDs are text as Kafka writes them. Tagged
fields that no specification knows are kept under `UNKNOWN_TAGS`, and written again.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kdump import kernels
from kdump.messages import wire
from kdump.messages.wire import MalformedError, Reader
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.kernels._pure.messages import Layout, Read

Fields = dict[str, Any]

UNKNOWN_TAGS = "unknownTaggedFields"


class UnknownVersion(Exception):
    """No specification that is known here has this version."""


class Versions(NamedTuple):
    """A range of versions, both ends in it."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """Read a range as specifications have it: `2`, `0-3`, `1+`; None is none."""
        if text is None:
            return cls(1, 0)
        first, dash, last = text.partition("-")
        if text.endswith("+"):
            return cls(int(text[:-1]), 1 << 15)
        return cls(int(first), int(last) if dash else int(first))


class Field(NamedTuple):
    """A field of a structure; `fields` are those of the structures that it holds."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: Any
    fields: tuple[Field, ...]

    @property
    def element(self) -> str | None:
        """The type of the elements, if it is an array."""
        return self.type[2:] if self.type.startswith("[]") else None


class Message:
    """A message of some name, and the versions of it that are known."""

    def __init__(self, name: str, table: dict[str, Any]) -> None:
        self.name = name
        self.area: str = table["area"]
        self.kind: str = table.get("kind", "")
        self.id: int | None = table.get("id")
        self.versions = Versions.parse(table["versions"])
        self.flexible = Versions.parse(table.get("flexible"))
        self.fields = _fields(table["fields"], table.get("structs", {}))
        self._readers: dict[int, wire.Read] = {}
        self._sound: dict[int, Read | None] = {}

    def read(self, version: int, data: bytes) -> Fields:
        """Read a message that ends where the bytes do; raise `MalformedError` if it does not."""
        reader = Reader(data)
        fields = self.read_from(reader, version)
        if reader.at != reader.end:
            raise MalformedError
        return fields

    def read_from(self, reader: Reader, version: int) -> Fields:
        """Read a message from where the reader stands, and leave it behind the message."""
        read = self._readers.get(version)
        if read is None:
            flexible = self.is_flexible(version)
            read = self._readers[version] = _struct_reader(self.fields, version, flexible)
        fields: Fields = read(reader)
        return fields

    def sound_reader(self, version: int) -> Read | None:
        """Return the kernel's reader of a version, which leaves what is odd to `read_from`."""
        if version not in self._sound:
            known = version in self.versions
            made = kernels.message_reader(self.layout(version)) if known else None
            self._sound[version] = made
        return self._sound[version]

    def layout(self, version: int) -> Layout:
        """Describe a version to the kernel."""
        return _layout(self.fields, version, self.is_flexible(version))

    def is_flexible(self, version: int) -> bool:
        """Whether a version has tagged fields and short lengths."""
        if version not in self.versions:
            raise UnknownVersion
        return version in self.flexible


@cache
def tables() -> dict[str, Any]:
    """Load the tables of all messages, by their names."""
    from json import loads
    from pkgutil import get_data  # also from a zip, as Spark may hand a package around

    found: dict[str, Any] = loads(get_data(__package__, "tables.json") or b"{}")
    return found


@cache
def message(name: str) -> Message:
    """Return the message of a name, as in Kafka's specifications."""
    return Message(name, tables()[name])


def _fields(lists: list[list[Any]], structs: dict[str, Any]) -> tuple[Field, ...]:
    """Make fields of the lists in the table, and of the structures that they name."""
    fields = []
    for name, kind, *more in lists:
        said = more[0] if more else {}
        held = said.get("fields") or structs.get(kind.removeprefix("[]"), [])
        fields.append(
            Field(
                name,
                kind,
                Versions.parse(said.get("versions", "0+")),
                Versions.parse(said.get("nullable")),
                said.get("tag"),
                Versions.parse(said.get("tagged")),
                said["default"] if "default" in said else _default(kind),
                _fields(held, structs),
            )
        )
    return tuple(fields)


def _default(kind: str) -> Any:
    if kind.startswith("[]"):
        return []
    return wire.ZEROS.get(kind, {})


def _layout(fields: tuple[Field, ...], version: int, flexible: bool) -> Layout:
    """Describe a structure in a version, as `_struct_reader` reads it."""
    laid_out = []
    for field in fields:
        is_tagged = version in field.tagged
        if version not in field.versions or (is_tagged and not flexible):
            continue
        is_plain = (field.element or field.type) in wire.ZEROS
        held = None if is_plain else _layout(field.fields, version, flexible)
        tag = field.tag if is_tagged else None
        laid_out.append((field.name, field.type, version in field.nullable, tag, held))
    return flexible, tuple(laid_out)


def _struct_reader(fields: tuple[Field, ...], version: int, flexible: bool) -> wire.Read:
    """Return what reads a structure in a version."""
    present = [field for field in fields if version in field.versions]
    plain = [
        (field.name, _field_reader(field, version, flexible, tagged=False))
        for field in present
        if version not in field.tagged
    ]
    if not flexible:

        def read_plain(reader: Reader) -> Fields:
            return {name: read(reader) for name, read in plain}

        return read_plain
    names = [field.name for field in present]
    tags = {
        field.tag: (field.name, _field_reader(field, version, flexible, tagged=True))
        for field in present
        if version in field.tagged
    }

    def read(reader: Reader) -> Fields:
        found = {name: read(reader) for name, read in plain}
        count = reader.varint()
        if not count:
            return found
        unknown = _read_tags(reader, count, tags, found)
        found = {name: found[name] for name in names if name in found}
        if unknown:
            found[UNKNOWN_TAGS] = unknown
        return found

    return read


def _read_tags(
    reader: Reader, count: int, tags: dict[int | None, tuple[str, wire.Read]], found: Fields
) -> list[Fields]:
    """Read a section of tagged fields into `found`; give those that nobody knows."""
    unknown = []
    for _ in range(reader.count(count, 2)):
        tag, size = reader.varint(), reader.varint()
        known = tags.get(tag)
        if known is None:
            unknown.append({"tag": tag, "bytes": reader.take(size)})
            continue
        name, read = known
        outer = reader.end
        end = reader.end = reader.at + size
        if end > outer:
            raise MalformedError
        found[name] = read(reader)
        reader.end = outer
        if reader.at != end:
            raise MalformedError
    return unknown


def _field_reader(field: Field, version: int, flexible: bool, *, tagged: bool) -> wire.Read:
    nullable = version in field.nullable
    element = field.element
    if element is not None:
        one = _value_reader(element, field.fields, version, flexible, nullable=False)
        smallest = _smallest(element, field.fields, version, flexible)
        return wire.array_reader(element, one, smallest, flexible=flexible, nullable=nullable)
    read = _value_reader(field.type, field.fields, version, flexible, nullable=nullable)
    if field.fields and nullable:
        return wire.nullable_reader(read, tagged=tagged)
    return read


def _value_reader(
    kind: str, fields: tuple[Field, ...], version: int, flexible: bool, *, nullable: bool
) -> wire.Read:
    if kind in wire.NUMBERS:
        return wire.number_reader(kind)
    if kind == "bool":
        return wire.read_bool
    if kind == "uuid":
        return wire.read_uuid
    if kind in ("string", "bytes", "records"):
        return wire.sized_reader(kind, flexible=flexible, nullable=nullable)
    return _struct_reader(fields, version, flexible)


def _smallest(kind: str, fields: tuple[Field, ...], version: int, flexible: bool) -> int:
    """Return the bytes that a value of a type has at the least, which are one or more."""
    if kind in wire.WIDTHS:
        return wire.WIDTHS[kind]
    if kind.startswith("[]") or kind in ("bytes", "records"):
        return 1 if flexible else 4
    if kind == "string":
        return 1 if flexible else 2
    inside = (
        1
        if field.fields and version in field.nullable
        else _smallest(field.type, field.fields, version, flexible)
        for field in fields
        if version in field.versions and version not in field.tagged
    )
    return max(1, sum(inside) + flexible)
