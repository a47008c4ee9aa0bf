"""Make the row of a fetch: which bytes it returns, and what a consumer finds in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing

from kdump.broker import fetching
from kdump.broker.lookup_records import BrokerError, RemoteOnlyError
from kdump.broker.partition import PartitionView
from kdump.engine.find.lookup_row import entry_fields, steps_of
from kdump.engine.find.options import FindOptions
from kdump.engine.find.remote import note_missing_place, place_in
from kdump.engine.find.rows import first_findings, is_pre08, note_error
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.rows.find import Fetch
from kdump.storage.targets import Target


def fetch_items(target: Target, offset: int, options: FindOptions) -> Iterator[Row | Finding]:
    """Yield the `fetch` row of a partition, findings before it."""
    assert options.max_bytes is not None
    row = Fetch(target.topic, target.partition, offset, options.max_bytes, options.max_offset)
    if is_pre08(target):
        from kdump.engine.find.pre08_fetch import fetch_row

        yield fetch_row(target, row, options)
        return
    with closing(options.view(target)) as view:
        yield from first_findings(view)
        try:
            fetched = fetching.fetch(view, offset, options.max_bytes, options.max_offset)
            row = _fill(row, view, fetched)
        except RemoteOnlyError as absent:
            row = row.replaced(**note_missing_place(view, absent)._asdict())
        except BrokerError as failed:
            row = row.replaced(error=note_error(view, failed))
        yield row.replaced(steps=steps_of(view.steps, options))


def _fill(row: Fetch, view: PartitionView, fetched: fetching.FetchResult) -> Fetch:
    found = fetched.found
    if found is None:
        return row.replaced(size_bytes=0, next_offset=row.target)
    contents = fetching.contents(view, fetched)
    digest = hashlib.sha256()
    for piece in fetching.pieces(view, fetched):
        digest.update(piece)
    is_larger = found.size_bytes > row.max_bytes
    segment = view.segment_at(found.segment)
    before = fetching.records_before(view, fetched, row.target)
    if contents.entries:
        text = (
            f"{contents.entries:,} complete entries up to offset {contents.last_offset:,}, "
            f"{before:,} records below the target, {fetched.end - contents.end:,} bytes cut"
        )
        view.note("contents", segment.path, text)
    return row.replaced(
        path=segment.path,
        segment=found.segment,
        index_entry=entry_fields(found.index_entry),
        position=fetched.start,
        end_position=fetched.end,
        size_bytes=fetched.size_bytes,
        sha256=digest.hexdigest() if fetched.size_bytes else None,
        entries=contents.entries,
        first_offset=contents.first_offset,
        last_offset=contents.last_offset,
        records_before=before,
        cut_bytes=fetched.end - contents.end,
        cut_offset=contents.cut_offset,
        cut_size_bytes=contents.cut_size_bytes,
        needs_bytes=found.size_bytes if is_larger else None,
        stuck=is_larger and 0 < fetched.size_bytes < found.size_bytes,
        bound=fetched.bound,
        next_offset=row.target if contents.last_offset is None else contents.last_offset + 1,
        aborted=[
            {"producer_id": one.producer_id, "first_offset": one.first_offset}
            for one in fetching.list_aborted(view, fetched, row.target)
        ]
        if view.committed
        else None,
        **place_in(view, found.segment)._asdict(),
    )
