"""Compare two replicas of the same partitions: batches, then records where those differ.

Replicas hold the same batches byte for byte, so a join of headers on offset and checksum, which
decodes nothing, leaves little to be looked at. Where a topic is compacted, brokers clean at their
own times: then batches may differ although every record that both hold is the same, which only
the second step tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Session = Any  # PySpark is there only where it was asked for
DataFrame = Any

_BATCHES = """topic string, partition int, base_offset bigint, last_offset bigint,
    records_count int, crc bigint, crc_valid boolean, leader_epoch int, path string"""
_RECORDS = """topic string, partition int, offset bigint, timestamp_ms bigint, leader_epoch int,
    producer_id bigint, producer_epoch smallint, sequence int,
    headers array<struct<key:string,value:binary>>, key binary, value binary"""
_COMPARED = tuple(
    "timestamp_ms leader_epoch producer_id producer_epoch sequence headers key value".split()
)
#: Above so many ranges of offsets, one from the first to the last is read.
_RANGES = 200


def differing_batches(session: Session, left: str, right: str, **options: str) -> DataFrame:
    """Return the batches that only one of two data directories has, or whose bytes differ.

    Columns: topic, partition, last_offset, `what` (only left, only right, differs), then of each
    side base_offset, crc, leader_epoch, crc_valid and path.
    """
    # A wrapper of magic 0 or 1 tells only its last offset before it is opened.
    keys = ["topic", "partition", "last_offset"]
    sides = []
    for side, path in (("left", left), ("right", right)):
        read = _read(session, "batches", _BATCHES, path, options)
        named = [
            f"{name} as {side}_{name}"
            for name in ("base_offset", "crc", "leader_epoch", "crc_valid", "path")
        ]
        sides.append(read.selectExpr(*keys, *named))
    joined = sides[0].join(sides[1], keys, "full_outer")
    what = (
        "case when right_crc is null then 'only left' when left_crc is null then 'only right' "
        "when left_crc <> right_crc or left_crc_valid <> right_crc_valid "
        "or not left_crc_valid or left_leader_epoch <> right_leader_epoch then 'differs' end"
    )
    return joined.withColumn("what", _expression(what)).where("what is not null")


def _expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def differing_records(session: Session, left: str, right: str, **options: str) -> DataFrame:
    """Return the records that only one side has, or that differ, of the batches that differ.

    Columns: topic, partition, offset, `what`, then of each side timestamp_ms, leader_epoch,
    producer_id, producer_epoch, sequence, headers, key and value.
    """
    ranges = _ranges(differing_batches(session, left, right, **options))
    keys = ["topic", "partition", "offset"]
    sides = []
    for side, path in (("left", left), ("right", right)):
        read = _read(session, "records", _RECORDS, path, options).where(_within(ranges))
        named = [f"{name} as {side}_{name}" for name in _COMPARED]
        sides.append(read.selectExpr(*keys, *named, f"true as {side}_there"))
    same = " and ".join(f"left_{name} <=> right_{name}" for name in _COMPARED)
    what = (
        "case when right_there is null then 'only left' when left_there is null then 'only right' "
        f"when not ({same}) then 'differs' end"
    )
    joined = sides[0].join(sides[1], keys, "full_outer")
    found = joined.withColumn("what", _expression(what)).where("what is not null")
    return found.drop("left_there", "right_there")


def _read(
    session: Session, view: str, schema: str, path: str, options: dict[str, str]
) -> DataFrame:
    reader = session.read.format("kdump").schema(" ".join(schema.split()))
    return reader.options(view=view, **options).load(path)


def _ranges(batches: DataFrame) -> list[tuple[str, int, int, int]]:
    """Give the ranges of offsets that batches span, by partition, joined where they meet.

    A wrapper, whose first offset is not known, spans everything below its last.
    """
    rows = batches.selectExpr(
        "topic",
        "partition",
        "coalesce(least(left_base_offset, right_base_offset), 0) as low",
        "last_offset as high",
    )
    ranges: list[tuple[str, int, int, int]] = []
    for topic, partition, low, high in sorted(tuple(row) for row in rows.collect()):
        if ranges and ranges[-1][:2] == (topic, partition) and low <= ranges[-1][3] + 1:
            ranges[-1] = (topic, partition, ranges[-1][2], max(ranges[-1][3], high))
        else:
            ranges.append((topic, partition, low, high))
    return ranges if len(ranges) <= _RANGES else _widest(ranges)


def _widest(ranges: Sequence[tuple[str, int, int, int]]) -> list[tuple[str, int, int, int]]:
    """Give one range for each partition."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for topic, partition, low, high in ranges:
        before = found.get((topic, partition), (low, high))
        found[topic, partition] = (min(low, before[0]), max(high, before[1]))
    return [(*place, *bounds) for place, bounds in found.items()]


def _within(ranges: Sequence[tuple[str, int, int, int]]) -> str:
    """Write ranges as a condition."""
    parts = []
    for topic, partition, low, high in ranges:
        quoted = topic.replace("\\", "\\\\").replace("'", "\\'")
        parts.append(
            f"(topic = '{quoted}' and partition = {partition} and offset between {low} and {high})"
        )
    return " or ".join(parts) or "false"
