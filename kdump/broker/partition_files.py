"""Remove leftovers and complete swaps as a broker does before it loads segments (R6).

Nothing is done on disk: what a start would delete or rename is only taken out of, or put into, the
lists kept here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kdump.broker import versions as v
from kdump.broker.segment import Segment
from kdump.broker.versions import Version, has
from kdump.storage.names import CLEANED, INDEX_KINDS, SWAP, Kind

if TYPE_CHECKING:
    from kdump.broker.recovered_producers import Snapshots
    from kdump.broker.settings import Settings
    from kdump.storage.local_log import LocalLog, LogSegment


def make_empty(at: LogSegment, broker: Version, settings: Settings, *, limit: int) -> Segment:
    """Make the segment that a broker makes for a log whose name has not twenty digits (O7).

    It takes the number, and makes an empty log with the name that it would have given.
    """
    return Segment(
        at.base_offset, {Kind.LOG: at.log or ""}, broker, settings, limit=limit, part=(0, 0)
    )


class Files:
    """Which files of each base offset a start works with.

    `pieces` are segments that a split has already made, in the place of files. `swaps` are those
    that brokers from 0.9 to 2.8 put in only after the others are loaded.
    """

    def __init__(self, log: LocalLog, broker: Version, settings: Settings, limit: int) -> None:
        self.broker = broker
        self.settings = settings
        self.limit = limit
        self.by_base: dict[int, dict[Kind, str]] = {}
        self.pieces: dict[int, Segment] = {}
        for segment in log.segments:
            files = dict(segment.files)
            for kind in segment.misnamed_files:
                del files[kind]
            self.by_base[segment.base_offset] = files
            if segment.log and not segment.is_pre08 and Kind.LOG not in files:
                self.pieces[segment.base_offset] = make_empty(
                    segment, broker, settings, limit=limit
                )
        self._log = log
        self.swaps: dict[int, str] = {}
        self.replaced: list[int] = []  # base offsets whose files give way to those of a swap
        self.swapped: list[int] = []
        if log.retired:
            self._tidy(log)

    @cached_property
    def snapshots(self) -> Snapshots:
        """The snapshots of producers; a clean start of one segment asks for none."""
        from kdump.broker.recovered_producers import Snapshots

        return Snapshots(self._log.snapshots())

    def bases(self) -> list[int]:
        """The base offsets with a log, rising."""
        logs = {base for base, files in self.by_base.items() if Kind.LOG in files}
        return sorted(logs | set(self.pieces))

    def open(self, base: int) -> Segment:
        """Open a segment as it lies there."""
        if base in self.pieces:
            return self.pieces[base]
        return self.segment(base, self.by_base[base])

    def segment(
        self, base: int, files: dict[Kind, str], part: tuple[int, int] | None = None
    ) -> Segment:
        """Make a segment of some files."""
        return Segment(base, files, self.broker, self.settings, limit=self.limit, part=part)

    def _tidy(self, log: LocalLog) -> None:
        swaps: dict[int, dict[Kind, str]] = {}
        cleaned = [
            name.base_offset
            for name, _ in log.retired
            if name.suffix == CLEANED and name.base_offset is not None
        ]
        # A swap at or above what was still being cleaned is part of a split that did not end.
        least = min(cleaned, default=None) if has(self.broker, v.OVERFLOW_SPLIT) else None
        for name, path in log.retired:
            if name.suffix != SWAP or name.base_offset is None:
                continue
            if least is None or name.base_offset < least:
                swaps.setdefault(name.base_offset, {})[name.kind] = path
            if not has(self.broker, v.SWAPS_RENAMED_FIRST):
                self._drop_indexes(name.base_offset, name.kind)
        if has(self.broker, v.SWAPS_RENAMED_FIRST):
            self._rename(swaps)
            return
        for base, files in swaps.items():
            if Kind.LOG not in files:
                continue
            self.swapped.append(base)
            if has(self.broker, v.SWAPS_AFTER_LOADING):
                self.swaps[base] = files[Kind.LOG]
            else:
                self.by_base[base] = {Kind.LOG: files[Kind.LOG]}

    def _drop_indexes(self, base: int, kind: Kind) -> None:
        """Until 2.8 the indexes beside a swapped log go at once, to be rebuilt."""
        files = self.by_base.get(base)
        every = has(self.broker, v.SWAP_DROPS_EVERY_INDEX)
        if files is None or (kind is not Kind.LOG and not every):
            return
        if kind is Kind.LOG or kind in INDEX_KINDS:
            dropped = INDEX_KINDS if every else {Kind.OFFSET_INDEX}
            for index in dropped:
                files.pop(index, None)

    def _rename(self, swaps: dict[int, dict[Kind, str]]) -> None:
        """Delete what lies in the range of the swapped logs, and give these their plain names."""
        ends = []
        for base, files in swaps.items():
            if Kind.LOG in files:
                index = files.get(Kind.OFFSET_INDEX)
                swap = self.segment(base, files)
                swap.refuse_oversize()
                ends.append(swap.read_next_offset())
                self.swapped.append(base)
                if index is None:
                    # Looking for the log end has made one, of zeros: it counts as there.
                    self.pieces[base] = swap
        if ends:
            low, high = min(self.swapped), max(ends)
            gone = [base for base in self.by_base if low <= base < high]
            self.replaced = [base for base in gone if Kind.LOG in self.by_base[base]]
            for base in gone:
                del self.by_base[base]
            kept = self.snapshots.kept
            self.snapshots.forget(at for at in list(kept) if low <= at < high)
        for base, files in swaps.items():
            self.by_base.setdefault(base, {}).update(files)
