"""Find the offset to seek to behind damage: the first that a broker serves again.

The next sound batch on disk is not what a broker hands out next. It starts to read at the index
entry at or below the offset asked for, and where that lies before damage that broke the framing, it
fails, or takes bytes of the damage for an entry, or lands far behind. So the lookup is asked for
one offset after another where it lands, and each answer is held against the sound batches that a
walk finds on disk. From one index entry to the next all lookups start at one place, and who gets
past the damage at one offset gets past it at all higher ones: a few questions are enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING

from kdump.broker.lookup_records import BrokerError
from kdump.broker.partition import PartitionView
from kdump.broker.segment import Segment
from kdump.broker.settings import Settings
from kdump.broker.versions import NEWEST, Version, text_of
from kdump.engine.advice.landings import Hole, Landings, Sound, Way, sound_batches

if TYPE_CHECKING:
    from kdump.storage.targets import Target


#: So many lookups are made in one partition and for each of its segments, of a millisecond each,
#: and so many batches walked over for them. A log that is all damage is not worth more.
_ASKED_IN_ALL = 1 << 9
_ASKED_A_SEGMENT = 1 << 9
_SCANNED_IN_ALL = 1 << 18


class ServedPartition:
    """One partition, asked from where on its broker serves consumers again.

    `running`: the files are served as they lie; else what a start makes of them is.
    """

    def __init__(
        self,
        target: Target,
        broker: Version | None,
        *,
        running: bool,
        limit: int,
        settings: Settings | None = None,
    ) -> None:
        assert target.log is not None
        self.broker = broker or NEWEST
        self._running = running
        self._limit = limit
        self._view = PartitionView(
            target, as_is=running, broker=self.broker, limit=limit, settings=settings
        )
        self._logs = [(log.base_offset, log.log) for log in target.log.logs if log.log is not None]
        if running and self._logs and not self._view.segments[-1].is_part:
            newest = self._view.segments[-1]
            self._view.segments[-1] = Segment(
                newest.base_offset,
                newest.files,
                self.broker,
                newest.settings,
                limit=limit,
                running=True,
            )
        self._keys: tuple[int, Sequence[int]] = (-1, ())
        self._gone: int | None = None  # from this offset on nothing is left, or there yet
        self._asked = self._scanned = 0
        self._most = _ASKED_IN_ALL + _ASKED_A_SEGMENT * len(self._logs)
        self._way = Way(None, 0)
        self._passed: dict[tuple[int, int], int] = {}  # ends of gaps -> sound records until there

    @property
    def name(self) -> str:
        """Who was asked: a version, and whether it runs on the files or starts on them."""
        return f"{text_of(self.broker)} {'running' if self._running else 'starting'}"

    @property
    def is_exhausted(self) -> bool:
        """Whether so much was asked that no more is."""
        return self._asked >= self._most or self._scanned >= _SCANNED_IN_ALL

    def close(self) -> None:
        """Give all files back."""
        self._view.close()

    def follows(self, base_offset: int, position: int) -> int | None:
        """Give the first offset that can be read from a position on; None where nothing follows."""
        number = self._number(base_offset)
        if number is None:
            return None
        self._asked += 1
        for item in self._sound(number, position, base_offset):
            if isinstance(item, Sound):
                self._scanned += len(item.positions)
                return item.first_record(0)
        return self._logs[number + 1][0] if number + 1 < len(self._logs) else None

    def way(self, base_offset: int, position: int, next_offset: int) -> Way | None:
        """Find the way past damage that ends at a position of a segment; None: not worked out.

        `next_offset` is the first behind it that can be read from disk.
        """
        number = self._number(base_offset)
        if number is None or self.is_exhausted:
            return None
        before = self._passed.get((number, position))
        if before is None:
            self._passed = {(number, position): 0}
            before = 0
            self._way = self._search(number, position, next_offset)
        return self._way._replace(skipped=self._way.skipped - before)

    def _number(self, base_offset: int) -> int | None:
        number = bisect_left(self._logs, (base_offset,))
        found = number < len(self._logs) and self._logs[number][0] == base_offset
        return number if found else None

    def _sound(self, number: int, position: int, lowest: int) -> Iterator[Sound | Hole]:
        following = self._logs[number + 1][0] if number + 1 < len(self._logs) else None
        path = self._logs[number][1]
        return sound_batches(path, position, lowest, next_base=following, limit=self._limit)

    def _search(self, number: int, position: int, lowest: int) -> Way:
        """Look for the first offset served, from a place on, in this segment and those behind."""
        count = 0
        for at in range(number, len(self._logs)):
            if at > number:
                position, lowest = 0, max(lowest, self._logs[at][0])
            lookups = Landings(partial(self._lands, at), self._starts(at), count, lowest)
            for item in self._sound(at, position, lowest):
                if isinstance(item, Sound):
                    self._scanned += len(item.positions)
                    lookups.take(item)
                    if lookups.is_settled:
                        break
                elif lookups.served is not None:
                    break
                if lookups.served is None:
                    self._passed[at, item.end] = lookups.count
            if lookups.served is not None:
                return lookups.served
            count = lookups.count
        return Way(None, count)

    def _lands(self, number: int, offset: int) -> int | None:
        """Say where in a log a fetch lands; None: in another, or it fails."""
        if self._gone is not None and offset >= self._gone:
            return None
        self._asked += 1
        self._view.steps.clear()
        try:
            found = self._view.fetch(offset)
            if found is not None:
                self._scanned += found.batches_scanned
                path = self._view.segment_at(found.segment).path
                return found.position if path == self._logs[number][1] else None
        except BrokerError:
            pass
        self._gone = self._find_unserved(offset)
        return None

    def _find_unserved(self, offset: int) -> int | None:
        """Return the offset from which on nothing is served, if a fetch fails there."""
        try:
            end = None if self._running else self._view.log_end
        except BrokerError:
            return 0  # the broker does not start
        return end if end is not None and offset >= end else None

    def _starts(self, number: int) -> Sequence[int]:
        """Give the offsets, in order, at which lookups in a log begin to start elsewhere."""
        if self._keys[0] != number:
            self._keys = number, self._read_starts(self._logs[number][0])
        return self._keys[1]

    def _read_starts(self, base: int) -> Sequence[int]:
        try:
            floor = self._view.floor(base)
            if floor < 0 or self._view.segments[floor].base_offset != base:
                return ()
            index = self._view.segments[floor].offset_index()
        except BrokerError:
            return ()
        keys: list[int] = []
        for _, block in index.runs():
            keys += index.columns(block)[0]
        if not all(map(lt, keys, islice(keys, 1, None))):
            keys = sorted(set(keys))
        return [base + key for key in keys]
