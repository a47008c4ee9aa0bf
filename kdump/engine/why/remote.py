"""Say of remote segments whether total retention deletes them, and what is there for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker.remote_log import COPY_STARTED, DELETE_STARTED, STATES, RemoteLog, Tier
from kdump.broker.remote_retention import EPOCHS, RETRY, RemoteHold, RemotePass
from kdump.broker.retention import BY_SIZE, BY_TIME, LOG_START
from kdump.engine.reading.remote_partitions import RemotePartition, gaps_of
from kdump.engine.why.fates import DELETABLE, KEPT, NO_RULE, NOT_DELETED, length_text, minute_text
from kdump.rows.why import RemoteFate, TierSpace
from kdump.storage import places
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.remote_log import RemoteSegment
    from kdump.broker.retention import LogFacts
    from kdump.broker.settings import Settings
    from kdump.broker.versions import Version

UNFINISHED, UNREFERENCED, ORPHAN, GAP = "unfinished", "unreferenced", "orphan", "gap"
_WASTED = (UNFINISHED, UNREFERENCED, ORPHAN)
_ONLY_COPY = (
    "no metadata record has it or its offsets, so no broker reads it. It may be the only copy: "
    "keep it"
)
_STAYS = RemoteHold(None, None, is_ours=False)
_NEXT = "deleted by the next pass of remote retention"


class JudgingContext(NamedTuple):
    """By what the remote segments of a partition that lies here are judged."""

    log: LogFacts
    settings: Settings
    broker: Version
    now_ms: int


def remote_rows(of: RemotePartition, by: JudgingContext | None) -> Iterator[RemoteFate | TierSpace]:
    """Yield a row for each remote segment, by offset, and the sum; `by` None: it is not here."""
    log = of.log or RemoteLog()
    holds: Mapping[str, RemoteHold] = {}
    if by is not None and of.tier is not None and of.tier.log is not None:
        holds = RemotePass(of.tier, by.log, by.settings, by.now_ms, by.broker).holds
    read = log.reachable_ids()
    bases = {one.segment_id: one.start_offset for one in log.segments.values()}
    bases |= {one: base for one, base in of.objects.bases.items() if one not in bases}
    gaps = list(gaps_of(of))
    sizes: Counter[str] = Counter()
    size_bytes = only_remote_bytes = 0
    dues = []
    for segment_id, base in sorted(bases.items(), key=lambda one: (one[1], one[0])):
        segment = log.segments.get(segment_id)
        fate = _fate(of, segment_id, segment, holds.get(segment_id, _STAYS), by)
        if fate.verdict in _WASTED and any(first <= base <= last for first, last in gaps):
            fate = _Fate(GAP, fate.rule, fate.due_ms, _ONLY_COPY)
        objects = None
        if of.objects.folder:
            objects = sum(map(_size, of.objects.paths(segment_id)))
        only_remote = None if of.tier is None else base < of.tier.first_base
        size = segment.size_bytes if segment else 0
        size_bytes += size
        if segment_id in read and only_remote is not False:
            only_remote_bytes += size
        sizes[fate.verdict] += size if objects is None else objects
        dues += [fate.due_ms] if fate.due_ms is not None and fate.verdict != DELETABLE else []
        yield RemoteFate(
            topic=of.topic,
            partition=of.number,
            segment_id=segment_id,
            start_offset=base,
            end_offset=segment and segment.end_offset,
            size_bytes=segment and segment.size_bytes,
            state=STATES[segment.state] if segment else None,
            only_remote=only_remote,
            object_bytes=objects,
            verdict=fate.verdict,
            rule=fate.rule,
            deletable_at_ms=fate.due_ms,
            text=fate.text,
        )
    yield TierSpace(
        topic=of.topic,
        topic_id=of.topic_id,
        partition=of.number,
        log_start=None if of.tier is None else of.tier.log_start,
        local_start=None if of.tier is None else of.tier.local_start,
        segments=len(bases),
        size_bytes=size_bytes,
        only_remote_bytes=only_remote_bytes,
        object_bytes=sizes.total() if of.objects.folder else None,
        wasted_bytes=sum(sizes[one] for one in _WASTED),
        bytes_by_verdict=dict(sorted(sizes.items())),
        next_deletable_ms=min(dues, default=None),
    )


def _size(path: str) -> int:
    with suppress(OSError):  # a broker has deleted it meanwhile
        return places.getsize(path)
    return 0


class _Fate(NamedTuple):
    verdict: str
    rule: str
    due_ms: int | None
    text: str


def _fate(
    of: RemotePartition,
    segment_id: str,
    segment: RemoteSegment | None,
    hold: RemoteHold,
    by: JudgingContext | None,
) -> _Fate:
    if of.log is not None and of.log.problem is not None:
        text = f"kept: brokers cannot read the metadata of remote segments: {of.log.problem}"
        return _Fate(KEPT, NO_RULE, None, text)
    if segment is None:
        return _without_record(of, segment_id)
    if not of.tiered:
        text = "its topic was deleted or is no longer tiered; no broker will retry the deletion"
        return _Fate(ORPHAN, NO_RULE, None, text)
    if by is None or of.tier is None:
        text = "unknown: the leader decides, and the partition is not here"
        return _Fate(KEPT, NO_RULE, None, text)
    settings = by.settings
    if hold.rule is not None:
        source = settings.source({BY_TIME: "retention_ms"}.get(hold.rule, "retention_bytes"))
        where = "" if source == "topic" else f" ({source})"
        why = {
            BY_TIME: f"its last record is from {minute_text(segment.max_timestamp_ms)}, "
            f"retention.ms={length_text(settings.retention_ms)}{where}",
            BY_SIZE: f"retention.bytes={settings.retention_bytes:,}{where}",
            LOG_START: f"the log starts at {of.tier.log_start:,}",
            RETRY: "its deletion started but did not finish",
            EPOCHS: "its leader epochs are older than those of the log",
        }[hold.rule]
        return _Fate(DELETABLE, hold.rule, by.now_ms, f"{_NEXT}: {why}")
    return _kept_fate(segment, hold, settings, of.tier)


def _without_record(of: RemotePartition, segment_id: str) -> _Fate:
    if of.log is not None and segment_id in of.log.deleted:
        text = "deleted in the metadata, but its objects still exist; no broker looks for them"
        return _Fate(ORPHAN, NO_RULE, None, text)
    if of.complete:
        text = "in no metadata record: no broker reads or deletes it"
        return _Fate(ORPHAN, NO_RULE, None, text)
    text = "unknown: the metadata is not here, or is incomplete"
    return _Fate(KEPT, NO_RULE, None, text)


def _kept_fate(segment: RemoteSegment, hold: RemoteHold, settings: Settings, tier: Tier) -> _Fate:
    verdict, what = KEPT, "kept"
    if segment.state == COPY_STARTED:
        verdict = UNFINISHED
        what = "unfinished upload: it is running, or was interrupted; no broker deletes it"
    elif segment.state == DELETE_STARTED:
        verdict, what = UNFINISHED, "unfinished deletion: no broker retries it"
    if not hold.is_ours:
        if verdict == KEPT and tier.reads(segment):
            what = "kept for its first records; the others belong to a diverged log,"
        elif verdict == KEPT:
            verdict, what = UNREFERENCED, "belongs to a diverged log, by its leader epochs: kept"
        text = f"{what} until the log starts above it"
        return _Fate(verdict, NO_RULE, None, text)
    if hold.due_ms is not None:
        rule = f"retention.ms={length_text(settings.retention_ms)}"
        text = f"{what} until {minute_text(hold.due_ms)} by {rule}"
        return _Fate(verdict, BY_TIME, hold.due_ms, text)
    if settings.retention_bytes >= 0:
        text = f"{what} until more is written: retention.bytes={settings.retention_bytes:,}"
        return _Fate(verdict, BY_SIZE, None, text)
    if verdict == KEPT:
        verdict = NOT_DELETED
    return _Fate(verdict, NO_RULE, None, f"{what}: retention.ms and retention.bytes are -1")
