"""Compare the answer of a lookup with that of a scan from the first byte on (`--check`).

A scan and a lookup may lawfully differ for times: a broker searches one segment only, and says
"none" where that one has nothing (L18). Any other difference means that an index lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.list_offsets import is_special
from kdump.broker.versions import EXACT_MAX_TIMESTAMP, has
from kdump.broker.visibility import AbortFilter
from kdump.engine.reading.damage import at_place
from kdump.findings.finding import Finding
from kdump.findings.rows import Place
from kdump.kernels import columns as c
from kdump.kernels.text_form import time_text
from kdump.record.batch import read_batch
from kdump.storage.file_records import FileRecords
from kdump.storage.names import OFFSET_MAX
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.list_offsets import TimeAnswer
    from kdump.broker.partition import PartitionView
    from kdump.broker.segment import Segment
    from kdump.record.frames import Run

_LATEST, _MAX_TIMESTAMP = -1, -3


class Hit(NamedTuple):
    """A record that a scan found; `wrapper` is where it stands in one that is said to end before.

    That is its position and its offset: such a record is out of a broker's reach (F12).
    """

    offset: int
    timestamp_ms: int
    segment: int
    wrapper: tuple[int, int] | None = None


def check_offset(
    view: PartitionView, offset: int, answered: int | None
) -> tuple[int | None, list[Finding]]:
    """Return the offset that a scan finds, and a finding if it is another."""
    hit = _first_from(view, offset) if offset >= view.log_start else None
    scanned = hit.offset if hit else None
    if scanned == answered:
        return scanned, []
    if hit is not None and hit.wrapper is not None:
        return scanned, [_unreachable(view, hit, hit.wrapper, answered)]
    message = (
        f"For offset {offset:,} the index leads to {_words(answered)}, but a scan of the log "
        f"finds {_words(scanned)}."
    )
    return scanned, [_differs("offset-lookup-differs", view, hit, scanned, answered, message)]


def check_time(
    view: PartitionView, target_ms: int, answer: TimeAnswer
) -> tuple[int | None, list[Finding]]:
    """Return the offset that a scan finds for a time, and a finding if it is another."""
    answered = answer.offset if answer.offset >= 0 else None
    hit: Hit | None = None
    special = is_special(target_ms, view.broker)
    if target_ms == _LATEST:
        scanned: int | None = _find_scanned_end(view)
    elif special and target_ms == _MAX_TIMESTAMP:
        hit = _greatest(view)
        scanned = hit.offset if hit else None
    elif not special:
        hit = _first_at(view, target_ms)
        scanned = hit.offset if hit else None
    else:
        return answered, []
    if scanned == answered:
        return scanned, []
    what = f"the special time {target_ms}" if special else f"time {time_text(target_ms)}"
    message = (
        f"For {what} the broker answers {_words(answered)}, but a scan of the log finds "
        f"{_words(scanned)}."
    )
    lawful = hit is not None and _lawful(view, target_ms, answer, hit)
    code = "time-lookup-passes-over" if lawful else "time-lookup-differs"
    return scanned, [_differs(code, view, hit, scanned, answered, message)]


def _words(offset: int | None) -> str:
    return "none" if offset is None else f"offset {offset:,}"


def _differs(
    code: str,
    view: PartitionView,
    hit: Hit | None,
    scanned: int | None,
    answered: int | None,
    message: str,
) -> Finding:
    target = view.target
    return at_place(
        code,
        Place(target.topic, target.partition, hit.segment if hit else None, target.path),
        offset=scanned,
        expected=scanned,
        actual=answered,
        message=message,
    )


def _unreachable(
    view: PartitionView, hit: Hit, wrapper: tuple[int, int], answered: int | None
) -> Finding:
    """Say that it is no index that hides a record, but the offset of the wrapper it is in."""
    position, last = wrapper
    path = view.segment_at(hit.segment).path
    return at_place(
        "wrapper-offset",
        Place(view.target.topic, view.target.partition, hit.segment, path),
        position=position,
        offset=last,
        expected=hit.offset,
        actual=last,
        message=f"Offset {hit.offset:,} is in a wrapper whose offset field is {last:,}: a broker "
        f"skips to {_words(answered)}.",
    )


def _end(view: PartitionView) -> int:
    """The first offset no consumer is handed, as far as no index is asked."""
    return OFFSET_MAX if view.high_watermark is None else view.high_watermark


def _runs(view: PartitionView, segment: Segment) -> Iterator[Run]:
    return FileRecords(segment.log(), limit=view.limit).runs_as_is(segment.start, segment.end)


def _records(view: PartitionView, run: Run, row: int) -> Iterator[tuple[int, int]]:
    for piece in read_batch(run.data, run.base, run.batches, row, limit=view.limit):
        for at in range(piece.records.count):
            yield piece.records.offset(at), piece.records.timestamp(at)


def _first_from(view: PartitionView, offset: int) -> Hit | None:
    """Scan for the first record at or after an offset that a consumer is handed."""
    end = _end(view)
    aborted = AbortFilter(view.view.list_aborted(offset)) if view.committed else None
    # From the segment before on: a wrapper at its end may hold what its own offset hides.
    for segment in view.onward(max(view.floor(offset) - 1, 0)):
        for run in _runs(view, segment):
            for row, last in enumerate(run.batches.last_offsets):
                if aborted is not None and aborted.skips(run, row):
                    continue
                hides = last < offset and _has_own_offsets(run, row)
                if (last < offset and not hides) or run.batches.flags_of(row) & c.CONTROL:
                    continue
                for record, timestamp_ms in _records(view, run, row):
                    if record >= end:
                        return None
                    if record >= offset:
                        where = run.batches.position(row), last
                        return Hit(
                            record, timestamp_ms, segment.base_offset, where if hides else None
                        )
    return None


def _has_own_offsets(run: Run, row: int) -> bool:
    """Whether an entry's messages may lie above its own offset: a wrapper of magic 0 (F15)."""
    wrapper = run.batches.flags_of(row) & c.WRAPPER
    return bool(wrapper) and not run.batches.format(row).relative_offsets


def _first_at(view: PartitionView, target_ms: int) -> Hit | None:
    """Scan all segments for the first visible record at or after a time."""
    end = _end(view)
    for segment in view.onward():
        for run in _runs(view, segment):
            for row, greatest in enumerate(run.batches.max_timestamps):
                if greatest < target_ms:
                    continue
                for record, timestamp_ms in _records(view, run, row):
                    if timestamp_ms >= target_ms and record >= view.log_start:
                        visible = record < end
                        return Hit(record, timestamp_ms, segment.base_offset) if visible else None
    return None


def _greatest(view: PartitionView) -> Hit | None:
    """Scan for the first record that has the greatest time of all."""
    best: Hit | None = None
    for segment in view.onward(view.first_local):
        for run in _runs(view, segment):
            for row, greatest in enumerate(run.batches.max_timestamps):
                if greatest <= (best.timestamp_ms if best else -1):
                    continue
                for record, timestamp_ms in _records(view, run, row):
                    if timestamp_ms > (best.timestamp_ms if best else -1):
                        best = Hit(record, timestamp_ms, segment.base_offset)
    return None if best is None or best.offset >= _end(view) else best


def _find_scanned_end(view: PartitionView) -> int:
    """The end of the log by its entries alone, cut to the high watermark."""
    last = view.log_start - 1
    for segment in view.onward(max(0, len(view.segments) - 1)):
        last = segment.base_offset - 1
        for run in _runs(view, segment):
            last = run.batches.last_offset(run.batches.count - 1)
    return min(last + 1, _end(view))


def _lawful(view: PartitionView, target_ms: int, answer: TimeAnswer, hit: Hit) -> bool:
    """Whether the broker's own rule makes the difference, not an index (L15, L18)."""
    if target_ms == _MAX_TIMESTAMP and is_special(target_ms, view.broker):
        return not has(view.broker, EXACT_MAX_TIMESTAMP)
    if answer.offset >= 0 or answer.segment is None or hit.segment <= answer.segment:
        return False
    chosen = view.segment_at(answer.segment)
    greatest = max(
        (max(run.batches.max_timestamps, default=-1) for run in _runs(view, chosen)), default=-1
    )
    return greatest < 0 or greatest >= target_ms
