"""Answer `find-offset` and `find-time` for one partition: a row, and findings.

The lookups themselves are in `lookup` and `time_lookup`; here rows are built, and under `--check` a
scan of the log stands beside what the indexes led to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress

from kdump.broker.lookup_records import BrokerError, RemoteOnlyError
from kdump.broker.partition import FetchStart, PartitionView
from kdump.broker.versions import MESSAGE_TIMESTAMPS, has
from kdump.engine.find.lookup_row import (
    RESET,
    SCANNED,
    entry_fields,
    settings_of,
    steps_of,
    time_lookup,
)
from kdump.engine.find.options import FindOptions
from kdump.engine.find.remote import RemotePlace, note_missing_place, place_in
from kdump.engine.find.reset import NO_RESET, reset_of
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, Row
from kdump.rows.find import OffsetLookup
from kdump.storage.targets import Target

_LATEST = -1


def is_pre08(target: Target) -> bool:
    """Whether a partition is of 0.6 or 0.7, where offsets are byte positions."""
    logs = target.log.logs if target.log else []
    return bool(logs) and all(segment.is_pre08 for segment in logs)


def offset_items(target: Target, offset: int, options: FindOptions) -> Iterator[Row | Finding]:
    """Yield the `offset-lookup` row of a partition, findings before it."""
    from kdump.engine.find.way_past import WayPast, way_past

    if is_pre08(target):
        from kdump.engine.find.pre08 import offset_row

        yield offset_row(target, offset, options)
        return
    with closing(options.view(target)) as view:
        yield from first_findings(view)
        found: FetchStart | None = None
        record: tuple[int, int] | None = None
        scan_offset = error = None
        asked: tuple[str, ...] = ()
        place = RemotePlace()
        try:
            found = view.fetch(offset)
            if found is None:
                view.note(
                    "end", target.path, "no segment has a time index entry at or after the target"
                )
            else:
                record = view.record_at(found, offset)
                _explain_record(view, found, offset, record)
            place = place_in(view, found and found.segment)
        except RemoteOnlyError as absent:
            found, place = None, note_missing_place(view, absent)
        except BrokerError as failed:
            error = note_error(view, failed)
        timestamp_ms = None if record is None else _timestamp(view, found, record)
        is_here = place.available is not False
        way = way_past(view, offset, found, record, error, options) if is_here else WayPast()
        if found is not None:
            from kdump.engine.find.consumer_check import find_served_damage

            yield from find_served_damage(view, found, record)
        checked: Iterable[Finding] = ()
        if options.check:
            from kdump.engine.find.check import check_offset

            asked += SCANNED
            with suppress(BrokerError):  # a start that fails leaves nothing to scan
                scan_offset, checked = check_offset(view, offset, record[0] if record else None)
            base = None if record or found is None else found.base_offset
            if base is not None and found and base <= offset <= found.last_offset:
                checked = ()  # the right batch, but damaged: no index is wrong
        yield from checked
        reset = NO_RESET
        if options.none is not None:
            asked += RESET
            answer = record[0] if record else None if is_here else offset
            reset = reset_of(view, answer, error, options.none, offset)
        if record is None and error is None and is_here and view.view.held is not None:
            yield view.view.held
        yield OffsetLookup(
            topic=target.topic,
            partition=target.partition,
            target=offset,
            segment=found and found.segment,
            index_entry=found and entry_fields(found.index_entry),
            position=found and found.position,
            size_bytes=found and found.size_bytes,
            base_offset=found and found.base_offset,
            last_offset=found and found.last_offset,
            offset=record and record[0],
            timestamp_ms=timestamp_ms,
            batches_scanned=found.batches_scanned if found else 0,
            next_offset=way.next_offset,
            served_from=way.served_from,
            skipped_by_seek=way.skipped_by_seek,
            scan_offset=scan_offset,
            reset_offset=reset.offset,
            reset_to=reset.to,
            settings=settings_of(view.settings),
            error=error,
            **place._asdict(),
            steps=steps_of(view.steps, options),
            asked_=asked,
        )


def first_findings(view: PartitionView) -> Iterator[Finding]:
    """Yield what bears on any answer: no high watermark, logs that no broker opens."""
    from kdump.engine.reading.log_files import find_misnamed

    yield from view.findings
    target = view.target
    if target.log is not None:
        place = Place(target.topic, target.partition, None, target.path)
        yield from (one for one in find_misnamed(target.log, place) if one.code == "log-name")


def note_error(view: PartitionView, error: BrokerError) -> str:
    """Note with what error the broker answers."""
    view.note("error", view.target.path, f"the broker answers with an error: {error}")
    return str(error)


def _explain_record(
    view: PartitionView, found: FetchStart, offset: int, record: tuple[int, int] | None
) -> None:
    """Say which record a consumer is handed, or why none is."""
    path = view.segment_at(found.segment).path
    if record is None:
        text = (
            f"consumers receive only records below {view.bound:,} and none of them is at or after "
            "the target: none"
        )
    elif record[0] == offset:
        text = f"offset {offset:,} is there"
    else:
        text = f"offset {offset:,} is not served; {record[0]:,} is the first one after it that is"
    view.note("record", path, text, offset=record[0] if record else None)


def _timestamp(
    view: PartitionView, found: FetchStart | None, record: tuple[int, int]
) -> int | None:
    """A record's timestamp; null where its format has none, -1 where -1 is stored."""
    if record[1] >= 0 or found is None:
        return record[1]
    segment = view.segment_at(found.segment)
    magic = segment.log().read(found.position + 16, 1)
    return None if bytes(magic) == b"\0" else record[1]


def time_items(target: Target, target_ms: int, options: FindOptions) -> Iterator[Row | Finding]:
    """Yield the `time-lookup` row of a partition, findings before it.

    `target_ms` is epoch milliseconds or one of the protocol's negative numbers.
    """
    if is_pre08(target):
        from kdump.engine.find.pre08 import time_row

        yield time_row(target, target_ms, options)
        return
    from kdump.broker.list_offsets import NONE, list_offsets, list_offsets_v0

    with closing(options.view(target)) as view:
        yield from first_findings(view)
        answer, error, scan_offset = NONE, None, None
        place = RemotePlace()
        asked: tuple[str, ...] = ()
        offsets: list[int] | None = [] if options.list_offsets_version == 0 else None
        try:
            if offsets is not None:
                offsets = list_offsets_v0(view, target_ms, options.max_offsets, options.now_ms)
                answer = NONE._replace(offset=offsets[0] if offsets else -1)
                view.note(
                    "segments",
                    target.path,
                    "version 0 compares the target with the modification times of "
                    f"{len(view.segments):,} segments, and opens no index",
                )
            else:
                _refuse_time(target_ms, options)
                answer = list_offsets(view, target_ms, options.list_offsets_version)
                if (
                    answer.segment is not None
                    and answer.position is not None
                    and answer.offset >= 0
                ):
                    view.note(
                        "record",
                        view.segment_at(answer.segment).path,
                        f"offset {answer.offset:,}, at {answer.timestamp_ms}",
                        offset=answer.offset,
                        timestamp_ms=answer.timestamp_ms,
                    )
                elif answer.offset >= 0 and target_ms < 0:
                    view.note("end", target.path, _special_words(view, target_ms, answer.offset))
            place = place_in(view, answer.segment if answer.offset >= 0 else None)
        except RemoteOnlyError as absent:
            place = note_missing_place(view, absent)
        except BrokerError as failed:
            error = note_error(view, failed)
        checked: Iterable[Finding] = ()
        if options.check and offsets is None:
            from kdump.engine.find.check import check_time

            asked += SCANNED
            with suppress(BrokerError):
                scan_offset, checked = check_time(view, target_ms, answer)
        yield from checked
        answered = answer.offset if answer.offset >= 0 else None
        reset = NO_RESET
        if options.none is not None:
            asked += RESET
            absent_words = None if place.available is not False else "not given"
            reset = reset_of(view, answered, error or absent_words, options.none, None)
        ends = (
            error is None
            and place.available is not False
            and (answered is None or target_ms == _LATEST)
        )
        if ends and view.view.held is not None:
            yield view.view.held
        yield time_lookup(
            target,
            target_ms,
            answer,
            offsets=offsets,
            scan_offset=scan_offset,
            steps=steps_of(view.steps, options),
            reset=reset,
            settings=settings_of(view.settings),
            error=error,
            place=place,
            asked=asked,
        )


def _special_words(view: PartitionView, target_ms: int, offset: int) -> str:
    if target_ms == -1:
        bound = "the last stable offset" if view.committed else "the high watermark or the log end"
        return f"latest is {bound}, the first offset that is not served: {offset:,}"
    words = {-4: "the local log starts", -5: "the last tiered offset is", -6: "next to upload is"}
    if (special := words.get(target_ms)) is not None:
        return f"{special}: {offset:,}"
    return f"earliest is the log start: {offset:,}"


def _refuse_time(target_ms: int, options: FindOptions) -> None:
    """Raise what a broker says of a time that the topic's format has not (L12)."""
    stored = options.message_format
    if stored is not None and not has(stored, MESSAGE_TIMESTAMPS) and target_ms not in (-1, -2):
        raise BrokerError(
            "UNSUPPORTED_FOR_MESSAGE_FORMAT: the topic's configured format has no timestamps"
        )
