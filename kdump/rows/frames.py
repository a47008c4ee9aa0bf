"""The rows of requests and responses in a capture."""

from __future__ import annotations

from typing import Annotated

from kdump.rows.row import Row
from kdump.rows.words import Bytes, Int16, Int32, Time, Word


class Frame(Row, kind="frame", streamed=True):
    """A request or a response: one row for each partition in it, or one without a partition."""

    number: Annotated[int, "number of the frame in the capture, from 0"]
    position: Annotated[int, "where its length field starts in the file"]
    at_ms: Annotated[Time | None, "time of the packet that completes it"]
    source: Annotated[Word | None, "address and port that sent it"]
    destination: Annotated[Word | None, "address and port that it was sent to"]
    direction: Annotated[Word | None, "request or response; null: unknown"]
    api: Annotated[Word | None, "name of the api; null: no request is known"]
    api_key: Annotated[Int16 | None, "number of the api"]
    version: Annotated[Int16 | None, "version of the request; null in 0.7"]
    client_id: Annotated[Word | None, "client id of the request"]
    correlation_id: Annotated[Int32 | None, "number shared by a request and its response"]
    topic: Annotated[Word | None, "the topic; for a topic id, the name found in the capture"] = None
    topic_id: Annotated[Word | None, "topic id, from fetch and produce version 13 on"] = None
    partition: Annotated[Int32 | None, "the partition number"] = None
    acks: Annotated[Int16 | None, "acks of a produce request: 0, 1, or -1 for all"] = None
    offset: Annotated[
        int | None, "offset fetched, base offset assigned, or offset returned by list-offsets"
    ] = None
    offsets: Annotated[
        list[int] | None, "all offsets returned by list-offsets version 0 and 0.7"
    ] = None
    timestamp_ms: Annotated[
        Time | None, "time requested or returned by list-offsets, or log append time"
    ] = None
    max_bytes: Annotated[Bytes | None, "most bytes requested from the partition"] = None
    isolation: Annotated[Word | None, "isolation level of a fetch or list-offsets request"] = None
    replica_id: Annotated[Int32 | None, "id of the fetching follower; -1: a consumer"] = None
    leader_epoch: Annotated[Int32 | None, "leader epoch requested or returned"] = None
    error: Annotated[Word | None, "error of the partition, otherwise of the response"] = None
    high_watermark: Annotated[int | None, "high watermark of a fetch response"] = None
    last_stable_offset: Annotated[int | None, "last stable offset of a fetch response"] = None
    log_start_offset: Annotated[int | None, "log start offset of a fetch response"] = None
    batches: Annotated[Int32 | None, "complete batches in the record set"] = None
    records_bytes: Annotated[Bytes | None, "size of the record set"] = None
    cut_bytes: Annotated[Bytes | None, "bytes of an incomplete batch at the end of a fetch"] = None
    size_bytes: Annotated[Bytes, "size of the frame, with its length field"] = 0
