"""Add to findings the offset from which a broker serves consumers again.

Apart from `served.py`, which brings the whole broker: most runs meet no damage.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from kdump.errors import PathError
from kdump.findings.finding import Finding, Severity
from kdump.storage import lock, names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.names import Kind, parse

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.broker.versions import Version
    from kdump.engine.advice.served import Served
    from kdump.storage.targets import Target


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
            from kdump.engine.advice.served import Served

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
