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


class ConnectorRow(Row, kind="connector"):
    """A connector of Kafka Connect, as the last records of its topics have it."""

    connector: Annotated[str, "its name"]
    state: Annotated[Word | None, "its state; null: none is on the disk"]
    worker_id: Annotated[str | None, "the worker that said so"]
    target_state: Annotated[Word | None, "the state asked for, where one was"]
    deleted: Annotated[bool, "whether its configuration was deleted"]
    tasks: Annotated[int | None, "the number of its tasks"]
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
    """How far a connector has come in a part of its source."""

    connector: Annotated[str, "its name"]
    source_partition: Annotated[Json, "the part of the source, as the connector names it"]
    source_offset: Annotated[Json, "how far it has come; null: forgotten"]
