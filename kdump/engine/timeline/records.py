"""The source of single records: those that `--key` and `--grep` ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.engine.timeline.raw_event import CLIENT, LEADER, RawEvent
from kdump.errors import KdumpError
from kdump.findings.escape import visible_bytes
from kdump.findings.finding import Finding
from kdump.findings.rows import RecordChunk, RecordRow

if TYPE_CHECKING:
    from kdump.engine.timeline.replica import Replica

_SHOWN = 80  # bytes of a key or a value


def record_events(replica: Replica) -> None:
    """Hand over the records of a replica that are asked for."""
    options, path = replica.options, replica.item.path
    if options.key is None and options.grep is None:
        return
    limit = options.decompress_limit
    asked = DumpOptions(key=options.key, grep=options.grep, decompress_limit=limit)
    for one in dump([path], asked):
        if isinstance(one, (Finding, KdumpError)):
            replica.read.reported.append(one)
            continue
        rows = one.iter_records() if isinstance(one, RecordChunk) else (one,)
        for row in rows:
            if isinstance(row, RecordRow) and row.control is None:
                replica.take(_event(row, replica))


def _event(row: RecordRow, replica: Replica) -> RawEvent:
    topic, at_ms = replica.item.topic, row.timestamp_ms
    epoch = -1 if row.leader_epoch is None else row.leader_epoch
    by_broker = row.timestamp_type == "LogAppendTime" or topic.startswith("__")
    return replica.event._replace(
        what="record",
        text=f"offset {row.offset:,}: {_show(row.key)} = {_show(row.value)}",
        offset=row.offset,
        epoch=epoch,
        broker_id=None,
        node=None,
        clock=LEADER if by_broker else CLIENT,
        clock_of=replica.leader(epoch) if by_broker else None,
        at_ms=None if at_ms is None or at_ms < 0 else at_ms,
        path=replica.item.path,
        segment=row.segment,
        position=row.position,
    )


def _show(data: bytes | None) -> str:
    if data is None:
        return "null"
    return visible_bytes(data[:_SHOWN]) + ("…" if len(data) > _SHOWN else "")
