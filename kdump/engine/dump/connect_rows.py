"""Replay Connect's topics: connectors, their tasks, and how far each source has come."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kdump.engine.reading.schemas import all_records
from kdump.rows.by_schema import ConnectorOffsetRow, ConnectorRow, TaskRow
from kdump.rows.row import Row
from kdump.values import connect
from kdump.values.decoder import decoder_of

if TYPE_CHECKING:
    from kdump.values.decoded_values import SchemaSource

_ROLE = re.compile("configs?|offsets?|status")


def connect_rows(source: SchemaSource, topics: Iterable[str], *, secrets: bool) -> Iterator[Row]:
    """Yield the rows of the clusters of Connect that some topics belong to."""
    clusters: dict[str, list[str]] = {}
    for topic in topics:
        decoder = decoder_of(topic)
        if decoder is not None and decoder.redact is connect.redact:
            clusters.setdefault(_ROLE.sub("*", topic, count=1), []).append(topic)
    for names in clusters.values():
        state = _State(secrets=secrets)
        for topic in sorted(names):
            found = all_records(source.paths, source.server_properties, topic)
            for _, record in sorted((found or ({}, 0))[0].items()):
                state.take(*record)
        yield from state.rows()


class _State:
    """What the last record of each key says."""

    def __init__(self, *, secrets: bool) -> None:
        self._secrets = secrets
        self._last: dict[tuple[str, str, Any], dict[str, Any] | None] = {}
        self._offsets: dict[str, tuple[str, Any, Any]] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record."""
        named = connect.read_key(key or b"")
        if not isinstance(named, dict):
            return
        members = named["data"]
        found = None if value is None else connect.read_value(named, value)
        if found is not None and not isinstance(found, dict):
            return
        data = None if found is None else found["data"]
        if named["type"] == "connector_offset":
            text = json.dumps(members, sort_keys=True)
            self._offsets[text] = members["connector"], members["source_partition"], data
        elif "connector" in members:
            self._last[named["type"], members["connector"], members.get("task")] = data

    def rows(self) -> Iterator[Row]:
        """Yield connectors by name, then tasks, then offsets of sources."""
        names = sorted({name for kind, name, _ in self._last if kind.startswith("connector")})
        has_configs = any(kind == "connector" for kind, _, _ in self._last)
        for name in names:
            status = self._last.get(("connector_status", name, None)) or {}
            config = self._config("connector", name, None)
            target = self._last.get(("target_state", name, None)) or {}
            topics = self._last.get(("commit", name, None)) or {}
            yield ConnectorRow(
                name,
                _text(status.get("state")),
                _text(status.get("worker_id")),
                _text(target.get("state.v2") or target.get("state")),
                config is None and has_configs,
                topics.get("tasks") if isinstance(topics.get("tasks"), int) else None,
                config,
                _text(status.get("trace")),
            )
        tasks = {(name, task) for kind, name, task in self._last if kind in ("task", "task_status")}
        for name, task in sorted(tasks):
            status = self._last.get(("task_status", name, task)) or {}
            yield TaskRow(
                name,
                task,
                _text(status.get("state")),
                _text(status.get("worker_id")),
                self._config("task", name, task),
                _text(status.get("trace")),
            )
        for _, (name, partition, offset) in sorted(self._offsets.items()):
            yield ConnectorOffsetRow(name, partition, offset)

    def _config(self, kind: str, name: str, task: int | None) -> Any:
        found = (self._last.get((kind, name, task)) or {}).get("properties")
        return found if self._secrets else connect.mask(found)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
