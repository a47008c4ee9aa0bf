"""Run `salvage`: find the copies of each partition, merge them and, if asked, build the result.

Two readings of each copy: the first tells who leads and which epochs there were, the second takes
the batches. Held of a log are the headers of one block, and the batches that are compared.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

from kdump.broker.index_builder import Rules
from kdump.broker.versions import text_of
from kdump.engine.salvage import manifest
from kdump.engine.salvage.build import DataDirectory, pieces
from kdump.engine.salvage.carved import CarvedCopy, CarvedFound, Carving
from kdump.engine.salvage.copies import Copy, Item, plan
from kdump.engine.salvage.history import settle, survey
from kdump.engine.salvage.merge import Merge, add_range
from kdump.engine.work.pace import Pace, Progress
from kdump.engine.work.pipeline import take_up
from kdump.errors import KdumpError, PathError, Refused
from kdump.findings.rows import Row
from kdump.replay.topic_settings import TopicSettings, topic_settings
from kdump.storage import names, places
from kdump.storage.places import planned_size
from kdump.storage.source import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.engine.salvage.merge import Ranges, Taken
    from kdump.engine.salvage.options import SalvageOptions

_READINGS = 2


def salvage(
    paths: Iterable[str], options: SalvageOptions, *, progress: Progress | None = None
) -> Iterator[Row | KdumpError]:
    """Yield a `salvaged` row for each partition, and errors.

    With `out` the result is put in place behind the last of them, if every partition could be had
    and no conflict is left open.
    """
    paths = list(paths)
    progress = progress or Progress()
    items: list[Item] = []
    carved = None
    if options.carve:
        images = [path for path in paths if not os.path.isdir(path)]
        paths = [path for path in paths if path not in images]
        pace = Pace(progress.slots, 0, None, progress.tick)
        carved = Carving(options, pace, has_others=bool(paths or options.server_properties))
        yield from _carve(images, carved, progress)
    before = progress.done_bytes
    yield from take_up(plan(paths, options, carved), items, progress)
    progress.planned_bytes = before + progress.planned_bytes * _READINGS
    settings = topic_settings(options.server_properties, paths, from_disk=options.topic_configs)
    _refuse_names(items, options)
    built = None
    if options.out is not None and items:
        sources = [copy.directory for item in items for copy in item.copies]
        needed = sum(item.size_bytes // len(item.copies) for item in items)
        built = DataDirectory(options.out, sources, needed)
    rows: list[Row] = []
    failed: KdumpError | None = None
    with built or nullcontext():
        for item in items:
            progress.at = [item.path]
            try:
                rows.append(_partition(item, options, settings, built, progress))
                yield rows[-1]
            except PathError as error:
                failed = error
                yield error
            progress.items_done += 1
        if built is None:
            return
        if failed is not None:
            raise Refused(built.out, "is not written: not every partition could be salvaged")
        undecided = [row for row in rows if any(not at["chosen"] for at in _conflicts(row))]
        if undecided:
            name = names.directory_name(*_name(undecided[0]))
            raise Refused(
                built.out,
                f"is not written: copies of {name} have other records at the same offsets of one "
                "epoch; say with --prefer which of them count",
            )
        rules = Rules(options.broker_version, settings.broker, options.decompress_limit)
        built.checkpoints(rules, _meta_properties(items))
        sums = manifest.sources_of(items)
        manifest.write(built, sums, rows, text_of(options.broker_version))
        built.finish()


def _carve(images: list[str], carved: Carving, progress: Progress) -> Iterator[Row | KdumpError]:
    """Read images, and say of each what was found in it."""
    progress.planned_items = len(images)
    progress.planned_bytes = sum(map(planned_size, images))
    for path in images:
        progress.at = [path]
        try:
            carved.carve(path)
        except PathError as error:
            yield error
    yield from carved.join()


def _conflicts(row: Row) -> list[dict[str, object]]:
    return row.fields["conflicts"]  # type: ignore[return-value]


def _name(row: Row) -> tuple[str, int]:
    return str(row.fields["topic"]), int(str(row.fields["partition"]))


def _refuse_names(items: list[Item], options: SalvageOptions) -> None:
    """Refuse names that stand for two partitions, or one id for two topics."""
    seen: dict[tuple[str | None, int | None], Item] = {}
    for item in items:
        key = options.names.get(item.topic or "", item.topic), item.partition
        if key in seen:
            raise Refused(item.path, f"would be {key[0]}-{key[1]} as well as {seen[key].path}")
        seen[key] = item
        if options.out is not None and item.topic is None:
            raise Refused(item.path, "does not say of which partition it is: rename the directory")
    if options.topic_id is not None and len({topic for topic, _ in seen}) > 1:
        raise Refused(items[0].path, "is of one of several topics: --topic-id is that of one")


def _partition(
    item: Item,
    options: SalvageOptions,
    topics: TopicSettings,
    built: DataDirectory | None,
    progress: Progress,
) -> Row:
    pace = Pace(progress.slots, 0, None, progress.tick)
    copies = [found.opened(pace, options.decompress_limit) for found in item.copies]
    try:
        topic_id = _topic_id(item, copies, options)
        survey(copies)
        history = settle(copies, options.prefer)
        merged = Merge(copies, history, options)
        settings = topics.of(copies[0].found.directory, item.topic)
        rules = Rules(options.broker_version, settings, options.decompress_limit)
        topic = options.names.get(item.topic or "", item.topic)
        log = None
        if built is not None:
            log = built.partition(str(topic), item.partition or 0, rules)
        found = _Sums()
        try:
            for taken in merged.batches():
                found.take(taken)
                if log is not None:
                    log.take(taken)
            if built is not None and log is not None:
                start = merged.start if options.from_offset is not None else 0
                if found.first is None:
                    start = merged.start
                ends = log.finish(start, topic_id)
                built.ended(str(topic), item.partition or 0, *ends)
        finally:
            if log is not None:
                log.drop()
        return _row(topic, item.partition, merged, found, copies)
    finally:
        for copy in copies:
            copy.close()


def _topic_id(item: Item, copies: list[Copy], options: SalvageOptions) -> str | None:
    """Choose the topic id; copies of another topic of the same name are left out, or refused."""
    ids = sorted({copy.topic_id for copy in copies if copy.topic_id is not None})
    asked = options.topic_id
    if len(ids) > 1:
        if asked not in ids:
            of = "; ".join(
                f"{each} ({', '.join(one.path for one in copies if one.topic_id == each)})"
                for each in ids
            )
            raise Refused(
                item.path,
                f"has copies of several topics of one name: {of}; name those of one, or say "
                "which with --topic-id",
            )
        copies[:] = [copy for copy in copies if copy.topic_id in (None, asked)]
    return asked or (ids[0] if ids else None)


class _Sums:
    """What the batches taken come to."""

    def __init__(self) -> None:
        self.batches = self.records_count = 0
        self.first: int | None = None
        self.last: int | None = None
        self.sum = hashlib.sha256()
        self.sources: dict[str, Ranges] = {}
        self.bytes: dict[str, Ranges] = {}  # of images

    def take(self, taken: Taken) -> None:
        """Take note of the next batch."""
        contents = taken.contents
        self.batches += 1
        self.records_count += contents.records_count
        if self.first is None:
            self.first = contents.first
        self.last = contents.last
        for piece in pieces(taken):
            self.sum.update(piece)
        ranges = self.sources.setdefault(taken.batch.copy.path, [])
        add_range(ranges, contents.first, contents.last)
        copy = taken.batch.copy
        if isinstance(copy, CarvedCopy):
            for start, end in copy.pieces(taken.batch):
                add_range(self.bytes.setdefault(copy.path, []), start, end - 1)


def _row(
    topic: str | None, partition: int | None, merged: Merge, found: _Sums, copies: list[Copy]
) -> Row:
    lost: list[list[int | None]] = [list(each) for each in merged.lost]
    if merged.open_end and lost:
        lost[-1][1] = None
    undecided = any(conflict.chosen is None for conflict in merged.conflicts)
    return Row(
        "salvaged",
        {
            "topic": topic,
            "partition": partition,
            "severity": "damage" if lost or undecided else None,
            "records_count": found.records_count,
            "batches": found.batches,
            "first_offset": found.first,
            "last_offset": found.last,
            "from": [
                {"path": path, "offsets": ranges}
                | ({"bytes": found.bytes[path]} if path in found.bytes else {})
                for path, ranges in found.sources.items()
            ],
            "carved": _groups_of(copies),
            "lost": lost,
            "conflicts": [
                {"from": one.first, "to": one.last, "paths": list(one.paths), "chosen": one.chosen}
                for one in merged.conflicts
            ],
            "diverged": [
                {"path": copy.path, "offsets": copy.diverged} for copy in copies if copy.diverged
            ],
            "sha256": found.sum.hexdigest(),
        },
    )


def _groups_of(copies: list[Copy]) -> list[dict[str, object]]:
    """Say which groups of carved batches are in a partition, and what says so."""
    found = {copy.found.group: copy.found for copy in copies if isinstance(copy.found, CarvedFound)}
    return [
        {
            "group": group,
            "named_by": one.named_by,
            "joined_by": list(one.joined_by),
            "doubtful": one.is_doubtful,
        }
        for group, one in sorted(found.items(), key=lambda each: int(each[0][7:]))
    ]


def _meta_properties(items: list[Item]) -> bytes | None:
    """Return the `meta.properties` around the copies where they are all of one data directory's."""
    found = set()
    for item in items:
        for copy in item.copies:
            if isinstance(copy, CarvedFound):
                continue
            path = os.path.join(os.path.dirname(copy.directory), names.META_PROPERTIES)
            if places.isfile(path):
                found.add(whole(path, 1 << 20))
    return found.pop() if len(found) == 1 else None
