"""Produce what was salvaged to a running cluster, each record once, however often a run is killed.

Nobody else may write to the partitions. Then the nth record of a partition has the offset of the
first one plus n: the state file holds how many of them are known to have arrived, what arrived
behind that is read back and compared, and each offset that the cluster gives is held to it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from kdump.client.cluster import Cluster, Lost, Sender, SentRecord
from kdump.client.group_offsets import GroupOffsets, Place
from kdump.engine.find.reset import refused_group
from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.run import groups
from kdump.engine.salvage.committing import Translated, commit_offsets
from kdump.engine.salvage.copies import Item
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.partition import Opened, Sums, open_copies, row_of
from kdump.engine.salvage.records import Offered, Visible
from kdump.engine.salvage.state import GROUPS_ENDING, Arrived, OffsetMap, State
from kdump.engine.salvage.targets import Target, targets_of
from kdump.engine.work.pace import Progress, Throttle
from kdump.errors import KdumpError, NothingToDo, Refused
from kdump.findings.rows import Row
from kdump.storage import names

_READINGS = 3
_FAILURES = 5  # one after the other, with nothing that arrived between
_MARK_BYTES = 1 << 20  # of a record in so many bytes, or in such a time, the offset is asked for
_MARK_SECONDS = 0.25


class _Commit(NamedTuple):
    """What a group had committed."""

    offset: int
    group: str


Commits = dict[tuple[str, int], list[_Commit]]


class _Prepared(NamedTuple):
    opened: Opened
    visible: Visible
    row: Row


def produce(
    items: Sequence[Item], paths: Sequence[str], options: SalvageOptions, progress: Progress
) -> Iterator[Row | KdumpError]:
    """Yield a `salvaged` row for each partition once it has arrived, and errors.

    Behind them comes a `group-offset` row for each offset that was to be committed.
    Nothing is sent before all copies were merged and the topics of the cluster were found fit.
    """
    assert options.produce is not None
    if not items:
        return
    progress.planned_bytes *= _READINGS
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(options.produce, options.client_settings))
        commits: Commits = {}
        if options.groups:
            yield from _read_groups(paths, options, commits)
        prepared = []
        for item in items:
            progress.at = [item.path]
            opened = open_copies(item, options, progress)
            stack.callback(opened.close)
            prepared.append(_prepare(opened))
        targets = targets_of(cluster, options.produce, [one.opened for one in prepared])
        if options.dry_run:
            for one in prepared:
                yield _told(one, _Production(one, targets[str(one.opened.topic)], None, {}))
            return
        state = stack.enter_context(State(str(options.resume), cluster.id))
        offset_map = stack.enter_context(state.offset_map())
        plan: list[Translated] = []
        throttle = None if options.rate is None else Throttle(options.rate)
        means = _Means(cluster, _Senders(cluster, progress), state, offset_map, throttle, progress)
        stack.callback(means.senders.close)
        for one in prepared:
            progress.at = [one.opened.item.path]
            target = targets[str(one.opened.topic)]
            row, more = _persist(one, target, means, commits)
            plan += more
            yield row
            progress.items_done += 1
        offset_map.finish()
        if options.groups:
            lines = (one.line for one in plan if not refused_group(one.place.group))
            state.write(GROUPS_ENDING, "".join(sorted(lines)).encode())
        if options.apply_groups:
            offsets = GroupOffsets(cluster.admin())
            yield from commit_offsets(offsets, options.produce, state, plan, progress.tick)


def _prepare(opened: Opened) -> _Prepared:
    """Merge the copies once, for what is lost and which transactions were committed."""
    merged, found, visible = opened.merge(), Sums(), Visible(opened)
    for taken in merged.batches():
        found.take(taken)
        if opened.options.to_offset is None:
            visible.watch(taken)
    row = row_of(opened, merged, found)
    if opened.options.to_offset is not None:
        for taken in opened.merge(to_end=True).batches():
            visible.watch(taken)
    if any(conflict.chosen is None for conflict in merged.conflicts):
        name = names.directory_name(str(opened.topic), opened.item.partition or 0)
        raise Refused(
            opened.item.path,
            f"is not produced: copies of {name} have other records at the same offsets of one "
            "epoch; say with --prefer which of them count",
        )
    return _Prepared(opened, visible, row)


def _read_groups(
    paths: Sequence[str], options: SalvageOptions, commits: Commits
) -> Iterator[KdumpError]:
    """Replay the committed offsets that lie among the copies."""
    asked = GroupOptions(
        selection=options.selection._replace(retired=False),
        server_properties=options.server_properties,
        broker_version=options.broker_version,
        decompress_limit=options.decompress_limit,
    )
    shares = set()
    for item in groups(paths, asked):
        if isinstance(item, NothingToDo):
            raise item
        if isinstance(item, KdumpError):
            yield item
        elif isinstance(item, Row) and item.row == "group" and item.fields["type"] == "Share":
            shares.add(item.fields["group"])
        elif isinstance(item, Row) and item.row == "committed-offset":
            one = item.fields
            if one["pending"] or one["group"] in shares or one["offset"] is None:
                continue
            key = str(one["topic"]), int(str(one["partition"]))
            commit = _Commit(int(str(one["offset"])), str(one["group"]))
            commits.setdefault(key, []).append(commit)


class _Senders:
    """Senders by the size of batches that topics take."""

    def __init__(self, cluster: Cluster, progress: Progress) -> None:
        self._cluster = cluster
        self._progress = progress
        self._by_size: dict[int, Sender] = {}

    def of(self, max_bytes: int) -> Sender:
        """Give one that is fit."""
        if max_bytes not in self._by_size:
            self._by_size[max_bytes] = self._cluster.sender(max_bytes, self._progress.tick)
        return self._by_size[max_bytes]

    def close(self) -> None:
        """Let all go; what they still hold is not sent."""
        while self._by_size:
            with self._by_size.popitem()[1]:
                pass


class _Means(NamedTuple):
    cluster: Cluster
    senders: _Senders
    state: State
    offset_map: OffsetMap
    throttle: Throttle | None
    progress: Progress


class _Production:
    """One partition being produced; without means it is only counted what would be."""

    def __init__(
        self, one: _Prepared, target: Target, means: _Means | None, commits: Commits
    ) -> None:
        item = one.opened.item
        self.topic, self.partition = str(one.opened.topic), item.partition or 0
        self.name = names.directory_name(self.topic, self.partition)
        self.count = self.found_count = 0
        self.start: int | None = None
        self.plan: list[Translated] = []
        self._path = item.path
        self._visible = one.visible
        self._target = target
        self.keeps_times = target.keeps_times
        self._means = means
        self._commits = sorted(commits.get((str(item.topic), self.partition), ()))
        self._unmarked, self._marked = 0, 0.0  # bytes sent since an offset was asked for, and when
        self._foreign: str | None = None
        self._known = self._arrived = Arrived(0)  # when the run began, and now
        self._behind = 0  # of the copies: behind the last record taken up

    def run(self) -> None:
        """Send all records, but for those that have arrived, and wait for the last."""
        if self._means is None:
            for some in self._visible.records():
                self.count += len(some)
            return
        means = self._means
        tail = self._begin()
        for some in self._visible.records():
            self._map(some)
            some = self._pass_known(some)
            while some and (back := next(tail, None)) is not None:
                self._compare(some.pop(0), back)
            if some:
                self._send(some)
        if next(tail, None) is not None:
            raise self._refused(f"it holds more at offset {self._next} than was produced")
        means.senders.of(self._target.max_bytes).finish()
        self._end()
        for commit in self._commits:
            self._translate(commit, self._next)

    @property
    def _next(self) -> int:
        return (self.start or 0) + self.count

    def _begin(self) -> Iterator[tuple[int, SentRecord]]:
        """Find out what has arrived, and where the first record goes."""
        assert self._means is not None
        cluster, state = self._means.cluster, self._means.state
        known = state.partitions.get(self.name)
        if known is None:
            self.start = cluster.bounds(self.topic, self.partition)[1]
            self._arrived = Arrived(self.start)
            state.put(self.name, self._arrived, now=True)
            return iter(())
        self.start, self._known, self._arrived = known.start, known, known
        behind = known.start + known.records_count
        if known.is_done:
            low, high = known.start, cluster.bounds(self.topic, self.partition)[1]
        else:
            tick = self._means.progress.tick
            low, high = cluster.still_bounds(self.topic, self.partition, tick)
        if not low <= behind <= high:
            raise self._refused(
                f"it goes from offset {low} to {high}, and the state says that records up to "
                f"{behind} arrived: it was made anew, or records were deleted"
            )
        if known.is_done:
            return iter(())
        return cluster.records(self.topic, self.partition, behind, high)

    def _map(self, some: Offered) -> None:
        """Write down where records go, and what offsets that groups committed become."""
        assert self._means is not None
        at, new = (self.topic, self.partition), self._next
        for number, (old, _) in enumerate(some):
            self._means.offset_map.add(at, old, new + number)
        last = some[-1][0]
        while self._commits and self._commits[0].offset <= last:
            commit = self._commits.pop(0)
            number = bisect_left(some, commit.offset, key=lambda one: one[0])
            self._translate(commit, new + number)

    def _translate(self, commit: _Commit, new: int) -> None:
        place = Place(commit.group, self.topic, self.partition)
        self.plan.append(Translated(place, commit.offset, new))

    def _pass_known(self, some: Offered) -> Offered:
        """Pass over records that have arrived as the state says; those behind them remain."""
        known = some[: max(self._known.records_count - self.count, 0)]
        if known:
            self._take_up(known)
            self.found_count += len(known)
            is_last = self.count == self._known.records_count
            if is_last and self._behind != self._known.next_offset:
                raise self._changed()
        rest = some[len(known) :]
        if rest and self._known.is_done:
            raise self._changed()
        return rest

    def _take_up(self, some: Offered) -> None:
        self.count += len(some)
        self._behind = some[-1][0] + 1

    def _compare(self, one: tuple[int, SentRecord], back: tuple[int, SentRecord]) -> None:
        """See that what was read back is the record that was to be sent next."""
        (old, record), (offset, found) = one, back
        is_same = found == record if self.keeps_times else found[1:] == record[1:]
        if offset != self._next or not is_same:
            raise self._refused(
                f"it has another record at offset {offset} than that of offset {old}, which was "
                "produced next"
            )
        self._take_up([one])
        self.found_count += 1
        self._arrived = Arrived(offset + 1 - self.count, self.count, self._behind)

    def _send(self, some: Offered) -> None:
        assert self._means is not None
        means, target = self._means, self._target
        size_bytes = 0
        for old, record in some:
            size = record.size_bytes
            size_bytes += size
            target.refuse(self._path, old, size, record.timestamp_ms)
        self._take_up(some)
        count, behind = self.count, self._behind
        self._unmarked += size_bytes
        arrived = None
        now = time.monotonic()
        if self._unmarked >= _MARK_BYTES or now - self._marked > _MARK_SECONDS:
            self._unmarked, self._marked = 0, now

            def arrived(offset: int) -> None:
                self._take(offset, count, behind)

        messages = [record for _, record in some]
        means.senders.of(target.max_bytes).send(self.topic, self.partition, messages, arrived)
        if self._foreign is not None:
            raise self._refused(self._foreign)
        means.state.put(self.name, self._arrived)
        if means.throttle is not None:
            means.throttle.wait(size_bytes, means.progress.tick)

    def _take(self, offset: int, count: int, behind: int) -> None:
        """Take note of the offset that a record got, with all before it."""
        assert self.start is not None
        expected = self.start + count - 1
        if offset == expected:
            self._arrived = Arrived(self.start, count, behind)
        else:
            self._foreign = f"a record got offset {offset} where {expected} was next"

    def _end(self) -> None:
        """See that as many records are there as were sent, and that nobody else wrote any."""
        assert self._means is not None
        assert self.start is not None
        if self._foreign is not None:
            raise self._refused(self._foreign)
        if self.count < self._known.records_count:
            raise self._changed()
        if self._known.is_done:
            return
        until = time.monotonic() + 10
        while True:
            _, high = self._means.cluster.bounds(self.topic, self.partition)
            if high >= self._next or time.monotonic() > until:
                break
            time.sleep(0.1)
        if high != self._next:
            raise self._refused(f"it ends at offset {high}, where {self._next} was to be")
        self._arrived = Arrived(self.start, self.count, self._behind, is_done=True)
        self._means.state.put(self.name, self._arrived, now=True)

    def _changed(self) -> KdumpError:
        assert self._means is not None
        return Refused(
            self._path, f"is not as it was when {self._means.state.path} was written: begin anew"
        )

    def _refused(self, why: str) -> Refused:
        return Refused(
            f"{self.name} of the cluster",
            f"{why}. No other producer may write to it while records are brought back",
        )


def _persist(
    one: _Prepared, target: Target, means: _Means, commits: Commits
) -> tuple[Row, list[Translated]]:
    """Produce a partition, and go on after a broker was away as a run does that was killed."""
    reached, failures = -1, 0
    while True:
        production = _Production(one, target, means, commits)
        try:
            return _told(one, production), production.plan
        except Lost:
            means.senders.close()
            failures = 0 if production.found_count > reached else failures + 1
            reached = production.found_count
            if failures == _FAILURES:
                raise


def _told(one: _Prepared, production: _Production) -> Row:
    """Produce a partition and say what came of it."""
    production.run()
    visible, start, count = one.visible, production.start, production.count
    fields = dict(one.row.fields)
    fields["produced"] = {
        "records_count": count,
        "first_offset": start if count else None,
        "last_offset": start + count - 1 if count and start is not None else None,
        "found_count": production.found_count,
        "aborted_count": visible.aborted_count,
        "open_count": visible.open_count,
        "control_count": visible.control_count,
        "keeps_times": production.keeps_times,
    }
    return Row(one.row.row, fields)
