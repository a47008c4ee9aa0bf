"""What the keys or values of a topic look like by their schemas, as types of SQL.

A shape is wide enough for each version of a schema: fields of all of them, and text where they do
not agree. Text is also what holds anything that a type of SQL does not say as the schema does.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from kdump.tuples import NamedTuple
from kdump.values.schemas import avro
from kdump.values.schemas.errors import UndecodedError
from kdump.values.schemas.framed_values import Schemas
from kdump.values.schemas.protobuf import Files, Message
from kdump.values.schemas.registry import Schema, plain_subject

TEXT, WHOLE, UNSIGNED, REAL, TRUTH = "VARCHAR", "BIGINT", "UBIGINT", "DOUBLE", "BOOLEAN"
_AVRO = {
    "boolean": TRUTH, "int": WHOLE, "long": WHOLE, "float": REAL, "double": REAL,
}  # fmt: skip
_PROTOBUF = {
    "bool": TRUTH, "double": REAL, "float": REAL, "uint64": UNSIGNED, "fixed64": UNSIGNED,
} | dict.fromkeys(
    "int32 sint32 sfixed32 uint32 fixed32 int64 sint64 sfixed64".split(), WHOLE
)  # fmt: skip
_JSON = {"boolean": TRUTH, "integer": WHOLE, "number": REAL}
#: What is deeper, or has more fields than these, is text.
_DEEPEST, _MOST_FIELDS = 24, 2000


class Many(NamedTuple):
    """A list of items, or a map to them."""

    item: Shape
    is_map: bool = False


Shape = str | dict[str, Any] | Many | None  # None: only ever null


class Data(NamedTuple):
    """The shape of what a side of a topic holds; of Protobuf, if it is one of some messages."""

    shape: Shape
    messages: frozenset[str] = frozenset()

    def merge(self, other: Data) -> Data:
        """Return what holds both."""
        return Data(merge_shapes(self.shape, other.shape), self.messages | other.messages)


def shapes_of_topics(schemas: Schemas) -> dict[tuple[str, str], Data]:
    """Return what `key` and `value` hold of each topic that the registry has subjects for.

    A subject tells the topic where it is `TOPIC-key`, `TOPIC-value`, or `TOPIC-RECORD`.
    """
    found: dict[tuple[str, str], list[Data]] = {}
    for schema in schemas.registry or ():
        subject = plain_subject(schema.subject)
        if "-" not in subject:
            continue
        try:
            data, names = _data(schemas, schema)
            if not _is_small(data.shape):
                data = data._replace(shape=TEXT)
        except (UndecodedError, RecursionError, TypeError, KeyError, ValueError, AttributeError):
            continue
        for name, side in [
            ("key", "key"),
            ("value", "value"),
            *((name, "value") for name in names),
        ]:
            topic = subject.removesuffix(f"-{name}")
            if topic != subject:
                found.setdefault((topic, side), []).append(data)
    return {place: reduce(Data.merge, each) for place, each in found.items()}


def sql_type(shape: Shape) -> str:
    """Return the type of a shape; text where it would have too many fields."""
    return _spell(shape) if _is_small(shape) else TEXT


def merge_shapes(one: Shape, other: Shape) -> Shape:
    """Return a shape for the values of both."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: merge_shapes(one.get(name), other.get(name)) for name in {**one, **other}}
    if isinstance(one, Many) and isinstance(other, Many) and one.is_map == other.is_map:
        return Many(merge_shapes(one.item, other.item), one.is_map)
    return REAL if (one, other) in ((WHOLE, REAL), (REAL, WHOLE)) else TEXT


def _data(schemas: Schemas, schema: Schema) -> tuple[Data, Iterable[str]]:
    """Return what a schema describes, and the names its subject may have behind the topic's."""
    referred = [each.text for _, each in schemas.list_references(schema)]
    if schema.type == "protobuf":
        messages = Files(schema.text, referred).messages
        left = [_MOST_FIELDS]
        shapes = [_message(each, (), left) for each in messages]
        shapes = [TEXT] if left[0] < 0 else shapes
        names = [each.full for each in messages]
        return Data(reduce(merge_shapes, shapes, None), frozenset(names)), names
    tree = avro.parse(schema.text)
    if schema.type == "avro":
        reading = _Avro()
        for text in referred:
            reading.shape(avro.parse(text), "", 0)
        name = avro.record_name(tree)
        return Data(reading.shape(tree, "", 0)), [] if name is None else [name]
    title = tree.get("title") if isinstance(tree, dict) else None
    left = [_MOST_FIELDS]
    shape = _document(tree, tree, 0, left)
    return Data(TEXT if left[0] < 0 else shape), [title] if isinstance(title, str) else []


class _Avro:
    """Reads the schemas of Avro, and knows those that have names."""

    def __init__(self) -> None:
        self._named: dict[str, Shape] = {}

    def shape(self, schema: Any, namespace: str, depth: int) -> Shape:
        """Return the shape of a schema in a namespace."""
        if depth > _DEEPEST:
            return TEXT
        if isinstance(schema, list):
            return self._union(schema, namespace, depth)
        if isinstance(schema, str):
            full = avro.full_name(schema, namespace)[0]
            named = self._named.get(full, self._named.get(schema, TEXT))
            return None if schema == "null" else _AVRO.get(schema, named)
        kind = schema["type"]
        if "logicalType" in schema:
            return TEXT
        if kind == "array":
            return Many(self.shape(schema["items"], namespace, depth + 1))
        if kind == "map":
            return Many(self.shape(schema["values"], namespace, depth + 1), is_map=True)
        if kind in ("record", "error"):
            given = schema.get("namespace")
            name = avro.full_name(schema["name"], namespace if given is None else given)
            return self._record(schema["fields"], *name, depth)
        return TEXT if kind in ("enum", "fixed") else self.shape(kind, namespace, depth + 1)

    def _record(self, fields: list[Any], full: str, namespace: str, depth: int) -> Shape:
        self._named[full] = TEXT  # within itself
        self._named[full] = found = {
            field["name"]: self.shape(field["type"], namespace, depth + 1) for field in fields
        }
        return found

    def _union(self, schemas: list[Any], namespace: str, depth: int) -> Shape:
        """Return the shape of a union: bare, or by the name of its branch."""
        branches = [each for each in schemas if each != "null"]
        shapes = [self.shape(each, namespace, depth + 1) for each in branches]
        if len(branches) < 2:
            return shapes[0] if shapes else None
        return {_branch(each, namespace): one for each, one in zip(branches, shapes, strict=True)}


def _branch(schema: Any, namespace: str) -> str:
    if isinstance(schema, str):
        return schema if schema in avro.PRIMITIVES else avro.full_name(schema, namespace)[0]
    if isinstance(schema.get("name"), str):
        return avro.full_name(schema["name"], schema.get("namespace", namespace))[0]
    return str(schema["type"])


def _message(message: Message, above: tuple[str, ...], left: list[int]) -> Shape:
    """Return the shape of a message of Protobuf; those of Google's and Confluent's are text.

    `left` holds how many fields there may yet be: what nests may name the same message often.
    """
    left[0] -= len(message.fields)
    if message.full in above or len(above) > _DEEPEST or left[0] < 0:
        return TEXT
    if message.full.startswith(("google.protobuf.", "google.type.", "confluent.type.")):
        return TEXT
    found: dict[str, Shape] = {}
    for field in message.fields.values():
        entry, kind = field.entry, field.type if field.entry is None else field.entry[1].type
        if isinstance(kind, Message):
            shape = _message(kind, (*above, message.full), left)
        else:
            shape = _PROTOBUF.get(kind, TEXT) if isinstance(kind, str) else TEXT
        found[field.name] = Many(shape, entry is not None) if entry or field.repeated else shape
    return found


def _document(schema: Any, root: Any, depth: int, left: list[int]) -> Shape:
    """Return the shape of a JSON Schema, of what says one type only."""
    left[0] -= 1
    if depth > _DEEPEST or left[0] < 0 or not isinstance(schema, dict):
        return TEXT
    if any(word in schema for word in ("allOf", "anyOf", "oneOf", "if", "enum", "const")):
        return TEXT
    if isinstance(reference := schema.get("$ref"), str):
        within = root
        for name in reference.removeprefix("#").strip("/").split("/"):
            within = within.get(name) if isinstance(within, dict) else None
        local = reference.startswith("#/")
        return _document(within, root, depth + 1, left) if local else TEXT
    kinds = schema.get("type")
    named = [one for one in (kinds if isinstance(kinds, list) else [kinds]) if one != "null"]
    kind = named[0] if len(named) == 1 else None
    if kind == "array" and isinstance(schema.get("items"), dict):
        return Many(_document(schema["items"], root, depth + 1, left))
    if kind == "object" and schema.get("properties"):
        of = schema["properties"].items()
        return {str(name): _document(one, root, depth + 1, left) for name, one in of}
    return _JSON.get(kind, TEXT) if isinstance(kind, str) else TEXT


def _is_small(shape: Shape) -> bool:
    """Whether a shape has few fields; those that it has by name, again and again, count each."""
    left, within = _MOST_FIELDS, [shape]
    while within and left:
        left, one = left - 1, within.pop()
        if isinstance(one, Many):
            within.append(one.item)
        elif isinstance(one, dict):
            within.extend(one.values())
    return not within


def _spell(shape: Shape) -> str:
    if isinstance(shape, Many):
        item = _spell(shape.item)
        return f"MAP(VARCHAR, {item})" if shape.is_map else f"{item}[]"
    if isinstance(shape, dict):
        if not shape or len({name.casefold() for name in shape}) < len(shape):
            return TEXT  # SQL takes names that differ in case for the same
        of = (
            f'"{name.replace(chr(34), 2 * chr(34))}" {_spell(one)}' for name, one in shape.items()
        )
        return f"STRUCT({', '.join(of)})"
    return shape or TEXT
