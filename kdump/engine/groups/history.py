"""Yield every change of the groups and their committed offsets, in log order, as it is read.

Nothing is held but the state of the replay. How many members a group had is told only where all
records about it are still there: not where the cleaner may have taken some that came before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.engine.coordinators.partitions import (
    Item,
    Marks,
    Records,
    cleaner_offset,
    compaction_finding,
)
from kdump.engine.dump.run import log_items
from kdump.engine.groups.lives import Lives
from kdump.engine.groups.rows import history_row
from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.pace import Pace, Progress
from kdump.errors import KdumpError, guard
from kdump.findings.finding import Finding
from kdump.findings.rows import BatchChunk, RecordChunk, Row
from kdump.messages.wire import text_of
from kdump.replay.group_state import commit_key, members_count
from kdump.replay.groups import Change, GroupRecord, OffsetsLog, group_of
from kdump.replay.record_bytes import Stored
from kdump.storage.targets import Selection, Target, resolve

if TYPE_CHECKING:
    from kdump.engine.groups.options import GroupOptions

_OFFSET = struct.Struct(">q")
_OFFSET_AT = 2  # behind the version, in every version there is


def history(
    first: list[Item], rest: list[Item], options: GroupOptions, marks: Marks, progress: Progress
) -> Iterator[Row | Finding | KdumpError]:
    """Yield a row for each change; `rest` is read if there is none in `first`."""
    found = False
    for items in (first, rest):
        if found:
            return
        progress.planned_items += len(items)
        progress.planned_bytes += sum(item.size_bytes for item in items)
        pace = Pace(progress.slots, 0, None, progress.tick)
        for item in items:
            progress.at = [item.path]
            changes = _Partition(item, options, marks, pace).changes()
            for one in guard(item.path, changes, topic=item.topic, partition=item.partition):
                found |= isinstance(one, Row)
                yield one
            progress.items_done += 1


class _Partition:
    def __init__(self, item: Item, options: GroupOptions, marks: Marks, pace: Pace) -> None:
        self._item = item
        self._options = options
        self._log = OffsetsLog(options.at_ms, options.only)
        self._removed: dict[bytes, int] = {}  # what stood there, by the key of a commit
        self._lives = Lives(item.partition, options, marks)
        self._tells_lives = not (options.backwards or options.commits_only)
        self._records = Records(item, pace, options.decompress_limit, self._note_loss)

    def _note_loss(self) -> None:
        self._log.note_loss()
        self._lives.note_loss()

    def changes(self) -> Iterator[Row | Finding | KdumpError]:
        log = self._log
        for one in self._records.items():
            if not isinstance(one, RecordChunk):
                yield one
                continue
            for change in log.changes(one):
                if isinstance(change, GroupRecord):
                    if self._tells_lives:
                        is_whole = self._is_whole(change.source_offset)
                        yield from self._lives.rows(change, log.hole_end, is_whole=is_whole)
                elif (row := self._row(change)) is not None:
                    yield row
        yield from self._lives.open_rows()
        if log.hole_end:
            yield compaction_finding(self._item, max(log.hole_end, cleaner_offset(self._item)))

    def _row(self, change: Change) -> Row | None:
        group = group_of(change.key)
        if group is None or not self._options.wants_group(text_of(group)):
            return None
        names = commit_key(change.key)
        if names is None or not self._options.selection.admits(names.topic, names.partition):
            return None
        before, now = _offset(change.before), _offset(change.now)
        if self._options.backwards and not self._is_rewind(change.key, before, now):
            return None
        if not self._options.is_of_time(change.at_ms):
            return None
        return history_row(
            change,
            names,
            before=before,
            now=now,
            members=self._count(group, change.source_offset),
            partition=self._item.partition,
        )

    def _is_rewind(self, key: bytes, before: int | None, now: int | None) -> bool:
        """Whether an offset is lower than the one before, even if that one was removed first."""
        if now is None:
            if before is not None:
                self._removed[key] = before
            return False
        if before is None:
            before = self._removed.pop(key, None)
        return before is not None and now < before

    def _count(self, group: bytes, offset: int) -> int | None:
        """Count the members of a group; None where records about it may be gone."""
        log = self._log
        if log.hole_start is not None and log.hole_start <= offset < self._cleaner_offset:
            return None
        return members_count(log, group)

    def _is_whole(self, offset: int) -> bool:
        """Whether a record surely lies before or behind all that the cleaner took."""
        start = self._log.hole_start
        return start is None or offset < start or 0 < self._checkpoint <= offset

    @cached_property
    def _checkpoint(self) -> int:
        return cleaner_offset(self._item)

    @cached_property
    def _cleaner_offset(self) -> int:
        """The offset behind which the cleaner took nothing: as it says, else behind the last hole.

        Where only the partition was copied there is no word of it, and the headers have to be read.
        """
        return self._checkpoint or _last_hole(self._item)


def _offset(stored: Stored | None) -> int | None:
    """Read the offset out of a commit without reading the rest."""
    if stored is None or len(stored[2]) < _OFFSET_AT + _OFFSET.size:
        return None
    found: int = _OFFSET.unpack_from(stored[2], _OFFSET_AT)[0]
    return found


def _last_hole(item: Item) -> int:
    """Find the offset behind the last one that is missing, by the headers of batches."""
    end, following = 0, 0
    for target in resolve([item.path], Selection(retired=item.retired)):
        if not isinstance(target, Target):
            continue
        for one in log_items(target, DumpOptions(mode="batches")):
            if not isinstance(one, BatchChunk):
                continue
            batches = one.batches
            for first, last, count in zip(
                batches.base_offsets, batches.last_offsets, batches.records_counts, strict=True
            ):
                if last - first + 1 != count:
                    end = last + 1
                elif first > following:
                    end = first
                following = last + 1
    return end
