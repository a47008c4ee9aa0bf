"""Decide what `reindex` does with one file, and do it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kdump.engine.reindex import refusals, replace, rows
from kdump.errors import RefusedError
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.broker.settings import Settings
    from kdump.engine.reindex.options import ReindexOptions
    from kdump.findings.rows import Place, Row
    from kdump.storage.names import Kind


class Facts(NamedTuple):
    """What is known of one file; a file of no segment has the first one's `log`.

    `wrong`: why it is not sound; `refusal`: why it is not built.
    """

    log: str
    place: Place
    kind: Kind
    before: bytes | None
    after: bytes
    wrong: str | None
    refusal: str | None
    entries_before: int | None


class IndexWriter:
    """Writes the files of one partition, or of a data directory, if asked; a context manager.

    Entering it refuses what must not be written in, and clears up after a killed run. `refused`
    are the files that were not built, one for each reason.
    """

    def __init__(
        self,
        path: str,
        options: ReindexOptions,
        utc: str,
        *,
        of_partition: bool = True,
        settings: Settings | None = None,
    ) -> None:
        self._path = path
        self._of_partition = of_partition
        self._options = options
        self._utc = utc
        self._settings = settings
        self._stack = ExitStack()
        self._directory: replace.Directory | None = None
        self.refused: dict[str, RefusedError] = {}

    def __enter__(self) -> IndexWriter:
        if self._options.out is not None:
            inside = self._path if self._of_partition else os.path.join(self._path, ".")
            refusals.refuse_out(self._options.out, inside)
        elif self._options.write:
            self._refuse_running()
            self._directory = self._stack.enter_context(replace.open_directory(self._path))
            try:
                self._directory.tidy()
            except BaseException:
                self._stack.close()
                raise
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    def _refuse_running(self) -> None:
        if self._of_partition:
            refusals.refuse_partition(self._path)
        else:
            refusals.refuse_locked(os.path.realpath(self._path))

    def apply(self, facts: Facts, size_bytes: int | None) -> Row:
        """Decide about one file, write it if asked, and make its row."""
        action, reason = self._decide(facts)
        backup = written = None
        if action == rows.REFUSE:
            self.refused.setdefault(reason, RefusedError(facts.place.path, reason))
        elif action != rows.KEEP and self._options.write:
            backup, written = self._write(facts)
            action = rows.DONE[action]
        place, kind = facts.place, facts.kind
        return rows.reindex_row(
            place,
            kind,
            action,
            reason,
            entries_before=facts.entries_before,
            entries_after=rows.entries_of(kind, facts.after),
            difference=rows.first_difference(kind, facts.before, facts.after, place.segment or 0),
            bytes_to_read=size_bytes,
            backup=backup,
            written=written,
            settings=self._settings,
        )

    def _decide(self, facts: Facts) -> tuple[str, str]:
        every = self._options.every
        if facts.before == facts.after:
            if not (every and self._options.out is not None):
                return rows.KEEP, "as recovery writes it"
            action, reason = rows.CREATE, "as recovery writes it"
        elif facts.before is None:
            action, reason = rows.CREATE, "is missing"
        elif facts.wrong is not None:
            action, reason = rows.REBUILD, facts.wrong
        elif every:
            action, reason = rows.REBUILD, "sound, but different from what recovery writes"
        else:
            return rows.KEEP, "sound, but different from what recovery writes"
        return (action, reason) if facts.refusal is None else (rows.REFUSE, facts.refusal)

    def _write(self, facts: Facts) -> tuple[str | None, str | None]:
        """Write one file; return the path of the backup, or the path written elsewhere."""
        path = facts.place.path
        name = os.path.basename(path)
        directory = self._writer()
        refusals.refuse_space(directory.path, len(facts.after))
        if self._options.out is not None:
            like = facts.log if facts.before is None else path
            directory.create(name, facts.after, os.path.abspath(like))
            return None, os.path.join(directory.path, name)
        refusals.refuse_file(path, facts.log)
        self._refuse_running()  # again: a broker may have started meanwhile
        log = os.path.basename(facts.log)
        backup = directory.replace(name, facts.after, self._utc, log)
        return (None if backup is None else os.path.join(self._path, backup)), None

    def _writer(self) -> replace.Directory:
        """The directory to write in; one elsewhere is made when the first file comes."""
        if self._directory is None:
            assert self._options.out is not None
            target = self._options.out
            if self._of_partition:
                target = os.path.join(target, os.path.basename(os.path.abspath(self._path)))
            replace.make_directory(target)
            self._directory = self._stack.enter_context(replace.open_directory(target))
        return self._directory
