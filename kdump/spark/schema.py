"""The views of the data source and their columns, as Spark's DDL has them.

`records` begins as Spark's own Kafka source does, names and types, so that a query written for a
topic reads a directory. What Spark's source does not have follows, under the names of our rows.
"""

from __future__ import annotations

_RECORDS = """
    key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,
    timestampType int, headers array<struct<key:string,value:binary>>,
    segment bigint, position bigint, magic tinyint, codec string, timestamp_ms bigint,
    timestamp_type string, leader_epoch int, producer_id bigint, producer_epoch smallint,
    sequence int, transactional boolean, control string, format string, next_offset bigint,
    path string
"""
_BATCHES = """
    topic string, partition int, segment bigint, position bigint, size_bytes bigint, magic tinyint,
    codec string, base_offset bigint, last_offset bigint, records_count int, crc bigint,
    crc_valid boolean, timestamp_type string, base_timestamp_ms bigint, max_timestamp_ms bigint,
    leader_epoch int, producer_id bigint, producer_epoch smallint, base_sequence int,
    last_sequence int, transactional boolean, control boolean, delete_horizon_ms bigint,
    path string
"""
_FINDINGS = """
    code string, severity string, path string, topic string, partition int, segment bigint,
    position bigint, size_bytes bigint, offset bigint, expected string, actual string,
    message string, consequences array<string>, lost_at_least bigint, lost_at_most bigint,
    next_offset bigint, engine_version string, served_from bigint, skipped_by_seek bigint,
    served_by string
"""
_INDEX_ENTRIES = """
    row string, topic string, partition int, segment bigint, slot bigint, offset bigint,
    position bigint, timestamp_ms bigint, path string
"""

#: View -> DDL.
VIEWS = {
    "records": " ".join(_RECORDS.split()),
    "batches": " ".join(_BATCHES.split()),
    "findings": " ".join(_FINDINGS.split()),
    "index-entries": " ".join(_INDEX_ENTRIES.split()),
}

#: Columns that are made of a column of our rows.
MADE_OF = {"timestamp": "timestamp_ms", "timestampType": "timestamp_type"}


def types_of(view: str) -> dict[str, str]:
    """Return the columns of a view with their types, as Spark abbreviates them."""
    types = {}
    for column in VIEWS[view].split(", "):
        name, kind = column.split(" ", 1)
        types[name] = kind
    return types
