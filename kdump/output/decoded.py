"""Show what records of internal topics say: keys and values as JSON in the place of their bytes.

`{"type": …, "version": …, "data": {…}}`, by the names that Kafka's specifications have. Bytes among
the fields are base64, as in Kafka's own JSON. What is not known keeps its bytes: `problem` says
why, and `trailing` are bytes behind a message that is whole. Secrets are masked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kdump.findings.rows import DecodedChunk, Place, RecordChunk, RecordRow
from kdump.messages.consumer_protocol import opened as opened_members
from kdump.messages.records import TOPICS, Decoded, decode, decode_control, decoders
from kdump.messages.secrets import masked
from kdump.output.jsonl import json_text
from kdump.output.values import Said, base64_text
from kdump.storage import names

#: No broker writes a record of an internal topic that is larger, and what is made of one takes much
#: more memory than its bytes.
MOST_BYTES = 8 << 20
#: So many keys are kept as read, of at most so many bytes: 50 MiB if all are as long.
_KEYS_KEPT, _KEY_KEPT_BYTES = 1 << 14, 1 << 8
_AS_IT_IS = frozenset((int, str, bool, type(None)))


def decoded(chunk: RecordChunk, *, secrets: bool = False) -> RecordChunk:
    """Give records back; those of an internal topic as a chunk that says what is in them.

    `secrets`: also what is masked otherwise.
    """
    if chunk.format or not internal_topic(chunk.place):
        return chunk
    found = _Chunk(
        chunk.place, chunk.data, chunk.batches, chunk.records, chunk.rows, chunk.controls
    )
    found.secrets = secrets
    return found


def internal_topic(place: Place) -> str | None:
    """Return the internal topic that records come from, if they come from one.

    `bootstrap.checkpoint` lies beside the partitions, and has records of cluster metadata.
    """
    if place.topic is None:
        kind = names.parse(os.path.basename(place.path)).kind
        return names.CLUSTER_METADATA_TOPIC if kind is names.Kind.METADATA_SNAPSHOT else None
    return place.topic if place.topic in TOPICS else None


class _Chunk(DecodedChunk):
    """Records of an internal topic, which are decoded when they are asked for."""

    secrets = False

    def iter_said(self) -> Iterator[tuple[RecordRow, object, object]]:
        """Make a row of each record, with what its key and its value are as JSON."""
        topic = internal_topic(self.place)
        assert topic is not None
        return (
            (record, *said(topic, record, secrets=self.secrets))
            for record in super().iter_records()
        )

    def iter_json(self) -> Iterator[tuple[str, str]]:
        """Write key and value of each record as JSON; not where some might be too large."""
        topic = internal_topic(self.place)
        assert topic is not None
        _, read_value = decoders(topic)
        records, data = self.records, self.data
        control = self.may_have_controls
        for number in range(records.count) if self.rows is None else self.rows:
            key, value = records.key(data, number), records.payload(data, number)
            if control and self.control(number) is not None:
                of_key, of_value = decode_control(key, value)
                yield json_text(members(of_key)), json_text(members(of_value))
                continue
            of_key, text = None, "null"
            if key is not None:
                kept = len(key) <= _KEY_KEPT_BYTES
                of_key, text = (_key_json if kept else _key_json.__wrapped__)(topic, key)
            of_value = None if value is None else read_value(of_key, value)
            yield text, _value_text(of_value, secrets=self.secrets)

    @property
    def has_large(self) -> bool:  # type: ignore[override]
        """Whether some record might be too large to be decoded."""
        records = self.records
        return len(records) > 0 and max(records.key_sizes) + max(records.value_sizes) > MOST_BYTES

    def iter_records(self) -> Iterator[RecordRow]:
        """Make a row of each record, whose key and value are JSON text."""
        for record, key, value in self.iter_said():
            yield record._replace(key=_text(key), value=_text(value))


def _value_text(value: Decoded | None, *, secrets: bool) -> str:
    return "null" if value is None else json_text(members(value, secrets=secrets))


def said(topic: str, record: RecordRow, *, secrets: bool = False) -> tuple[object, object]:
    """Say what the key and the value of a record hold; bytes where that is not looked at."""
    if len(record.key or b"") + len(record.value or b"") > MOST_BYTES:
        if (
            TOPICS[topic] == "metadata" and not secrets
        ):  # its bytes might be a secret, however unlikely
            return None, {"type": "unknown", "problem": "too-large"}
        return record.key, record.value
    if record.control is not None:
        key, value = decode_control(record.key, record.value)
    else:
        key, value = decode(topic, record.key, record.value)
    return members(key, secrets=secrets), members(value, secrets=secrets)


@lru_cache(_KEYS_KEPT)
def _key_json(topic: str, key: bytes) -> tuple[Decoded, str]:
    """Read a key and write it as JSON: in a log that was not compacted yet keys come again."""
    decoded = decoders(topic)[0](key)
    return decoded, json_text(members(decoded))


def _text(held: object) -> bytes | None:
    if held is None or isinstance(held, bytes):
        return held
    return Said(json_text(held).encode())


def said_columns(record: RecordRow) -> dict[str, object]:
    """Return the columns of a decoded record: what is said stands beside the bytes, now null."""
    columns = record._asdict()
    for name in ("key", "value"):
        if isinstance(columns[name], Said):
            columns[f"{name}_json"] = columns[name].decode()
            columns[name] = None
    return columns


def members(decoded: Decoded | None, *, secrets: bool = False) -> dict[str, object] | None:
    """Return the JSON object for a key or a value."""
    if decoded is None:
        return None
    shown = opened_members(decoded if secrets else masked(decoded))
    members_shown: dict[str, object] = {"type": shown.type or "unknown"}
    if shown.type is None and shown.type_id is not None:
        members_shown["type_id"] = shown.type_id
    if shown.version is not None:
        members_shown["version"] = shown.version
    if shown.data is not None:
        members_shown["data"] = _plain(shown.data)
        if shown.rest:
            members_shown["trailing"] = _plain(shown.rest)
    else:
        members_shown["problem"] = shown.problem
        members_shown["bytes"] = _plain(shown.rest)
    return members_shown


def _plain(held: Any) -> Any:
    """Return a value as JSON can hold it; what it can is not copied."""
    if isinstance(held, dict):
        for inner in held.values():
            if type(inner) not in _AS_IT_IS:
                return {name: _plain(inner) for name, inner in held.items()}
        return held
    if isinstance(held, list):
        return [_plain(inner) for inner in held]
    if isinstance(held, bytes):
        return base64_text(held)
    if isinstance(held, float) and not math.isfinite(held):
        return "NaN" if math.isnan(held) else "Infinity" if held > 0 else "-Infinity"
    return held
