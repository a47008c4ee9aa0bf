"""Run `salvage`: find the copies of each partition, merge them and, if asked, build the result.

Two readings of each copy: the first tells who leads and which epochs there were, the second takes
the batches. Held of a log are the headers of one block, and the batches that are compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

from kdump.broker.index_builder import Rules
from kdump.broker.versions import Version, text_of
from kdump.engine.reading.sequence_rules import COORDINATED
from kdump.engine.salvage import manifest
from kdump.engine.salvage.build import DataDirectory
from kdump.engine.salvage.copies import Item, left_out_finding, plan
from kdump.engine.salvage.held_copies import hold_files
from kdump.engine.salvage.options import SalvageOptions
from kdump.engine.salvage.partition import Sums, open_copies, row_of
from kdump.engine.salvage.steps import keep_steps
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import take_up
from kdump.errors import KdumpError, PathError, RefusedError, unforeseen
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.replay.topic_settings import TopicSettings, topic_settings
from kdump.rows.salvage import Salvaged
from kdump.storage import names, places
from kdump.storage.held_files import HeldFiles
from kdump.storage.places import size_or_zero
from kdump.storage.properties import parse_meta_properties
from kdump.storage.source import read_whole

if TYPE_CHECKING:
    from kdump.engine.salvage.carved_copies import ImageSet

_READINGS = 2


def salvage(
    paths: Iterable[str], options: SalvageOptions, *, progress: Progress | None = None
) -> Iterator[Row | KdumpError | Finding]:
    """Yield a `salvaged` row for each partition, findings and errors.

    With `out` the result is put in place behind the last of them, if every partition could be had
    and no conflict is left open.
    """
    paths = list(paths)
    progress = progress or Progress()
    items: list[Item] = []
    carved = None
    if options.carve:
        from kdump.engine.salvage.carved_copies import ImageSet

        images = [path for path in paths if not os.path.isdir(path)]
        paths = [path for path in paths if path not in images]
        pace = Pace(progress.slots, 0, None, progress.tick)
        carved = ImageSet(options, pace, has_others=bool(paths or options.server_properties))
        yield from _carve(images, carved, progress)
    not_read: list[KdumpError] = []
    if options.tier is not None:
        from kdump.engine.salvage.tier import add_remote_copies

        not_read = list(add_remote_copies(paths, options))
        yield from not_read
    before = progress.done_bytes
    yield from take_up(plan(paths, options, carved), items, progress)
    with HeldFiles() as held:
        items, reported = hold_files(items, held)
        yield from reported
        yield from keep_steps(items, options)
        is_whole = not any(isinstance(each, KdumpError) for each in (*reported, *not_read))
        yield from _salvage(items, paths, options, progress, before, is_whole=is_whole)


def _salvage(
    items: list[Item],
    paths: list[str],
    options: SalvageOptions,
    progress: Progress,
    before: int,
    *,
    is_whole: bool,
) -> Iterator[Row | KdumpError | Finding]:
    if options.produce is not None:
        from kdump.engine.salvage.produce import produce

        # Topics of the brokers' own are nobody's to write: --groups brings committed offsets.
        items = [item for item in items if item.topic not in COORDINATED]
        _refuse_names(items, options)
        yield from produce(items, paths, options, progress)
        return
    progress.planned_bytes = before + progress.planned_bytes * _READINGS
    settings = topic_settings(
        options.server_properties,
        paths,
        from_disk=options.topic_configs,
        broker_version=options.broker_version,
    )
    sources = [copy.directory for item in items for copy in item.copies]
    broker = settings.releases.newest(map(places.parent, sources))
    _refuse_names(items, options)
    built = None
    if options.out is not None and not options.dry_run and items:
        needed = sum(item.size_bytes // len(item.copies) for item in items)
        built = DataDirectory(options.out, sources, needed)
    rows: list[Salvaged] = []
    failed = not is_whole
    with built or nullcontext():
        for item in items:
            progress.at = [item.path]
            try:
                row, left_out = _partition(item, options, settings, broker, built, progress)
                rows.append(row)
                yield row
                yield from left_out
            except Exception as error:
                if isinstance(error, KdumpError) and not isinstance(error, PathError):
                    raise
                failed = True
                yield unforeseen(item.path, error, topic=item.topic, partition=item.partition)
            progress.items_done += 1
        if built is None:
            return
        if failed:
            raise RefusedError(built.out, "was not written: not every partition could be salvaged")
        undecided = [row for row in rows if any(not at["chosen"] for at in row.conflicts)]
        if undecided:
            name = names.directory_name(str(undecided[0].topic), undecided[0].partition or 0)
            raise RefusedError(
                built.out,
                f"was not written: copies of {name} have different records with the same offset "
                "and leader epoch; select the right copy with --prefer",
            )
        rules = Rules(broker, settings.broker, options.decompress_limit)
        meta_properties, left_out = _meta_properties(items)
        yield from left_out
        built.checkpoints(rules, meta_properties)
        sums = manifest.sources_of(items)
        manifest.write(built, sums, rows, text_of(broker))
        built.finish()


def _carve(images: list[str], carved: ImageSet, progress: Progress) -> Iterator[Row | KdumpError]:
    """Read images, and say of each what was found in it."""
    progress.planned_items = len(images)
    progress.planned_bytes = sum(map(size_or_zero, images))
    for path in images:
        progress.at = [path]
        try:
            carved.carve(path)
        except Exception as error:
            if isinstance(error, KdumpError) and not isinstance(error, PathError):
                raise
            yield unforeseen(path, error)
    yield from carved.join()


def _refuse_names(items: list[Item], options: SalvageOptions) -> None:
    """Refuse names that stand for two partitions, or one id for two topics."""
    seen: dict[tuple[str | None, int | None], Item] = {}
    for item in items:
        key = options.names.get(item.topic or "", item.topic), item.partition
        if key in seen:
            raise RefusedError(item.path, f"would become {key[0]}-{key[1]}, like {seen[key].path}")
        seen[key] = item
        if (options.out or options.produce) and item.topic is None:
            raise RefusedError(
                item.path, "does not show which partition it belongs to: rename the directory"
            )
    if options.topic_id is not None and len({topic for topic, _ in seen}) > 1:
        raise RefusedError(
            items[0].path, "--topic-id applies to one topic, but several were selected"
        )


def _partition(
    item: Item,
    options: SalvageOptions,
    topics: TopicSettings,
    broker: Version,
    built: DataDirectory | None,
    progress: Progress,
) -> tuple[Salvaged, list[Finding]]:
    opened = open_copies(item, options, progress)
    try:
        merged = opened.merge()
        settings = topics.of(opened.copies[0].found.directory, item.topic)
        rules = Rules(broker, settings, options.decompress_limit)
        topic = opened.topic
        log = None
        if built is not None:
            log = built.partition(str(topic), item.partition or 0, rules)
        found = Sums()
        try:
            for taken in merged.batches():
                found.take(taken)
                if log is not None:
                    log.take(taken)
            opened.refuse_deleted()
            if built is not None and log is not None:
                start = merged.start if options.from_offset is not None else 0
                if found.first is None:
                    start = merged.start
                ends = log.finish(start, opened.topic_id)
                built.note_end(str(topic), item.partition or 0, *ends)
        finally:
            if log is not None:
                log.drop()
        left_out = [each for copy in opened.copies for each in copy.left_out]
        return row_of(opened, merged, found, broker), left_out
    finally:
        opened.close()


def _meta_properties(items: list[Item]) -> tuple[bytes | None, list[Finding]]:
    """Give the `meta.properties` around the copies where they are all of one data directory's.

    One that no broker could read is left out, and named.
    """
    found, left_out = set(), {}
    for item in items:
        for copy in item.copies:
            if copy.is_carved:
                continue
            path = os.path.join(os.path.dirname(copy.directory), names.META_PROPERTIES)
            if path in left_out or not places.isfile(path):
                continue
            data = read_whole(path, 1 << 20)
            if problems := parse_meta_properties(data).problems:
                left_out[path] = left_out_finding(path, problems[0])
            else:
                found.add(data)
    return found.pop() if len(found) == 1 else None, list(left_out.values())
