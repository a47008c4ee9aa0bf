"""Find the offset to seek to behind damage: the first that a broker serves again.

The next sound batch on disk is not what a broker hands out next. It starts to read at the index
entry at or below the offset asked for, and where that lies before damage that broke the framing, it
fails, or takes bytes of the damage for an entry, or lands far behind. So the lookup is asked for
one offset after another where it lands, and each answer is held against the sound batches that a
walk finds on disk. From one index entry to the next all lookups start at one place, and who gets
past the damage at one offset gets past it at all higher ones: a few questions are enough.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
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
from kdump.errors import PathError
from kdump.findings.finding import Finding, Severity
from kdump.storage import lock, names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind, parse

if TYPE_CHECKING:
    from kdump.storage.targets import Target


#: So many lookups are made in one partition and for each of its segments, of a millisecond each,
#: and so many batches walked over for them. A log that is all damage is not worth more.
_ASKED_IN_ALL = 1 << 9
_ASKED_A_SEGMENT = 1 << 9
_SCANNED_IN_ALL = 1 << 18


class Served:
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
                    if lookups.settled:
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
        self._gone = self._gone_from(offset)
        return None

    def _gone_from(self, offset: int) -> int | None:
        """Say from where on nothing is served, if a fetch that led nowhere lay there."""
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


class Advisor:
    """Adds to findings about one partition from where on a broker of a version serves consumers.

    `running` None: whoever holds the lock of the data directory runs on the files as they lie;
    else it is asked what a start makes of them. Nothing is opened before a finding needs it.
    """

    def __init__(
        self,
        target: Target,
        broker: Version | None,
        limit: int,
        *,
        running: bool | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.target, self.broker, self.limit = target, broker, limit
        self.running, self.settings = running, settings
        self._served: Served | None = None
        self._unread = False

    def close(self) -> None:
        """Give all files back."""
        if self._served is not None:
            self._served.close()
            self._served = None

    def advised(self, finding: Finding) -> Finding:
        """Return a finding with the way past it; one that stops no consumer as it is."""
        if finding.next_offset is None and not finding.entry.stops_consumers:
            return finding
        if finding.severity is not Severity.DAMAGE or finding.position is None:
            return finding
        kind = parse(os.path.basename(finding.path)).kind
        if kind is Kind.PRE08_LOG:  # a fetch there starts at any byte
            return finding._replace(
                served_from=finding.next_offset, skipped_by_seek=0, served_by="0.7"
            )
        if kind is not Kind.LOG or finding.segment is None or self._unread:
            return finding
        try:
            return self._asked(finding, finding.segment, finding.position)
        except PathError:  # it went away meanwhile, or is not to be read: the scan says so
            self._unread = True
            return finding

    def _asked(self, finding: Finding, segment: int, position: int) -> Finding:
        served = self._open(finding.path)
        if served is None:
            return finding
        end = position + (finding.size_bytes or 0)
        offset = finding.next_offset
        if offset is None and not served.is_exhausted:
            offset = served.follows(segment, end)
        way = None if offset is None else served.way(segment, end, offset)
        if way is None:
            return finding
        return finding._replace(
            next_offset=offset,
            served_from=way.served_from,
            skipped_by_seek=way.skipped,
            served_by=served.name,
        )

    def _open(self, path: str) -> Served | None:
        if self._served is None:
            log = self.target.log or LocalLog.open(places.parent(path))
            name = log.name
            metadata = name is not None and name.topic == names.CLUSTER_METADATA_TOPIC
            if metadata or (name is not None and name.retirement is not None):
                return None  # nobody consumes from it
            running = self.running
            if running is None:
                running = lock.is_held(places.parent(log.path)) is True
            from kdump.engine.advice.served import Served  # the whole broker: most need none of it

            target = self.target._replace(log=log)
            self._served = Served(
                target, self.broker, running=running, limit=self.limit, settings=self.settings
            )
        return self._served


def advised(
    target: Target,
    findings: Iterable[Finding],
    broker: Version | None,
    limit: int,
    *,
    running: bool | None = None,
    settings: Settings | None = None,
) -> tuple[Finding, ...]:
    """Return all findings about a partition with the way past each."""
    with closing(Advisor(target, broker, limit, running=running, settings=settings)) as advisor:
        return tuple(map(advisor.advised, findings))
