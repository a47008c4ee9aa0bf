"""Run `sequences`: gaps and repeats in producers' sequence numbers, from batch headers.

A partition is one item: numbers are followed from segment to segment. The rules are those of
`reading/sequence_rules.py`, the state is that of `broker/producer_state.py`, and the log is read as
`verify` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kdump.broker.settings import Settings, read_settings
from kdump.engine.reading.damage import unread
from kdump.engine.sequences.check import Followed, SequenceSums, follow
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import ONE_BY_ONE, Driver, take_up
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Place, Row
from kdump.rows.sequences import SequenceSummary
from kdump.storage import names, places
from kdump.storage.local_log import LocalLog
from kdump.storage.targets import Selection, Target, resolve


class SequenceOptions(NamedTuple):
    """What is asked for; `explained`: rows also for what has an innocent explanation."""

    selection: Selection = Selection()
    server_properties: str | None = None
    explained: bool = False


class Item(NamedTuple):
    """One partition, or the one segment of it that was named; the size is that of its logs."""

    path: str
    topic: str | None
    partition: int | None
    segment: int | None
    size_bytes: int


def sequences(
    paths: Iterable[str],
    options: SequenceOptions,
    *,
    progress: Progress | None = None,
    driver: Driver = ONE_BY_ONE,
) -> Iterator[Row | Finding | KdumpError]:
    """Yield `sequence-gap` and `sequence-duplicate` rows in the order of the paths and of the log,
    findings and errors in between, and last a `sequence-summary`.

    They are the same for any number of workers, and for any driver.
    """
    progress = progress or Progress()
    settings = read_settings(options.server_properties)
    items: list[Item] = []
    unfinished = 0
    for error in take_up(plan(paths, options), items, progress):
        unfinished += 1
        yield error
    sums = SequenceSums()
    step = partial(follow_item, options=options, settings=settings)
    for _, result in driver(items, step, progress):
        if isinstance(result, KdumpError):
            unfinished += 1
            yield result
            continue
        unfinished += sum(isinstance(reported, KdumpError) for reported in result.reported)
        sums = sums.plus(result.sums)
        yield from result.reported
        yield from result.rows
    yield SequenceSummary(*sums, paths_unfinished=unfinished)


def plan(paths: Iterable[str], options: SequenceOptions) -> Iterator[Item | KdumpError]:
    """Yield an item for each partition under the paths, and an error for each that is none."""
    for target in resolve(paths, options.selection, options.server_properties, listed=False):
        if isinstance(target, KdumpError):
            yield target
            continue
        log = target.log
        name = None if target.whole else target.files[0].name
        if log is None or (name and (name.kind not in names.SEGMENT_KINDS or name.retired)):
            yield PathError(target.path, "is no partition and no segment of one")
            continue
        segment = name and name.base_offset
        logs = [one for one in log.logs if segment in (None, one.base_offset)]
        size = sum(places.planned_size(str(one.log)) for one in logs)
        yield Item(log.path, target.topic, target.partition, segment, size)


def follow_item(
    item: Item, pace: Pace, *, options: SequenceOptions, settings: Settings
) -> Followed:
    """Follow the producers of one partition, which is listed again."""
    try:
        log = LocalLog.open(item.path)
    except PathError as error:
        place = Place(item.topic, item.partition, None, item.path)
        return Followed(reported=(unread(error, place),))
    target = Target(item.topic, item.partition, item.path, log, (), whole=True)
    return follow(target, settings, segment=item.segment, explained=options.explained, pace=pace)
