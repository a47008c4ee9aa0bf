"""Verify again what changed meanwhile, and drop findings that a live broker explains.

A broker appends, rolls, compacts, deletes and truncates while its files are read one after
another: an index of before does not fit a log of after, a log is there before its index is. So a
grave finding about files that changed during the look is in doubt. What is in doubt is looked at
again, some times over about a second and a half, and believed if it is found each time at the same
place; what is not found again never was. A broker on a machine that is short of processors may stop
for a tenth of a second between two writes that belong together. What comes up anew in every look
becomes a note.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kdump.engine.reading.damage import at_place
from kdump.findings.finding import Finding, Severity
from kdump.findings.rows import Place
from kdump.storage import lock, names, places
from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.storage.places import FileStatus
    from kdump.storage.targets import Target

#: How long to wait before each further look, in seconds: in that time a broker ends what it is at.
WAITS = (0.02, 0.1, 0.4, 1.0)
_JUST_WRITTEN_NS = 5_000_000_000
#: What rests on the log as it was read, and not on files that fit each other.
_SETTLED = frozenset({"transaction-hanging"})
#: File name -> what the file system says of it.
Listing = dict[str, "FileStatus"]


class FileChanges(NamedTuple):
    """What changed during a look: file names, and the base offsets they belong to."""

    names: frozenset[str]
    bases: frozenset[int]

    def concerns(self, found: Finding) -> bool:
        """Whether a finding rests on files that changed."""
        if os.path.basename(found.path) in self.names:
            return True
        return bool(self.names) if found.segment is None else found.segment in self.bases


def listing_of(directory: str) -> Listing:
    """Say which files a directory holds, and what tells them from what they may become."""
    try:
        return places.statuses(directory)
    except OSError:
        return {}


def _identities(listing: Listing) -> dict[str, tuple[int, int, int]]:
    """Give inode, size and modification time by file name; zeros where they are not known."""
    return {
        name: (0, 0, 0)
        if isinstance(status, OSError)
        else (status.st_ino, status.st_size, status.st_mtime_ns)
        for name, status in listing.items()
    }


def find_changes(first: Listing, second: Listing, *, running: bool = False) -> FileChanges:
    """Say what came, went or changed; where a broker is `running`, also what it has just written.

    The first of two writes may have come before the first listing, and the second is yet to come.
    """
    before, after = _identities(first), _identities(second)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if running:
        since_ns = time.time_ns() - _JUST_WRITTEN_NS
        changed |= {name for name, (_, _, time_ns) in after.items() if time_ns > since_ns}
    parsed = map(names.parse, changed)
    bases = {name.base_offset for name in parsed if name.base_offset is not None}
    return FileChanges(frozenset(changed), frozenset(bases))


def settle(
    target: Target,
    directory: str,
    before: Listing,
    first: tuple[Finding, ...],
    look_again: Callable[[frozenset[int]], Iterable[Finding]],
) -> tuple[Finding, ...]:
    """Return the findings that can be believed.

    `before` is the listing of the target's directory from before the first look, whose findings
    are `first`. `look_again` reads the segments of some base offsets, as they are now, and nothing
    else.
    """
    if not any(map(_is_grave, first)):
        return first
    running = lock.is_held_around(directory) is not False
    moved = find_changes(before, listing_of(directory), running=running)
    believed = [found for found in first if not (_is_grave(found) and moved.concerns(found))]
    doubted = [found for found in first if _is_grave(found) and moved.concerns(found)]
    fresh: set[tuple[object, ...]] = set()  # places that came up after the first look
    for wait in WAITS:
        if not doubted:
            return tuple(believed)
        time.sleep(wait)
        bases = moved.bases | {found.segment for found in doubted if found.segment is not None}
        before = listing_of(directory)
        again = [found for found in look_again(bases) if _is_grave(found)]
        moved = find_changes(before, listing_of(directory), running=running)
        doubted_places = set(map(_place, doubted))
        known = set(map(_place, believed))
        doubted = []
        for found in again:
            if _place(found) in known:
                continue
            if not moved.concerns(found):
                believed.append(found)
                continue
            doubted.append(found)
            if _place(found) not in doubted_places:
                fresh.add(_place(found))
    believed += [found for found in doubted if _place(found) not in fresh]
    doubted = [found for found in doubted if _place(found) in fresh]
    if doubted:
        believed.append(
            at_place(
                "partition-changing",
                Place(target.topic, target.partition, None, target.path),
                actual=len(doubted),
            )
        )
    return tuple(believed)


def _is_grave(found: Finding) -> bool:
    return found.severity is not Severity.NOTE and found.code not in _SETTLED


def _place(found: Finding) -> tuple[object, ...]:
    return found.code, found.path, found.segment, found.position, found.offset
