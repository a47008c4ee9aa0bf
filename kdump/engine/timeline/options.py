"""The options of a timeline."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kdump.engine.coordinators.patterns import matches
from kdump.engine.timeline.raw_event import RawEvent
from kdump.engine.timeline.sources import SOURCES
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.targets import EVERYTHING, Selection
from kdump.tuples import NamedTuple

#: A single record, which `--key` and `--grep` ask for.
RECORD = "record"
#: Words of `--what`.
WHAT = tuple(dict.fromkeys(word for source in SOURCES for word in source.gives.split()))
#: What says how a node fared: part of the story of every topic.
_OF_NODES = frozenset(("start-clean", "start-unclean", "stop", "fenced", "unfenced"))
#: Told only to those who name them: a start, a stop and a change of leader say as much.
_IF_NAMED = frozenset(("fenced", "unfenced", "epoch"))
#: How clocks are held against each other.
AUTO, NONE = "auto", "none"
Skew = str | Mapping[int, int]


class TimelineOptions(NamedTuple):
    """What is asked for; the names are those of the command line.

    `from_ms` and `to_ms` are of the common clock, as is `around_ms`, which with `within_ms` stands
    for both; `skew` is AUTO, NONE, or by how much the clocks of brokers are ahead; `clock` the
    broker whose clock is the common one. `key` and `grep` add single records.
    """

    selection: Selection = EVERYTHING
    server_properties: str | None = None
    group: str | None = None
    what: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    around_ms: int | None = None
    within_ms: int = 300_000
    skew: Skew = AUTO
    clock: int | None = None
    key: bytes | None = None
    grep: re.Pattern[bytes] | None = None
    scratch: str | None = None
    decompress_limit: int = DEFAULT_LIMIT

    def admits(self, event: RawEvent) -> bool:
        """Whether an event is asked for, whenever it was."""
        if (self.what or event.what in _IF_NAMED) and event.what not in (*self.what, RECORD):
            return False
        if self.group is not None and event.what != RECORD:
            if event.group is None or not matches(self.group, event.group):
                return False
            if event.what == "commit" and "commit" not in self.what:
                return False
        if not self.selection.is_narrowed or event.what in _OF_NODES:
            return True
        number = event.partition if event.about == event.topic else self.selection.partition
        return event.about is not None and self.selection.admits(event.about, number)

    def is_of_time(self, at_ms: int | None, earliest: int | None, latest: int | None) -> bool:
        """Whether an event may have been at a time that is asked for."""
        from_ms, to_ms = self.from_ms, self.to_ms
        if self.around_ms is not None:
            from_ms = self.around_ms - self.within_ms
            to_ms = self.around_ms + self.within_ms + 1
        if from_ms is None and to_ms is None:
            return True
        if earliest is None and latest is None:
            earliest = latest = at_ms
        if earliest is None and latest is None:
            return False
        after = from_ms is None or latest is None or latest >= from_ms
        return after and (to_ms is None or earliest is None or earliest < to_ms)
