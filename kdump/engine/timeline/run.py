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

import os
import struct
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kdump.engine.coordinators import partitions as coordinated
from kdump.engine.coordinators.partitions import Reported
from kdump.engine.reading.damage import at_place
from kdump.engine.timeline.clocks import Clocks
from kdump.engine.timeline.coordinators import TOPICS, Step, coordinator_events
from kdump.engine.timeline.happening import (
    FILE,
    NO_CLOCK,
    RECORDED,
    Happening,
    Open,
    Tie,
    unpacked,
)
from kdump.engine.timeline.logs import INTERNAL, LogRead, Marker, log_events
from kdump.engine.timeline.metadata import Leaders, metadata_events
from kdump.engine.timeline.options import NONE, TimelineOptions
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.engine.work.spool import SortedRun, Spool, merged, scratch_directory
from kdump.errors import KdumpError, NothingToDo, PathError
from kdump.findings.rows import Place, Row
from kdump.rows.timeline import Event
from kdump.storage import names, places
from kdump.storage.about import owner_of
from kdump.storage.checkpoints import java_int
from kdump.storage.data_directories import spread_all
from kdump.storage.local_log import LocalLog
from kdump.storage.properties import read_topic_id
from kdump.storage.targets import Selection, Target, data_directories, resolve

#: Logs are read whole while they have less than this, or than so small a part of all bytes.
_WHOLE_BYTES, _WHOLE_PART = 64 << 20, 200
_COPIED_WITHIN_MS = 2_000
_LEAST_FILES = 3
_SORTED_BY = struct.Struct(">Qq")
#: Twice a time that no clock shows; what a broken record says lies between.
_FAR = 1 << 62


class Item(NamedTuple):
    """One replica of one partition; `whole`: all its headers are read."""

    path: str
    topic: str
    partition: int
    node: int | None
    size_bytes: int
    whole: bool


class ItemRead(NamedTuple):
    """What came of an item: its events in runs, and what ties the clocks."""

    runs: tuple[SortedRun, ...]
    ties: tuple[Tie, ...] = ()
    steps: tuple[Step, ...] = ()
    log: LogRead = LogRead()
    reported: tuple[Reported, ...] = ()


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
        self._clocks = Clocks()
        self._runs: list[SortedRun] = []
        self._steps: list[Step] = []
        self._markers: set[Marker] = set()
        self._open: dict[tuple[str, int] | None, tuple[tuple[int, int], tuple[Open, ...]]] = {}
        self._file_times: dict[int, list[tuple[int, int]]] = {}
        self._spans: dict[int, list[tuple[int, int]]] = {}
        self._file_ties: list[Tie] = []
        self._copied: set[int] = set()
        self._nodes: dict[int, str] = {}  # in the order of the paths

    def rows(self) -> Iterator[Row | Reported]:
        targets: list[Target] = []
        found = resolve(self._paths, Selection(), self._options.server_properties, listed=False)
        yield from coordinated.gather(found, targets)
        targets = [one for one in targets if one.whole and one.log is not None]
        spool = Spool(self._scratch)
        directories, _ = spread_all(self._paths)
        for path in directories:
            self._format(path, spool)
        if not targets:
            if not self._nodes:
                yield NothingToDo("no data directory and no partition is among what was given")
            return
        yield from self._metadata(targets, spool)
        spool.flush()
        self._runs += spool.runs
        items = self._items(targets)
        self._progress.planned_items += len(items)
        self._progress.planned_bytes += sum(one.size_bytes for one in items)
        step = partial(
            read_item, options=self._options, leaders=self._leaders, scratch=self._scratch
        )
        for _, result in self._driver(items, step, self._progress):
            if isinstance(result, KdumpError):
                yield result
            else:
                yield from self._take(result)
        self._hangs()
        yield from self._settle()
        yield from self._clocks.rows()
        yield from self._events()

    # Gathering.

    def _format(self, path: str, spool: Spool) -> None:
        """Take note of a data directory, and of when it was formatted."""
        node = java_int(owner_of(path)[0] or "")
        if node is None:
            return
        first = node not in self._nodes
        self._nodes.setdefault(node, path)
        meta = os.path.join(path, names.META_PROPERTIES)
        try:
            modified = places.stat(meta).st_mtime_ns // 1_000_000
        except OSError:
            return
        if first:
            self._keep(
                spool,
                Happening(
                    "format",
                    str(node),
                    "meta.properties was written",
                    broker_id=node,
                    node=node,
                    clock=FILE if places.keeps_times(meta) else NO_CLOCK,
                    clock_of=node,
                    at_ms=modified,
                    path=meta,
                ),
            )

    def _metadata(self, targets: list[Target], spool: Spool) -> Iterator[Reported]:
        """Read every copy of the metadata log."""
        for target in targets:
            if target.topic != names.CLUSTER_METADATA_TOPIC:
                continue
            take = partial(self._keep, spool)
            try:
                limit = self._options.decompress_limit
                if not metadata_events(target.path, self._leaders, take, limit):
                    yield at_place(
                        "replay-incomplete",
                        Place(target.topic, target.partition, None, target.path),
                        message="Part of this copy of the metadata log is missing or cannot be "
                        "read: its events are listed only where another copy has them.",
                    )
            except PathError as error:
                yield error

    def _keep(self, spool: Spool, event: Happening) -> None:
        if self._options.admits(event):
            spool.add(event.packed())

    def _items(self, targets: list[Target]) -> list[Item]:
        found = []
        for target in targets:
            log = target.log
            assert log is not None
            if target.topic is None or target.partition is None:
                continue
            if log.name is not None and log.name.retirement is not None:
                continue
            node = java_int(owner_of(places.parent(places.absolute(target.path)))[0] or "")
            size = sum(places.planned_size(str(one.log)) for one in log.logs)
            found.append(Item(target.path, target.topic, target.partition, node, size, False))
        left = max(_WHOLE_BYTES, sum(one.size_bytes for one in found) // _WHOLE_PART)
        for at in sorted(range(len(found)), key=lambda at: found[at].size_bytes):
            left -= found[at].size_bytes
            if left < 0:
                break
            found[at] = found[at]._replace(whole=True)
        return found

    def _take(self, read: ItemRead) -> Iterator[Reported]:
        yield from read.reported
        self._runs += read.runs
        self._steps += read.steps
        log = read.log
        self._markers.update(log.markers)
        if log.reached >= self._open.get(log.place, ((-1, -1), ()))[0]:
            self._open[log.place] = log.reached, log.open_
        for tie in (*read.ties, *log.ties):
            if tie.by_file:
                self._file_ties.append(tie)
            else:
                self._clocks.add(tie)
        node = log.node
        if node is not None:
            self._file_times.setdefault(node, []).append(log.file_times)
            if log.span is not None:
                self._spans.setdefault(node, []).append(log.span)

    def _hangs(self) -> None:
        """Tell of the transactions that are open in the replica that goes on for longest."""
        names_of = {step.producer_id: step.transactional_id for step in self._steps}
        spool = Spool(self._scratch)
        for producer, event in (one for _, open_ in self._open.values() for one in open_):
            if producer >= 0:
                subject = names_of.get(producer, f"producer {producer}")
                text = f"{event.subject}: {event.text}; producer {producer}"
                event = event._replace(subject=subject, text=text)
            if self._options.admits(event):
                spool.add(event.packed())
        spool.flush()
        self._runs += spool.runs

    # Clocks.

    def _settle(self) -> Iterator[Reported]:
        """Bound the clocks, by times of files only where these were not lost in copying."""
        for node, counts in self._file_times.items():
            known, late = (sum(column) for column in zip(*counts, strict=True))
            spans = self._spans.get(node, [])
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
            skew = dict.fromkeys({*self._nodes, *self._clocks.named()}, 0)
        fixed = {} if isinstance(skew, str) else skew
        self._clocks.settle(self._nodes, common, fixed)

    # Order.

    def _events(self) -> Iterator[Row]:
        spool = Spool(self._scratch)
        known = b""
        for entry in merged(self._runs):
            key, event = unpacked(entry)
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
        for entry in merged(spool.runs):
            yield self._row(unpacked(entry[_SORTED_BY.size :])[1])

    def _row(self, event: Happening) -> Event:
        clock, clock_of, at_ms = event.clock, event.clock_of, event.at_ms
        copied = event.broker_id in self._copied
        if clock == FILE and copied:
            clock, clock_of, at_ms = NO_CLOCK, None, None
        earliest = latest = None
        if clock_of is not None and at_ms is not None and abs(at_ms) < _FAR:
            bounds = self._clocks.of(clock_of)
            if bounds.at_most_ms is not None:
                earliest = at_ms - bounds.at_most_ms
            if bounds.at_least_ms is not None:
                latest = at_ms - bounds.at_least_ms + (10 if clock == FILE else 0)
        elif event.file_to is not None and not copied:
            bounds = self._clocks.of(event.broker_id)
            if event.file_from is not None and bounds.at_most_ms is not None:
                earliest = event.file_from - bounds.at_most_ms
            if bounds.at_least_ms is not None:
                latest = event.file_to - bounds.at_least_ms + 10
            if earliest is not None and latest is not None and earliest > latest:
                earliest = None
        return Event(
            at_ms,
            earliest,
            latest,
            clock,
            clock_of,
            event.what,
            event.subject,
            event.topic,
            event.partition,
            event.offset,
            event.broker_id,
            event.text,
            {"path": event.path, "segment": event.segment, "position": event.position},
            event.basis or RECORDED,
        )


def _place_in_time(row: Event) -> int:
    """Say where a row stands: twice the middle of its bounds, behind all others without bounds."""
    earliest, latest = row.at_earliest_ms, row.at_latest_ms
    if earliest is None and latest is None:
        return _FAR if row.at_ms is None else _bounded(2 * row.at_ms)
    if earliest is None:
        earliest = latest
    if latest is None:
        latest = earliest
    assert earliest is not None
    assert latest is not None
    return _bounded(earliest + latest)


def _bounded(place: int) -> int:
    return min(max(place, -_FAR), _FAR - 1)


def _transaction_ties(steps: Iterable[Step], markers: Iterable[Marker]) -> Iterator[Tie]:
    """Tie clocks by transactions: the decision, then all markers, then that it is complete.

    An id may keep its epoch from one transaction to the next, and compaction leaves only the last
    records of an id. So it is sure which marker is whose only where one decision is known and its
    end, and where a partition of that transaction has one marker of the id and epoch.
    """
    of: dict[tuple[int, int], dict[str, set[tuple[int, int, tuple[str, ...]]]]] = {}
    for step in steps:
        if step.clock is not None and step.state[:7] in ("Prepare", "Complet"):
            states = of.setdefault((step.producer_id, step.producer_epoch), {})
            partitions = step.partitions if step.state[:7] == "Prepare" else ()
            states.setdefault(step.state[:7], set()).add((step.clock, step.at_ms, partitions))
    seen: dict[tuple[int, int, str], list[Marker]] = {}
    for marker in markers:
        of_partition = marker.producer_id, marker.producer_epoch, marker.partition
        seen.setdefault(of_partition, []).append(marker)
    for producer, states in of.items():
        prepared, complete = states.get("Prepare", set()), states.get("Complet", set())
        if len(prepared) != 1 or len(complete) != 1:
            continue
        ((first, first_ms, partitions),), ((last, last_ms, _),) = prepared, complete
        if (first, first_ms) > (last, last_ms) or first != last:
            continue  # the end of another transaction, or written by another coordinator
        for partition in partitions:
            found = seen.get((*producer, partition), [])
            if len(found) == 1:
                clock, at_ms = found[0].clock, found[0].at_ms
                yield Tie(first, first_ms, clock, at_ms, "a decision, then its marker")
                why = "a marker, then the end of its transaction"
                yield Tie(clock, at_ms, last, last_ms, why)


def read_item(
    item: Item, pace: Pace, *, options: TimelineOptions, leaders: Leaders, scratch: str
) -> ItemRead:
    """Read the events of one replica of a partition."""
    spool = Spool(scratch)

    def take(event: Happening) -> None:
        if options.admits(event):
            spool.add(event.packed())

    log = LocalLog.open(item.path)
    topic_id = read_topic_id(item.path)
    ties: tuple[Tie, ...] = ()
    steps: tuple[Step, ...] = ()
    open_: tuple[Open, ...] = ()
    reported: tuple[Reported, ...] = ()
    limit = options.decompress_limit
    if item.topic in TOPICS:
        one = coordinated.Item(item.path, item.topic, item.partition, False, item.size_bytes)
        steps, ties, open_, reported = coordinator_events(one, topic_id, leaders, take, pace, limit)
    else:
        pace(item.size_bytes)
    read = log_events(
        log,
        item.topic,
        item.partition,
        item.node,
        topic_id,
        leaders,
        take,
        whole=item.whole or item.topic in TOPICS | INTERNAL,
        limit=limit,
    )
    if options.key is not None or options.grep is not None:
        from kdump.engine.timeline.records import record_events

        place = Place(item.topic, item.partition, None, item.path)
        reported = (*reported, *record_events(place, topic_id, leaders, take, options))
    spool.flush()
    read = read._replace(open_=(*read.open_, *open_))
    return ItemRead(tuple(spool.runs), ties, steps, read, reported)
