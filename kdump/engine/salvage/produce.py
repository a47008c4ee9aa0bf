"""Produce what was salvaged to a running cluster, each record once, however often a run is killed.

Nobody else may write to the partitions. Then the nth record of a partition has the offset of the
first one plus n: the state file holds how many of them are known to have arrived, what arrived
behind that is read back and compared, and each offset that the cluster gives is held to it.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from kdump.client.cluster import Cluster, Sender, SentRecord, UncertainSendError
from kdump.client.group_offsets import GroupOffsets, Place
from kdump.engine.find.reset import is_refused_group
from kdump.engine.salvage.copies import Copy, Item
from kdump.engine.salvage.former_offsets import NOT_PRODUCED, FormerOffsets, LeftOut, summary_row
from kdump.engine.salvage.offset_commits import (
    APPLIED,
    PLANNED,
    TranslatedOffset,
    commit_offsets,
    left_out_row,
)
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.partition import OpenCopies, Sums, open_copies, open_selected, row_of
from kdump.engine.salvage.records import Offered, VisibleRecords
from kdump.engine.salvage.state import GROUPS_ENDING, OffsetMap, PartitionProgress, State
from kdump.engine.salvage.steps import create_steps, restore_steps
from kdump.engine.salvage.targets import MissingTopic, Target, targets_of
from kdump.engine.work.pace import Progress, Throttle
from kdump.errors import KdumpError, PathError, RefusedError, unforeseen
from kdump.findings.code import Severity
from kdump.findings.finding import Finding, finding
from kdump.findings.rows import Row
from kdump.rows.salvage import Produced, Salvaged
from kdump.storage import names, places
from kdump.storage.directory_facts import facts_of
from kdump.tuples import NamedTuple

_READINGS = 3
_PATHS_SHOWN = 3
_FAILURES = 5  # one after the other, with nothing that arrived between
_MARK_BYTES = 1 << 20  # of a record in so many bytes, or in such a time, the offset is asked for
_MARK_SECONDS = 0.25


class Commit(NamedTuple):
    """What a group had committed."""

    offset: int
    group: str


Commits = dict[tuple[str, int], list[Commit]]


class _Preparation(NamedTuple):
    opened: OpenCopies
    visible: VisibleRecords
    row: Salvaged
    name: str
    planned_count: int  # the most records that were ever to be produced


class _Source(NamedTuple):
    """A partition with its copies open: by the name that its topic is to have."""

    topic: str
    item: Item
    copies: list[Copy]

    @property
    def name(self) -> str:
        return names.directory_name(self.topic, self.item.partition or 0)


def produce(
    items: Sequence[Item], paths: Sequence[str], options: SalvageOptions, progress: Progress
) -> Iterator[Row | KdumpError | Finding]:
    """Yield a `salvaged` row for each partition once it has arrived, findings and errors.

    Behind them comes a `group-offset` row for each offset that was to be committed. Nothing is sent
    before all copies were merged and the topics of the cluster were found fit.
    """
    assert options.produce is not None
    if not items and not os.path.lexists(str(options.resume)):
        return
    progress.planned_bytes *= _READINGS
    with ExitStack() as stack:
        sources = []
        for item in items:
            copies = open_selected(item, options, progress)
            sources.append(
                _Source(options.names.get(str(item.topic), str(item.topic)), item, copies)
            )
            stack.callback(_close, copies)
        cluster = stack.enter_context(Cluster(options.produce, options.client_settings))
        by_topic = [(one.topic, one.item) for one in sources]
        targets, missing = targets_of(cluster, options.produce, by_topic)
        state = None
        if not options.dry_run:
            state = stack.enter_context(State(str(options.resume), cluster.id))
        if missing:
            afterwards: list[str] = []
            yield from create_steps(missing, sources, paths, options, afterwards)
            if state is None:
                yield from restore_steps(afterwards)  # nothing remembers them
            elif afterwards:
                state.afterwards = afterwards
                state.save()
            raise _refuse_missing(missing[0])
        sources, own = _without_targets(cluster, sources, targets)
        yield from _own_directories(own, state)
        former = FormerOffsets()
        if options.groups and sources:
            yield from former.read(paths, options, [one.copies for one in sources])
        prepared = []
        for one in sources:
            progress.at = [one.item.path]
            try:
                opened = open_copies(one.item, options, progress, one.copies)
                prepared.append(_prepare(opened, state))
            except Exception as error:
                yield _of_partition(error, one)
        if state is None:
            for each in prepared:
                yield _produce_one(
                    each, _Production(each, targets[str(each.opened.topic)], None, {})
                )
            return
        state.save()
        offset_map = stack.enter_context(state.offset_map())
        throttle = None if options.rate is None else Throttle(options.rate)
        means = _ProduceContext(
            cluster, _Senders(cluster, progress), state, offset_map, throttle, progress
        )
        stack.callback(means.senders.close)
        commits = _by_partition(former)
        by_name = {one.name: one for one in sources}
        plan: list[TranslatedOffset] = []
        for each in prepared:
            progress.at = [each.opened.item.path]
            target = targets[str(each.opened.topic)]
            try:
                row, more = _persist(each, target, means, commits)
            except Exception as error:
                yield _of_partition(error, by_name[each.name])
                continue
            yield row
            if (short := _shortfall(row, each)) is not None:
                yield short
            else:
                plan += more
            progress.items_done += 1
        offset_map.finish()
        if options.groups:
            lines = (one.line for one in plan if not is_refused_group(one.place.group))
            state.write(GROUPS_ENDING, "".join(sorted(lines)).encode())
            yield from _groups(cluster, options, state, plan, former, progress)
        yield from _report_unfinished(state)
        if not state.count_unfinished():
            yield from restore_steps(state.afterwards)


def _of_partition(error: Exception, one: _Source) -> KdumpError | Finding:
    """What of an error concerns one partition alone; raise it where it stops all of them."""
    is_of_all = isinstance(error, RefusedError) or not isinstance(error, PathError)
    if isinstance(error, BrokenPipeError) or (isinstance(error, KdumpError) and is_of_all):
        raise error
    return unforeseen(one.item.path, error, topic=one.topic, partition=one.item.partition)


def _close(copies: list[Copy]) -> None:
    for copy in copies:
        copy.close()


def _refuse_missing(missing: MissingTopic) -> RefusedError:
    """Refuse to go on without a topic."""
    there = (
        "does not exist" if missing.partitions is None else f"has {missing.partitions} partitions"
    )
    return RefusedError(
        missing.path, f"topic {missing.topic} {there} in the cluster: run the commands above"
    )


def _without_targets(
    cluster: Cluster, sources: Sequence[_Source], targets: Mapping[str, Target]
) -> tuple[list[_Source], list[_Source]]:
    """Leave out directories in which the cluster itself keeps the topics that are produced to.

    What is produced arrives there, and would be produced once more. Give the partitions that have
    other copies, and those that have none.
    """
    kept: list[_Source] = []
    own: list[_Source] = []
    for one in sources:
        target = targets[one.topic]
        mine = [copy for copy in one.copies if _is_of(copy, one.topic, target, cluster)]
        one.copies[:] = [copy for copy in one.copies if copy not in mine]
        (kept if one.copies else own).append(one)
    return kept, own


def _is_of(copy: Copy, topic: str, target: Target, cluster: Cluster) -> bool:
    """Whether a copy is a replica of the topic in the cluster, by its id where both have one."""
    found = copy.found
    if found.is_file or found.retirement is not None or places.is_uri(found.path):
        return False
    if None not in (target.topic_id, copy.topic_id):
        return target.topic_id == copy.topic_id
    if found.topic != topic:
        return False
    about = facts_of(places.parent(found.directory))
    return about.cluster_id == cluster.id and about.locked is not False


def _own_directories(own: Sequence[_Source], state: State | None) -> Iterator[Finding]:
    """Say which partitions have no other copy than what the cluster has itself."""
    for one in own:
        if state is None or one.name not in state.planned:
            topic, partition = one.topic, one.item.partition
            yield finding("source-is-target", path=one.item.path, topic=topic, partition=partition)


def _shortfall(row: Salvaged, one: _Preparation) -> Finding | None:
    """Name the records of a partition that were planned and did not arrive."""
    produced = row.produced
    if produced is None or not produced["missing_count"]:
        return None
    count, planned = produced["records_count"], produced["planned_count"]
    return finding(
        "produced-short",
        path=one.opened.item.path,
        topic=str(one.opened.topic),
        partition=one.opened.item.partition,
        expected=planned,
        actual=count,
        message=f"{count:,} of {planned:,} records were produced, {produced['missing_count']:,} "
        "were not: the copies no longer have them.",
    )


def _report_unfinished(state: State) -> Iterator[KdumpError]:
    """Say what is still to arrive, as often as it is asked for."""
    for name, count in sorted(state.count_unfinished().items()):
        paths = ", ".join(state.planned[name].paths[:_PATHS_SHOWN])
        planned = state.planned[name].records_count
        yield KdumpError(
            f"{name}: {count:,} of {planned:,} records have not arrived. Copies of them were in "
            f"{paths}: add a path that still has them, with --resume {state.path}"
        )


def _by_partition(former: FormerOffsets) -> Commits:
    commits: Commits = {}
    for one in former.offsets:
        of_partition = commits.setdefault((one.place.topic, one.place.partition), [])
        of_partition.append(Commit(one.offset, one.place.group))
    return commits


def _groups(
    cluster: Cluster,
    options: SalvageOptions,
    state: State,
    plan: Sequence[TranslatedOffset],
    former: FormerOffsets,
    progress: Progress,
) -> Iterator[Row | KdumpError]:
    """Commit the offsets of groups if that is asked for, and say what came of each."""
    outcomes = []
    planned = {(one.place.group, one.place.topic, one.place.partition) for one in plan}
    for one in former.offsets:
        topic = options.names.get(one.place.topic, one.place.topic)
        if (one.place.group, topic, one.place.partition) not in planned:
            former.left_out.append(LeftOut(one.place, one.offset, NOT_PRODUCED))
    if options.apply_groups:
        offsets = GroupOffsets(cluster.admin())
        brokers = str(options.produce)
        for item in commit_offsets(offsets, brokers, state, plan, progress.tick):
            if isinstance(item, Row):
                outcomes.append(str(item.fields["outcome"]))
            yield item
    else:
        outcomes += [PLANNED] * len(plan)
    for left in former.left_out:
        outcomes.append(left.why)
        place = left.place._replace(topic=options.names.get(left.place.topic, left.place.topic))
        yield left_out_row(place, left.offset, left.why)
    yield summary_row(outcomes, APPLIED, former, options.groups_at)


def _prepare(opened: OpenCopies, state: State | None) -> _Preparation:
    """Merge the copies once, for what is lost and which transactions were committed."""
    merged, found, visible = opened.merge(), Sums(), VisibleRecords(opened)
    for taken in merged.batches():
        found.take(taken)
        if opened.options.to_offset is None:
            visible.watch(taken)
    opened.refuse_deleted()
    row = row_of(opened, merged, found)
    visible.lost = merged.lost
    if opened.options.to_offset is not None:
        for taken in opened.merge(to_end=True).batches():
            visible.watch(taken)
    name = names.directory_name(str(opened.topic), opened.item.partition or 0)
    if any(conflict.chosen is None for conflict in merged.conflicts):
        raise RefusedError(
            opened.item.path,
            f"was not produced: copies of {name} have different records with the same offset and "
            "leader epoch; select the right copy with --prefer",
        )
    planned = visible.planned_count
    if state is not None:
        planned = state.plan(name, planned, [copy.path for copy in opened.copies])
    return _Preparation(opened, visible, row, name, planned)


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


class _ProduceContext(NamedTuple):
    cluster: Cluster
    senders: _Senders
    state: State
    offset_map: OffsetMap
    throttle: Throttle | None
    progress: Progress


class _Production:
    """One partition being produced; without means it is only counted what would be."""

    def __init__(
        self, one: _Preparation, target: Target, means: _ProduceContext | None, commits: Commits
    ) -> None:
        item = one.opened.item
        self.topic, self.partition = str(one.opened.topic), item.partition or 0
        self.name = names.directory_name(self.topic, self.partition)
        self.is_short = False  # the copies gave fewer records than were planned
        self.count = self.found_count = 0
        self.start: int | None = None
        self.plan: list[TranslatedOffset] = []
        self._path = item.path
        self._visible = one.visible
        self._batches_count = int(str(one.row.fields["records_count"]))  # records, of whatever kind
        self._is_less = one.visible.planned_count < one.planned_count
        self._target = target
        self.keeps_times = target.keeps_times
        self._means = means
        self._commits = sorted(commits.get((str(item.topic), self.partition), ()))
        self._unmarked, self._marked = 0, 0.0  # bytes sent since an offset was asked for, and when
        self._foreign: str | None = None
        self._known = self._arrived = PartitionProgress(0)  # when the run began, and now
        self._behind = 0  # of the copies: behind the last record taken up

    def run(self) -> None:
        """Send all records, but for those that have arrived, and wait for the last."""
        if self._means is None:
            for some in self._visible.records():
                self.count += len(some)
            return
        means = self._means
        if self._is_less:  # which records are missing nothing tells, so none is sent
            arrived = means.state.partitions.get(self.name, PartitionProgress(0))
            self.start, self.count, self.is_short = arrived.start, arrived.records_count, True
            self.found_count = self.count
            return
        tail = self._begin()
        for some in self._visible.records():
            self._map(some)
            some = self._pass_known(some)
            while some and (back := next(tail, None)) is not None:
                self._compare(some.pop(0), back)
            if some:
                self._send(some)
        self.is_short = (
            self._visible.passed_count < self._batches_count
            or self.count < self._known.records_count
        )
        if next(tail, None) is not None and not self.is_short:
            raise self._refusal(f"it has more records at offset {self._next} than were produced")
        means.senders.of(self._target.max_bytes).finish()
        self._end()
        for commit in self._commits if not self.is_short else ():
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
            self._arrived = PartitionProgress(self.start)
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
            raise self._refusal(
                f"it has offsets {low} to {high}, but according to the state records up to "
                f"{behind} arrived: it was recreated, or records were deleted"
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

    def _translate(self, commit: Commit, new: int) -> None:
        place = Place(commit.group, self.topic, self.partition)
        self.plan.append(TranslatedOffset(place, commit.offset, new))

    def _pass_known(self, some: Offered) -> Offered:
        """Pass over records that have arrived as the state says; those behind them remain."""
        known = some[: max(self._known.records_count - self.count, 0)]
        if known:
            self._take_up(known)
            self.found_count += len(known)
            is_last = self.count == self._known.records_count
            if is_last and self._behind != self._known.next_offset:
                raise self._change_error()
        rest = some[len(known) :]
        if rest and self._known.is_done:
            raise self._change_error()
        return rest

    def _take_up(self, some: Offered) -> None:
        self.count += len(some)
        self._behind = some[-1][0] + 1

    def _compare(self, one: tuple[int, SentRecord], back: tuple[int, SentRecord]) -> None:
        """See that what was read back is the record that was to be sent next."""
        (old, record), (offset, found) = one, back
        is_same = found == record if self.keeps_times else found[1:] == record[1:]
        if offset != self._next or not is_same:
            raise self._refusal(
                f"the record at its offset {offset} is not the one from offset {old}, which was "
                "produced next"
            )
        self._take_up([one])
        self.found_count += 1
        self._arrived = PartitionProgress(offset + 1 - self.count, self.count, self._behind)

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
            raise self._refusal(self._foreign)
        means.state.put(self.name, self._arrived)
        if means.throttle is not None:
            means.throttle.wait(size_bytes, means.progress.tick)

    def _take(self, offset: int, count: int, behind: int) -> None:
        """Take note of the offset that a record got, with all before it."""
        assert self.start is not None
        expected = self.start + count - 1
        if offset == expected:
            self._arrived = PartitionProgress(self.start, count, behind)
        else:
            self._foreign = f"a record got offset {offset} instead of {expected}"

    def _end(self) -> None:
        """See that as many records are there as were sent, and that nobody else wrote any."""
        assert self._means is not None
        assert self.start is not None
        if self._foreign is not None:
            raise self._refusal(self._foreign)
        if self._known.is_done or self.count < self._known.records_count:
            return
        until = time.monotonic() + 10
        while True:
            _, high = self._means.cluster.bounds(self.topic, self.partition)
            if high >= self._next or time.monotonic() > until:
                break
            time.sleep(0.1)
        if high != self._next:
            raise self._refusal(f"it ends at offset {high} instead of {self._next}")
        is_done = not self.is_short
        self._arrived = PartitionProgress(self.start, self.count, self._behind, is_done=is_done)
        self._means.state.put(self.name, self._arrived, now=True)

    def _change_error(self) -> KdumpError:
        assert self._means is not None
        return RefusedError(
            self._path,
            f"changed since {self._means.state.path} was written: use a new state file",
        )

    def _refusal(self, why: str) -> RefusedError:
        return RefusedError(
            f"{self.name} of the cluster",
            f"{why}. No other producer may write to it while records are being restored",
        )


def _persist(
    one: _Preparation, target: Target, means: _ProduceContext, commits: Commits
) -> tuple[Salvaged, list[TranslatedOffset]]:
    """Produce a partition, and go on after a broker was away as a run does that was killed."""
    reached, failures = -1, 0
    while True:
        production = _Production(one, target, means, commits)
        try:
            return _produce_one(one, production), production.plan
        except UncertainSendError:
            means.senders.close()
            failures = 0 if production.found_count > reached else failures + 1
            reached = production.found_count
            if failures == _FAILURES:
                raise


def _produce_one(one: _Preparation, production: _Production) -> Salvaged:
    """Produce a partition and say what came of it."""
    production.run()
    visible, start, count = one.visible, production.start, production.count
    severity = one.row.severity
    missing = 0
    if production.is_short:
        missing = max(one.planned_count - count, 1)
        severity = Severity.DAMAGE.value
    produced: Produced = {
        "records_count": count,
        "planned_count": one.planned_count,
        "missing_count": missing,
        "first_offset": start if count else None,
        "last_offset": start + count - 1 if count and start is not None else None,
        "found_count": production.found_count,
        "aborted_count": visible.aborted_count,
        "open_count": visible.open_count,
        "control_count": visible.control_count,
        "keeps_times": production.keeps_times,
    }
    return one.row.replaced(severity=severity, produced=produced)
