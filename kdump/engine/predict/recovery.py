"""Predict what the next start of a broker would do with each partition.

The start is gone through as the broker goes through it, on what it would read and nothing else: in
`kdump.broker`, `loading` has the steps, `segment` one segment's recovery, `log_reader` the way
entries are met. Here the result becomes a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.loading import LogLoader
from kdump.broker.log_reader import MemoryRefusalError, RefusalError, UnknowableError
from kdump.broker.shutdown_state import Stop, stop_of
from kdump.broker.versions import COUNTED_OFFSETS, STRAYS_SET_ASIDE, Version, has
from kdump.engine.predict.losses import Losses, count_losses, find_believed_end, last_header
from kdump.engine.predict.strays import set_aside
from kdump.errors import PathError
from kdump.rows.verify import Recovery
from kdump.storage import names
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.log_dir import LISTED_SECONDS
from kdump.storage.names import Kind, Retirement
from kdump.storage.offsets import RELATIVE_MAX, end_of
from kdump.storage.pre08_records import Pre08Entry, Pre08Records
from kdump.storage.source import Source
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.segment import Segment
    from kdump.broker.settings import Settings
    from kdump.replay.cluster_state import ClusterState
    from kdump.storage.local_log import LocalLog
    from kdump.storage.log_dir import LogDir
    from kdump.storage.targets import Target


class Pre08Start(NamedTuple):
    """What becomes of the last file; offsets are byte positions (F1)."""

    segment: int
    recovered: bool
    position: int
    end_before: int
    end_after: int
    records_lost: int
    bytes_read: int


def start_pre08(log: LocalLog, *, clean: bool) -> Pre08Start:
    """Predict the start; raises RefusalError for a gap between files."""
    files = [(at.base_offset, at.files[Kind.PRE08_LOG]) for at in log.logs if at.is_pre08]
    if not files:
        return Pre08Start(0, False, 0, 0, 0, 0, 0)
    end = files[0][0]
    for base, path in files:
        if base != end:
            raise RefusalError(
                f"IllegalStateException: the files do not validate: one ends at {end}, the next "
                f"begins at {base}"
            )
        with Source(path) as source:
            end = base + source.size
    base, path = files[-1]
    if clean:
        return Pre08Start(base, False, end - base, end, end, 0, 0)
    valid, lost = _recover(path)
    return Pre08Start(base, True, valid, end, base + valid, lost, end - base)


def _recover(path: str) -> tuple[int, int]:
    """Where the first message stands that is not whole and valid, and how many go with it."""
    valid, lost, cut = 0, 0, False
    with Source(path) as source:
        for item in Pre08Records(source, limit=DEFAULT_LIMIT).walk():
            if isinstance(item, Pre08Entry) and not cut:
                valid = item.position + item.size_bytes
            elif isinstance(item, Pre08Entry) or item.entry is not None:
                cut, lost = True, lost + 1
            else:
                cut = True
    return valid, lost


_METADATA_INTERVAL_BYTES = 4096  # the metadata log takes none of the broker's log settings


def predict_partition(
    target: Target,
    broker: Version,
    settings: Settings,
    *,
    cluster: ClusterState | None = None,
    stop: Stop | None = None,
) -> Recovery:
    """Predict the start for one partition.

    `cluster` is what the metadata log says (see `cluster_of`), None where there is none: then a
    partition counts as known to the cluster if any checkpoint of its data directory names it.
    `stop` is how the broker stopped; None: as the data directory says.
    """
    assert target.log is not None
    log, directory = target.log.without_directories(), target.log_dir(LISTED_SECONDS)
    row = unknown_recovery(target, "")
    try:
        stop = stop or stop_of(log, directory, broker)
        if not has(broker, COUNTED_OFFSETS):
            return _pre08(row, log, clean=stop.clean)
        loading = load(log, broker, settings, stop)
        row = _describe_result(row, log, loading, _high_watermark(log, directory))
        if has(broker, STRAYS_SET_ASIDE):
            row = set_aside(row, log, directory, cluster)
    except RefusalError as error:
        memory = isinstance(error, MemoryRefusalError)
        name, _, text = str(error).partition(": ")
        return row.replaced(
            outcome="out-of-memory" if memory else "refuses-to-start",
            reason=f"the broker would stop with {name}" + (f" ({text})" if text else ""),
        )
    except UnknowableError as error:
        return unknown_recovery(target, f"cannot predict what the broker does with {error}")
    except PathError as error:
        return unknown_recovery(target, str(error))
    return row


def unknown_recovery(target: Target, reason: str) -> Recovery:
    """Return the row of a partition of which nothing can be foretold."""
    return Recovery(
        topic=target.topic,
        partition=target.partition,
        outcome="unknown",
        segments_read=[],
        segments_deleted=[],
        indexes_rebuilt=[],
        remedies=[],
        records_lost=0,
        reason=reason,
        path=target.path,
    )


def load(log: LocalLog, broker: Version, settings: Settings, stop: Stop) -> LogLoader:
    """Go through a start with one partition; raises RefusalError where it would not succeed."""
    if log.topic == names.CLUSTER_METADATA_TOPIC:
        settings = settings._replace(index_interval_bytes=_METADATA_INTERVAL_BYTES)
    loading = LogLoader(log, broker, settings, stop)
    loading.run()
    return loading


def _pre08(row: Recovery, log: LocalLog, *, clean: bool) -> Recovery:
    found = start_pre08(log, clean=clean)
    row = row.replaced(
        log_end_before=found.end_before,
        log_end_after=found.end_after,
        bytes_read=found.bytes_read,
    )
    if not found.recovered:
        return row.replaced(outcome="clean", reason="the broker stopped cleanly")
    row = row.replaced(segments_read=[found.segment])
    if found.end_after == found.end_before:
        return row.replaced(outcome="recover", reason="the last file is sound")
    return row.replaced(
        outcome="truncate",
        truncate_segment=found.segment,
        truncate_position=found.position,
        first_lost_offset=found.end_after,
        records_lost=found.records_lost,
        reason=f"the message at position {found.position:,} of the last file is incomplete or "
        "invalid",
    )


def _high_watermark(log: LocalLog, directory: LogDir | None) -> int:
    """What the checkpoint of high watermarks says (X3): the log once reached at least so far."""
    if directory is None or log.name is None or log.name.retirement is not None:
        return 0
    return directory.offset(names.REPLICATION_CHECKPOINT, log.topic, log.partition) or 0


def _describe_result(
    row: Recovery, log: LocalLog, loading: LogLoader, high_watermark: int
) -> Recovery:
    """Say what the start came to."""
    active = loading.segments[max(loading.segments)]
    believed = _find_believed_end(log, loading, active)
    lost, first_lost = _count_losses(log, loading, active, believed)
    # A split may make segments of absurd bases: the log ended where its newest could reach at most.
    lost = lost._replace(end_offset=min(lost.end_offset, _find_reach(log, active)))
    end = max(lost.end_offset, believed)
    in_the_log = lost
    if end < high_watermark <= end + RELATIVE_MAX:  # further up it cannot be right itself
        # What was committed and can no longer be read in the log, counted by its offsets.
        lost = Losses(lost.records + high_watermark - end, high_watermark)
        first_lost = end if first_lost is None else first_lost
    recovered = [base for base, _ in loading.rebuilt] + loading.recovered
    deleted = sorted(
        {segment.base_offset for segment in loading.deleted} | set(loading.files.replaced)
    )
    cut = loading.cut or next(iter(loading.at_load), None)
    outcome, reason = _outcome(loading, active, cut, in_the_log, believed)
    if loading.split and outcome != "wrong-log-end":
        reason = f"{_split_words(loading)}; {reason}" if reason else _split_words(loading)
    if end < high_watermark <= end + RELATIVE_MAX:
        why = f"the log ends at {end:,}, but the high watermark on disk is {high_watermark:,}"
        if outcome == "clean":
            reason = why
        else:
            reason = f"{why}; {reason}" if outcome == "recover" else f"{reason}; {why}"
    row = row.replaced(
        outcome=outcome,
        segments_read=sorted(set(recovered) | set(loading.replayed)),
        truncate_segment=None if cut is None else cut.base_offset,
        truncate_position=None if cut is None else cut.size_bytes,
        log_end_before=max(lost.end_offset, believed),
        log_end_after=loading.log_end,
        records_lost=lost.records,
        first_lost_offset=first_lost,
        segments_deleted=deleted,
        indexes_rebuilt=sorted(set(recovered)),
        reason=reason,
        bytes_read=loading.bytes_read,
    )
    if log.name is None or log.name.retirement is not Retirement.DELETE:
        return row
    return row.replaced(
        outcome="delete-segments",
        segments_deleted=sorted(loading.segments),
        log_end_before=None,
        log_end_after=None,
        reason="this directory is being deleted; the start continues the deletion",
    )


def _segments(count: int) -> str:
    return "1 segment" if count == 1 else f"{count:,} segments"


def _after_it(count: int) -> str:
    return "the segment after it is" if count == 1 else f"the {count:,} segments after it are"


def _outcome(
    loading: LogLoader, active: Segment, cut: Segment | None, lost: Losses, believed: int
) -> tuple[str, str]:
    if loading.above_log_start and loading.log_end != believed:
        split = "the segment is split, and " if loading.split else ""
        return "wrong-log-end", (
            f"the last batch has an impossible offset: {split}the log would end at "
            f"{loading.log_end:,}, though the batches before end at {believed:,}; repair or remove "
            "that batch first (see the finding log-end-astray)"
        )
    if not loading.above_log_start:
        return "delete-segments", (
            f"the log would end below its start, offset {loading.stop.log_start}: all segments "
            "are deleted, and an empty one is created there"
        )
    if loading.deleted:
        if cut is None:
            return (
                "delete-segments",
                "a .swap file of an earlier cleaning replaces the segment before it",
            )
        return "delete-segments", (
            f"segment {cut.base_offset} is truncated at position {cut.size_bytes:,} "
            f"({cut.why_cut}), and "
            f"{_after_it(len(loading.deleted))} deleted"
        )
    if cut is not None:
        outcome = "truncate" if cut.size_bytes else "empty"
        return outcome, (
            f"segment {cut.base_offset} is truncated at position {cut.size_bytes:,} ({cut.why_cut})"
        )
    if lost.records:
        return "empty", (
            f"the last index entry of segment {active.base_offset} is above the end of the log, "
            "so the broker treats the segment as empty and assigns its offsets again"
        )
    if loading.split:
        return "recover", ""
    if loading.recovered or loading.rebuilt:
        whys = [f"segment {base}: {why}" for base, why in loading.rebuilt]
        if loading.recovered:
            whys.append(
                f"without a clean shutdown, recovery reads {_segments(len(loading.recovered))} "
                f"from offset {loading.stop.recovery_point} on and truncates nothing"
            )
        return "recover", "; ".join(whys)
    if loading.files.swapped:
        return "recover", ".swap files are put in place"
    if not loading.stop.clean:
        return "recover", f"there is no log: an empty one starts at {active.base_offset}"
    return "clean", "the broker stopped cleanly"


def _split_words(loading: LogLoader) -> str:
    """Name the segments that a start splits, and where their parts begin (R15)."""
    made = sorted(base for base, segment in loading.segments.items() if segment.is_part)
    parts = ", ".join(map(str, made))
    split = ", ".join(map(str, loading.split))
    return f"segment {split} is split, as its offsets are too far apart for an index: into {parts}"


def _find_reach(log: LocalLog, active: Segment) -> int:
    """The offset that nothing in the newest segment on disk can reach."""
    return end_of(max((one.base_offset for one in log.logs), default=active.base_offset), None)


def _find_believed_end(log: LocalLog, loading: LogLoader, active: Segment) -> int:
    """Where the log would end if its last batch had an offset that fits.

    That is where the broker finds it, unless no segment can reach so far, or batches before the
    last lie above it. A split gives those too far up a segment of their own.
    """
    end = loading.log_end
    if not (loading.stop.recovers and active.size_bytes):
        return end
    most = _find_reach(log, active)
    below = [base for base in loading.segments if base < most]
    if end > most and below:
        return find_believed_end(loading.segments[max(below)], most)
    if loading.stop.clean and end > active.base_offset:
        last, highest = last_header(active)
        if last < highest:
            return max(end, find_believed_end(active, most))
    return end


def _count_losses(
    log: LocalLog, loading: LogLoader, active: Segment, believed: int
) -> tuple[Losses, int | None]:
    """Count what is lost behind the log end, and say where it begins."""
    lost = Losses(0, min(loading.log_end, believed))
    parts = [(segment, segment.end, segment.original_end) for segment in loading.at_load]
    if loading.cut is not None:
        parts.append((loading.cut, loading.cut.end, loading.cut.original_end))
    parts += [(at, at.start, at.original_end) for at in loading.deleted]
    empty = active.size_bytes > 0 and loading.log_end == active.base_offset
    below = loading.log_end < believed
    if not parts and (empty or below) and loading.stop.recovers:
        parts.append((active, active.start, active.end))
    bases = sorted({segment.base_offset for segment in log.logs})
    first: int | None = None
    for segment, position, end in parts:
        before = lost
        if segment is not loading.cut and segment.base_offset < believed and not below:
            # Lost in the midst of the log: what is behind stays, so the log end says nothing.
            offset = segment.valid_end if position > segment.start else segment.base_offset
            before = Losses(lost.records, offset)
        next_base = next((base for base in bases if base > segment.base_offset), None)
        found = count_losses(segment, position, end, before, next_base)
        if found.records > lost.records:
            start = min(before.end_offset, believed)
            first = start if first is None else min(first, start)
        lost = Losses(found.records, max(lost.end_offset, found.end_offset))
    return lost, first
