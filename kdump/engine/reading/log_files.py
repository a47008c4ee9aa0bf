"""Choose the logs of a partition, and say where each lies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.findings.rows import Place
from kdump.storage import places
from kdump.storage.names import DIGITS, Kind, file_name
from kdump.storage.targets import LogFile, Target

if TYPE_CHECKING:
    from kdump.findings.finding import Finding
    from kdump.storage.local_log import LocalLog

LOG_KINDS = frozenset({Kind.LOG, Kind.PRE08_LOG, Kind.METADATA_SNAPSHOT})


def logs_of(target: Target) -> list[LogFile]:
    """Return the logs among a target's files; a metadata snapshot only where it was named."""
    return [
        file
        for file in target.files
        if file.name.kind in LOG_KINDS
        and (not target.whole or file.name.kind is not Kind.METADATA_SNAPSHOT)
    ]


def place_of(file: LogFile) -> Place:
    """The place of a log, as findings and rows name it."""
    return Place(file.topic, file.partition, file.name.base_offset, file.path)


def find_misnamed(log: LocalLog, place: Place) -> Iterator[Finding]:
    """Tell of segment files that are not spelled with twenty digits (O7)."""
    if not log.has_odd_names:
        return
    from kdump.engine.reading.damage import at_place

    for segment in log.segments:
        for kind, path in segment.misnamed_files.items():
            yield at_place(
                "log-name" if kind is Kind.LOG and places.size_or_zero(path) else "file-name",
                place._replace(segment=segment.base_offset, path=path),
                expected=file_name(kind, segment.base_offset),
                actual=os.path.basename(path),
            )


def sibling_path(file: LogFile, kind: Kind) -> str:
    """The path of the file of a kind that belongs to a log, which may not be there."""
    assert file.name.base_offset is not None
    stem, dot, end = places.file_name(file.path).rpartition(".")
    if file.name.kind is Kind.LOG and end == "log" and len(stem) > DIGITS:  # of a remote segment
        suffix = file_name(kind, 0).rpartition(".")[2]
        return os.path.join(os.path.dirname(file.path), f"{stem}{dot}{suffix}")
    return os.path.join(os.path.dirname(file.path), file_name(kind, file.name.base_offset))
