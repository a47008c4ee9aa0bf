"""Report missing segments: offsets missing between the end of one segment and the next.

Compaction, and followers of a compacted log, leave such holes lawfully (O5, X16), and brokers skip
them silently. Where the settings of a topic are known and nothing compacts it, a hole is loss.
Where they are not known, a hole is reported only in a log that has no other: it is loss where the
rest of the partition shows that it held records, and only suspected otherwise.

Holes between batches of a segment are reported too where nothing compacts the topic, as a note:
it may have been compacted before, and a follower may have cut its log inside a batch (I19).

Retention and DeleteRecords remove segments from the front, and trim the leader epochs (X2). So
epochs that start below the first segment show that it is missing, but for tiered topics, whose
local log starts above the log start. Their file may follow a moment later (X2): the segments that
a broker removed are still there as .deleted then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Unpack

from kdump.broker.settings import DEFAULT, OPTION, TOPIC
from kdump.engine.reading.damage import at_place
from kdump.errors import PathError
from kdump.findings.finding import About, Finding
from kdump.storage import names, places
from kdump.storage.file_records import FileRecords
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind, Retirement
from kdump.storage.producer_snapshot import sound_snapshot
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.reading.partition_scan import PartitionScan, SegmentScan

# Compacted unless a setting of the topic's own says otherwise.
COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class OffsetSpan(NamedTuple):
    """Offsets that a file beside the log holds, up to and not including `next_offset`."""

    offset: int
    next_offset: int

    @property
    def words(self) -> str:
        """The range and its length, as the subject of a sentence."""
        first, last = self.offset, self.next_offset - 1
        if first == last:
            return f"Offset {first:,} is"
        return f"Offsets {first:,}-{last:,} ({self.next_offset - first:,} offsets) are"


class _Cleaner(NamedTuple):
    """What is known of the cleaner: `why` is part of a sentence.

    `settled`: it never worked on this topic, so that other holes in the log excuse nothing.
    `excluded`: nothing shows that it did. Without both, a `provable` hole is loss where something
    shows that it held records.
    """

    why: str
    settled: bool = False
    excluded: bool = False
    provable: bool = False


def holes(partition: PartitionScan, covered: Sequence[OffsetSpan]) -> Iterator[Finding]:
    """Yield a finding for each hole that compaction cannot have made."""
    cleaner = _cleaner(partition)
    if cleaner is None or not partition.segments:
        return
    if not cleaner.settled:
        contiguous = set(map(_is_contiguous, partition.segments))
        if False in contiguous:
            return
        if None in contiguous:
            cleaner = _Cleaner("not all records of this log could be counted")
    elif partition.settings.topic_is_known and not partition.settings.tiered:
        yield from _missing_front(partition, covered)
    start: int | None = None
    for one, following in pairwise(_of_files(partition) if len(partition.segments) > 1 else ()):
        hole = OffsetSpan(one.last_offset + 1, following.base_offset)
        if hole.offset >= hole.next_offset or one.tail:
            continue
        is_read = one.complete or one.tail_read
        # A log without a byte is what the cleaner may leave.
        if not is_read or not (cleaner.settled or (one.complete and one.batches)):
            continue
        if not _is_elsewhere(partition, hole, covered):
            # Most logs have no hole, and need no file read for it.
            start = _start(partition) if start is None else start
            yield _hole_finding(partition, one, hole, start, cleaner)
    if cleaner.settled:
        yield from _find_inside(partition, cleaner.why)


def _find_inside(partition: PartitionScan, why: str) -> Iterator[Finding]:
    """Report offsets missing between batches, if no batch shows that a cleaner was there."""
    found: list[Finding] = []
    for one in partition.segments:
        if one.first is None or not one.complete or one.gaps or one.wrappers:
            continue
        if one.records_count == one.last_offset + 1 - one.first.base_offset:
            continue
        inside = _between_batches(one)
        if inside is None:
            return
        start = _start(partition) if inside else 0
        inside = [at for at in inside if at[0].next_offset > start]  # nobody reads below it
        if not inside:
            continue
        (hole, position), *others = inside
        words = f"{hole.words} missing between two batches."
        if others:
            more = sum(later.next_offset - later.offset for later, _ in others)
            words += f" {more:,} more {'is' if more == 1 else 'are'} missing between later batches."
        words += f" They may be lost: {why}."
        missing = _missing_finding("offsets-apart", one, hole, message=words)
        found.append(missing._replace(position=position))
    yield from found


def _between_batches(one: SegmentScan) -> list[tuple[OffsetSpan, int]] | None:
    """Find the holes between batches, each with the position behind it.

    None: a batch has fewer records than offsets, as a cleaner leaves it.
    """
    found = []
    with suppress(PathError), Source(one.path) as source:
        end = None
        for batches in FileRecords(source).headers(0, one.end_position):
            spans = zip(
                batches.base_offsets, batches.last_offsets, batches.records_counts,
                batches.positions, strict=True,
            )  # fmt: skip
            for base, last, count, position in spans:
                if count != last + 1 - base:
                    return None
                if end is not None and end < base:
                    found.append((OffsetSpan(end, base), position))
                end = last + 1
    return found


def _of_files(partition: PartitionScan) -> list[SegmentScan]:
    """The segments without those whose log is a directory: brokers pass over it (N12)."""
    listed = {segment.base_offset for segment in partition.log.logs}
    files = {segment.base_offset for segment in partition.log.without_directories().logs}
    passed_over = listed - files
    return [one for one in partition.segments if one.base_offset not in passed_over]


def _hole_finding(
    partition: PartitionScan, one: SegmentScan, hole: OffsetSpan, start: int, cleaner: _Cleaner
) -> Finding:
    """Report a hole behind a segment; `start`: no offset below it is missed."""
    if hole.next_offset <= start:
        words = (
            f"{hole.words} in no segment. The log starts at {start:,}, so consumers do "
            "not read them."
        )
        return _missing_finding("segments-apart", one, hole, message=words)
    lost = hole._replace(offset=max(hole.offset, start))
    why = cleaner.why if cleaner.settled or cleaner.excluded else None
    if why is None and cleaner.provable:
        why = _proof(partition, *lost)
    if why is None:
        words = f"{lost.words} in no segment. Whether they are lost is unknown: {cleaner.why}."
        return _missing_finding("segments-apart", one, hole, message=words)
    return _loss(partition, one, hole, lost, why)


def _loss(
    partition: PartitionScan, one: SegmentScan, hole: OffsetSpan, lost: OffsetSpan, why: str
) -> Finding:
    count = lost.next_offset - lost.offset
    words = f"{lost.words} in no segment. They are lost: {why}."
    if (left := _find_deleted(partition, hole)) is not None:
        words += f" {left} still exists: copy it before a broker start removes it."
    if partition.settings.tiered:
        words += " Remote storage may have them."
    # Offsets of markers are of no record.
    least = 1 if any(segment.has_control for segment in partition.segments) else count
    return _missing_finding(
        "segment-missing", one, hole, message=words, lost_at_least=least, lost_at_most=count
    )


def _missing_front(partition: PartitionScan, covered: Sequence[OffsetSpan]) -> Iterator[Finding]:
    """Report that the leader epochs start below the first segment."""
    first = partition.segments[0]
    base = first.base_offset
    epochs = partition.log.epoch_starts() if base > 0 else []
    if not epochs or epochs[0].start_offset >= base or partition.log_start()[0] > base:
        return
    hole = OffsetSpan(epochs[0].start_offset, base)
    if _is_elsewhere(partition, hole, covered) or _find_deleted(partition, hole) is not None:
        return
    why = (
        f"leader epoch {epochs[0].epoch} still starts at {hole.offset:,}, although brokers raise "
        f"that offset when they remove segments"
    )
    found = _loss(partition, first, hole, hole, why)
    yield found._replace(position=0)


def _start(partition: PartitionScan) -> int:
    """The offset from which on the log is needed: its start, or a snapshot that replaces it."""
    snapshots = [offset for offset, _ in partition.log.snapshots(Kind.METADATA_SNAPSHOT)]
    return max(partition.log_start()[0], partition.epochs_start(), *snapshots)


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


def _is_elsewhere(
    partition: PartitionScan, hole: OffsetSpan, covered: Sequence[OffsetSpan]
) -> bool:
    """Whether a file next to the log, or a log that the listing missed, has offsets of a hole.

    A large directory is listed by several calls, between which a broker rolls segments: a log may
    be missed whose index is seen, and one call later as well. So names are looked up, too.
    """
    start, end = hole
    if any(file.offset < end and file.next_offset > start for file in covered):
        return True
    scanned = {segment.base_offset for segment in partition.segments}
    bases = {start, *(one.base_offset for one in partition.log.segments if one.log is None)}
    if any(start <= base < end and has_log(partition.log, base) for base in bases - scanned):
        return True
    try:
        logs = {segment.base_offset for segment in LocalLog.open(partition.log.path).logs}
    except PathError:
        return False
    return any(start <= base < end for base in logs - scanned)


def has_log(log: LocalLog, base: int) -> bool:
    """Whether a segment's log is there by its name, whatever a listing said."""
    path = os.path.join(log.path, names.file_name(Kind.LOG, base))
    return places.lexists(path) and not places.isdir(path)


def _find_deleted(partition: PartitionScan, hole: OffsetSpan) -> str | None:
    """Name a log in a hole that waits for its removal."""
    for name, path in partition.log.retired:
        is_log = name.kind is Kind.LOG and name.suffix == names.DELETED
        base = name.base_offset
        is_inside = base is not None and hole.offset <= base < hole.next_offset
        if is_log and is_inside and places.size_or_zero(path):
            return os.path.basename(path)
    return None


def _missing_finding(
    code: str, one: SegmentScan, hole: OffsetSpan, **about: Unpack[About]
) -> Finding:
    """At the end of the segment before, where what is missing should follow."""
    about["position"], about["size_bytes"] = one.end_position, 0
    about["offset"] = about["expected"] = hole.offset
    about["next_offset"] = about["actual"] = hole.next_offset
    return at_place(code, one.place, **about)


def _cleaner(partition: PartitionScan) -> _Cleaner | None:
    """Say whether a cleaner was at work; None: it was, and noted how far it came (X3)."""
    target, directory, settings = partition.target, partition.directory, partition.settings
    cleaned = directory.offsets(names.CLEANER_CHECKPOINT) if directory else None
    if cleaned is not None and (target.topic or "", target.partition or 0) in cleaned:
        return None
    name = partition.log.name
    if name is not None and name.retirement in (Retirement.DELETE, Retirement.STRAY):
        return _Cleaner("the directory is waiting to be removed")
    if target.topic == names.CLUSTER_METADATA_TOPIC:
        return _Cleaner("this topic is never compacted", settled=True)
    source = settings.source("cleanup_policy")
    own = source in (OPTION, TOPIC)
    if "compact" in settings.cleanup_policy or (target.topic in COMPACTED_TOPICS and not own):
        return _Cleaner("the topic is compacted, and a cleaner may have removed them")
    why = f"this topic is not compacted (cleanup.policy={settings.cleanup_policy}, {source})"
    if own:
        return _Cleaner(why, settled=True)
    # What else holds, a broker's own file may say; the checkpoint shows what it came to.
    whole = directory is not None and cleaned is not None
    if directory is None or directory.checkpoint_time(names.REPLICATION_CHECKPOINT) is None:
        whole = False  # a copy of partitions, without what was noted of them
    if settings.topic_is_known and whole:
        return _Cleaner(why, settled=True)
    if whole and (settings.file_is_known or source != DEFAULT):
        return _Cleaner(why, excluded=True)
    if not whole:
        why = "the topic's cleanup.policy is unknown"
        return _Cleaner(why)
    return _Cleaner("the topic's cleanup.policy is unknown", provable=True)


def _proof(partition: PartitionScan, start: int, end: int) -> str | None:
    """Say what shows that records lay in [start, end); None if nothing does."""
    log = partition.log
    for segment in log.segments:
        if segment.log is None and start <= segment.base_offset < end:
            return f"segment {segment.base_offset} still has indexes, but no log"
    for offset, path in log.snapshots():
        if start < offset < end:
            return f"a producer snapshot was taken at {offset:,}"
        if offset < end:
            continue
        for producer in sound_snapshot(path) or ():
            if start <= producer.last_offset < end:
                return (
                    f"the producer snapshot at {offset:,} lists a batch of producer "
                    f"{producer.producer_id} that ends at {producer.last_offset:,}"
                )
        break
    for epoch, offset in log.epoch_starts():
        if start < offset < end:
            return f"leader epoch {epoch} started at {offset:,}"
    return None
