"""Report missing segments: offsets missing between the end of one segment and the next.

Compaction, and a log that was never without gaps, leave such holes lawfully (O5, X16), and a
broker jumps them without a word. So a hole is reported only in a log that has no other: where the
rest of the partition shows that records lay in it they are lost, else it is only worth knowing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Unpack

from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import About, Finding
from kdump.storage import names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind
from kdump.storage.producer_snapshot import sound_snapshot
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan

# Compacted whatever the settings say.
COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class Covered(NamedTuple):
    """Offsets that a file beside the log holds, up to and not including `next_offset`."""

    offset: int
    next_offset: int


def holes(partition: PartitionScan, covered: Sequence[Covered]) -> Iterator[Finding]:
    """Yield a finding for each hole that compaction cannot have made."""
    if len(partition.segments) < 2:
        return
    compacted = _is_compacted(partition)
    contiguous = set(map(_is_contiguous, partition.segments))
    if compacted or False in contiguous:
        return
    unsure = compacted is None or None in contiguous
    for one, following in pairwise(partition.segments):
        start, end = one.next_offset, following.base_offset
        if start is None or start >= end or one.tail:
            continue
        if any(file.offset < end and file.next_offset > start for file in covered):
            continue
        if _turns_up(partition, start, end):
            continue
        proof = None if unsure else _proof(partition, start, end)
        if proof is None:
            rest = "" if unsure else ", and nothing else is missing from this log"
            message = f"Offsets {start:,}-{end - 1:,} lie in no segment{rest}. Consumers jump them."
            yield _missing("segments-apart", one, end, message=message)
        else:
            message = f"Offsets {start:,}-{end - 1:,} lie in no segment: {proof}"
            lost = end - start
            yield _missing(
                "segment-missing", one, end, message=message, lost_at_least=1, lost_at_most=lost
            )


def _is_contiguous(segment: SegmentScan) -> bool | None:
    """Whether every offset from the base to the last is a record; None: nobody can know."""
    first = segment.first
    if not segment.complete:
        return None
    if first is None:
        return True
    if segment.wrappers or segment.gaps:
        return None
    offsets = segment.last_offset + 1 - segment.base_offset
    return first.base_offset == segment.base_offset and segment.records_count == offsets


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


def _missing(code: str, one: SegmentScan, end: int, **about: Unpack[About]) -> Finding:
    """At the end of the segment before, where what is missing should follow."""
    about["position"], about["size_bytes"] = one.end_position, 0
    about["offset"] = about["expected"] = one.next_offset
    about["next_offset"] = about["actual"] = end
    return at_place(code, one.place, **about)


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
