"""Say of a lookup in a tiered partition whether its answer is local or remote."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker.lookup_records import RemoteOnlyError
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.partition import PartitionView
    from kdump.broker.remote_log import RemoteSegment


class RemotePlace(NamedTuple):
    """The members of a row that say where an answer is; all None where it is not tiered."""

    source: str | None = None
    available: bool | None = None
    segment_id: str | None = None
    object: str | None = None
    object_bytes: int | None = None


def place_in(view: PartitionView, segment: int | None) -> RemotePlace:
    """Return where the segment is that an answer names."""
    if view.tier is None or segment is None:
        return RemotePlace()
    with suppress(StopIteration):
        found = view.segment_at(segment)
        if found.remote is not None:
            return _place_of(view, found.remote, available=True)
    return RemotePlace("local", available=True)


def note_missing_place(view: PartitionView, error: RemoteOnlyError) -> RemotePlace:
    """Return where an answer is that only remote storage has, and note it."""
    remote = error.remote
    text = "the answer is in remote storage; --tier names it"
    if remote is not None:
        text = f"the answer is in remote segment {remote.segment_id}; --tier names its storage"
    view.note("remote", view.target.path, text)
    if remote is None:
        return RemotePlace("remote", available=False)
    return _place_of(view, remote, available=False)


def _place_of(view: PartitionView, remote: RemoteSegment, *, available: bool) -> RemotePlace:
    from kdump.storage.remote_objects import object_name

    target = view.target
    topic_id = view.tier.topic_id if view.tier is not None else None
    name = object_name(
        target.topic or "", target.partition or 0, topic_id, remote.start_offset, remote.segment_id
    )
    return RemotePlace("remote", available, remote.segment_id, name, remote.size_bytes)
