"""The views with few rows: findings of whole partitions, and the entries of indexes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kdump.engine.reading.entries import entries, has_entries
from kdump.engine.reading.options import DumpOptions
from kdump.engine.work.pace import Pace
from kdump.errors import KdumpError, PathError
from kdump.findings.finding import Finding
from kdump.storage import places
from kdump.storage.targets import Target, resolve

if TYPE_CHECKING:
    from kdump.engine.verify.items import Item

_INDEX_ROWS = ("offset-index-entry", "time-index-entry")


def entry_targets(paths: list[str], options: DumpOptions) -> Iterator[Target]:
    """Yield the partitions whose indexes are asked for."""
    for target in resolve(paths, options.selection, options.server_properties):
        if isinstance(target, KdumpError):
            raise target
        files = tuple(file for file in target.files if has_entries(os.path.basename(file.path)))
        if files:
            yield target._replace(log=None, files=files)


def entries_of(targets: Iterable[Target]) -> Iterator[dict[str, object]]:
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


def finding_items(paths: list[str], options: DumpOptions) -> Iterator[Item]:
    """Yield what is to be verified: one item a partition."""
    from kdump.engine.verify.plan import plan

    for item in plan(paths, _verify_options(options), None):
        if isinstance(item, KdumpError):
            raise item
        yield item


def findings_of(items: Iterable[Item]) -> Iterator[Finding]:
    """Verify partitions."""
    from kdump.broker.settings import read_settings
    from kdump.engine.verify.run import verify_item

    verify: Any = partial(
        verify_item,
        options=_verify_options(DumpOptions()),
        settings=read_settings(None),
        deadline=None,
    )
    pace = Pace([0], 0, None, lambda: None)
    for item in items:
        result = verify(item, pace)
        if result.errors:
            raise result.errors[0]
        yield from result.findings


def _verify_options(options: DumpOptions) -> Any:
    from kdump.engine.verify.options import VerifyOptions

    return VerifyOptions(
        topic=options.topic,
        partition=options.partition,
        server_properties=options.server_properties,
        deep=options.deep,
        limit=options.decompress_limit,
    )
