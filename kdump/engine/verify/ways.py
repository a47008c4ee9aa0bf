"""Collect from where on a broker serves consumers again behind damage: where a group may go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.rows.verify import WayPast

if TYPE_CHECKING:
    from kdump.findings.finding import Finding

#: So many of a partition are kept, the first.
MOST = 1000


class WaysPast:
    """Keeps, for each partition, the offsets served behind damage.

    A group is moved to the lowest of these, because consumers stop at the first damage. Behind that
    one it stops at the next, and only then is it to be moved again.
    """

    def __init__(self) -> None:
        #: By topic and partition: the offset served behind damage, and where consumers stop.
        self._places: dict[tuple[str, int], dict[int, int | None]] = {}

    def add(self, finding: Finding) -> None:
        """Take note of the way past a damage, if there is one."""
        topic, partition, served = finding.topic, finding.partition, finding.served_from
        if served is None or topic is None or partition is None:
            return
        stops = self._places.setdefault((topic, partition), {})
        if served not in stops and len(stops) == MOST:
            if (last := max(stops)) < served:
                return
            del stops[last]
        known = [at for at in (stops.get(served), finding.offset) if at is not None]
        stops[served] = min(known, default=None)

    def rows(self) -> Iterator[WayPast]:
        """Yield a row for each, by partition and offset."""
        for place, stops in sorted(self._places.items()):
            for served in sorted(stops):
                yield WayPast(*place, served, stops[served], served == min(stops))
