"""Choose the logs of a partition that a range touches."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.engine.reading.damage import wrapper_maximum
from kdump.engine.reading.filters import Filters
from kdump.engine.reading.seek import last_run
from kdump.errors import PathError, StoreError
from kdump.kernels import columns as c
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.names import Kind
from kdump.storage.source import Source
from kdump.storage.targets import LogFile


def logs_within(files: Sequence[LogFile], filters: Filters) -> list[LogFile]:
    """Return the logs that may hold what is asked for, as names of segments prove.

    The name of the next segment says where a log ends only if its last entry is no wrapper: that
    may hold records past its own offset, by which the segment was named.
    """
    kept: list[LogFile] = []
    for file in reversed(files):
        if _is_above(file, filters):
            continue
        if not _is_below(file, filters) or (
            _may_be_next_to(file, kept) and _passes_its_end(file, filters)
        ):
            kept.append(file)
    return kept[::-1]


def _is_above(file: LogFile, filters: Filters) -> bool:
    base, to_offset = file.name.base_offset, filters.to_offset
    if file.name.kind is not Kind.LOG or file.name.is_retired:
        return False
    return to_offset is not None and base is not None and base >= to_offset


def _is_below(file: LogFile, filters: Filters) -> bool:
    if file.name.kind is not Kind.LOG or file.name.is_retired:
        return False
    low = filters.from_offset
    return low is not None and file.next_base is not None and file.next_base <= low


def _may_be_next_to(file: LogFile, kept: list[LogFile]) -> bool:
    """Whether a log is followed by one that may hold what is asked for, or by none."""
    return not kept or kept[-1].name.base_offset == file.next_base


def _passes_its_end(file: LogFile, filters: Filters) -> bool:
    """Whether a log ends in a wrapper whose records may reach the range."""
    try:
        with Source(file.path) as source:
            run = last_run(source, file)
            if run is None or not run.batches.flags_of(0) & c.WRAPPER:
                return False
            inside = wrapper_maximum(run, 0, DEFAULT_LIMIT)
    except (PathError, StoreError):
        return False
    return inside is None or inside[0] >= (filters.from_offset or 0)
