"""Choose the logs of a partition that a range of offsets or times touches."""

from __future__ import annotations

from kdump.engine.reading.filters import Filters
from kdump.storage.names import Kind
from kdump.storage.targets import LogFile, Target

LOG_KINDS = frozenset({Kind.LOG, Kind.PRE08_LOG, Kind.METADATA_SNAPSHOT})


def logs_of(target: Target) -> list[LogFile]:
    """Return the logs among a target's files; a metadata snapshot only where it was named."""
    return [
        file
        for file in target.files
        if file.name.kind in LOG_KINDS
        and (not target.whole or file.name.kind is not Kind.METADATA_SNAPSHOT)
    ]


def is_outside(file: LogFile, filters: Filters) -> bool:
    """Whether a segment's name and its successor's prove that nothing asked for lies in it."""
    if file.name.kind is not Kind.LOG or file.name.retired:
        return False
    low, base = filters.from_offset, file.name.base_offset
    if low is not None and file.next_base is not None and file.next_base <= low:
        return True
    return filters.to_offset is not None and base is not None and base >= filters.to_offset
