"""The rows of `schema`: what rows there are, and what they have."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Word


class SchemaField(Row, kind="schema-field"):
    """A field of a row kind."""

    kind: Annotated[Word, "the kind of row"]
    field: Annotated[str, "name of the field"]
    type: Annotated[Word, "its column type; json: a list or an object, as JSON text"]
    unit: Annotated[str, "its unit; with role time, ms are since 1970 in UTC"]
    role: Annotated[str, "time, severity, or nothing"]
    null: Annotated[bool, "whether it can be null"]
    omitted: Annotated[bool, "whether JSON Lines omits it when null"]
    meaning: Annotated[str, "its meaning"]
