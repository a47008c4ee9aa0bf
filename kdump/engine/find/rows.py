"""Answer `find-offset` and `find-time` for one partition: a row, and findings.

The lookups themselves are in `lookup` and `time_lookup`; here rows are built, and under `--check` a
scan of the log stands beside what the indexes led to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress

from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import Found, PartitionView
from kdump.broker.versions import MESSAGE_TIMESTAMPS, has
from kdump.engine.find.lookup_row import entry_fields, finished, offset_fields, time_fields
from kdump.engine.find.options import FindOptions
from kdump.engine.find.reset import reset_fields
from kdump.engine.find.way_past import way_past
from kdump.engine.reading.log_files import misnamed
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, Row
from kdump.storage.targets import Target

_LATEST = -1


def is_pre08(target: Target) -> bool:
    """Whether a partition is of 0.6 or 0.7, where offsets are byte positions."""
    logs = target.log.logs if target.log else []
    return bool(logs) and all(segment.is_pre08 for segment in logs)


def offset_items(target: Target, offset: int, options: FindOptions) -> Iterator[Row | Finding]:
    """Yield the `offset-lookup` row of a partition, findings before it."""
    if is_pre08(target):
        from kdump.engine.find.pre08 import offset_row

        yield offset_row(target, offset, options)
        return
    with closing(options.view(target)) as view:
        yield from _said_first(view)
        row = offset_fields(target, offset)
        found: Found | None = None
        record: tuple[int, int] | None = None
        error = None
        try:
            found = view.fetch(offset)
            if found is None:
                view.note("end", target.path, "no segment holds an entry that reaches the target")
            else:
                record = view.record_at(found, offset)
                _explain_record(view, found, offset, record)
        except BrokerError as failed:
            error = _failed(view, failed)
        if found is not None:
            row.update((name, value) for name, value in found._asdict().items() if name in row)
            row["index_entry"] = entry_fields(found.index_entry)
        if record is not None:
            row["offset"], row["timestamp_ms"] = record[0], _timestamp(view, found, record)
        row |= way_past(view, offset, found, record, error, options)
        if found is not None:
            from kdump.engine.find.consumer_check import served_damage

            yield from served_damage(view, found, record)
        checked: Iterable[Finding] = ()
        if options.check:
            from kdump.engine.find.check import check_offset

            row["scan_offset"] = None
            with suppress(BrokerError):  # a start that fails leaves nothing to scan
                row["scan_offset"], checked = check_offset(
                    view, offset, record[0] if record else None
                )
        yield from checked
        if options.none is not None:
            row |= reset_fields(view, row, error, options.none, offset)
        if record is None and error is None and view.view.held is not None:
            yield view.view.held
        yield finished("offset-lookup", row, error, view.steps, options, view.settings)


def _said_first(view: PartitionView) -> Iterator[Finding]:
    """Yield what bears on any answer: no high watermark, logs that no broker opens."""
    yield from view.findings
    target = view.target
    if target.log is not None:
        place = Place(target.topic, target.partition, None, target.path)
        yield from (one for one in misnamed(target.log, place) if one.code == "log-name")


def _failed(view: PartitionView, error: BrokerError) -> str:
    """Note with what error the broker answers."""
    view.note("error", view.target.path, f"the broker answers with an error: {error}")
    return str(error)


def _explain_record(
    view: PartitionView, found: Found, offset: int, record: tuple[int, int] | None
) -> None:
    """Say which record a consumer is handed, or why none is."""
    path = view.segment_at(found.segment).path
    if record is None:
        text = (
            f"a consumer is handed records below {view.bound:,} only, and none is left from "
            "the target on: none"
        )
    elif record[0] == offset:
        text = f"offset {offset:,} is there"
    else:
        text = f"offset {offset:,} is not handed out; {record[0]:,} is the first behind it that is"
    view.note("record", path, text, offset=record[0] if record else None)


def _timestamp(view: PartitionView, found: Found | None, record: tuple[int, int]) -> int | None:
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
        yield from _said_first(view)
        answer, error = NONE, None
        offsets: list[int] = []
        try:
            if options.list_offsets_version == 0:
                offsets = list_offsets_v0(view, target_ms, options.max_offsets, options.now_ms)
                answer = NONE._replace(offset=offsets[0] if offsets else -1)
                view.note(
                    "segments",
                    target.path,
                    f"version 0 compares the target with the modification times of "
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
        except BrokerError as failed:
            error = _failed(view, failed)
        row = time_fields(target, target_ms, answer)
        checked: Iterable[Finding] = ()
        if options.list_offsets_version == 0:
            row["offsets"] = offsets
        elif options.check:
            from kdump.engine.find.check import check_time

            row["scan_offset"] = None
            with suppress(BrokerError):
                row["scan_offset"], checked = check_time(view, target_ms, answer)
        yield from checked
        if options.none is not None:
            row |= reset_fields(view, row, error, options.none, None)
        ends = error is None and (row["offset"] is None or target_ms == _LATEST)
        if ends and view.view.held is not None:
            yield view.view.held
        yield finished("time-lookup", row, error, view.steps, options, view.settings)


def _special_words(view: PartitionView, target_ms: int, offset: int) -> str:
    if target_ms == -1:
        bound = "the last stable offset" if view.committed else "the high watermark or the log end"
        return f"latest is {bound}, the first offset not handed out: {offset:,}"
    return f"earliest is the log start: {offset:,}"


def _refuse_time(target_ms: int, options: FindOptions) -> None:
    """Raise what a broker says of a time that the topic's format has not (L12)."""
    stored = options.message_format
    if stored is not None and not has(stored, MESSAGE_TIMESTAMPS) and target_ms not in (-1, -2):
        raise BrokerError(
            "UNSUPPORTED_FOR_MESSAGE_FORMAT: the topic's configured format has no timestamps"
        )
