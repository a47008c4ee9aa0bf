"""Run `transactions`: replay `__transaction_state`, and hold it against the logs beside it.

A partition is one item. The logs come first: what a coordinator has not written down by the time
its topic is read was not there when they were.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator

from kdump.broker.settings import read_settings
from kdump.broker.visibility import OpenTransaction, OpenTransactions, open_transactions
from kdump.engine.coordinators.judgement import JudgementContext, OpenInPartition, Verdict, judge
from kdump.engine.coordinators.partitions import (
    Item,
    Marks,
    ReplayResult,
    Reported,
    Work,
    by_producer,
    describe_missing,
    describe_unread,
    furthest,
    gather,
    home_first,
    item_of,
    items_of,
    replay_state,
)
from kdump.engine.coordinators.patterns import matches, one_name
from kdump.engine.reading.damage import at_place
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver
from kdump.errors import KdumpError, NothingToDo
from kdump.findings.commands import abort_command
from kdump.findings.rows import Row
from kdump.findings.shell import format_command, join_commands
from kdump.replay.transactions import TOPIC, Partition, Transaction
from kdump.rows import transactions as rows
from kdump.storage import lock, places
from kdump.storage.file_records import DEFAULT_LIMIT
from kdump.storage.local_log import LocalLog
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.storage.targets import EVERYTHING, Selection, Target, resolve
from kdump.tuples import NamedTuple


class _Logs(NamedTuple):
    """What is open in the logs, and the newest times in them: of brokers, of producers."""

    opened: list[tuple[Item, OpenTransactions, OpenTransaction]]
    newest_marker_ms: int
    newest_ms: int


class _States(NamedTuple):
    """Transactions with the partition that has each; `missing`: what of the topic is not here."""

    found: list[tuple[Transaction, int]]
    newest_ms: int
    missing: str


def transactions(
    paths: Iterable[str],
    options: TransactionOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Reported]:
    """Yield findings and errors, then `transaction` rows: by id, last those without one."""
    targets: list[Target] = []
    retired = options.selection.retired
    selection = Selection(retired=retired)
    found = resolve(paths, selection, options.server_properties, listed=False)
    yield from gather(found, targets)
    work = Work(options, progress or Progress(), driver)
    items: list[Item] = []
    yield from gather(items_of(targets, TOPIC, retired=retired), items)
    logs = _log_items(targets, options)
    if targets and not items and not logs:
        yield NothingToDo(f"no partition of {TOPIC}, nor any other, in the given paths")
        return
    reported = yield from _read_logs(logs, work)
    states = yield from _read_states(items, Marks(targets), options, work)
    yield from _rows(reported, states, options)


def _log_items(targets: list[Target], options: TransactionOptions) -> list[Item]:
    """Choose the logs that transactions may be open in; of several replicas the longest."""
    candidates = [
        target
        for target in targets
        if target.whole
        and target.topic not in (TOPIC, CLUSTER_METADATA_TOPIC)
        and options.selection.admits(target.topic, target.partition)
        and target.log is not None
        and (target.log.name is None or target.log.name.retirement is None)
    ]
    return [item_of(best, retired=False) for best, _ in furthest(candidates)]


def _read_logs(items: list[Item], work: Work) -> Generator[Reported, None, _Logs]:
    """Find what is open in the logs."""
    opened: list[tuple[Item, OpenTransactions, OpenTransaction]] = []
    marker_ms = newest_ms = -1
    for item, here in work.do(items, open_in):
        if isinstance(here, KdumpError):
            yield here
            continue
        marker_ms = max(marker_ms, here.newest_marker_ms)
        newest_ms = max(newest_ms, here.newest_ms)
        opened += [(item, here, one) for one in here.transactions]
        if here.overflowed:
            yield at_place("producers-not-checked", item.place)
        elif here.unread:
            yield at_place(
                "replay-incomplete",
                item.place,
                message="Part of the log cannot be read: transactions shown as open may have "
                "ended there, and others may be open.",
            )
    return _Logs(opened, marker_ms, newest_ms)


def _read_states(
    items: list[Item], marks: Marks, options: TransactionOptions, work: Work
) -> Generator[Reported, None, _States]:
    """Replay the coordinators' topic; of one id, the partition that has it."""
    found: list[tuple[Transaction, int]] = []
    newest_ms = -1
    missing = describe_missing(items, marks)
    for some in home_first(items, options.one_id, marks):
        for item, result in work.do(some, replay) if not found else ():
            if isinstance(result, KdumpError):
                missing = missing or describe_unread(item)
                yield result
                continue
            if result.lost:
                missing = missing or describe_unread(item)
            yield from result.reported
            newest_ms = max(newest_ms, result.newest_ms)
            found += [(one, item.partition) for one in result.transactions]
    found.sort(key=lambda pair: pair[0].transactional_id)
    return _States(found, newest_ms, missing)


def _rows(logs: _Logs, states: _States, options: TransactionOptions) -> Iterator[Row]:
    allowed_ms = read_settings(options.server_properties).transaction_max_timeout_ms
    live = {
        path: bool(lock.is_held_around(path))
        for path in {one.path for one, _, _ in logs.opened}
        if not places.is_uri(path)
    }
    as_of_ms = _as_of_ms(logs, states, options, is_live=any(live.values()))
    known = JudgementContext(as_of_ms, allowed_ms, states.missing)
    by_id = by_producer(one for one, _ in states.found)
    of_id: dict[str, list[OpenInPartition]] = {}
    of_nobody: dict[int, list[OpenInPartition]] = {}
    for item, here, said in logs.opened:
        place: Partition = item.topic, item.partition
        age_ms = None if said.since_ms is None else max(0, as_of_ms - said.since_ms)
        one = OpenInPartition(
            place, here.last_stable_offset, said, age_ms, live.get(item.path, False)
        )
        whose = by_id.get(said.producer_id)
        if whose is not None:
            of_id.setdefault(whose.transactional_id, []).append(one)
        else:
            of_nobody.setdefault(said.producer_id, []).append(one)
    for transaction, partition in states.found:
        opened = of_id.get(transaction.transactional_id, [])
        if _is_selected(transaction, opened, options):
            verdict = judge(transaction, opened, known)
            yield _row(transaction, partition, opened, verdict)
    if options.transactional_id is None:
        for _, opened in sorted(of_nobody.items()):
            yield _row(None, None, opened, judge(None, opened, known))


def _row(
    transaction: Transaction | None,
    state_partition: int | None,
    opened: list[OpenInPartition],
    verdict: Verdict,
) -> Row:
    """Make the row of a transactional id, or of a producer that none has: then something is open.

    An id whose record cannot be read has nothing but its name.
    """
    known = transaction if transaction is not None and transaction.problem is None else None
    first = opened[0].said if opened else None
    commands = [
        format_command(abort_command(*one.partition, one.said.first_offset)) for one in verdict.hung
    ]
    return rows.Transaction(
        transactional_id=None if transaction is None else transaction.transactional_id,
        producer_id=known.producer_id if known else first and first.producer_id,
        producer_epoch=known.producer_epoch if known else first and first.producer_epoch,
        previous_producer_id=known and known.previous_producer_id,
        next_producer_id=known and known.next_producer_id,
        timeout_ms=known and known.timeout_ms,
        state=known and known.state,
        start_ms=known and known.start_ms,
        last_update_ms=known and known.last_update_ms,
        client_transaction_version=known and known.client_version,
        state_partition=state_partition,
        partitions=[
            {"topic": topic, "partition": partition}
            for topic, partition in sorted(known.partitions if known else ())
        ],
        open_in=[
            {
                "topic": one.partition[0],
                "partition": one.partition[1],
                "first_offset": one.said.first_offset,
                "last_stable_offset": one.last_stable_offset,
                "records_count": one.said.records_count,
                "age_ms": one.age_ms,
            }
            for one in opened
        ],
        hanging=verdict.hanging,
        cause=verdict.cause,
        abort_command=join_commands(commands) or None,
    )


def _as_of_ms(logs: _Logs, states: _States, options: TransactionOptions, *, is_live: bool) -> int:
    """Tell what time it is: a copy may be years old, and only brokers' clocks are believed."""
    if options.at_ms is not None:
        return options.at_ms
    if is_live:
        return time.time_ns() // 1_000_000
    by_brokers = max(logs.newest_marker_ms, states.newest_ms)
    return by_brokers if by_brokers >= 0 else logs.newest_ms


def _is_selected(
    transaction: Transaction, opened: list[OpenInPartition], options: TransactionOptions
) -> bool:
    if options.open_only and not (opened or transaction.is_unfinished or transaction.problem):
        return False
    return (
        bool(opened)
        or not options.selection.is_narrowed
        or any(options.selection.admits(*place) for place in transaction.partitions)
    )


def open_in(item: Item, pace: Pace, *, options: TransactionOptions) -> OpenTransactions:
    """Find what is open in one partition."""
    log = LocalLog.open(item.path)
    target = Target(item.topic, item.partition, item.path, log, (), whole=True)
    here = open_transactions(target, options.decompress_limit, options.at_ms)
    pace(item.size_bytes)
    return here


def replay(item: Item, pace: Pace, *, options: TransactionOptions) -> ReplayResult:
    """Replay one partition of `__transaction_state`."""
    return replay_state(
        item,
        pace,
        wanted=options.wants_id,
        only=options.one_id,
        at_ms=options.at_ms,
        decompress_limit=options.decompress_limit,
    )


class TransactionOptions(NamedTuple):
    """What is asked for; the names are those of the command line.

    `selection` has topic and partition of what transactions write to; `at_ms`: as of that time,
    inclusive; `open_only`: only those that are not ended.
    """

    selection: Selection = EVERYTHING
    server_properties: str | None = None
    transactional_id: str | None = None
    at_ms: int | None = None
    open_only: bool = False
    decompress_limit: int = DEFAULT_LIMIT

    @property
    def one_id(self) -> str | None:
        """The one id that is asked for; None where it is a pattern, or none."""
        return one_name(self.transactional_id)

    def wants_id(self, name: str) -> bool:
        """Whether an id is asked for."""
        return matches(self.transactional_id, name)
