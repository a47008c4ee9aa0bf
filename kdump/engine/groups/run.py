"""Run `groups`: replay the coordinators' topics, and hold commits against the logs beside them.

A partition of `__consumer_offsets` is one item. Groups of the newest kind, share groups, keep their
offsets in `__share_group_state`, which is replayed only where there are such groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump.broker.settings import read_settings
from kdump.broker.versions import NEWEST
from kdump.engine.coordinators.partitions import (
    Item,
    Marks,
    Records,
    Reported,
    Work,
    compaction_findings,
    gather,
    home_first,
    items_of,
    unexplained_finding,
)
from kdump.engine.groups.options import GroupOptions
from kdump.engine.groups.rows import TopicNames, commit_row, group_row, member_row, share_row
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.rows import Row
from kdump.replay import groups as offsets_topic
from kdump.replay import share_state
from kdump.replay.group_state import Commit, EndedCommit, Group, GroupsState, read_groups
from kdump.replay.groups import SHARE, OffsetsLog
from kdump.replay.releases import Releases
from kdump.replay.share_state import ShareLog, SharePartition
from kdump.rows.groups import CommittedOffset, EndedOffset
from kdump.storage import places
from kdump.storage.targets import Selection, Target, resolve
from kdump.tuples import NamedTuple


class OffsetsReplay(NamedTuple):
    """What came of one partition of `__consumer_offsets`."""

    read: GroupsState
    reported: tuple[Reported, ...]


class ShareReplay(NamedTuple):
    """What came of one partition of `__share_group_state`."""

    partitions: dict[tuple[str, str, int], SharePartition]
    reported: tuple[Reported, ...]


def groups(
    paths: Iterable[str],
    options: GroupOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Reported]:
    """Yield findings and errors, then `group`, `member` and `committed-offset` rows, each in order.

    With `history` it is `offset-commit`, `member-join`, `member-leave`, `rebalance` and
    `partition-owner` rows, as they lie in each partition, one after the other.
    """
    targets: list[Target] = []
    selection = Selection(retired=options.selection.retired)
    found = resolve(paths, selection, options.server_properties, listed=False)
    yield from gather(found, targets)
    items: list[Item] = []
    of_topic = items_of(targets, offsets_topic.TOPIC, retired=options.selection.retired)
    yield from gather(of_topic, items)
    if targets and not items:
        yield NothingToDo(f"no partition of {offsets_topic.TOPIC} in the given paths")
        return
    around = dict.fromkeys(places.parent(target.path) for target in targets)
    releases = Releases(options.broker_version, around)
    options = options._replace(
        broker_version=releases.newest(places.parent(one.path) for one in items)
    )
    work = Work(options, progress or Progress(), driver)
    marks = Marks(targets)
    first, rest = home_first(items, options.one_group, marks)
    if options.history:
        from kdump.engine.groups.history import history

        yield from history(first, rest, options, marks, work.progress)
        return
    yield from _rows((first, rest), targets, marks, options, work)


def _rows(
    items: tuple[list[Item], list[Item]],
    targets: list[Target],
    marks: Marks,
    options: GroupOptions,
    work: Work,
) -> Iterator[Row | Reported]:
    found: list[tuple[Group, int]] = []
    commits: list[Commit] = []
    ended: list[EndedCommit] = []
    told_names: dict[str, str] = {}
    for some in items:
        for item, result in work.do(some, replay) if not found else ():
            if isinstance(result, KdumpError):
                yield result
                continue
            yield from result.reported
            found += [(group, item.partition) for group in result.read.groups]
            commits += result.read.commits
            ended += result.read.ended
            told_names |= result.read.topic_names
    found.sort(key=lambda pair: pair[0].name)
    commits.sort(key=lambda one: (one.group, one.topic, one.partition, one.pending))
    topic_names = TopicNames(told_names, marks)
    shares = {group.name for group, _ in found if group.type == SHARE}
    shared: dict[tuple[str, str, int], SharePartition] = {}
    if shares:
        yield from _replay_shares(targets, options, work, shared)
    offsets = _offset_rows(commits, {group.name: group for group, _ in found}, marks, options)
    rows = [*offsets, *_share_rows(shared, shares, topic_names, marks, options)]
    rows.sort(key=lambda row: row.group)
    with_rows = {row.group for row in rows}
    if options.selection.is_narrowed:  # then not for groups without an offset
        found = [pair for pair in found if pair[0].name in with_rows]
    for group, partition in found:
        yield group_row(group, partition)
    for group, _ in found:
        for member in group.members:
            yield member_row(group, member, topic_names)
    yield from rows
    for one in ended:
        if options.selection.admits(one.topic, one.partition):
            yield EndedOffset(*one)


def _offset_rows(
    commits: list[Commit], by_name: dict[str, Group], marks: Marks, options: GroupOptions
) -> Iterator[CommittedOffset]:
    keep_ms = read_settings(options.server_properties).offsets_retention_ms
    waiting = {(one.group, one.topic, one.partition) for one in commits if one.pending}
    for commit in commits:
        if options.selection.admits(commit.topic, commit.partition):
            yield commit_row(
                commit,
                by_name.get(commit.group),
                marks.of(commit.topic, commit.partition),
                stays=(commit.group, commit.topic, commit.partition) in waiting,
                keep_ms=keep_ms,
                broker=options.broker_version or NEWEST,
                with_topic_id=options.ended,
            )


def _replay_shares(
    targets: list[Target],
    options: GroupOptions,
    work: Work,
    shared: dict[tuple[str, str, int], SharePartition],
) -> Iterator[Reported]:
    """Replay `__share_group_state` into `shared`."""
    items: list[Item] = []
    of_topic = items_of(targets, share_state.TOPIC, retired=options.selection.retired)
    yield from gather(of_topic, items)
    for _, result in work.do(items, replay_shared):
        if isinstance(result, KdumpError):
            yield result
        else:
            yield from result.reported
            shared.update(result.partitions)


def _share_rows(
    shared: dict[tuple[str, str, int], SharePartition],
    shares: set[str],
    topic_names: TopicNames,
    marks: Marks,
    options: GroupOptions,
) -> Iterator[CommittedOffset]:
    named = [
        (group, topic_names.of(topic_id), partition, share)
        for (group, topic_id, partition), share in shared.items()
        if group in shares
    ]
    for group, topic, partition, share in sorted(named, key=lambda one: one[:3]):
        if options.selection.admits(topic, partition):
            yield share_row(group, topic, partition, share, marks.of(topic, partition))


def replay(item: Item, pace: Pace, *, options: GroupOptions) -> OffsetsReplay:
    """Replay one partition of `__consumer_offsets`."""
    log = OffsetsLog(options.at_ms, options.only, keeps_ended=options.ended)
    records = Records(item, pace, options.decompress_limit, log.note_loss)
    reported = records.into(log.take)
    read = read_groups(log, options.wants_group)
    if options.at_ms is not None:
        reported += compaction_findings(item, log)
    if read.unreadable:
        reported.append(unexplained_finding(item, read.unreadable))
    return OffsetsReplay(read, tuple(reported))


def replay_shared(item: Item, pace: Pace, *, options: GroupOptions) -> ShareReplay:
    """Replay one partition of `__share_group_state`."""
    log = ShareLog(options.at_ms)
    records = Records(item, pace, options.decompress_limit, lambda: None)
    reported = records.into(log.take)
    if log.unknown:
        reported.append(unexplained_finding(item, log.unknown))
    return ShareReplay(
        {key: one for key, one in log.partitions.items() if options.wants_group(key[0])},
        tuple(reported),
    )
