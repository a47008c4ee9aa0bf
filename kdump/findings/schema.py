"""One schema of rows: the members of each kind, their types, and since which format they say
something.

Arrow and Parquet columns, Spark's DDL, the order of CSV and of JSON follow from it; a test holds
the named tuples, the kernel's text and the manual to it. Types are the narrowest that hold the
format's own field; a member that may be null in JSON is null everywhere. Times stay integer
milliseconds. A new member of a row is one line here, one in the named tuple that carries it, and
one in the text of each kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from kdump.rows.declarations import Field, kinds, members

_PLACE = (
    Field("topic", "dictionary", "the topic, from the directory name"),
    Field("partition", "int32", "the partition number, from the directory name"),
    Field("segment", "int64", "base offset of the segment, from the file name"),
)
_PRODUCER = (
    Field("leader_epoch", "int32", "leader epoch of the batch", 2, "leader_epoch"),
    Field("producer_id", "int64", "producer id, -1: none", 2, "producer_id"),
    Field("producer_epoch", "int16", "producer epoch, -1: none", 2, "producer_epoch"),
)

RECORD = (
    *_PLACE,
    Field("position", "int64", "where the batch starts in the file", column="position"),
    Field("magic", "int8", "format of the batch, as stored", column="magic"),
    Field("codec", "dictionary", "none, gzip, snappy, lz4, or zstd"),
    Field("offset", "int64", "the record's offset", column="record.offset"),
    Field("timestamp_ms", "int64", "its time, -1: none", 1, "record.timestamp"),
    Field("timestamp_type", "dictionary", "CreateTime or LogAppendTime", 1),
    *_PRODUCER,
    Field("sequence", "int32", "its sequence number, -1: none", 2),
    Field("transactional", "bool", "whether the batch belongs to a transaction"),
    Field("control", "json", "content of a control record"),
    Field("key", "binary", "the key"),
    Field("value", "binary", "the value"),
    Field("headers", "headers", "the headers, in order", 2),
)
PRE08 = (
    Field("format", "dictionary", "0.6 or 0.7 in .kafka files"),
    Field("next_offset", "int64", "next offset, as a 0.7 consumer reports it"),
)
MARKS = (
    Field("crc_valid", "bool", "false: wrong checksum of a message inside a wrapper"),
    Field(
        "inner_codec", "dictionary", "codec of a message inside a wrapper that is itself compressed"
    ),
)
SAID = (
    Field("key_json", "string", "the decoded key, in place of the bytes"),
    Field("value_json", "string", "the decoded value, in place of the bytes"),
)
BATCH = (
    *_PLACE,
    Field("position", "int64", "where the batch starts in the file", column="position"),
    Field(
        "size_bytes", "int64", "its size, including offset and length fields", column="size_bytes"
    ),
    Field("magic", "int8", "its format, as stored", column="magic"),
    Field("codec", "dictionary", "none, gzip, snappy, lz4, or zstd"),
    Field("base_offset", "int64", "offset of its first record; for a wrapper, only if opened"),
    Field("last_offset", "int64", "offset of its last record", column="last_offset"),
    Field("records_count", "int32", "number of records; for a wrapper, only if opened"),
    Field("crc", "uint32", "checksum as stored", column="crc"),
    Field("crc_valid", "bool", "whether the checksum is valid"),
    Field("timestamp_type", "dictionary", "CreateTime or LogAppendTime", 1),
    Field("base_timestamp_ms", "int64", "time of its first record", 1),
    Field("max_timestamp_ms", "int64", "its largest time", 1, "max_timestamp"),
    *_PRODUCER,
    Field("base_sequence", "int32", "its first sequence number, -1: none", 2, "base_sequence"),
    Field("last_sequence", "int32", "its last sequence number, -1: none", 2),
    Field("transactional", "bool", "whether it belongs to a transaction"),
    Field("control", "bool", "whether it is a control batch"),
    Field("delete_horizon_ms", "int64", "when compaction can remove its tombstones and markers", 2),
)


def fields_of() -> Mapping[str, tuple[Field, ...]]:
    """Return the members of each kind by its name, the bulk of `dump` first."""
    of_some = tuple(one._replace(omitted=True) for one in (*PRE08, *MARKS))
    bulk = {"record": (*RECORD, *of_some), "batch": BATCH}
    return bulk | {name: members(kind) for name, kind in kinds().items()}
