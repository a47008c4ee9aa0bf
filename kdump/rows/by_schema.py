"""The rows of `dump --decode schema`: what the topics of a registry and of Connect add up to."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Int32, Json, Word


class SchemaRow(Row, kind="schema"):
    """A schema of a registry, as a record of its topic has it."""

    subject: Annotated[str, "its subject"]
    version: Annotated[Int32, "its version in the subject"]
    id: Annotated[int, "its id, by which values name it"]
    guid: Annotated[str, "its GUID, by which headers name it"]
    type: Annotated[Word, "avro, protobuf, json, or what the registry says"]
    references: Annotated[Json, "what it refers to: name, subject and version of each"]
    deleted: Annotated[bool, "whether it is deleted, so that no client is given it"]
    state: Annotated[Word, "live; soft: deleted; hard: deleted for good, its record is still there"]
    offset: Annotated[int, "the offset of its record"]
    schema: Annotated[str, "the schema"]
