"""Write kinds of rows as a JSON Schema (2020-12), for validators and code generators."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kdump.output.sink import Sink

if TYPE_CHECKING:
    from kdump.rows.declarations import Field

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "dictionary": {"type": "string"},
    "binary": {"type": ["string", "object"]},
    "bool": {"type": "boolean"},
    "float64": {"type": "number"},
    "headers": {"type": "array"},
}
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class JsonSchema(Sink):
    """Writes, at the end, one schema of the kinds; of several each row is one of them."""

    def __init__(
        self, write: Callable[[bytes], object], kinds: Mapping[str, tuple[Field, ...]]
    ) -> None:
        self._write = write
        self._kinds = kinds

    def finish(self) -> None:
        """Write it."""
        schemas = [schema_of(kind, fields) for kind, fields in self._kinds.items()]
        whole = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
        text = json.dumps({"$schema": _DRAFT, **whole}, ensure_ascii=False, indent=2)
        self._write(text.encode() + b"\n")


def schema_of(kind: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Return the JSON Schema of one kind of row."""
    return {
        "title": kind,
        "type": "object",
        "properties": {"row": {"const": kind}, **{one.name: _property(one) for one in fields}},
        "required": ["row", *(one.name for one in fields if not one.omitted)],
        "additionalProperties": False,
    }


def _property(field: Field) -> dict[str, Any]:
    made = dict(_type(field.type))
    if field.null and "type" in made:
        types = made["type"] if isinstance(made["type"], list) else [made["type"]]
        made["type"] = [*types, "null"]
    made["description"] = field.doc + (f" ({field.unit})" if field.unit else "")
    return made


def _type(word: str) -> dict[str, Any]:
    if word.startswith("list<"):
        return {"type": "array", "items": _type(word[5:-1])}
    if word in _BITS:
        most = 1 << (_BITS[word] - 1)
        return {"type": "integer", "minimum": -most, "maximum": most - 1}
    if word == "uint32":
        return {"type": "integer", "minimum": 0, "maximum": (1 << 32) - 1}
    return _TYPES.get(word, {})
