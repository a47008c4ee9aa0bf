"""Write topics and the registry's topic beside them, as clients and a registry do."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import builders

LOG = "00000000000000000000.log"
Records = Iterable[tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, list[Any]]]


def topic(data: Path, name: str, records: Records) -> Path:
    """Write a partition 0 of a topic, a batch of all records; return its directory."""
    directory = data / f"{name}-0"
    directory.mkdir(parents=True)
    made = [
        builders.record(number, number, one[0], one[1], one[2] if len(one) > 2 else [])
        for number, one in enumerate(records)
    ]
    batch = builders.batch(made, base_timestamp=1000, max_timestamp=1000 + len(made))
    (directory / LOG).write_bytes(batch)
    return directory


def schema_record(
    subject: str, version: int, id_: int, schema: object, **more: object
) -> tuple[bytes, bytes]:
    """Make the record of a schema; `schema` is text, or JSON."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    text = schema if isinstance(schema, str) else json.dumps(schema)
    value = {"subject": subject, "version": version, "id": id_, "schema": text, **more}
    return json.dumps(key).encode(), json.dumps(value).encode()


def tombstone(subject: str, version: int) -> tuple[bytes, None]:
    """Make the record that deletes a version for good."""
    return schema_record(subject, version, 0, "")[0], None


def frame(id_: int, value: bytes) -> bytes:
    """Put the frame of an id before a value."""
    return b"\0" + id_.to_bytes(4, "big") + value
