"""Add to findings the offset from which a broker serves consumers again.

Apart from `served_partition.py`, which brings the whole broker: most runs meet no damage.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from kdump.broker.versions import text_of
from kdump.errors import PathError
from kdump.findings.finding import Finding, Severity
from kdump.storage import lock, names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind, parse

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.advice.served_partition import ServedPartition
    from kdump.replay.releases import Releases
    from kdump.storage.targets import Target


class Advisor:
    """Adds to findings about one partition from where on its broker serves consumers.

    `running` None: whoever holds the lock of the data directory runs on the files as they lie;
    else it is asked what a start makes of them. Nothing is opened before a finding needs it.
    """

    def __init__(
        self,
        target: Target,
        releases: Releases,
        limit: int,
        *,
        running: bool | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.target, self.releases, self.limit = target, releases, limit
        self.running, self.settings = running, settings
        #: By the newest release that the broker can be of, and by the oldest where that differs.
        self._served: tuple[ServedPartition, ...] = ()
        self._unread = False

    def close(self) -> None:
        """Give all files back."""
        for served in self._served:
            served.close()
        self._served = ()

    def advise(self, finding: Finding) -> Finding:
        """Return a finding with the way past it; one that stops no consumer as it is."""
        entry = finding.entry
        if entry.passed_over or (finding.next_offset is None and not entry.stops_consumers):
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
            return self._ask(finding, finding.segment, finding.position)
        except PathError:  # it went away meanwhile, or is not to be read: the scan says so
            self._unread = True
            return finding

    def _ask(self, finding: Finding, segment: int, position: int) -> Finding:
        opened = self._open(finding.path)
        if not opened:
            return finding
        served = opened[0]
        end = position + (finding.size_bytes or 0)
        offset = finding.next_offset
        if offset is None and not served.is_exhausted:
            offset = served.follows(segment, end)
        way = None if offset is None else served.way(segment, end, offset)
        if way is None:
            return finding
        oldest = None
        for older in opened[1:]:
            other = None if offset is None else older.way(segment, end, offset)
            if other is not None and other.served_from != way.served_from:
                oldest = {
                    "broker_version": text_of(older.broker),
                    "served_from": other.served_from,
                }
        return finding._replace(
            next_offset=offset,
            served_from=way.served_from,
            skipped_by_seek=way.skipped,
            served_by=served.name,
            oldest=oldest,
        )

    def _open(self, path: str) -> tuple[ServedPartition, ...]:
        if not self._served:
            log = self.target.log or LocalLog.open(places.parent(path))
            name = log.name
            metadata = name is not None and name.topic == names.CLUSTER_METADATA_TOPIC
            if metadata or (name is not None and name.retirement is not None):
                return ()  # nobody consumes from it
            running = self.running
            if running is None:
                running = lock.is_held(places.parent(log.path)) is True
            from kdump.engine.advice.served_partition import ServedPartition

            target = self.target._replace(log=log)
            oldest, newest = self.releases.range_of(places.parent(log.path))
            self._served = tuple(
                ServedPartition(
                    target, broker, running=running, limit=self.limit, settings=self.settings
                )
                for broker in dict.fromkeys((newest, oldest))
            )
        return self._served


def add_advice(
    target: Target,
    findings: Iterable[Finding],
    releases: Releases,
    limit: int,
    *,
    running: bool | None = None,
    settings: Settings | None = None,
) -> tuple[Finding, ...]:
    """Return all findings about a partition with the way past each."""
    with closing(Advisor(target, releases, limit, running=running, settings=settings)) as advisor:
        return tuple(map(advisor.advise, findings))
