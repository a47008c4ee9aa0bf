"""Say of each partition who should lead, and what every other choice loses (E1 to E4).

How far each replica goes is what a start would leave of it, which the model of the broker is asked;
whatever lies behind the cut that a leader's followers make is lost with that choice. Headers are
read only from the lowest of these cuts on.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from kdump.broker.elections import Position, cut_point, is_elected, may_lead, raft_position
from kdump.broker.leader_epochs import Span
from kdump.broker.log_reader import RefusalError, UnknowableError
from kdump.broker.settings import Settings
from kdump.broker.shutdown_state import stop_of
from kdump.broker.versions import COUNTED_OFFSETS, Version, has, same_answer, text_of
from kdump.engine.compare.commands import Registration, add_advice
from kdump.engine.compare.epochs import Epochs, cut_spans, lineage, span_fields
from kdump.engine.compare.plan import CompareOptions, Item, plan
from kdump.engine.compare.replica import Block, Replica
from kdump.engine.compare.start_order import StartOrder
from kdump.engine.predict.recovery import load as loaded_log
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.errors import KdumpError, NothingToDo, PathError, attempt
from kdump.findings.rows import Row
from kdump.kernels import NAME as KERNEL
from kdump.replay.cluster import changes_in, read_cluster
from kdump.replay.cluster_state import ClusterState
from kdump.replay.releases import Releases, with_oldest
from kdump.rows.compare import Choice, ElectSummary, ReplicaElection
from kdump.storage import names, places
from kdump.storage.directory_facts import meta_of, owner_of
from kdump.storage.local_log import LocalLog
from kdump.storage.log_dir import LISTED_SECONDS
from kdump.storage.names import Kind
from kdump.storage.places import read_listed
from kdump.storage.targets import Target
from kdump.tuples import NamedTuple

#: Spans of lost records that a row names, the first.
_SPANS_SHOWN = 20
#: Members in which the choices of two releases are compared.
_COMPARED = ("leader", "leader_end", "records_at_stake")
_BY_RAFT, _BY_ISR, _BY_LOG = "raft", "in-sync", "longest-log"


class Candidate(NamedTuple):
    """One replica as a start would leave it."""

    path: str
    broker: Version
    node: int | None
    directory_id: str | None
    start: int
    position: Position
    epochs: list[tuple[int, int]]
    spans: list[Span]
    emptied: bool  # a snapshot takes the place of its log (E2)
    refused: str | None  # why it could not be led from here

    @property
    def end(self) -> int:
        """The log end."""
        return self.position.end


class Loss(NamedTuple):
    """What is lost of one leader epoch, and the log that has it."""

    holder: Candidate
    span: Span


def elect(
    paths: Iterable[str],
    options: CompareOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | KdumpError]:
    """Yield a `replica-election` row for each partition, and one last `summary` row."""
    started = time.monotonic()
    progress = progress or Progress()
    planned = plan(list(paths), options)
    items: list[Item] = []
    yield from take_up((*planned.errors, *planned.items), items, progress)
    if not items and not planned.errors:
        yield NothingToDo("no two of the directories have a partition in common; nothing to choose")
    rules: dict[str, int] = {}
    errors, losing, free = len(planned.errors), 0, 0
    not_read: list[KdumpError] = []
    nothing: dict[tuple[str, int], Registration] = {}
    known = attempt("the metadata log", partial(_read_registrations, items), nothing, not_read)
    errors += len(not_read)
    yield from not_read
    quorum = known.get((names.CLUSTER_METADATA_TOPIC, 0))
    order = StartOrder(quorum.assigned if quorum else ())
    around = dict.fromkeys(places.parent(path) for item in items for path in item.paths)
    step = partial(
        elect_item,
        registered=known,
        options=options,
        releases=Releases(options.broker_version, around),
        alone=len(items) == 1,
    )
    for _, result in driver(items, step, progress):
        if isinstance(result, KdumpError):
            errors += 1
            yield result
            continue
        rules[result.rule] = rules.get(result.rule, 0) + 1
        losing += result.at_stake
        free += result.any_may_lead
        order.add(result)
        yield result
    yield ElectSummary(
        partitions=len(items),
        rules=dict(sorted(rules.items())),
        at_stake=losing,
        any_may_lead=free,
        start_order=order.fields() if len(items) > 1 else None,
        found_once_count=len(planned.found_once),
        paths_unfinished=errors,
        seconds=round(time.monotonic() - started, 3),
        kernel=KERNEL,
        asked_=("start_order",),
    )


def _read_registrations(items: Iterable[Item]) -> dict[tuple[str, int], Registration]:
    """Return what the metadata log that goes furthest says of the partitions planned."""
    wanted = {(item.topic or "", item.partition or 0) for item in items}
    logs = {
        os.path.join(os.path.dirname(path), names.METADATA_LOG)
        for item in items
        for path in item.paths
    }
    states = [(state, log) for log in sorted(logs) if (state := read_cluster(log)) is not None]
    if not states:
        return {}
    newest, log = max(states, key=lambda one: _reach(one[0]))
    found = {
        key: Registration(one.replicas, one.isr, one.elr)
        for of_topic in newest.partitions.values()
        for one in of_topic.values()
        if (key := (one.topic or "", one.partition)) in wanted
    }
    voters = [one for one in newest.controllers.values() if one.voter]
    if voters:
        found[names.CLUSTER_METADATA_TOPIC, 0] = Registration(
            tuple(sorted(one.controller_id for one in voters)),
            directory_ids=tuple(
                (one.controller_id, one.directory_id) for one in voters if one.directory_id
            ),
            cluster_id=owner_of(os.path.dirname(log))[1],
            brokers=tuple(newest.brokers),
        )
    return found


def _reach(state: ClusterState) -> tuple[int, int]:
    leader = state.leader.get("")
    return (leader.epoch if leader else -1), state.next_offset


def elect_item(
    item: Item,
    pace: Pace,
    *,
    registered: dict[tuple[str, int], Registration],
    options: CompareOptions,
    releases: Releases,
    alone: bool = True,
) -> ReplicaElection | KdumpError:
    """Choose among the replicas of one partition, which are listed again."""
    known = registered.get((item.topic or "", item.partition or 0), Registration(()))
    ranges = [releases.range_of(places.parent(path)) for path in item.paths]
    elected = partial(_elect, item, pace, known=known, options=options, alone=alone)
    try:
        oldest, newest = ([*ends] for ends in zip(*ranges, strict=True))
        row, is_same = same_answer(partial(elected, newest), zip(newest, oldest, strict=True))
        if not is_same:
            row = with_oldest(row, min(oldest), elected(oldest), _COMPARED)
    except PathError as error:
        return error
    return row


def _elect(
    item: Item,
    pace: Pace,
    brokers: Sequence[Version],
    *,
    known: Registration,
    options: CompareOptions,
    alone: bool,
) -> ReplicaElection:
    """Choose among the replicas of one partition as brokers of these releases start on them."""
    candidates = read_listed(lambda: _candidates(item, brokers, options, pace), *item.paths)
    rule = _rule(item, known)
    leader = max(range(len(candidates)), key=lambda at: _merit(candidates[at], known, at))
    choices = [_choice(at, candidates, known, rule) for at in range(len(candidates))]
    worst = max(choice["records_lost"] for choice in choices)
    row = ReplicaElection(
        topic=item.topic,
        partition=item.partition,
        rule=rule,
        leader=candidates[leader].path,
        leader_node=candidates[leader].node,
        leader_epoch=choices[leader]["last_epoch"],
        leader_end=candidates[leader].end,
        assigned=list(known.assigned) or None,
        isr=list(known.isr) or None,
        elr=list(known.elr) or None,
        voters_count=(len(known.assigned) or None) if rule == _BY_RAFT else None,
        voters_here=_count_voters(candidates, known) if rule == _BY_RAFT else None,
        at_stake=worst > 0,
        choices=choices,
        advice="",
        commands=[],
        any_may_lead=not worst and not any(choice["refused"] for choice in choices),
        records_at_stake=worst,
        records_lost_alone=max(
            (choice["records_lost"] for choice in choices if choice["in_sync"]), default=0
        ),
    )
    return add_advice(row, known, alone=alone)


def _rule(item: Item, known: Registration) -> str:
    if item.topic == names.CLUSTER_METADATA_TOPIC:
        return _BY_RAFT
    return _BY_ISR if known.isr or known.elr else _BY_LOG


def _merit(one: Candidate, known: Registration, order: int) -> tuple[object, ...]:
    """What makes a candidate better: that it starts, a longer log, then what Kafka would prefer."""
    place = known.assigned.index(one.node) if one.node in known.assigned else len(known.assigned)
    in_sync = one.node in may_lead(known.isr, known.elr)
    return one.refused is None, one.position, in_sync, -place, -order


def _is_voter(one: Candidate, known: Registration) -> bool | None:
    """Whether a controller of the quorum has this log; None where nothing says who they are."""
    if not known.assigned:
        return None
    directory_id = dict(known.directory_ids).get(one.node or 0)
    return one.node in known.assigned and directory_id in (None, one.directory_id)


def _count_voters(candidates: Sequence[Candidate], known: Registration) -> int | None:
    return sum(map(bool, (_is_voter(one, known) for one in candidates))) or None


# What each replica holds.


def _candidates(
    item: Item, brokers: Sequence[Version], options: CompareOptions, pace: Pace
) -> list[Candidate]:
    found = [
        _start(number, item, path, broker, options, pace)
        for number, (path, broker) in enumerate(zip(item.paths, brokers, strict=True))
    ]
    lowest = min(
        cut_point(one.epochs, one.end, other.epochs, other.end)
        for one, _ in found
        for other, _ in found
    )
    candidates = []
    for one, replica in found:
        if one.emptied:
            candidates.append(one)
            continue
        spans = [
            span._replace(last_offset=min(span.last_offset, one.end - 1))
            for span in _read(replica, lowest)
            if span.first_offset < one.end
        ]
        starts = dict(one.epochs)
        epochs = [
            (epoch, min(start, starts.get(epoch, start)))
            for epoch, start in lineage(spans, one.epochs, one.end)
            if start < one.end or not spans
        ]
        position = one.position
        if epochs and epochs[-1][0] > position.epoch:
            position = position._replace(epoch=epochs[-1][0])
        candidates.append(one._replace(spans=spans, epochs=epochs, position=position))
    return candidates


def _start(
    number: int, item: Item, path: str, broker: Version, options: CompareOptions, pace: Pace
) -> tuple[Candidate, Replica]:
    """Have the model of the broker start on one replica, and say how far its log goes then."""
    log = LocalLog.open(path)
    target = Target(item.topic, item.partition, path, log, (), whole=True)
    directory = target.log_dir(LISTED_SECONDS)
    replica = Replica(number, target, directory, pace=pace, limit=options.decompress_limit)
    refused, end = None, replica.end
    try:
        stop = stop_of(log, directory, broker)
        if has(broker, COUNTED_OFFSETS):
            end = loaded_log(log, broker, Settings(), stop).log_end
    except (RefusalError, UnknowableError) as error:
        refused = str(error)
    epochs = [(epoch, start) for epoch, start in replica.written_epochs if start < end]
    snapshots = [
        (name.epoch or 0, name.base_offset)
        for name, _ in log.others
        if name.kind is Kind.METADATA_SNAPSHOT and name.base_offset is not None
    ]
    position, emptied = raft_position(epochs, end, snapshots)
    meta = meta_of(os.path.dirname(path)) if directory is None else directory.meta
    node = meta.get("node.id") or meta.get("broker.id")
    start, spans = replica.start, []
    if emptied:
        # What only the snapshot stands for: its offsets are known, and not which were records.
        only = position.end - end
        spans = [Span(position.epoch, end, position.end - 1, 0, only)] if only > 0 else []
        epochs, start = [position], position.end
    found = Candidate(
        path,
        broker,
        int(node) if node is not None and node.isdecimal() else None,
        meta.get("directory.id"),
        start,
        position,
        [(epoch, offset) for epoch, offset in epochs],
        spans,
        emptied,
        refused,
    )
    return found, replica


def _read(replica: Replica, offset: int) -> list[Span]:
    """Return the spans of leader epochs from the segment on that holds an offset."""
    if not replica.segments:
        return []
    epochs = Epochs()
    below = [one.base_offset for one in replica.segments if one.base_offset <= offset]
    last = (below[-1] if below else replica.segments[0].base_offset) - 1
    for item in replica.reread(offset):
        if isinstance(item, Block):
            epochs.feed(item.batches, last)
            last = item.batches.last_offset(item.batches.count - 1)
    return epochs.spans


# What each choice loses.


def _choice(at: int, candidates: Sequence[Candidate], known: Registration, rule: str) -> Choice:
    one = candidates[at]
    lost = _losses(one, [other for other in candidates if other is not one])
    is_raft = rule == _BY_RAFT
    voter = _is_voter(one, known) if is_raft else None
    elected = None
    if is_raft and known.assigned:
        others = [
            other.position
            for other in candidates
            if other is not one and other.refused is None and _is_voter(other, known)
        ]
        can_lead = bool(voter) and one.refused is None
        elected = can_lead and is_elected(one.position, others, len(known.assigned))
    return Choice(
        path=one.path,
        broker_version=text_of(one.broker),
        node_id=one.node,
        voter=voter,
        in_sync=one.node in may_lead(known.isr, known.elr) if rule == _BY_ISR else None,
        electable=elected,
        refused=one.refused,
        log_start=one.start,
        log_end=one.end,
        last_epoch=one.epochs[-1][0] if one.epochs else None,
        records_lost=sum(loss.span.records_count for loss in lost),
        lost=[{**span_fields(loss.span), "path": loss.holder.path} for loss in lost[:_SPANS_SHOWN]],
        changes_lost=_changes(lost) if is_raft else None,
    )


def _losses(leader: Candidate, others: Iterable[Candidate]) -> list[Loss]:
    """Return what lies behind the cuts of followers, each epoch by the one that has most of it.

    Of what only a snapshot stands for that is the rest behind all logs.
    """
    most: dict[int, Loss] = {}
    for other in sorted(others, key=lambda one: one.emptied):
        cut = cut_point(leader.epochs, leader.end, other.epochs, other.end)
        if other.emptied:
            cut = max(cut, *(loss.span.last_offset + 1 for loss in most.values()), 0)
        for span in cut_spans(other.spans, max(cut, leader.start)):
            known = most.get(span.epoch)
            if known is None or known.span.last_offset < span.last_offset:
                most[span.epoch] = Loss(other, span)
    return [most[epoch] for epoch in sorted(most)]


def _changes(lost: Iterable[Loss]) -> dict[str, int]:
    """Say in words what a lost part of the metadata log changed, the most frequent first."""
    parts: dict[str, dict[int, tuple[int, int]]] = {}
    for holder, span in lost:
        parts.setdefault(holder.path, {})[span.epoch] = span.first_offset, span.last_offset
    found = Counter[tuple[str, str]]()
    for path, of_path in parts.items():
        found += changes_in(path, of_path)
    return {" ".join(filter(None, words)): count for words, count in found.most_common()}
