"""Hold rows of JSON Lines to what their kinds declare."""

from collections.abc import Iterable, Iterator
from typing import Any

from kdump.rows.declarations import Field, kinds, members
from kdump.rows.row import Row

#: What is another each time, though nothing changed.
_OF_THE_MOMENT = ("seconds", "used_bytes", "free_bytes")
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint32": 33}


def find_undeclared(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Name each member that is not as declared. Kinds without a declaration are passed over."""
    for row in rows:
        kind = kinds().get(row["row"])
        if kind is None:
            continue
        declared = members(kind)
        names = [field.name for field in declared if field.name in row or not field.omitted]
        if list(row)[1:] != names:
            yield f"{row['row']}: members {list(row)[1:]}, declared {names}"
        yield from (
            f"{row['row']}.{field.name}: {row[field.name]!r} is no {field.type}"
            for field in declared
            if field.name in row and not _is(field, row[field.name])
        )


def _is(field: Field, value: Any) -> bool:
    if value is None:
        return field.null
    if field.type in _BITS:
        bits = 1 << (_BITS[field.type] - 1)
        return type(value) is int and -bits <= value < bits
    if field.type.startswith("list<"):
        inner = field._replace(type=field.type[5:-1])
        return isinstance(value, list) and all(_is(inner, each) for each in value)
    if field.type in ("string", "dictionary"):
        return isinstance(value, str)
    if field.type == "float64":
        return isinstance(value, (int, float))
    return field.type != "bool" or isinstance(value, bool)


def make_row(kind: str, **given: Any) -> Row:
    """Make a row; a member that is not given is null, or nothing of its type."""
    known = kinds()[kind]
    names = {field.name: None if field.null else _nothing(field) for field in members(known)}
    return known(**names | given)


def _nothing(field: Field) -> Any:
    if field.type in _BITS or field.type == "float64":
        return 0
    if field.type == "bool":
        return False
    return [] if field.type.startswith("list<") else {} if field.type == "json" else ""


def without_times(item: Any) -> Any:
    """Give back what was yielded; a row without how long it took, and what a disk says of now."""
    if not isinstance(item, Row):
        return item
    changes = {name: 0 for name in _OF_THE_MOMENT if name in item.fields}
    return item.replaced(**changes) if changes else item
