"""Add the logs in remote storage to the partitions that a reader goes through (W4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.broker.remote_log import Piece, tier_of
from kdump.findings.finding import Finding, finding
from kdump.storage import names, places
from kdump.storage.names import FileName, Kind
from kdump.storage.targets import LogFile, Target, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.engine.reading.filters import Filters
    from kdump.engine.reading.options import DumpOptions
    from kdump.errors import KdumpError
    from kdump.replay.remote_logs import RemoteLogs


def targets_of(
    paths: Iterable[str], options: DumpOptions, *, loose: bool = False
) -> Iterator[Target | KdumpError]:
    """Resolve paths; partitions know that they are tiered where that is asked for."""
    found = resolve(paths, options.selection, options.server_properties, loose=loose)
    if not options.visible and options.tier is None:
        yield from found
        return
    from kdump.replay.topic_settings import topic_settings

    settings = topic_settings(
        options.server_properties, paths, tier=options.tier, tier_key=options.tier_key
    )
    for target in found:
        if isinstance(target, Target) and target.whole:
            target = with_remote(settings.with_tier(target))
        yield target


def with_remote(target: Target) -> Target:
    """Add the log objects of a tiered partition that are read to its files."""
    tier = tier_of(target)
    if tier is None or tier.objects is None:
        return target
    files = []
    for piece in tier.pieces():
        path = (tier.objects.files(piece.segment.segment_id) or {}).get(Kind.LOG)
        if path is not None:
            name = names.parse(names.file_name(Kind.LOG, piece.segment.start_offset))
            files.append(_log_file(path, name, target, piece))
    return target._replace(files=(*files, *target.files))


def _log_file(path: str, name: FileName, target: Target, piece: Piece) -> LogFile:
    return LogFile(path, name, target.topic, target.partition, piece.last + 1, active=False)


def ranges_of(target: Target) -> dict[tuple[str, int | None], tuple[int, int]]:
    """Return what is read of each remote log, as offsets [first, end), by its path and next base.

    A segment that another one overlaps is not read whole.
    """
    tier = tier_of(target)
    if tier is None or tier.objects is None:
        return {}
    found: dict[tuple[str, int | None], tuple[int, int]] = {}
    for piece in tier.pieces():
        path = (tier.objects.files(piece.segment.segment_id) or {}).get(Kind.LOG, "")
        found[path, piece.last + 1] = piece.first, piece.last + 1
    return found


def narrow(filters: Filters, part: tuple[int, int] | None) -> Filters:
    """Cut a range to another one; None: not at all."""
    if part is None:
        return filters
    low, high = max(filters.from_offset or 0, part[0]), filters.to_offset
    return filters._replace(
        from_offset=low, to_offset=part[1] if high is None else min(high, part[1])
    )


def unread_findings(target: Target, filters: Filters) -> Iterator[Finding]:
    """Tell of records in a range that consumers receive, and that are not among what was given."""
    tier = tier_of(target)
    if tier is None or tier.objects is not None:
        return
    low, high = filters.from_offset or 0, filters.to_offset
    pieces = [
        piece
        for piece in tier.pieces()
        if piece.last >= low and (high is None or piece.first < high)
    ]
    first = max(low, tier.log_start)
    last = min(tier.local_start, high or tier.local_start) - 1
    if first > last:
        return
    size = sum(piece.segment.size_bytes for piece in pieces)
    where = "in remote storage only"
    if pieces:
        where += f" in {len(pieces):,} segments, {size:,} bytes"
    elif tier.log is None:
        where = "not on this disk: they are in remote storage, unless they were deleted"
    yield finding(
        "remote-not-given",
        path=target.path,
        topic=target.topic,
        partition=target.partition,
        offset=first,
        size_bytes=size or None,
        message=f"Offsets {first:,} to {last:,} are {where}.",
    )


def read_finished_ids(paths: Iterable[str]) -> frozenset[str]:
    """Return the ids of the remote segments that the metadata under some paths has as found."""
    every = (log for logs in metadata_under(paths) for log in logs.values())
    return frozenset(one for log in every for one in log.reachable_ids())


def metadata_under(paths: Iterable[str]) -> Iterator[RemoteLogs]:
    """Replay the metadata of remote segments in the data directories under some paths."""
    from kdump.replay.tiers import Tiers
    from kdump.storage.data_directories import spread

    tiers = Tiers()
    local = [path for path in paths if places.isdir(path)]
    for directory in (each for path in local for each in spread(path)):
        yield tiers.logs_in(tiers.metadata_paths(directory))
