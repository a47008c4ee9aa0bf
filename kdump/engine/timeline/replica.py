"""One replica of a partition while its sources are read, and what these leave."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.engine.timeline.raw_event import Marker, Open, RawEvent, Spot, Step, Tie
from kdump.engine.timeline.sources import DECODED, sources
from kdump.engine.work.spool import SortedRun, Spool
from kdump.storage import places
from kdump.storage.local_log import LocalLog
from kdump.storage.properties import read_topic_id
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.engine.coordinators.partitions import Reported
    from kdump.engine.timeline.leaders import Leaders, Term
    from kdump.engine.timeline.options import TimelineOptions


class Item(NamedTuple):
    """One replica of one partition; `whole`: all its headers are read."""

    path: str
    topic: str
    partition: int
    node: int | None
    size_bytes: int = 0
    whole: bool = False


class ReplicaEvents:
    """What the sources of an item leave: its events in sorted runs, and what ties the clocks.

    `few` is a block of events that are too few for a run.

    `file_times` counts the files whose time could be held against their last batch, and those that
    fail; `span` are the first and the last time of its log files. `reached`, where all headers were
    read, is the epoch of the last batch and the offset behind it.
    """

    def __init__(self, item: Item) -> None:
        self.item = item
        self.runs: list[SortedRun] = []
        self.few = b""
        self.ties: list[Tie] = []
        self.steps: list[Step] = []
        self.markers: list[Marker] = []
        self.open: list[Open] = []
        self.reported: list[Reported] = []
        self.file_times = [0, 0]
        self.span: tuple[int, int] | None = None
        self.reached = (-1, -1)


class Replica:
    """What a source is given: where to read, and who takes what it finds."""

    def __init__(
        self,
        item: Item,
        options: TimelineOptions,
        leaders: Leaders,
        scratch: str,
        pace: Callable[[int], None],
    ) -> None:
        self.item, self.options, self.leaders, self.pace = item, options, leaders, pace
        self.read = ReplicaEvents(item)
        self.holes_to = 0  # below it records are missing, as far as all headers were read
        self._spool = Spool(scratch)

    @cached_property
    def log(self) -> LocalLog:
        """The log."""
        return LocalLog.open(self.item.path)

    @cached_property
    def topic_id(self) -> str | None:
        """The id of the topic, as the directory has it."""
        return read_topic_id(self.item.path)

    @cached_property
    def event(self) -> RawEvent:
        """An event of this replica alone, to be filled in."""
        _, topic, partition, node, *_ = self.item
        return RawEvent(
            *("", f"{topic}-{partition}", "", topic, partition),
            broker_id=node,
            node=node,
            about=topic,
        )

    def take(self, event: RawEvent) -> None:
        """Take an event, if it is asked for."""
        if self.options.admits(event):
            self._spool.add(event.pack())

    def find_term(self, epoch: int) -> Term | None:
        """Return who led in an epoch, and since when."""
        return self.leaders.find_term(self.item.topic, self.topic_id, self.item.partition, epoch)

    def find_spot(self, offset: int, epoch: int) -> Spot:
        """Return the place of an offset."""
        log = self.leaders.log(self.item.topic, self.topic_id, self.item.partition)
        return Spot(log, offset, epoch)

    def leader(self, epoch: int) -> int | None:
        """Return who led in an epoch."""
        term = self.find_term(epoch)
        return None if term is None else term.leader

    def modification_ms(self, path: str) -> int | None:
        """Return when a file of the directory was modified, where its time can tell."""
        status = self.log.statuses.get(path.rpartition("/")[2])
        if status is None or isinstance(status, OSError):
            return None
        if places.is_uri(path) or not places.keeps_times(path):
            return None
        modified = status.st_mtime_ns // 1_000_000
        low, high = self.read.span or (modified, modified)
        self.read.span = min(low, modified), max(high, modified)
        return modified

    def finish(self) -> ReplicaEvents:
        """Return what was left."""
        self.read.few = self._spool.rest()
        self.read.runs = self._spool.runs
        return self.read


def read_item(
    item: Item,
    pace: Callable[[int], None],
    *,
    options: TimelineOptions,
    leaders: Leaders,
    scratch: str,
    first: bool = False,
) -> ReplicaEvents:
    """Read all sources of a replica: those that come first, or the others."""
    replica = Replica(item, options, leaders, scratch, pace)
    for source in sources(item.topic, first=first):
        source.function(replica)
    if item.topic not in DECODED:
        pace(item.size_bytes)
    return replica.finish()
