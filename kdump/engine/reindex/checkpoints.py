"""Rebuild offset checkpoints that a broker cannot read from what is left of them.

No log tells a high watermark, a recovery point, or how far records were deleted. What the logs do
tell is which lines cannot be true. So a file is written anew from its good lines: those of
partitions that are here, with an offset from 0 to the log's end. A broker takes what is left out
for 0, or for the start of the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kdump.engine.reindex.index_writer import Facts, IndexWriter
from kdump.errors import KdumpError, PathError
from kdump.findings.rows import Place
from kdump.storage import checkpoints, names
from kdump.storage.log_dir import LogDir
from kdump.storage.names import Kind
from kdump.storage.source import whole
from kdump.storage.targets import Selection, Target, resolve

if TYPE_CHECKING:
    from kdump.engine.reindex.options import Item, ReindexOptions
    from kdump.storage.checkpoints import PartitionOffset

_LEFT_OUT = {
    names.REPLICATION_CHECKPOINT: "has its high watermark at the log start until replicas report",
    names.RECOVERY_POINT_CHECKPOINT: "is recovered whole at the next start without a clean mark",
    names.LOG_START_CHECKPOINT: "starts at its first segment: deleted records may come back",
    names.CLEANER_CHECKPOINT: "is cleaned from its start again",
}


def offset_checkpoints(path: str, options: ReindexOptions, utc: str) -> Iterator[Item]:
    """Yield a row for each offset checkpoint of a data directory that a broker cannot read."""
    directory = LogDir.open(path)
    ends: dict[tuple[str, int], int] | None = None
    with ExitStack() as stack:
        writer: IndexWriter | None = None
        for at in directory.files:
            name = os.path.basename(at)
            if name not in _LEFT_OUT:
                continue
            before = whole(at, checkpoints.SIZE_LIMIT)
            found = checkpoints.parse_offsets(before)
            if not found.problems:
                continue
            if ends is None or writer is None:
                ends = dict(_log_ends(path))
                writer = stack.enter_context(IndexWriter(path, options, utc, of_partition=False))
            kept = _believable(found.entries, ends)
            problem = found.problems[0]
            reason = (
                f"{problem.actual!r} where {problem.expected} is expected; {len(kept)} of "
                f"{len(ends)} partitions can be told. What was said of the others cannot be known: "
                f"each {_LEFT_OUT[name]}"
            )
            place, kind = Place(None, None, None, at), Kind.OFFSET_CHECKPOINT
            after, entries = checkpoints.text_of(kept), len(found.entries)
            yield writer.apply(Facts(at, place, kind, before, after, reason, None, entries), None)


def _log_ends(path: str) -> Iterator[tuple[tuple[str, int], int]]:
    """Give the log end of each live partition that can be read."""
    from kdump.broker.lookup_records import BrokerError
    from kdump.broker.partition import PartitionView

    for target in resolve([path], Selection(), listed=False):
        if not isinstance(target, Target) or target.log is None or target.log.name is None:
            continue
        view = PartitionView(target)
        try:
            yield (target.log.name.topic, target.log.name.partition), view.log_end
        except (PathError, BrokerError, KdumpError):
            continue
        finally:
            view.close()


def _believable(
    entries: list[PartitionOffset], ends: dict[tuple[str, int], int]
) -> list[PartitionOffset]:
    """Keep of each partition the last line that can be true."""
    kept: dict[tuple[str, int], PartitionOffset] = {}
    for entry in entries:
        key = (entry.topic, entry.partition)
        if 0 <= entry.offset <= ends.get(key, -1):
            kept[key] = entry
    return list(kept.values())
