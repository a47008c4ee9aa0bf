"""Check permissions: files that another user's tool left and the broker cannot open."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kdump.engine.reading.damage import at_place
from kdump.storage import names
from kdump.storage.names import Kind
from kdump.storage.places import is_uri
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.findings.finding import Finding
    from kdump.findings.rows import Place

_READ, _READ_WRITE, _ENTER = 4, 6, 7
# What a broker opens for writing when it loads a partition; the rest it reads, or replaces.
_WRITTEN = frozenset({Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX})
_ROOT = 0


class FileStatus(NamedTuple):
    """What decides who may open one file or directory. `mode` has the type bits too."""

    path: str
    uid: int
    mode: int

    @property
    def needed_bits(self) -> int:
        """The permission bits that the broker must have."""
        if stat.S_ISDIR(self.mode):
            return _ENTER
        name = names.parse(os.path.basename(self.path))
        return _READ_WRITE if name.kind in _WRITTEN and not name.is_retired else _READ


def status_of(path: str) -> FileStatus | None:
    """Ask the file system, through symbolic links; None if the path is gone."""
    if is_uri(path):
        return None  # a store has other rules, which are not known here
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileStatus(path, found.st_uid, found.st_mode)


def find_unreadable(entries: Sequence[FileStatus]) -> Iterator[tuple[FileStatus, str]]:
    """Yield what the user who owns most of the entries cannot open, and why.

    That user is taken for the broker's; root opens everything. Which groups the user is in is not
    known, so that what any group may open is not reported.
    """
    owner = owner_of(entries)
    if owner is None or owner == _ROOT:
        return
    for entry in entries:
        needed = entry.needed_bits
        if entry.uid == owner:
            if (entry.mode >> 6) & needed != needed:
                yield entry, f"Mode {_octal(entry)} does not let its owner {owner} open it."
        elif (entry.mode >> 3) & needed != needed and entry.mode & needed != needed:
            how = " for writing" if needed == _READ_WRITE else ""
            why = (
                f"It belongs to user {entry.uid} with mode {_octal(entry)}; user {owner}, the "
                f"owner of most files here, cannot open it{how}."
            )
            yield entry, why


def access_findings(entries: Sequence[FileStatus], place: Place) -> Iterator[Finding]:
    """Yield one finding for all that the broker's user cannot open: the first, and how many."""
    refused = list(find_unreadable(entries))
    if refused:
        more = len(refused) - 1
        message = refused[0][1] + (f" The same for {more:,} more." if more else "")
        yield at_place("file-access", place, path=refused[0][0].path, message=message)


def owner_of(entries: Iterable[FileStatus]) -> int | None:
    """The user to whom most entries belong; of two, the one who owns the first of them."""
    uids = [entry.uid for entry in entries]
    if len(set(uids)) == 1:
        return uids[0]
    counts = Counter(uids)
    return max(counts, key=counts.__getitem__, default=None)


def _octal(entry: FileStatus) -> str:
    return f"{stat.S_IMODE(entry.mode):04o}"
