"""Run `timeline`: gather the events of all sources, bound the clocks, and put all in one order.

The metadata logs come first: they say who led when, so whose clock dated a record. Each replica
of each partition is one item. Its step leaves the events in sorted runs, so that memory does not
grow with them: what several replicas show is listed once, by a merge of all runs, and another sorts
by time.

Of topics but those of coordinators few bytes are read: names, times, checkpoints, indexes, and the
first and the last header of each segment. All headers are read only of small logs, as long as they
are a small part of all that lies here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import partial

from kdump.engine.coordinators import partitions as coordinated
from kdump.engine.coordinators.partitions import Reported
from kdump.engine.reading.damage import at_place
from kdump.engine.timeline.clocks import FILE_TICK_MS, Clocks
from kdump.engine.timeline.headers import BY_BROKERS
from kdump.engine.timeline.leaders import Leaders
from kdump.engine.timeline.options import NONE, TimelineOptions
from kdump.engine.timeline.raw_event import (
    CONTROLLER,
    COORDINATOR,
    FILE,
    LEADER,
    NO_CLOCK,
    Marker,
    Open,
    RawEvent,
    Spot,
    Step,
    Tie,
    unpack,
)
from kdump.engine.timeline.replica import Item, ReplicaEvents, read_item
from kdump.engine.timeline.sources import NO_TOPIC, sources
from kdump.engine.work.pace import Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.engine.work.spool import SortedRun, Spool, merge_runs, scratch_directory
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.rows import Place, Row
from kdump.rows.timeline import Event
from kdump.storage import places
from kdump.storage.checkpoints import java_int
from kdump.storage.data_directories import spread_all
from kdump.storage.directory_facts import owner_of
from kdump.storage.targets import Selection, Target, data_directories, resolve

#: Logs are read whole while they have less than this, or than so small a part of all bytes.
_WHOLE_BYTES, _WHOLE_PART = 64 << 20, 200
_COPIED_WITHIN_MS = 2_000
_LEAST_FILES = 3
_SORTED_BY = struct.Struct(">Qq")
#: Twice a time that no clock shows; what a broken record says lies between.
_FAR = 1 << 62


def timeline(
    paths: Iterable[str],
    options: TimelineOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Reported]:
    """Yield findings and errors, a `clock-skew` row for each broker, then events in order."""
    progress = progress or Progress()
    named = list(paths)
    if options.server_properties is not None and not named:
        named = data_directories(options.server_properties)
    with scratch_directory(options.scratch, driver) as scratch:
        yield from _Timeline(named, options, progress, driver, scratch).rows()


class _Timeline:
    def __init__(
        self,
        paths: list[str],
        options: TimelineOptions,
        progress: Progress,
        driver: Driver,
        scratch: str,
    ) -> None:
        self._paths = paths
        self._options = options
        self._progress = progress
        self._driver = driver
        self._scratch = scratch
        self._leaders = Leaders()
        self._step = partial(read_item, options=options, leaders=self._leaders, scratch=scratch)
        self._clocks = Clocks()
        self._runs: list[SortedRun] = []
        self._spool = Spool(scratch)  # what is too little for a file of its own
        self._steps: list[Step] = []
        self._markers: set[Marker] = set()
        self._open: dict[tuple[str, int], tuple[tuple[int, int], list[Open]]] = {}
        self._file_ties: list[Tie] = []
        self._files: dict[int, list[tuple[list[int], tuple[int, int] | None]]] = {}
        self._copied: set[int | None] = set()
        self._nodes: dict[int, str] = {}  # in the order of the paths

    def rows(self) -> Iterator[Row | Reported]:
        targets: list[Target] = []
        found = resolve(self._paths, Selection(), self._options.server_properties, listed=False)
        yield from coordinated.gather(found, targets)
        targets = [one for one in targets if one.whole and one.log is not None]
        directories, _ = spread_all(self._paths)
        for path in directories:
            node = java_int(owner_of(path)[0] or "")
            if node is not None and node not in self._nodes:
                self._nodes[node] = path
                yield from self._first(Item(path, NO_TOPIC, 0, node))
        if not targets:
            if not self._nodes:
                yield NothingToDo("no data directory or partition in the given paths")
            return
        for target in targets:
            if any(sources(target.topic or "", first=True)):
                item = Item(target.path, target.topic or "", target.partition or 0, None)
                yield from self._first(item)
        items = self._items(targets)
        self._progress.planned_items += len(items)
        self._progress.planned_bytes += sum(one.size_bytes for one in items)
        for _, result in self._driver(items, self._step, self._progress):
            if isinstance(result, KdumpError):
                yield result
            else:
                yield from self._take(result)
        self._hangs()
        yield from self._settle()
        yield from self._clocks.rows()
        yield from self._events()

    # Gathering.

    def _first(self, item: Item) -> Iterator[Reported]:
        """Read what others build on."""
        yield from self._take(self._step(item, lambda size: None, first=True))

    def _items(self, targets: list[Target]) -> list[Item]:
        found, nodes = [], dict[str, int | None]()
        for target in targets:
            log = target.log
            assert log is not None
            if target.topic is None or target.partition is None:
                continue
            if log.name is not None and log.name.retirement is not None:
                continue
            around = places.parent(places.absolute(target.path))
            if around not in nodes:
                nodes[around] = java_int(owner_of(around)[0] or "")
            size = sum(places.size_or_zero(str(one.log)) for one in log.logs)
            found.append(Item(target.path, target.topic, target.partition, nodes[around], size))
        left = max(_WHOLE_BYTES, sum(one.size_bytes for one in found) // _WHOLE_PART)
        for at in sorted(range(len(found)), key=lambda at: found[at].size_bytes):
            left -= found[at].size_bytes
            if left < 0:
                break
            found[at] = found[at]._replace(whole=True)
        return found

    def _take(self, read: ReplicaEvents) -> Iterator[Reported]:
        yield from read.reported
        self._runs += read.runs
        self._spool.add_block(read.few)
        self._steps += read.steps
        self._markers.update(read.markers)
        place = read.item[1:3]
        if read.reached >= self._open.get(place, ((-1, -1), []))[0]:
            self._open[place] = read.reached, read.open
        for tie in read.ties:
            if tie.by_file:
                self._file_ties.append(tie)
            else:
                self._clocks.add(tie)
        if (node := read.item.node) is not None and read.item.topic != NO_TOPIC:
            self._files.setdefault(node, []).append((read.file_times, read.span))

    def _hangs(self) -> None:
        """Tell of the transactions that are open in the replica that goes on for longest."""
        names_of = {step.producer_id: step.transactional_id for step in self._steps}
        for producer, event in (one for _, open_ in self._open.values() for one in open_):
            if producer >= 0:
                subject = names_of.get(producer, f"producer {producer}")
                text = f"{event.subject}: {event.text}; producer {producer}"
                event = event._replace(subject=subject, text=text)
            if self._options.admits(event):
                self._spool.add(event.pack())
        self._spool.flush()
        self._runs += self._spool.runs

    # Clocks.

    def _settle(self) -> Iterator[Reported]:
        """Bound the clocks, by times of files only where these were not lost in copying."""
        for node, files in self._files.items():
            known, late = (sum(counts[at] for counts, _ in files) for at in (0, 1))
            spans = [span for _, span in files if span is not None]
            is_short = len(spans) >= _LEAST_FILES and (
                max(high for _, high in spans) - min(low for low, _ in spans) <= _COPIED_WITHIN_MS
            )
            if 2 * late > known or is_short:
                self._copied.add(node)
                yield at_place(
                    "file-times-lost", Place(None, None, None, self._nodes.get(node, ""))
                )
        for tie in self._file_ties:
            if tie.second not in self._copied:
                self._clocks.add(tie)
        for tie in _transaction_ties(self._steps, self._markers):
            self._clocks.add(tie)
        common = self._options.clock
        if common is None:
            common = next(iter(self._nodes), None)
        skew = self._options.skew
        if skew == NONE:
            skew = dict.fromkeys({*self._nodes, *self._clocks.named_brokers()}, 0)
        fixed = {} if isinstance(skew, str) else skew
        self._clocks.settle(self._nodes, common, fixed)

    # Order.

    def _events(self) -> Iterator[Row]:
        spool = Spool(self._scratch)
        known = b""
        for entry in merge_runs(self._runs):
            key, event = unpack(entry)
            if key == known:
                continue
            known = key
            if (
                event.clock == FILE
                and event.what[:5] == "file-"
                and event.broker_id in self._copied
            ):
                continue
            row = self._row(event)
            if self._options.is_of_time(row.at_ms, row.at_earliest_ms, row.at_latest_ms):
                offset = -1 if event.offset is None else event.offset
                sorted_by = _SORTED_BY.pack(_place_in_time(row) + _FAR, offset)
                spool.add(sorted_by + entry)
        spool.flush()
        for entry in merge_runs(spool.runs):
            yield self._row(unpack(entry[_SORTED_BY.size :])[1])

    def _row(self, event: RawEvent) -> Event:
        clock, clock_of, at_ms = event.clock, event.clock_of, event.at_ms
        copied = event.broker_id in self._copied
        if clock == FILE and copied:
            clock, clock_of, at_ms = NO_CLOCK, None, None
        earliest = latest = None
        if clock_of is not None and at_ms is not None and abs(at_ms) < _FAR:
            tick = FILE_TICK_MS if clock == FILE else 0
            earliest, latest = self._bounds(event, clock_of, at_ms, at_ms + tick)
        elif event.file_to is not None and not copied:
            until = event.file_to + FILE_TICK_MS
            earliest, latest = self._bounds(event, event.broker_id, event.file_from, until)
            if earliest is not None and latest is not None and earliest > latest:
                earliest = None
        return Event(
            *(at_ms, earliest, latest, clock, clock_of, event.what, event.subject),
            *(event.topic, event.partition, event.offset, event.broker_id, event.text),
            {"path": event.path, "segment": event.segment, "position": event.position},
            event.basis,
        )

    def _bounds(
        self, event: RawEvent, broker: int | None, from_ms: int | None, to_ms: int
    ) -> tuple[int | None, int | None]:
        """Give the earliest and the latest of times of a broker, on the common clock."""
        spot, (topic, partition, offset, epoch) = None, event[3:7]
        is_dated = event.clock in (CONTROLLER, COORDINATOR, LEADER) and topic in BY_BROKERS
        if is_dated and topic is not None and partition is not None and offset is not None:
            spot = Spot(self._leaders.log(topic, None, partition), offset, epoch)
        return self._clocks.between(broker, from_ms, to_ms, spot)


def _place_in_time(row: Event) -> int:
    """Say where a row stands: twice the middle of its bounds, behind all others without a time."""
    ends = [one for one in (row.at_earliest_ms, row.at_latest_ms) if one is not None]
    ends = ends or ([] if row.at_ms is None else [row.at_ms])
    return min(max(ends[0] + ends[-1], -_FAR), _FAR - 1) if ends else _FAR


def _transaction_ties(steps: Iterable[Step], markers: Iterable[Marker]) -> Iterator[Tie]:
    """Tie clocks by transactions: the decision, then all markers, then that it is complete.

    An id may keep its epoch from one transaction to the next, and compaction leaves only the last
    records of an id. So it is sure which marker is whose only where one decision is known and its
    end, and where a partition of that transaction has one marker of the id and epoch.
    """
    of: dict[tuple[int, int], dict[str, set[Step]]] = {}
    for step in steps:
        if step.clock is not None and step.state[:7] in ("Prepare", "Complet"):
            states = of.setdefault((step.producer_id, step.producer_epoch), {})
            states.setdefault(step.state[:7], set()).add(step)
    seen: dict[tuple[int, int, str], list[Marker]] = {}
    for marker in markers:
        of_partition = marker.producer_id, marker.producer_epoch, marker.partition
        seen.setdefault(of_partition, []).append(marker)
    for producer, states in of.items():
        prepared, complete = states.get("Prepare", set()), states.get("Complet", set())
        if len(prepared) != 1 or len(complete) != 1:
            continue
        (first,), (last,) = prepared, complete
        if first.at_ms > last.at_ms or first.clock != last.clock:
            continue  # the end of another transaction, or written by another coordinator
        for partition in first.partitions:
            found = seen.get((*producer, partition), [])
            if len(found) == 1 and first.clock is not None and last.clock is not None:
                clock, at_ms, spot = found[0].clock, found[0].at_ms, found[0].spot
                why = "a transaction's outcome, and its marker"
                yield Tie(first.clock, first.at_ms, clock, at_ms, why, False, first.spot, spot)
                why = "a marker, then the end of its transaction"
                yield Tie(clock, at_ms, last.clock, last.at_ms, why, False, spot, last.spot)
