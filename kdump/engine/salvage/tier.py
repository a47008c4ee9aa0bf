"""Take the remote segments of tiered topics as one more copy of each partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.reading.remote_logs import metadata_under
from kdump.errors import KdumpError, PathError
from kdump.storage.remote_objects import RemoteObjects
from kdump.storage.tier_views import TierViews

if TYPE_CHECKING:
    from kdump.engine.salvage.options import SalvageOptions


def add_remote_copies(paths: list[str], options: SalvageOptions) -> Iterator[KdumpError]:
    """Add a path for each partition in remote storage that is asked for; yield what fails."""
    assert options.tier is not None
    finished: set[str] = set()
    topics: set[str] = set()
    for logs in metadata_under(paths):
        topics |= logs.topics.keys()
        for log in logs.values():
            finished |= log.reachable_ids()
    views = TierViews(RemoteObjects(options.tier, options.tier_key), finished, topics)
    found = False
    for one in views.paths(options.selection, options.topic_id):
        found = True
        if isinstance(one, KdumpError):
            yield one
        else:
            paths.append(one)
    if not found:
        yield PathError(options.tier, "has no segments of the selected partitions")
