"""The views of the data source: what is planned for each, and the rows that a task makes of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from kdump import __version__
from kdump.engine.dump.split_reader import SplitReader
from kdump.engine.reading.entries import entries, has_entries
from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.pace import Pace
from kdump.engine.work.splits import Split, plan
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding
from kdump.spark import replays
from kdump.spark.columns import Arrow, finding_row, of_items, of_rows
from kdump.storage import places
from kdump.storage.data_directories import spread
from kdump.storage.targets import Target, resolve

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.verify.options import Item, VerifyOptions

Planned = TypeVar("Planned")

_INDEX_ROWS = ("offset-index-entry", "time-index-entry")


def planned_by(
    view: str, paths: list[str], options: DumpOptions, pack_bytes: int
) -> Iterator[tuple[Any, ...]]:
    """Yield what each task reads: partitions one by one, splits packed into pieces of a size.

    A path that cannot be read is an error.
    """
    if view in replays.VIEWS:
        for of_cluster in replays.clusters(paths, options):
            yield (of_cluster,)
    elif view == "findings":
        from kdump.engine.verify.plan import plan as plan_of_verify
        from kdump.engine.verify.run import settings_for

        asked, named = _verify_options(options), [each for path in paths for each in spread(path)]
        settings = settings_for(asked, named)
        for item in _sound(plan_of_verify(named, asked, None)):
            # Found here, so that no task replays the metadata log.
            yield (item, settings.of(item.path, item.topic))
    elif view == "index-entries":
        for target in _sound(resolve(paths, options.selection, options.server_properties)):
            files = tuple(one for one in target.files if has_entries(os.path.basename(one.path)))
            if files:
                yield (target._replace(log=None, files=files),)
    else:
        packed: list[Split] = []
        for split in _sound(plan(paths, options, None)):
            if packed and sum(one.size_bytes for one in (*packed, split)) > pack_bytes:
                yield tuple(packed)
                packed = []
            packed.append(split)
        if packed:
            yield tuple(packed)


def rows_of(
    view: str, planned: tuple[Any, ...], options: DumpOptions, schema: Arrow
) -> Iterator[Arrow]:
    """Yield the rows of what was planned as Arrow record batches."""
    if view in replays.VIEWS:
        for of_cluster in planned:
            yield from of_rows(replays.rows_of(view, of_cluster, options), schema)
    elif view == "findings":
        rows = (
            finding_row(found, __version__)
            for found in _findings_of(planned[0], planned[1], options)
        )
        yield from of_rows(rows, schema)
    elif view == "index-entries":
        yield from of_rows(_entries_of(planned), schema)
    else:
        for split in planned:
            for file, size in zip(split.target.files, split.sizes, strict=True):
                alone = split._replace(target=split.target._replace(files=(file,)), sizes=(size,))
                items = SplitReader(alone, options).items()
                yield from of_items(
                    items, schema, file.path, headers=view == "batches", decode=options.decode
                )


def _sound(planned: Iterable[Planned | KdumpError]) -> Iterator[Planned]:
    for one in planned:
        if isinstance(one, KdumpError):
            raise one
        yield one


def _entries_of(targets: Iterable[Target]) -> Iterator[dict[str, object]]:
    """Yield the slots of offset and time indexes as far as they are written, in file order."""
    for target in targets:
        for file in target.files:
            try:
                for item in entries(file.path):
                    if not isinstance(item, Finding) and item.row in _INDEX_ROWS:
                        yield item.fields | {"row": item.row, "path": file.path}
            except PathError:
                if places.lexists(file.path):
                    raise


def _findings_of(item: Item, of_topic: Settings, options: DumpOptions) -> Iterator[Finding]:
    """Verify a partition, by the settings of its topic."""
    from kdump.engine.verify.run import verify_item
    from kdump.replay.topic_settings import TopicSettings

    asked, settings = _verify_options(options), TopicSettings(of_topic, from_disk=False)
    pace = Pace([0], 0, None, lambda: None)
    result = verify_item(item, pace, options=asked, settings=settings, deadline=None)
    if result.errors:
        raise result.errors[0]
    yield from result.findings


def _verify_options(options: DumpOptions) -> VerifyOptions:
    from kdump.engine.verify.options import VerifyOptions

    return VerifyOptions(
        selection=options.selection._replace(retired=True),
        server_properties=options.server_properties,
        deep=options.deep,
        decompress_limit=options.decompress_limit,
    )
