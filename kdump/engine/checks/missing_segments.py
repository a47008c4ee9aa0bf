"""Report missing segments: offsets missing between the end of one segment and the next.

Compaction, and a log that was never without gaps, leave such holes lawfully (O5, X16), and a
broker jumps them without a word. So a hole is reported only in a log that has no other: where the
rest of the partition shows that records lay in it they are lost, else it is only worth knowing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.storage import names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind
from kdump.storage.producer_snapshot import sound_snapshot

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan
    from kdump.findings.rows import Place

# Compacted whatever the settings say.
COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class Seen(NamedTuple):
    """What a scan found of one segment.

    `next_offset` is the one behind the last batch, None where the segment was not read to its end;
    `contiguous`: every offset from the base to there is a record; None: it cannot be told.
    """

    place: Place
    base_offset: int
    end_position: int
    next_offset: int | None
    contiguous: bool | None
    torn: bool = False  # what follows the last sound batch has a finding of its own


class Covered(NamedTuple):
    """Offsets that a file beside the log holds, up to and not including `next_offset`."""

    offset: int
    next_offset: int


def holes(
    partition: PartitionScan, seen: Sequence[Seen], covered: Sequence[Covered]
) -> Iterator[Finding]:
    """Yield a finding for each hole that compaction cannot have made."""
    compacted = _is_compacted(partition)
    if compacted or any(segment.contiguous is False for segment in seen):
        return
    unsure = compacted is None or any(segment.contiguous is None for segment in seen)
    for one, following in pairwise(seen):
        start, end = one.next_offset, following.base_offset
        if start is None or start >= end or one.torn or _is_covered(covered, start, end):
            continue
        if _turns_up(partition, start, end):
            continue
        proof = None if unsure else _proof(partition, start, end)
        if proof is None:
            told = _told("segments-apart", one, end)
            rest = "" if unsure else ", and nothing else is missing from this log"
            yield told._replace(
                message=f"Offsets {start:,}-{end - 1:,} lie in no segment{rest}. Consumers jump "
                "them."
            )
        else:
            told = _told("segment-missing", one, end)
            yield told._replace(
                message=f"Offsets {start:,}-{end - 1:,} lie in no segment: {proof}",
                lost_at_least=1,
                lost_at_most=end - start,
            )


def _turns_up(partition: PartitionScan, start: int, end: int) -> bool:
    """Whether a log that the listing missed lies in the hole after all.

    A large directory is listed by several calls, between which a broker rolls segments: a log may
    be missed whose index is seen, and one call later as well. So names are looked up, too.
    """
    bases = [start, *(one.base_offset for one in partition.log.segments if one.log is None)]
    if any(start <= base < end and has_log(partition.log, base) for base in bases):
        return True
    try:
        logs = LocalLog.open(partition.log.path).logs
    except PathError:
        return False
    return any(start <= segment.base_offset < end for segment in logs)


def has_log(log: LocalLog, base: int) -> bool:
    """Whether a segment's log is there by its name, whatever a listing said."""
    return places.lexists(os.path.join(log.path, names.file_name(Kind.LOG, base)))


def _told(code: str, one: Seen, end: int) -> Finding:
    """At the end of the segment before, where what is missing should follow."""
    return at_place(
        code,
        one.place,
        position=one.end_position,
        size_bytes=0,
        offset=one.next_offset,
        expected=one.next_offset,
        actual=end,
        next_offset=end,
    )


def _is_covered(covered: Sequence[Covered], start: int, end: int) -> bool:
    return any(file.offset < end and file.next_offset > start for file in covered)


def _is_compacted(partition: PartitionScan) -> bool | None:
    """Whether a cleaner was at work: it notes in the data directory how far it came (X3).

    None where nobody can tell: it may have been, and had no time to note it.
    """
    target, directory = partition.target, partition.directory
    cleaned = directory.offsets(names.CLEANER_CHECKPOINT) if directory else None
    if cleaned is not None and (target.topic or "", target.partition or 0) in cleaned:
        return True
    if target.topic in COMPACTED_TOPICS or "compact" in partition.settings.cleanup_policy:
        return None
    if directory is None or directory.checkpoint_time(names.REPLICATION_CHECKPOINT) is None:
        return None  # a copy of partitions, without what was noted of them
    return False if cleaned is not None else None


def _proof(partition: PartitionScan, start: int, end: int) -> str | None:
    """Say what shows that records lay in [start, end); None if nothing does."""
    log = partition.log
    for segment in log.segments:
        if segment.log is None and start <= segment.base_offset < end:
            return f"the indexes of a segment {segment.base_offset} are still there."
    for offset, path in log.snapshots():
        if start < offset < end:
            return f"a producer snapshot was taken at {offset:,}."
        if offset < end:
            continue
        for producer in sound_snapshot(path) or ():
            if start <= producer.last_offset < end:
                return (
                    f"the snapshot of producers at {offset:,} knows of a batch of producer "
                    f"{producer.producer_id} that ends at {producer.last_offset:,}."
                )
        break
    for epoch, offset in log.epoch_starts():
        if start < offset < end:
            return f"leader epoch {epoch} started at {offset:,}."
    return None
