"""Undo `reindex`: put back the files that the newest run put aside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdump.engine.reindex import replace
from kdump.engine.reindex.refusals import refuse_file, refuse_locked, refuse_partition
from kdump.engine.reindex.rows import RESTORE, RESTORED, WORDS, reindex_row
from kdump.errors import Refused, path_errors
from kdump.findings.rows import Place
from kdump.storage import names

if TYPE_CHECKING:
    from kdump.engine.reindex.options import Item, ReindexOptions
    from kdump.storage.local_log import LocalLog


def undo(
    path: str, log: LocalLog | None, bases: frozenset[int] | None, options: ReindexOptions
) -> Iterator[Item]:
    """Yield a row for each backup of the newest run in a directory, put back if asked to write.

    `log` is the partition that it is, `bases` the segments asked for. Of a run that was undone in
    part the rest is put back; then the run before is the newest.
    """
    with path_errors(path):
        entries = os.listdir(path)
    backups = [
        backup
        for backup in replace.backups_among(entries)
        if names.parse(backup.original).kind in WORDS
        and (bases is None or names.parse(backup.original).base_offset in bases)
    ]
    chosen = sorted(backup for backup in backups if backup.utc == backups[0].utc)
    if not options.write:
        yield from (_row(path, log, backup, RESTORE) for backup in chosen)
        return
    if not chosen:
        return
    with replace.opened(path) as directory:
        for backup in chosen:
            at = os.path.join(path, backup.name)
            try:
                refuse_file(at, at)
                if log is None:
                    refuse_locked(os.path.realpath(path))
                else:
                    refuse_partition(path)
                directory.restore(backup)
            except Refused as error:
                yield error
            else:
                yield _row(path, log, backup, RESTORED)


def _row(path: str, log: LocalLog | None, backup: replace.Backup, action: str) -> Item:
    name = names.parse(backup.original)
    topic, partition = (None, None) if log is None else (log.topic, log.partition)
    return reindex_row(
        Place(topic, partition, name.base_offset, os.path.join(path, backup.original)),
        name.kind,
        action,
        f"put aside at {backup.utc}",
        backup=os.path.join(path, backup.name),
    )
