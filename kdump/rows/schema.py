"""The rows of `schema`: what rows there are, and what they have."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Word


class SchemaField(Row, kind="schema-field"):
    """A member of a kind of row."""

    kind: Annotated[Word, "the kind of row"]
    field: Annotated[str, "name of the member"]
    type: Annotated[Word, "its type in columns; json: a list or an object, as JSON text in them"]
    unit: Annotated[str, "its unit; ms are since 1970 in UTC where the role is time"]
    role: Annotated[str, "time, severity, or nothing"]
    null: Annotated[bool, "whether it may be null"]
    omitted: Annotated[bool, "whether JSON Lines leaves it out where it is null"]
    meaning: Annotated[str, "what it says"]
