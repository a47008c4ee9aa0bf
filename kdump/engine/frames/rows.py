"""Make rows of a request or a response, and say where its record sets are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kdump.engine.frames.exchange import REQUEST, DecodedFrame
from kdump.messages import protocol
from kdump.messages.errors import error_name
from kdump.messages.old_protocol import Part
from kdump.messages.table import Fields
from kdump.rows.frames import Frame
from kdump.storage.names import CLUSTER_METADATA_TOPIC, TOPIC_SIZE_MAX
from kdump.tuples import NamedTuple

#: The id of the metadata log, which no Metadata response names.
_METADATA_TOPIC_ID, _NO_ID = "A" * 21 + "Q", "A" * 22
_MOST_TOPICS = 1 << 17
_ISOLATIONS = ("read_uncommitted", "read_committed")


class TopicNames:
    """Names of topics by their ids, as metadata responses of the capture have them."""

    def __init__(self) -> None:
        self._names = {_METADATA_TOPIC_ID: CLUSTER_METADATA_TOPIC}

    def learn(self, said: DecodedFrame) -> None:
        """Take the names in a metadata response."""
        if said.api != protocol.METADATA or said.direction == REQUEST or said.fields is None:
            return
        for topic in said.fields.get("topics") or ():
            found, name = topic.get("topicId", _NO_ID), topic["name"]
            is_name = name is not None and len(name) <= TOPIC_SIZE_MAX
            if found != _NO_ID and is_name and len(self._names) < _MOST_TOPICS:
                self._names[found] = name

    def of(self, topic_id: str | None) -> str | None:
        """Return the name of a topic, if it is known."""
        return None if topic_id is None else self._names.get(topic_id)


class ShownFrame(NamedTuple):
    """A row, and where in the frame its record set is, if it has one."""

    row: Frame
    records: slice | None


def rows_of(said: DecodedFrame, row: Frame, names: TopicNames) -> Iterator[ShownFrame]:
    """Yield the rows of a frame: `row` has what they have in common."""
    row = row.replaced(
        direction=said.direction,
        api=said.name,
        api_key=said.api,
        version=said.version,
        client_id=said.client_id,
        correlation_id=said.correlation_id,
        error=said.error,
    )
    shown = False
    for one in _partitions(said, row, names):
        shown = True
        yield one
    if not shown:
        yield ShownFrame(_add_common(said.fields, row), None)


def _partitions(said: DecodedFrame, row: Frame, names: TopicNames) -> Iterator[ShownFrame]:
    if said.parts is not None:
        for part in said.parts:
            yield ShownFrame(_old(part, row), part.records)
    fields = said.fields
    if fields is None or said.api == protocol.METADATA:
        return
    row = _add_common(fields, row)
    for topic in _first_field(fields, "topicData", "topics", "responses") or ():
        topic_id = topic.get("topicId")
        name = _first_field(topic, "topic", "name") or names.of(topic_id)
        of_topic = row.replaced(topic=name, topic_id=topic_id)
        for part in _first_field(topic, "partitionData", "partitions", "partitionResponses") or ():
            yield _partition(part, of_topic, said)


def _add_common(fields: Fields | None, row: Frame) -> Frame:
    """Add what a frame says of all its partitions."""
    if fields is None:
        return row
    level = fields.get("isolationLevel")
    return row.replaced(
        acks=fields.get("acks"),
        isolation=_ISOLATIONS[level] if level in (0, 1) else None,
        replica_id=fields.get("replicaId", fields.get("replicaState", {}).get("replicaId")),
        error=error_name(fields.get("errorCode", 0)),
    )


def _partition(part: Fields, row: Frame, said: DecodedFrame) -> ShownFrame:
    records = _first_field(part, "records", "recordSet")
    offset = _first_field(part, "fetchOffset", "baseOffset", "offset")
    row = row.replaced(
        partition=_first_field(part, "partitionIndex", "partition", "index"),
        offset=offset,
        offsets=part.get("oldStyleOffsets"),
        timestamp_ms=_first_field(part, "timestamp", "logAppendTimeMs"),
        max_bytes=part.get("partitionMaxBytes"),
        leader_epoch=_first_field(part, "leaderEpoch", "currentLeaderEpoch"),
        error=error_name(part.get("errorCode", 0)) or row.error,
        high_watermark=None if said.direction == REQUEST else part.get("highWatermark"),
        last_stable_offset=part.get("lastStableOffset"),
        log_start_offset=part.get("logStartOffset"),
        records_bytes=None if records is None else records.stop - records.start,
    )
    return ShownFrame(row, records)


def _old(part: Part, row: Frame) -> Frame:
    size = None if part.records is None else part.records.stop - part.records.start
    return row.replaced(
        topic=part.topic,
        partition=part.partition,
        offset=part.offset,
        offsets=list(part.offsets) or None,
        timestamp_ms=part.time_ms,
        max_bytes=part.max_bytes,
        error=part.error or row.error,
        records_bytes=size,
    )


def _first_field(fields: Fields, *names: str) -> Any:
    """Return the first of some fields that a message has: older versions have others."""
    return next((fields[name] for name in names if name in fields), None)
