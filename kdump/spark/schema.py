"""The views of the data source and their columns, as Spark's DDL has them.

`records` begins as Spark's own Kafka source does, names and types, so that a query written for a
topic reads a directory. What Spark's source does not have follows, under the names of our rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdump.findings.schema import BATCH, MARKS, PRE08, RECORD, SAID
from kdump.rows import groups, transactions
from kdump.rows.declarations import members, types_of
from kdump.rows.finding import FindingRow
from kdump.rows.row import Row
from kdump.spark.owners import FILE, OWNER
from kdump.spark.segment_rows import Segment
from kdump.spark.verification import PartitionSums

#: Types of rows -> types of Spark's SQL.
_SQL = {
    "dictionary": "string",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint32": "bigint",
    "bool": "boolean",
    "float64": "double",
    "json": "string",
    "list<string>": "array<string>",
    "list<int32>": "array<int>",
    "list<int64>": "array<bigint>",
    "headers": "array<struct<key:string,value:binary>>",
}
_AS_KAFKA = tuple("key value topic partition offset timestamp timestampType headers".split())
_MADE = {"timestamp": "timestamp", "timestampType": "int"}
_INDEX_ENTRIES = """row string, topic string, partition int, segment bigint, slot bigint,
    offset bigint, position bigint, timestamp_ms bigint, path string"""
_OWNER = ", ".join(f"{field.name} {_SQL.get(field.type, field.type)}" for field in OWNER)
_FILE = ", ".join(f"{field.name} {_SQL.get(field.type, field.type)}" for field in FILE)
_TOLD = f"row string, {_OWNER}"
_METADATA = f"""
    {_TOLD}, name string, feature_level int, state string, broker_id int, epoch bigint,
    incarnation_id string, endpoints string, rack string, fenced boolean,
    in_controlled_shutdown boolean, directories array<string>, cordoned_directories array<string>,
    features string, registered_ms bigint, controller_id int, voter boolean, directory_id string,
    leads boolean, topic string, topic_id string, partitions_count int, created_ms bigint,
    created_offset bigint, deleted_ms bigint, deleted_offset bigint, partition int, leader int,
    leader_epoch int, partition_epoch int, replicas array<int>, isr array<int>, elr array<int>,
    last_known_elr array<int>, adding_replicas array<int>, removing_replicas array<int>,
    recovery_state string, changed_ms bigint, changed_offset bigint, resource_type string,
    resource string, key string, value string, sensitive boolean, entity string,
    mechanism string, iterations int, token_id string, owner string, requester string,
    renewers array<string>, issued_ms bigint, expires_ms bigint, max_ms bigint, acl_id string,
    pattern_type string, principal string, host string, operation string, permission string,
    next_producer_id bigint, broker_epoch bigint, set_ms bigint, set_offset bigint,
    at_ms bigint, metadata_offset bigint, what string, subject string, before string,
    after string, text string, source string, as_of_offset bigint, as_of_ms bigint,
    leader_id int, log_start_offset bigint, snapshot_offset bigint, complete boolean,
    in_transaction boolean, brokers_count int, topics_count int, deleted_topics_count int,
    unknown_records int, other_copies array<string>, paths_unfinished int"""


def _records() -> str:
    kinds = types_of((*RECORD, *PRE08, *MARKS))
    names = (*_AS_KAFKA, *(name for name in kinds if name not in _AS_KAFKA))
    return ", ".join(f"{name} {_MADE.get(name) or _sql(kinds[name])}" for name in names)


def _sql(kind: str) -> str:
    return _SQL.get(kind, kind)


def _batches() -> str:
    return ", ".join(f"{field.name} {_sql(field.type)}" for field in BATCH)


def _of_kinds(*kinds: type[Row]) -> str:
    """Return the columns of a view with rows of some kinds."""
    return f"{_TOLD}, {_columns(*kinds)}"


def _with_findings(ddl: str) -> str:
    """Add the columns of findings: what a replay is missing is said beside what it came to."""
    known = {column.split(" ", 1)[0] for column in ddl.split(", ")}
    more = _columns(FindingRow).split(", ")
    return ", ".join([ddl, *(one for one in more if one.split(" ", 1)[0] not in known)])


def _columns(*kinds: type[Row]) -> str:
    types = {
        field.name: _sql(field.type)
        for kind in kinds
        for field in members(kind)
        if not field.omitted
    }
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


#: View -> DDL.
VIEWS = {
    "records": f"{_records()}, path string, {_OWNER}, {_FILE}",
    "batches": f"{_batches()}, path string, {_OWNER}, {_FILE}",
    "findings": _columns(FindingRow).replace(
        "next_offset bigint", "next_offset bigint, engine_version string"
    )
    + f", {_OWNER}",
    "index-entries": f"{' '.join(_INDEX_ENTRIES.split())}, {_OWNER}, {_FILE}",
    "segments": f"{_columns(Segment)}, {_OWNER}, {_FILE}",
    "summary": f"{_columns(PartitionSums)}, {_OWNER}",
    "groups": _with_findings(_of_kinds(groups.Group, groups.Member, groups.CommittedOffset)),
    "commits": _with_findings(_of_kinds(groups.OffsetCommit)),
    "metadata": _with_findings(" ".join(_METADATA.split())),
    "transactions": _with_findings(_of_kinds(transactions.Transaction).replace("smallint", "int")),
}

#: What `records` has beside where internal topics are decoded.
SAID_COLUMNS = "".join(f", {field.name} {_sql(field.type)}" for field in SAID)


def ddl_of(view: str, *, decode: bool = False) -> str:
    """Return the columns of a view in Spark's DDL."""
    return VIEWS[view] + (SAID_COLUMNS if decode and view == "records" else "")


def columns_of(view: str, *, decode: bool = False) -> dict[str, str]:
    """Return the columns of a view with their types, as Spark abbreviates them."""
    types = {}
    for column in ddl_of(view, decode=decode).split(", "):
        name, kind = column.split(" ", 1)
        types[name] = kind
    return types


def arrow_schema(columns: Mapping[str, str]) -> Any:
    """Return the Arrow schema that Spark expects of columns with these types."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<string>": pa.list_(pa.string()),
        "array<int>": pa.list_(pa.int32()),
        "array<bigint>": pa.list_(pa.int64()),
        "double": pa.float64(),
        _SQL["headers"]: pa.list_(header),
    }
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])
