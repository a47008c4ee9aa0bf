"""Read huge partitions in parts, in parallel, before they are checked as one.

A partition is judged by one process, since what is found depends on all that lies before. But most
of the work is to read, to check and to decode, and of a sound log nothing is left of that but the
headers of its batches. So the closed logs of a large partition are cut as `splits` does, the pieces
are walked by whoever is idle, and what they leave (`PackedHeaders`) goes with the partition's item
to the one that judges it, who replays it to the checks in place of reading.

A piece that meets anything but sound batches gives up, and a log whose pieces do not fit together,
or that has changed since, is read as ever. So nothing is found that an uncut run would not find,
and nothing is missed. What is packed is small beside the log; where batches are tiny it would not
be, nothing would be gained, and such a log is read as ever, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kdump.engine.reading.filters import Filters
from kdump.engine.reading.header_columns import PackedHeaders, fits
from kdump.engine.verify.plan import target_of
from kdump.engine.verify.split_walk import Piece, walk_piece
from kdump.engine.work.pace import Progress
from kdump.engine.work.splits import Split, may_be_cut, parts
from kdump.errors import KdumpError
from kdump.storage import names
from kdump.storage.local_log import LocalLog, with_next_base
from kdump.storage.targets import LogFile, Target

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.verify.options import Item, VerifyOptions
    from kdump.engine.work.pipeline import Driver

#: So many bytes of log may leave one. In fewer, batches are so small that reading is no more work;
#: of more, not even common batches of 16 KiB could be packed, so that less is cut instead.
_LEAST_SHARE, _MOST_SHARE = 64, 2048


def read_in_splits(
    items: list[Item],
    options: VerifyOptions,
    settings: Settings,
    *,
    driver: Driver,
    progress: Progress,
    split_bytes: int,
) -> list[Item]:
    """Walk what is to be cut, and return the items with what that left."""
    if options.quick:
        return items
    most = driver.packed_bytes
    splits = list(_splits(items, split_bytes, most * _MOST_SHARE))
    if not splits:
        return items
    planned = sum(split.size_bytes for _, split in splits)
    share = max(_LEAST_SHARE, -(-planned // most))
    pieces = [Piece(number, split, share) for number, split in splits]
    walk = partial(walk_piece, deep=options.deep, limit=options.decompress_limit, settings=settings)
    kept = _Kept(most)
    for piece, result in driver(pieces, walk, _beside(progress)):
        if not isinstance(result, KdumpError):  # else whoever reads the whole log says it
            kept.add(piece.item, result)
    logs = kept.logs()
    progress.done_before += sum(one[0].identity[1] for of_item in logs.values() for one in of_item)
    progress.slots = [0]
    return [
        item._replace(walked={one[0].base_offset: one for one in logs[number]})
        if number in logs
        else item
        for number, item in enumerate(items)
    ]


def _splits(
    items: Sequence[Item], split_bytes: int, most_bytes: int
) -> Iterator[tuple[int, Split]]:
    """Cut and pack the closed logs of each partition that is larger than a piece.

    No more than some bytes in all; what is behind that is read by whoever judges it.
    """
    left = most_bytes
    for number, item in enumerate(items):
        if not item.whole or item.topic == names.CLUSTER_METADATA_TOPIC:
            continue
        if item.size_bytes <= split_bytes:
            continue
        target = target_of(item)
        if isinstance(target, KdumpError) or target.log is None:
            continue
        files = [
            file
            for file in _logs_of(target, target.log)
            if file.name.base_offset in item.sizes and may_be_cut(file, Filters())
        ]
        for split in parts(target, files, Filters(), split_bytes):
            left -= split.size_bytes
            if left < 0:
                return
            yield number, split


def _logs_of(target: Target, log: LocalLog) -> Iterator[LogFile]:
    for segment, following in with_next_base(log.logs):
        path = str(segment.log)
        name = names.parse(os.path.basename(path))
        yield LogFile(path, name, target.topic, target.partition, following, following is None)


def _beside(progress: Progress) -> Progress:
    """Make a progress that shows bytes and places, and leaves the count of partitions alone."""
    beside = Progress()

    def tick() -> None:
        progress.slots, progress.at = beside.slots, beside.at
        progress.tick()

    beside.tick = tick
    return beside


class _Kept:
    """What pieces left, by item and base offset: as long as all of a log are sound, and there is
    room.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._logs: dict[tuple[int, int], list[PackedHeaders] | None] = {}
        self._size_bytes = 0

    def add(self, item: int, walked: Sequence[PackedHeaders]) -> None:
        """Take what one piece left."""
        for one in walked:
            key = (item, one.base_offset)
            known = self._logs.setdefault(key, [])
            if known is None:
                continue
            known.append(one)
            self._size_bytes += one.size_bytes
            if not one.seam.sound or self._size_bytes > self._most_bytes:
                self._size_bytes -= sum(piece.size_bytes for piece in known)
                self._logs[key] = None

    def logs(self) -> dict[int, list[tuple[PackedHeaders, ...]]]:
        """Give the logs whose pieces fit together, by item."""
        found: dict[int, list[tuple[PackedHeaders, ...]]] = {}
        for (item, _), pieces in self._logs.items():
            if pieces is not None and fits(pieces):
                found.setdefault(item, []).append(tuple(pieces))
        return found
