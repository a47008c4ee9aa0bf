"""Yield what `kdump dump` shows: rows under some paths, in order, findings in between."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kdump.engine.advice.advisor import Advisor
from kdump.engine.reading.damage import unread_finding
from kdump.engine.reading.filters import Filters
from kdump.engine.reading.log_files import logs_of, place_of
from kdump.engine.reading.options import DumpOptions
from kdump.engine.reading.ranges import logs_within
from kdump.engine.reading.remote_logs import narrow, ranges_of, targets_of, unread_findings
from kdump.errors import KdumpError, PathError, StoreError, guard
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import BatchChunk, HexText, RecordChunk, RecordRow
from kdump.replay.releases import Releases
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.targets import LogFile, Target
from kdump.values.decoded_values import values_of

if TYPE_CHECKING:
    from kdump.broker.visibility import AbortFilter, View
    from kdump.engine.reading.options import Item


def dump(paths: Iterable[str], options: DumpOptions) -> Iterator[Item | Finding | KdumpError]:
    """Yield rows and findings, and an error for each path that cannot be read."""
    options = type(options)(**{"releases": Releases()} | vars(options))
    if options.decode:
        from kdump.engine.reading.schemas import with_schemas

        paths = tuple(paths)
        options = with_schemas(paths, options)
    yield from _limit(_items(paths, options), options.limit)
    if options.decoder is not None:
        yield from decoder_findings(options)


def decoder_findings(options: DumpOptions) -> Iterator[Finding]:
    """Yield that the user's decoder ended, if it did."""
    opened = None if options.schemas is None else options.schemas.open()
    if opened is not None and (command := opened.command) is not None and command.why is not None:
        yield finding(
            "decoder-ended",
            path=command.name,
            actual=command.why,
            message=f"The decoder ended and was not used again: {command.why}.",
        )


def _limit(
    items: Iterator[Item | Finding | KdumpError], left: int | None
) -> Iterator[Item | Finding | KdumpError]:
    """Yield what is asked for: no more than a number of rows."""
    for item in items:
        if left is None or isinstance(item, (Finding, KdumpError)):
            yield item
            continue
        if left <= 0:
            return
        if isinstance(item, (RecordChunk, BatchChunk)):
            if len(item) > left:
                item.rows = array("q", range(len(item)) if item.rows is None else item.rows)[:left]
            left -= len(item)
        else:
            left -= 1
        yield item
        if left <= 0:
            return


def _items(paths: Iterable[str], options: DumpOptions) -> Iterator[Item | Finding | KdumpError]:
    topics: dict[str | None, None] = {}
    paths = tuple(paths)
    for target in targets_of(paths, options, loose=options.mode == "entries"):
        if isinstance(target, KdumpError):
            yield target
        else:
            items: Iterator[Item | Finding | KdumpError]
            kind = target.files[0].name.kind if target.files else None
            if kind in (Kind.CAPTURE, Kind.FRAMES):
                from kdump.engine.frames.run import frame_items

                items = frame_items(target.path, kind, options)
            elif options.mode == "entries":
                items = entry_items(target)
            elif options.tail is not None:
                items = _tail(target, options, options.tail)
            else:
                items = log_items(target, options)
            yield from guard(target.path, items, topic=target.topic, partition=target.partition)
            topics[target.topic] = None
    if options.schema_rows and options.mode == "records":
        from kdump.engine.dump.schema_rows import rows_of

        yield from rows_of(topics, options)


def _tail(target: Target, options: DumpOptions, most: int) -> Iterator[Item | Finding | KdumpError]:
    """Yield the last rows of a target, and the findings in the segments that are read for them.

    Only the last segments that hold these rows are read, each twice: to count, and to yield.
    """
    starts = sorted({file.name.base_offset or 0 for file in logs_of(target)})
    back, count, part = 1, 0, options
    while True:
        start = starts[-back] if back < len(starts) else None
        if start is not None and (options.from_offset is None or options.from_offset < start):
            part = type(options)(**vars(options) | {"from_offset": start})
        else:
            start, part = None, options
        count = sum(map(_rows_in, log_items(target, part)))
        if count >= most or start is None:
            break
        back *= 2
    skip = max(count - most, 0)
    for item in log_items(target, part):
        size = _rows_in(item)
        if size > skip and isinstance(item, (RecordChunk, BatchChunk)):
            item.rows = array("q", range(size) if item.rows is None else item.rows)[skip:]
        if size > skip or not size:
            yield item
        skip = max(skip - size, 0)


def _rows_in(item: Item | Finding | KdumpError) -> int:
    if isinstance(item, (RecordChunk, BatchChunk)):
        return len(item)
    return 0 if isinstance(item, (Finding, KdumpError)) else 1


def entry_items(target: Target) -> Iterator[Item | Finding | KdumpError]:
    """Yield the entries of a target's small files."""
    from kdump.engine.reading.entries import entries, has_entries

    for file in target.files:
        name = os.path.basename(file.path)
        if not has_entries(name):
            if not target.whole:
                yield PathError(file.path, "has no entries; dump it without --entries")
            continue
        try:
            yield from entries(file.path)
        except PathError as error:
            yield unread_finding(error, place_of(file))
        except StoreError as error:
            yield error


def log_items(
    target: Target, options: DumpOptions, *, as_stored: bool = False
) -> Iterator[Item | Finding | KdumpError]:
    """Yield what is asked for of a target's logs, in order.

    `as_stored`: keys and values are neither decoded nor masked, for those who do not show them.
    """
    files = logs_of(target)
    if not files:
        if not target.whole:
            yield PathError(
                target.path,
                "is not a log file; --entries shows index and state files, --as log reads it as "
                "a log",
            )
        return
    filters = options.filters
    aborted = held = None
    if options.visible and target.log is not None:
        from kdump.broker.visibility import AbortFilter, View

        committed = options.isolation == "read_committed"
        view = View(target, committed=committed, limit=options.decompress_limit)
        yield from view.findings
        if view.end is not None and (filters.to_offset is None or filters.to_offset > view.end):
            held = view.held
        filters = _within(filters, view)
        yield from unread_findings(target, filters)
        if committed:
            lowest = min(file.name.base_offset or 0 for file in files)
            aborted = AbortFilter(view.list_aborted(max(lowest, filters.from_offset or 0)))
    advisor = Advisor(target, options.releases or Releases(), options.decompress_limit)
    parts = ranges_of(target)
    try:
        for file in logs_within(files, filters):
            own = narrow(filters, parts.get((file.path, file.next_base)))
            try:
                with Source(file.path) as source:
                    for item in _log(source, file, own, options, aborted, as_stored=as_stored):
                        yield advisor.advise(item) if isinstance(item, Finding) else item
            except PathError as error:
                yield unread_finding(error, place_of(file))
            except StoreError as error:
                yield error
    finally:
        advisor.close()
    if held is not None:
        yield held


def _within(filters: Filters, view: View) -> Filters:
    """Cut the range to what a consumer is handed, and leave control records out (F29)."""
    low = max(view.log_start, filters.from_offset or 0)
    high = filters.to_offset
    if view.end is not None:
        high = view.end if high is None else min(high, view.end)
    return filters._replace(from_offset=low, to_offset=high, control=False)


def _log(
    source: Source,
    file: LogFile,
    filters: Filters,
    options: DumpOptions,
    aborted: AbortFilter | None,
    *,
    as_stored: bool,
) -> Iterator[Item | Finding]:
    if file.name.kind is Kind.PRE08_LOG:
        from kdump.engine.dump.pre08 import LARGE_BYTES, in_chunk, pre08_items

        place = place_of(file)
        values = None if as_stored else values_of(place, decode=False, secrets=options.show_secrets)
        for item in pre08_items(
            source,
            place,
            mode=options.mode,
            limit=options.decompress_limit,
            from_offset=filters.from_offset,
            to_offset=filters.to_offset,
            in_chunks=options.mode == "records" and filters == Filters(),
            hex_width=options.hex_width,
        ):
            if values is not None:
                if isinstance(item, RecordChunk):
                    item = values.hide(item)
                elif isinstance(item, RecordRow):
                    item = values.hide_row(item)
            if isinstance(item, (Finding, HexText, RecordChunk)):
                yield item
            elif filters.admits_pre08(item):
                if isinstance(item, RecordRow) and len(item.value or b"") > LARGE_BYTES:
                    item = in_chunk(item, place)
                yield item
        return
    from kdump.engine.reading.segment_reader import SegmentReader

    position = 0
    if (
        aborted is None
        and options.mode != "hex"
        and file.name.kind is Kind.LOG
        and filters.from_time_ms is not None
    ):
        from kdump.engine.reading.seek import ends_before, time_position

        if ends_before(source, file, filters.from_time_ms):
            return
        position = time_position(source, file, filters.from_time_ms)
    if file.name.kind is Kind.LOG and filters.from_offset is not None:
        from kdump.engine.reading.seek import start_position

        # From the batch before on: it tells whether the first one's leader epoch can be right.
        position = max(position, start_position(source, file, filters.from_offset - 1))
    reader = SegmentReader(source, file, options, filters, aborted, as_stored=as_stored)
    items = reader.items(position)
    if options.mode == "hex":
        from kdump.engine.hex.dump import hex_items

        yield from hex_items(
            source,
            reader.place,
            items,
            options.decompress_limit,
            secrets=options.show_secrets,
            width=options.hex_width,
        )
    else:
        yield from items
