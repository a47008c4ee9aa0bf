"""Run `find-offset` and `find-time` over many partitions, answers in order.

The plan lists no more than it must to know the partitions. The step lists its partition itself, so
that what it answers is of one moment, and an item is small enough to be sent to many machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.versions import text_of
from kdump.engine.find.options import FindOptions
from kdump.engine.find.rows import offset_items, time_items
from kdump.errors import KdumpError, PathError, StoreError, guard
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, Row
from kdump.replay.topic_settings import topic_settings
from kdump.storage import places
from kdump.storage.local_log import LocalLog
from kdump.storage.places import read_listed
from kdump.storage.targets import Target, resolve
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.versions import Version
    from kdump.engine.work.pace import Pace, Progress
    from kdump.engine.work.pipeline import Driver

    Reported = Row | Finding | KdumpError
    Ask = Callable[[Target, int, FindOptions], Iterator[Row | Finding]]
    Step = partial[tuple[Reported, ...]]


#: Members in which the answers of two releases are compared.
_COMPARED = ("offset", "served_from", "offsets", "error")
_COMPARED_FETCH = ("end_position", "stuck", "error")


class Item(NamedTuple):
    """One partition to be asked for.

    `log` is its listing where one was made a moment ago; it is never sent anywhere. `size_bytes` is
    what is sure to be read, in bytes of logs: all of them under `--check`, else next to nothing.
    """

    path: str
    topic: str | None
    partition: int | None
    size_bytes: int = 0
    log: LocalLog | None = None


def find_offset(
    paths: Iterable[str],
    target: int,
    options: FindOptions,
    *,
    driver: Driver | None = None,
    progress: Progress | None = None,
) -> Iterator[Reported]:
    """Yield an `offset-lookup` or `fetch` row for each partition, findings, and errors.

    They come in the order of the paths, whichever driver does the work; without one, each as soon
    as it is found.
    """
    ask: Ask = offset_items
    if options.max_bytes is not None:
        from kdump.engine.find.fetch import fetch_items

        ask = fetch_items
    return _run(list(paths), options, (ask, target), driver, progress)


def find_time(
    paths: Iterable[str],
    target_ms: int,
    options: FindOptions,
    *,
    driver: Driver | None = None,
    progress: Progress | None = None,
) -> Iterator[Reported]:
    """Yield a `time-lookup` row for each partition, findings, and errors, as `find_offset` does.

    `target_ms` is epoch milliseconds or one of the protocol's negative numbers.
    """
    if options.now_ms is None:
        options = options._replace(now_ms=time.time_ns() // 1_000_000)
    return _run(list(paths), options, (time_items, target_ms), driver, progress)


def plan(paths: Iterable[str], options: FindOptions) -> Iterator[Item | KdumpError]:
    """Yield each partition once, however many of its files are named, and what is none."""
    seen = set()
    for target in resolve(paths, options.selection, options.server_properties, listed=False):
        if isinstance(target, KdumpError):
            yield target
            continue
        log = target.log
        if log is None or not (target.whole or log.logs):
            yield PathError(target.path, "is neither a partition nor a segment")
            continue
        place = places.real(log.path)
        if place not in seen:
            seen.add(place)
            size = (
                sum(places.size_or_zero(str(one.log)) for one in log.logs) if options.check else 0
            )
            yield Item(log.path, target.topic, target.partition, size, log)


def look_up(
    item: Item, pace: Pace | None, *, ask: Ask, target: int, options: FindOptions
) -> tuple[Reported, ...]:
    """Answer for one item of a plan, whose partition is listed again."""
    return tuple(_answers(item, ask, target, options))


def _answers(item: Item, ask: Ask, target: int, options: FindOptions) -> Iterator[Reported]:
    """Answer for one partition, from a new listing where files went since it was listed.

    A running broker deletes segments, and its cleaner replaces them.
    """
    listed = [] if item.log is None else [item.log]

    def answers() -> list[Row | Finding]:
        log = listed.pop() if listed else LocalLog.open(item.path)
        partition = Target(item.topic, item.partition, item.path, log, (), whole=True)
        if options.settings is not None:
            partition = options.settings.with_tier(partition)
        return _by_both_ends(partition, partial(ask, partition, target), options)

    try:
        yield from read_listed(answers, item.path)
    except (PathError, FileNotFoundError) as error:
        if not isinstance(error, PathError):
            error = PathError.from_os(item.path, error)
        from kdump.engine.reading.damage import unread_finding

        yield unread_finding(error, Place(item.topic, item.partition, None, item.path))


def _by_both_ends(
    partition: Target, ask: Callable[[FindOptions], Iterator[Row | Finding]], options: FindOptions
) -> list[Row | Finding]:
    """Answer by the newest release that can have written the partition, and by the oldest."""
    directory = places.parent(partition.path)
    newest = options.releases.of(directory)
    findings: list[Row | Finding] = []

    def answer(broker: Version) -> Row:
        asked = options._replace(broker_version=broker)
        if broker != newest:
            asked = asked._replace(check=False, explain=False)
        *before, row = ask(asked)
        if broker == newest:
            findings.extend(before)
        assert isinstance(row, Row)
        return row.replaced(broker_version=text_of(broker))

    compared = _COMPARED if options.max_bytes is None else _COMPARED_FETCH
    row = options.releases.answer(directory, answer, compared)
    return [*findings, row]


def _run(
    paths: list[str],
    options: FindOptions,
    asked: tuple[Ask, int],
    driver: Driver | None,
    progress: Progress | None,
) -> Iterator[Reported]:
    """Answer while the plan goes on, or plan everything first and hand it to a driver."""
    given = options.server_properties
    settings = topic_settings(
        given,
        paths,
        configs=options.configs,
        from_disk=options.topic_configs,
        broker_version=options.broker_version,
        tier=options.tier,
        tier_key=options.tier_key,
    )
    options = options._replace(settings=settings)
    planned = plan(paths, options)
    step = partial(look_up, ask=asked[0], target=asked[1], options=options)
    if driver is not None:
        everything = list(guard("the plan", planned))
        if not options.as_is:
            items = [one for one in everything if isinstance(one, Item)]
            settings.prepare({places.parent(one.path): None for one in items})
        yield from _run_on(driver, everything, step, progress)
        return
    for one in guard("the plan", planned):
        if isinstance(one, KdumpError):
            yield one
            continue
        answers = _answers_of(one, step)
        try:
            yield from guard(one.path, answers, topic=one.topic, partition=one.partition)
        except StoreError as error:
            yield error


def _answers_of(item: Item, step: Step) -> Iterator[Reported]:
    """Yield all answers of a partition or none: a store that fails in between has given none."""
    yield from step(item, None)


def _run_on(
    driver: Driver, planned: list[Item | KdumpError], step: Step, progress: Progress | None
) -> Iterator[Reported]:
    """Yield what comes of a plan in its order, errors of the plan in their places."""
    from kdump.engine.work.pace import Progress
    from kdump.engine.work.pipeline import take_up

    progress = progress or Progress()
    items: list[Item] = []
    for _ in take_up(planned, items, progress):
        pass  # errors come in their places
    results = driver([item._replace(log=None) for item in items], step, progress)
    for one in planned:
        if isinstance(one, KdumpError):
            yield one
            continue
        _, result = next(results)
        if isinstance(result, KdumpError):
            yield result
        else:
            yield from result
