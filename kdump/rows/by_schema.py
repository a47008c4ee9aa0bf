"""The rows of `dump --decode schema`: what the topics of a registry and of Connect add up to."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Int32, Json, Word


class SchemaRow(Row, kind="schema"):
    """A schema of a registry, from a record of its topic."""

    subject: Annotated[str, "its subject"]
    version: Annotated[Int32, "its version in the subject"]
    id: Annotated[int, "its id, which values refer to"]
    guid: Annotated[str, "its GUID, which headers refer to"]
    type: Annotated[Word, "avro, protobuf, json, or another type of the registry"]
    references: Annotated[Json, "the schemas it references: name, subject, and version"]
    deleted: Annotated[bool, "whether it is deleted, so that clients do not get it"]
    state: Annotated[Word, "live, soft (deleted), or hard (permanently deleted)"]
    offset: Annotated[int, "the offset of its record"]
    schema: Annotated[str, "the schema"]


class ConnectorRow(Row, kind="connector"):
    """A connector of Kafka Connect, from the last records of its topics."""

    connector: Annotated[str, "its name"]
    state: Annotated[Word | None, "its state; null: not on this disk"]
    worker_id: Annotated[str | None, "the worker that reported it"]
    target_state: Annotated[Word | None, "the requested state, if any"]
    deleted: Annotated[bool, "whether its configuration was deleted"]
    tasks: Annotated[int | None, "number of tasks"]
    config: Annotated[Json, "its configuration, with secrets masked"]
    trace: Annotated[str | None, "why it failed"]


class TaskRow(Row, kind="task"):
    """A task of a connector."""

    connector: Annotated[str, "its connector"]
    task: Annotated[Int32, "its number"]
    state: Annotated[Word | None, "its state"]
    worker_id: Annotated[str | None, "the worker that ran it"]
    config: Annotated[Json, "its configuration, with secrets masked"]
    trace: Annotated[str | None, "why it failed"]


class ConnectorOffsetRow(Row, kind="connector-offset"):
    """The position of a connector in a part of its source."""

    connector: Annotated[str, "its name"]
    source_partition: Annotated[Json, "the part of the source, as the connector names it"]
    source_offset: Annotated[Json, "its position in that part; null: removed"]
