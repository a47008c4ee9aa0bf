"""One member of a row, as its declaration has it."""

from __future__ import annotations

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
