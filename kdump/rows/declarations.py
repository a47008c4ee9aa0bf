"""Read what classes of rows declare: members with types and meaning, for schemas and manuals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from kdump.rows.row import Row
from kdump.rows.words import ColumnStorage
from kdump.tuples import NamedTuple


class Field(NamedTuple):
    """One member of a row. `since`: the record format (magic) below which it is null.

    `column`: where it is a column of the kernels as it stands, that column's name in `BatchHeader`;
    with `record.` before it, in `DecodedRecords`.
    """

    name: str
    type: str  # a word of Arrow's, or: dictionary (a string of few values), headers, json
    doc: str
    since: int = 0
    column: str = ""
    null: bool = True  # whether it may be null
    omitted: bool = False  # whether JSON Lines leaves it out where it is null
    unit: str = ""
    role: str = ""


def types_of(fields: tuple[Field, ...]) -> dict[str, str]:
    """Return the types of a row's members by their names, in order."""
    return {field.name: field.type for field in fields}


#: The modules of this package that declare rows, in the order in which they are listed.
MODULES = (
    "finding",
    "dump",
    "frames",
    "by_schema",
    "groups",
    "info",
    "timeline",
    "report",
    "transactions",
    "usage",
    "sequences",
    "duplicates",
    "find",
    "reindex",
    "cluster",
    "verify",
    "compare",
    "why",
    "salvage",
    "schema",
)
_PLAIN = {
    int: "int64",
    str: "string",
    bytes: "binary",
    bool: "bool",
    float: "float64",
    list[str]: "list<string>",
    list[int]: "list<int64>",
}


@cache
def kinds() -> dict[str, type[Row]]:
    """Return every kind of row by its name. Imports all declarations."""
    return {vars(one)["row"]: one for module in MODULES for one in kinds_of(module)}


def kinds_of(module: str) -> list[type[Row]]:
    """Return the kinds of row that a module of this package declares, in order."""
    declared = import_module(f"{__package__}.{module}")
    return [
        one
        for one in vars(declared).values()
        if isinstance(one, type)
        and issubclass(one, Row)
        and "row" in vars(one)
        and one.__module__ == declared.__name__
    ]


@cache
def members(kind: type[Row]) -> tuple[Field, ...]:
    """Return the members that a kind of row has, in order."""
    hints = get_type_hints(kind, include_extras=True)
    written = (name for name in kind._fields if name != "asked_")
    return tuple(_field(name.removesuffix("_"), hints[name], kind) for name in written)


def _field(name: str, hint: Any, kind: type[Row]) -> Field:
    doc = ""
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        doc = next((note for note in notes if isinstance(note, str)), "")
        stored = [note for note in notes if isinstance(note, ColumnStorage)]
        hint = Annotated[hint, stored[0]] if stored else hint
    null = hint is Any
    if get_origin(hint) in (Union, UnionType):
        options = [each for each in get_args(hint) if each is not NoneType]
        null = len(options) < len(get_args(hint))
        hint = options[0] if len(options) == 1 else Any
    type_ = _find_storage(hint)
    return Field(
        name,
        type_.type,
        doc,
        null=null,
        omitted=name in kind.omits,
        unit=type_.unit,
        role=type_.role,
    )


def _find_storage(hint: Any) -> ColumnStorage:
    if get_origin(hint) is Annotated:
        return next(note for note in get_args(hint) if isinstance(note, ColumnStorage))
    if get_origin(hint) in (dict, Mapping):
        return ColumnStorage("json")
    return ColumnStorage(_PLAIN.get(hint, "json"))
