"""The source of single records: those that `--key` and `--grep` ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.dump.run import dump
from kdump.engine.reading.options import DumpOptions
from kdump.engine.timeline.happening import CLIENT, LEADER, Happening
from kdump.engine.timeline.metadata import Leaders
from kdump.engine.timeline.options import RECORD, TimelineOptions
from kdump.errors import KdumpError
from kdump.findings.escape import visible_bytes
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, RecordChunk, RecordRow

if TYPE_CHECKING:
    from kdump.engine.coordinators.partitions import Reported

_SHOWN = 80  # bytes of a key or a value


def record_events(
    place: Place,
    topic_id: str | None,
    leaders: Leaders,
    take: Callable[[Happening], None],
    options: TimelineOptions,
) -> Iterator[Reported]:
    """Hand over the records of a replica that are asked for; yield what else reading reports."""
    limit = options.decompress_limit
    asked = DumpOptions(key=options.key, grep=options.grep, decompress_limit=limit)
    for one in dump([place.path], asked):
        if isinstance(one, (Finding, KdumpError)):
            yield one
            continue
        rows = one.iter_records() if isinstance(one, RecordChunk) else (one,)
        for row in rows:
            if isinstance(row, RecordRow) and row.control is None:
                take(_event(row, place, topic_id, leaders))


def _event(row: RecordRow, place: Place, topic_id: str | None, leaders: Leaders) -> Happening:
    topic, partition = str(place.topic), place.partition or 0
    epoch = -1 if row.leader_epoch is None else row.leader_epoch
    by_broker = row.timestamp_type == "LogAppendTime" or topic.startswith("__")
    term = None
    if by_broker:
        term = leaders.term(topic, topic_id, partition, epoch)
    at_ms = row.timestamp_ms
    return Happening(
        RECORD,
        f"{topic}-{partition}",
        f"offset {row.offset:,}: {_shown(row.key)} = {_shown(row.value)}",
        topic,
        partition,
        row.offset,
        epoch,
        clock=LEADER if by_broker else CLIENT,
        clock_of=None if term is None else term.leader,
        at_ms=None if at_ms is None or at_ms < 0 else at_ms,
        path=place.path,
        segment=row.segment,
        position=row.position,
        about=topic,
    )


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    return visible_bytes(data[:_SHOWN]) + ("…" if len(data) > _SHOWN else "")
