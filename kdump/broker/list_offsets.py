"""Answer ListOffsets, old and new, as a broker would: the offset for a time (L10-L18)."""

from __future__ import annotations

import time

from kdump.broker.lookup_records import BrokerError, RemoteOnlyError, headers_of, records_at
from kdump.broker.partition import PartitionView
from kdump.broker.remote_log import Tier
from kdump.broker.segment import Segment
from kdump.broker.versions import (
    EARLIEST_LOCAL_LOOKUP,
    EARLIEST_PENDING_LOOKUP,
    EPOCHS_ANSWERED,
    EXACT_MAX_TIMESTAMP,
    LATEST_TIERED_LOOKUP,
    LOCAL_COPY_SEARCHED,
    LOG_START,
    LOWER_TIMES_REFUSED,
    MAX_TIMESTAMP_LOOKUP,
    TIME_LOOKUP,
    Version,
    has,
)
from kdump.kernels import columns as c
from kdump.storage import places
from kdump.storage.checkpoints import load_epochs, parse_leader_epochs
from kdump.storage.index import OffsetPosition
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.time_index import TimestampOffset
from kdump.tuples import NamedTuple

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
EARLIEST_PENDING = -6


class TimeAnswer(NamedTuple):
    """What a broker answers: offset and timestamp -1 for "none", as in the protocol.

    `segment`, the entries and `position` say where it looked, null where it did not get that far.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int | None
    segment: int | None = None
    time_index_entry: TimestampOffset | None = None
    index_entry: OffsetPosition | None = None
    position: int | None = None
    batches_scanned: int = 0


NONE = TimeAnswer(-1, -1, None)


_SINCE = {
    MAX_TIMESTAMP: MAX_TIMESTAMP_LOOKUP,
    EARLIEST_LOCAL: EARLIEST_LOCAL_LOOKUP,
    LATEST_TIERED: LATEST_TIERED_LOOKUP,
    EARLIEST_PENDING: EARLIEST_PENDING_LOOKUP,
}

#: The request versions that a release was the first to know (L17), and the special value of each.
_REQUESTS = (
    (1, TIME_LOOKUP, None),
    (4, EPOCHS_ANSWERED, None),
    (7, MAX_TIMESTAMP_LOOKUP, MAX_TIMESTAMP),
    (8, EARLIEST_LOCAL_LOOKUP, EARLIEST_LOCAL),
    (9, LATEST_TIERED_LOOKUP, LATEST_TIERED),
    (11, EARLIEST_PENDING_LOOKUP, EARLIEST_PENDING),
)


def is_special(target: int, broker: Version) -> bool:
    """Whether a broker takes a target for one of the special values, and not for a time (L11)."""
    return target in (LATEST, EARLIEST) or (target in _SINCE and has(broker, _SINCE[target]))


def list_offsets(view: PartitionView, target: int, request: int | None = None) -> TimeAnswer:
    """Answer a ListOffsets request of version 1 or later (L11-L15).

    `request` is its version; None: the newest that the broker knows.
    """
    if request is not None:
        _refuse_request(view.broker, target, request)
    answer = _answer(view, target)
    has_epoch = has(view.broker, EPOCHS_ANSWERED) and (request is None or request >= 4)
    return answer if has_epoch else answer._replace(leader_epoch=None)


def _refuse_request(broker: Version, target: int, request: int) -> None:
    """Raise what a broker answers to a version of the request that it, or the target, is not of."""
    for version, change, value in _REQUESTS:
        if request >= version and not has(broker, change):
            since = ".".join(map(str, change.since))
            raise BrokerError(
                f"UNSUPPORTED_VERSION: brokers before {since} do not know version {request}"
            )
        if target == value and request < version and has(broker, LOWER_TIMES_REFUSED):
            raise BrokerError(f"UNSUPPORTED_VERSION: {target} requires version {version}")


def _answer(view: PartitionView, target: int) -> TimeAnswer:
    special = is_special(target, view.broker)
    if not special:
        if not has(view.broker, TIME_LOOKUP):
            raise BrokerError("brokers before 0.10.1 answer by modification time only")
        if target < 0 and has(view.broker, LOWER_TIMES_REFUSED):
            raise BrokerError("UNSUPPORTED_VERSION: neither a time nor one of the special values")
    if target == LATEST:
        end = view.visible_end
        return TimeAnswer(end, -1, _latest_epoch(view))
    if special and view.tier is not None and target != EARLIEST and target != MAX_TIMESTAMP:
        return _look_up_tiered(view, view.tier, target)
    if special and target in (EARLIEST, EARLIEST_LOCAL):
        return TimeAnswer(view.log_start, -1, _earliest_epoch(view))
    if special and target in (LATEST_TIERED, EARLIEST_PENDING):
        return NONE
    if view.is_empty_at_start():
        return NONE
    if special:
        answer = _maximum(view)
    elif view.tier is not None:
        answer = _time_in_tiers(view, view.tier, target)
    else:
        start = view.log_start if has(view.broker, LOG_START) else 0
        answer = _by_time(view, target, start)
    if answer.offset >= 0 and not view.hands_out(answer.offset):
        view.note(
            "end",
            view.target.path,
            f"offset {answer.offset:,} is at or after the last offset that a consumer receives "
            f"({view.bound:,}): none",
        )
        return answer._replace(offset=-1, timestamp_ms=-1, leader_epoch=None)
    return answer


def _look_up_tiered(view: PartitionView, tier: Tier, target: int) -> TimeAnswer:
    """The offsets between the remote and the local log (W7)."""
    if target == EARLIEST_LOCAL:
        return TimeAnswer(tier.local_start, -1, tier.epoch_at(tier.local_start))
    if tier.log is None and tier.copies:
        raise RemoteOnlyError(None)
    offset, epoch = tier.latest(view.log_end)
    if target == LATEST_TIERED:
        return TimeAnswer(offset, -1, epoch)
    pending = max(offset + 1, view.log_start)
    if not view.hands_out(pending) or (offset < 0 and tier.local_start != tier.log_start):
        return NONE
    return TimeAnswer(pending, -1, tier.epoch_at(pending))


def _time_in_tiers(view: PartitionView, tier: Tier, target: int) -> TimeAnswer:
    """Look a time up in the remote log first, then in the local one (W5)."""
    if tier.problem is not None:
        raise BrokerError(f"no remote segment is served: {tier.problem}")
    if tier.log is None and view.log_start < tier.local_start:
        raise RemoteOnlyError(None)
    for remote in tier.segments_for_time(target, view.log_end, view.broker):
        is_local = remote.start_offset >= tier.first_base
        if is_local and has(view.broker, LOCAL_COPY_SEARCHED):
            answer = _by_time(view, target, view.log_start)
        else:
            segment = view.remote_segment(remote)
            view.note(
                "segment",
                segment.path,
                f"remote segment {remote.segment_id} reaches the target according to its metadata "
                f"({remote.max_timestamp_ms}): it is searched first",
                segment=remote.start_offset,
                largest_timestamp_ms=remote.max_timestamp_ms,
            )
            segment.check()
            answer = _in_segment(view, segment, target, view.log_start)
        if answer.offset >= 0:
            return answer
        break  # the broker asks no other remote segment
    return _by_time(view, target, tier.local_start)


def _by_time(view: PartitionView, target: int, start: int) -> TimeAnswer:
    """The first record at or after a time, in the first local segment that reaches it (L12).

    Only that segment is searched: if nothing is found there, the answer is "none".
    """
    for segment in view.onward(view.first_local):
        reach = _reach_of(segment)
        if reach.time_ms < target:
            text = f"{reach.words} is before the target"
        else:
            text = (
                f"{reach.words} reaches the target: brokers search only the first segment that does"
            )
        view.note("segment", segment.path, text, segment=segment.base_offset, **reach.details)
        if reach.time_ms >= target:
            return _in_segment(view, segment, target, start)
    view.note("segment", view.target.path, "no segment reaches the target: none")
    return NONE


def _in_segment(view: PartitionView, segment: Segment, target: int, start: int) -> TimeAnswer:
    times = segment.time_index()
    slot = view.search(times, target, segment.files.get(Kind.TIME_INDEX))
    time_entry = times.entry(slot) if slot >= 0 else None
    offset = time_entry.offset if time_entry else segment.base_offset
    entry = view.index_entry(segment, max(offset, start))
    position = segment.start + (entry.position if entry else 0)
    answer = _scan(view, segment, position, target, start)
    return answer._replace(
        segment=segment.base_offset, time_index_entry=time_entry, index_entry=entry
    )


class _Reach(NamedTuple):
    """The time up to which a segment is taken to reach, and what that time is."""

    time_ms: int
    words: str
    details: dict[str, object]


def _reach_of(segment: Segment) -> _Reach:
    """A segment's largest timestamp as the broker holds it: its last time index entry.

    Where that is below 0 the file's modification time stands in.
    """
    largest = segment.last_time().timestamp_ms
    if largest >= 0:
        words = f"its largest timestamp, {largest},"
        return _Reach(largest, words, {"largest_timestamp_ms": largest})
    modified = segment.modified_ms()
    words = f"it has no time entry, and the time its file was modified, {modified},"
    return _Reach(modified, words, {"largest_timestamp_ms": None, "modified_ms": modified})


def first_at_time(
    segment: Segment, position: int, target: int, start: int = 0
) -> tuple[TimeAnswer, int]:
    """Scan batches for the first record at or after a time and an offset (L12.5).

    With the answer comes where its batch ends.
    """
    scanned = 0
    for batches in headers_of(segment, position):
        for row, greatest in enumerate(batches.max_timestamps):
            scanned += 1
            if greatest < target:
                continue
            where = batches.position(row)
            for offset, timestamp in records_at(segment, where):
                if timestamp >= target and offset >= start:
                    answer = TimeAnswer(offset, timestamp, _epoch_of(batches, row), position=where)
                    end = where + batches.size_bytes(row)
                    return answer._replace(batches_scanned=scanned), end
    return NONE._replace(batches_scanned=scanned), -1


def _scan(
    view: PartitionView, segment: Segment, position: int, target: int, start: int
) -> TimeAnswer:
    answer, end = first_at_time(segment, position, target, start)
    count = answer.batches_scanned
    words = f"{count:,} {'batch' if count == 1 else 'batches'} from position {position:,}"
    if answer.position is None:
        words += " to the end: no such record; the broker does not continue with the next segment"
        view.note("scan", segment.path, words, batches=answer.batches_scanned)
        return answer
    reach = end - position
    view.note(
        "scan",
        segment.path,
        f"{words} on, {reach:,} bytes: the first with a record at or after the target starts at "
        f"{answer.position:,}",
        position=answer.position,
        batches=answer.batches_scanned,
        bytes=reach,
    )
    return answer


def _maximum(view: PartitionView) -> TimeAnswer:
    """The record with the greatest timestamp: request -3 (L15)."""
    found = [(segment, *segment.last_time()) for segment in view.onward(view.first_local)]
    if not found:
        return NONE
    best, largest, offset = max(found, key=lambda one: one[1])
    view.note(
        "segment",
        best.path,
        f"its largest timestamp, {largest}, is the greatest of {len(view.segments):,} segments",
        segment=best.base_offset,
        largest_timestamp_ms=largest,
    )
    if not has(view.broker, EXACT_MAX_TIMESTAMP):
        # With the partition's latest epoch, whatever that of the record is.
        return TimeAnswer(offset, largest, _latest_epoch(view), segment=best.base_offset)
    entry = view.index_entry(best, offset)
    position = best.start + (entry.position if entry else 0)
    scanned = 0
    for batches in headers_of(best, position):
        for row, greatest in enumerate(batches.max_timestamps):
            scanned += 1
            if greatest != largest:
                continue
            where = batches.position(row)
            answer = NONE._replace(segment=best.base_offset, batches_scanned=scanned)
            if not batches.has_timestamps(row):
                return answer  # magic 0 has no times
            for record, timestamp in records_at(best, where, streaming=True):
                if timestamp == largest:
                    return answer._replace(
                        offset=record,
                        timestamp_ms=largest,
                        leader_epoch=_epoch_of(batches, row),
                        index_entry=entry,
                        position=where,
                    )
            return answer
    return NONE._replace(segment=best.base_offset, batches_scanned=scanned)


def list_offsets_v0(
    view: PartitionView, target: int, max_offsets: int, now_ms: int | None = None
) -> list[int]:
    """Answer a ListOffsets request of version 0: by modification time, newest first (L10)."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    pairs = [
        (max(segment.base_offset, view.log_start), segment.modified_ms())
        for segment in view.onward(view.first_local)
    ]
    if view.segments and places.getsize(view.segments[-1].path) > 0:
        pairs.append((view.visible_end, now))
    return sorted(offsets_by_file_time(pairs, target, max_offsets), reverse=True)


def offsets_by_file_time(pairs: list[tuple[int, int]], target: int, max_offsets: int) -> list[int]:
    """Choose among offsets and the times of their files, from the newest at a target on (L10)."""
    if target == LATEST:
        start = len(pairs) - 1
    elif target == EARLIEST:
        start = 0
    else:
        start = max((at for at, (_, when) in enumerate(pairs) if when <= target), default=-1)
    return [offset for offset, _ in pairs[: start + 1]][::-1][:max_offsets]


def _epoch_of(batches: c.RecordBatches, row: int) -> int | None:
    epoch = batches.leader_epoch(row)
    return epoch if epoch >= 0 and batches.has_leader_epoch(row) else None


def _epochs(view: PartitionView) -> list[tuple[int, int]]:
    assert view.target.log is not None
    for name, path in view.target.log.others:
        if name.kind is Kind.LEADER_EPOCHS:
            with Source(path) as source:
                found = parse_leader_epochs(source.read_whole())
            if not found.problems:
                # A start drops those past the log end (R6.7); the one that begins there is that
                # of the leader, which would be chosen again.
                end = view.log_end
                return [
                    (epoch, start) for epoch, start in load_epochs(found.entries) if start <= end
                ]
    return []


def _latest_epoch(view: PartitionView) -> int | None:
    epochs = _epochs(view)
    return epochs[-1][0] if epochs else None


def _earliest_epoch(view: PartitionView) -> int | None:
    epochs = _epochs(view)
    if not epochs:
        return None
    return max((epoch for epoch in epochs if epoch[1] <= view.log_start), default=(None, 0))[0]
