"""Streams: the closed segments of partitions, one batch after another.

A broker appends to the last segment of a partition only, so what is before it does not change but
by retention and compaction, which leave offsets as they are. A stream's offset is, by the path of
each partition, the offset up to which its closed segments were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kdump.engine.reading.log_files import logs_of
from kdump.errors import UsageError
from kdump.spark.request import Request
from kdump.spark.scope import ClosedSegments, Range
from kdump.storage.names import Kind
from kdump.storage.targets import Target, resolve
from kdump.tuples import NamedTuple

Offsets = dict[str, int]


class Log(NamedTuple):
    """Where the log of a partition starts, and where its last segment does."""

    target: Target
    first: int
    end: int


def logs_under(request: Request) -> dict[str, Log]:
    """List the logs of partitions by the path of each."""
    options = request.options
    found: dict[str, Log] = {}
    if not request.paths and options.server_properties is None:
        return found
    resolved = resolve(request.paths, options.selection, options.server_properties)
    for target in request.sound(resolved):
        bases = [
            one.name.base_offset
            for one in logs_of(target)
            if one.name.kind is Kind.LOG
            and not one.name.is_retired
            and one.name.base_offset is not None
        ]
        if target.whole and bases:
            alone = target._replace(log=None, files=())
            found[target.path] = Log(alone, min(bases), max(bases))
    return found


def latest(start: Mapping[str, int], logs: Mapping[str, Log]) -> Offsets:
    """Return how far a batch reads; never back, nor forgetting partitions that are not there."""
    ends = {path: max(log.end, start.get(path, log.end)) for path, log in logs.items()}
    return {**start, **ends}


def scope_of(
    start: Mapping[str, int], end: Mapping[str, int], logs: Mapping[str, Log], request: Request
) -> ClosedSegments:
    """Return what a batch reads: in partitions that are new, from the offsets that were given."""
    ranges: dict[str, Range] = {}
    for path, until in end.items():
        if path in logs and start.get(path) != until:
            first = start.get(path)
            if first is None:
                first, _ = request.scope.range_of(logs[path].target)
            ranges[path] = first, until
    return ClosedSegments(ranges)


def describe_losses(start: Mapping[str, int], logs: Mapping[str, Log]) -> Iterator[str]:
    """Say what was not read before it went."""
    for path, offset in start.items():
        log = logs.get(path)
        if log is None:
            yield f"{path} no longer exists: records from offset {offset:,} on are not read"
        elif log.first > offset:
            gone = f"offsets {offset:,} to {log.first - 1:,}"
            yield f"{path}: {gone} were deleted before they were read"
        elif log.end < offset:
            yield f"{path}: the log was truncated below offset {offset:,}, up to which it was read"


def report(found: Iterator[str], *, fail: bool) -> None:
    """Warn of losses, or raise the first."""
    import warnings

    for text in found:
        if fail:
            raise UsageError(f"{text}; stopped, because failOnDataLoss is set")
        warnings.warn(text, RuntimeWarning, stacklevel=2)
